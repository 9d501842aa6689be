"""SVEA's network on signals of your own: any number of channels, points and classes, in about a minute."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from heatproof.devices import choose_device
from heatproof.models.mnist1d_cnn import Mnist1dCnn
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 2000
BATCH = 32
RATE = 1e-3
DECAY = 1e-2


def train_signals(
    x: NDArray[Any],
    y: NDArray[np.int64],
    classes: int,
    seed: int = 1,
    steps: int = STEPS,
    progress: Progress = silent,
    device: str = "cpu",
) -> Mnist1dCnn:
    """The network for signals (N, channels, positions), trained on all of them.

    AdamW, batches of 32, a rate that falls to zero along a line; kernels decay. It learns on channels that are divided
    by their standard deviation, which its first layer then does itself: the network takes signals as they are.
    """
    place = choose_device(device)
    generator = torch.Generator().manual_seed(derive_seed("signal_cnn", seed))
    _, channels, length = x.shape
    model = Mnist1dCnn(length, classes, inputs=channels)
    for name, parameter in model.named_parameters():
        fill: Callable[..., Any] = nn.init.zeros_ if name.endswith("bias") else nn.init.xavier_uniform_
        fill(parameter, **({} if name.endswith("bias") else {"generator": generator}))
    model.to(place)
    spread = torch.as_tensor(x.std((0, 2)), dtype=torch.float32)
    spread = torch.where(spread > 0, spread, 1.0)[:, None]
    inputs, labels = torch.as_tensor(x, dtype=torch.float32) / spread, torch.as_tensor(y)
    kernels, biases = ([p for name, p in model.named_parameters() if name.endswith(end)] for end in ("weight", "bias"))
    groups: list[dict[str, Any]] = [{"params": kernels, "weight_decay": DECAY}, {"params": biases}]
    optimiser = torch.optim.AdamW(groups, lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    per_epoch = ceil(len(inputs) / BATCH)
    order: tuple[torch.Tensor, ...] = ()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches of 32 short signals are too small to share
    try:
        for step in range(steps):
            if step % per_epoch == 0:
                order = torch.randperm(len(inputs), generator=generator).split(BATCH)
            rows = order[step % per_epoch]
            loss = nn.functional.cross_entropy(model(inputs[rows].to(place)), labels[rows].to(place))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            if step % 20 == 19 or step + 1 == steps:
                progress("training", step + 1, steps)
    finally:
        torch.set_num_threads(threads)
    model = model.cpu().eval()
    with torch.no_grad():
        model.conv1.weight /= spread  # (channels, 1) over kernels (out, channels, 5)
    return model


def share_right(model: nn.Module, x: NDArray[Any], y: NDArray[np.int64], at_once: int = 500) -> float:
    """Share of the signals whose class the model names."""
    signals = torch.as_tensor(x, dtype=torch.float32)
    with torch.no_grad():
        named = torch.cat([model(rows).argmax(1) for rows in signals.split(at_once)])
    return float((named == torch.as_tensor(y)).double().mean())

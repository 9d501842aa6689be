"""What the trainings of question networks share: weights from a seed, steps in stages, and a checkpoint.

Every draw of a step comes from (seed, stage, step), so that a training that was interrupted goes on from its checkpoint
as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from heatproof.devices import TrainingPrecision
from heatproof.errors import HeatproofError, unknown_name
from heatproof.models.checkpoints import read_checkpoint
from heatproof.progress import Progress
from heatproof.seeds import derive_seed
from heatproof.workspace import write_whole

KEEP_EVERY = 100
"""Steps between checkpoints."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a training.

    title      of the progress bar; what follows its colon is said beside the bar, and may change from step to step
    gradients  of step `step`, which it adds to those of the weights; it returns the loss
    rate       the learning rate of a step
    optimiser  makes one for the weights
    """

    title: Callable[[int], str]
    steps: int
    weights: Sequence[nn.Parameter]
    gradients: Callable[[int], float]
    rate: Callable[[int], float]
    optimiser: Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer]
    clip: float = 5.0
    """Of the gradient's norm."""


def run_stages(
    parts: Mapping[str, nn.Module],
    stages: Sequence[Callable[[], Stage]],
    made_with: dict[str, Any],
    checkpoint: Path | None,
    progress: Progress,
) -> None:
    """One stage after the other, on the modules `parts`. A checkpoint that is there is gone on with, if it is of the
    same training; a stage that it is past is never made."""
    torch.set_flush_denormal(True)
    kept = read_checkpoint(checkpoint, made_with)
    for number, make in enumerate(stages):
        if kept is not None and kept["stage"] > number:
            continue
        if kept is not None:
            for name, part in parts.items():
                part.load_state_dict(kept["parts"][name])
        stage = make()
        optimiser = stage.optimiser(stage.weights)
        first = 0
        if kept is not None:
            optimiser.load_state_dict(kept["optimiser"])
            first, kept = kept["step"], None
            if first > stage.steps:
                raise HeatproofError(
                    f"{checkpoint} has learned for {first:,} steps already, and {stage.steps:,} are asked for;"
                    " move it away to begin anew."
                )

        def keep(step: int, number: int = number, optimiser: torch.optim.Optimizer = optimiser) -> None:
            if checkpoint is not None:
                state: dict[str, Any] = {"parts": {name: part.state_dict() for name, part in parts.items()}}
                state |= {"optimiser": optimiser.state_dict(), "stage": number, "step": step, "made_with": made_with}
                write_whole(checkpoint, partial(torch.save, state))

        run(stage, optimiser, first, keep, progress)


def run(
    stage: Stage, optimiser: torch.optim.Optimizer, first: int, keep: Callable[[int], None], progress: Progress
) -> None:
    """The steps of a stage from `first` on; `keep(step)` is called now and then, and when it is over."""
    running = math.nan
    for step in range(first, stage.steps):
        for group in optimiser.param_groups:
            group["lr"] = stage.rate(step)
        optimiser.zero_grad()
        loss = stage.gradients(step)
        nn.utils.clip_grad_norm_(stage.weights, stage.clip)
        optimiser.step()
        running = loss if math.isnan(running) else 0.98 * running + 0.02 * loss
        done = step + 1
        if done % KEEP_EVERY == 0 or done == stage.steps:
            keep(done)
        progress(f"{stage.title(step)}: loss {running:.3f}", done, stage.steps)


def warmed(peak: float, steps: int, rising: float = 0.2) -> Callable[[int], float]:
    """A learning rate that rises from a tenth of its peak for a share of the steps, then falls as a cosine to zero."""

    def rate(step: int) -> float:
        share = step / steps
        if share < rising:
            return peak * (0.1 + 0.9 / rising * share)
        return peak * (0.5 + 0.5 * math.cos(math.pi * (share - rising) / (1 - rising)))

    return rate


def backward(loss: Callable[[int], Tensor]) -> Callable[[int], float]:
    """The gradients of a loss that is one tensor."""

    def gradients(step: int) -> float:
        value = loss(step)
        value.backward()
        return value.item()

    return gradients


def require_training_precision(name: str) -> None:
    if name not in get_args(TrainingPrecision):
        raise unknown_name("precision", name, get_args(TrainingPrecision))


def settled(precision: TrainingPrecision, device: torch.device) -> TrainingPrecision:
    """The precision itself; for auto bfloat16 where a processor computes in it, else float32."""
    if precision != "auto":
        return precision
    return "bfloat16" if device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported() else "float32"


def lowered(precision: TrainingPrecision, device: torch.device | None) -> AbstractContextManager[object]:
    """In here linear layers and convolutions compute in a settled precision."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast("cpu" if device is None else device.type, torch.bfloat16)


def generator(*parts: object) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(*parts))

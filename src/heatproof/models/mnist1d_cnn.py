"""The shallow CNN of SVEA: three convolutions of 25 channels that keep the length, then one linear layer."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from heatproof.devices import choose_device
from heatproof.mnist1d import published
from heatproof.models.weights import load_weights, save_weights
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import workspace

if TYPE_CHECKING:
    from heatproof.mnist1d import Signals

EPOCHS = 200
HELD_OUT = 400


class Mnist1dCnn(nn.Module):
    """Signals (B, 1, 40) to logits (B, 10); 13,960 parameters, as published. Others (B, inputs, length) likewise."""

    def __init__(self, length: int = 40, classes: int = 10, channels: int = 25, inputs: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, channels, 5, padding=2)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv1d(channels, channels, 3, padding=1)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv1d(channels, channels, 3, padding=1)
        self.relu3 = nn.ReLU()
        self.linear = nn.Linear(channels * length, classes)

    def forward(self, signals: Tensor) -> Tensor:
        features = self.relu1(self.conv1(signals))
        features = self.relu2(self.conv2(features))
        features = self.relu3(self.conv3(features))
        logits: Tensor = self.linear(features.flatten(1))
        return logits


def initialise(model: Mnist1dCnn, generator: torch.Generator) -> None:
    """Convolutions Glorot-uniform, linear layer N(0, 0.5), biases zero."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif name.startswith("conv"):
            nn.init.xavier_uniform_(parameter, generator=generator)
        else:
            nn.init.normal_(parameter, std=0.5, generator=generator)


def train(
    signals: Signals,
    seed: int,
    epochs: int = EPOCHS,
    progress: Progress = silent,
    task: str = "training",
    device: str = "cpu",
) -> Mnist1dCnn:
    """The network of SVEA, trained as the paper's very probably was.

    SGD 0.01 without momentum, batches of 32, L2 of 5e-4 on the kernels; the last 400 signals stay out.
    """
    place = choose_device(device)
    generator = torch.Generator().manual_seed(derive_seed("mnist1d_cnn", seed))
    model = Mnist1dCnn()
    initialise(model, generator)
    model.to(place)
    inputs = torch.as_tensor(signals.x[:-HELD_OUT], dtype=torch.float32).unsqueeze(1)
    labels = torch.as_tensor(signals.y[:-HELD_OUT])
    kernels = [parameter for name, parameter in model.named_parameters() if name.endswith("weight")]
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith("bias")]
    # The gradient of 5e-4 |w|^2 is 1e-3 w.
    groups: list[dict[str, Any]] = [{"params": kernels, "weight_decay": 1e-3}, {"params": biases}]
    optimiser = torch.optim.SGD(groups, lr=0.01)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches of 32 short signals are too small to share
    try:
        for epoch in range(epochs):
            for rows in torch.randperm(len(inputs), generator=generator).split(32):
                loss = nn.functional.cross_entropy(model(inputs[rows].to(place)), labels[rows].to(place))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            progress(task, epoch + 1, epochs)
    finally:
        torch.set_num_threads(threads)
    return model.cpu().eval()


def accuracy(model: nn.Module, signals: Signals) -> float:
    """Share of the signals whose digit the model names."""
    with torch.no_grad():
        predicted = model(torch.as_tensor(signals.x, dtype=torch.float32).unsqueeze(1)).argmax(1)
    return float((predicted == torch.as_tensor(signals.y)).double().mean())


def trained_network(
    seed: int, retrain: bool = False, progress: Progress = silent, train_missing: bool = True
) -> Mnist1dCnn:
    """The paper's network trained from `seed`: shipped with the package, kept from before, or trained now.

    Trained on the CPU whatever a run's device is, so that the run may go on elsewhere with the same weights.
    """
    shipped = resources.files("heatproof.models").joinpath(f"pretrained/mnist1d_cnn-{seed}.npz")
    kept = workspace("models", f"mnist1d_cnn-{seed}.npz")
    network = Mnist1dCnn().eval()
    if shipped.is_file() and not retrain:
        with resources.as_file(shipped) as path:
            load_weights(network, path)
    elif kept.is_file():
        load_weights(network, kept)
    elif train_missing:
        network = train(published()[0], seed, progress=progress, task=f"training network {seed}")
        save_weights(network, kept)
    return network

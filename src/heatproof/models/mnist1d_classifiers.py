"""Other classifiers of MNIST-1D than SVEA's network: a perceptron and a recurrent network, trained in seconds.

As in the data set's own repository (Greydanus 2020): a perceptron with two hidden layers of 100, the second added to
the first, and a bidirectional GRU with 6 hidden values whose states at all points feed one linear layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from heatproof.mnist1d import Signals

BATCH = 100
LEARNING_RATE = 0.01


class Perceptron(nn.Module):
    """Signals (B, 1, 40) to logits (B, 10)."""

    epochs = 60

    def __init__(self, length: int = 40, classes: int = 10, hidden: int = 100) -> None:
        super().__init__()
        self.first = nn.Linear(length, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, classes)

    def forward(self, signals: Tensor) -> Tensor:
        hidden = self.first(signals.flatten(1)).relu()
        logits: Tensor = self.last(hidden + self.second(hidden).relu())
        return logits


class Recurrent(nn.Module):
    """Signals (B, 1, 40) to logits (B, 10)."""

    epochs = 40

    def __init__(self, length: int = 40, classes: int = 10, hidden: int = 6) -> None:
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * hidden * length, classes)

    def forward(self, signals: Tensor) -> Tensor:
        states, _ = self.gru(signals.swapaxes(1, 2))
        logits: Tensor = self.last(states.flatten(1))
        return logits


def fit(
    kind: type[Perceptron] | type[Recurrent],
    signals: Signals,
    seed: int,
    epochs: int | None = None,
    progress: Progress = silent,
) -> nn.Module:
    """A classifier trained on all signals: Adam 0.01 that falls to zero along a line, batches of 100."""
    generator = torch.Generator().manual_seed(derive_seed("mnist1d_classifiers", kind.__name__, seed))
    model: Any = kind()
    initialise(model, generator)
    inputs = torch.as_tensor(signals.x, dtype=torch.float32).unsqueeze(1)
    labels = torch.as_tensor(signals.y)
    rounds = kind.epochs if epochs is None else epochs
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda epoch: 1 - epoch / rounds)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches of 100 short signals are too small to share
    try:
        for epoch in range(rounds):
            for rows in torch.randperm(len(inputs), generator=generator).split(BATCH):
                loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            schedule.step()
            progress(f"training {kind.__name__.lower()}", epoch + 1, rounds)
    finally:
        torch.set_num_threads(threads)
    trained: nn.Module = model.eval()
    return trained


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Every matrix and bias uniform within 1 / sqrt(its inputs), as torch does, from the generator."""
    for parameter in model.parameters():
        bound = parameter.shape[-1] ** -0.5
        nn.init.uniform_(parameter, -bound, bound, generator=generator)

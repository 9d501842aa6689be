"""A small convolutional network for single objects, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from heatproof.devices import choose_device, seeded
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS = 25
Vary: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""Makes other inputs of the same classes from some."""


@dataclass(frozen=True)
class Course:
    """How a network learns: AdamW with this decay of weights, one cycle up to this rate."""

    epochs: int
    rate: float
    decay: float
    batch: int

    def lasting(self, epochs: int) -> Course:
        return replace(self, epochs=epochs)


class ObjectClassifier(nn.Module):
    """Pictures (B, 3, H, W) of any size to logits: four convolutions, the mean over space, one linear layer."""

    def __init__(self, classes: int = 6, width: int = 16) -> None:
        super().__init__()
        widths = (3, width, 2 * width, 4 * width, 4 * width)
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(pairwise(widths)):
            stride = 2 if number < 3 else 1
            layers += [nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(widths[-1], classes)

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.pool(self.features(pictures)).flatten(1))
        return logits


def as_inputs(pixels: NDArray[np.uint8]) -> Tensor:
    """Pictures (N, H, W, 3) as inputs (N, 3, H, W) between -1 and 1."""
    return torch.as_tensor(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float() / 127.5 - 1


def train(
    pictures: Mapping[str, NDArray[np.uint8]],
    seed: int,
    epochs: int = EPOCHS,
    width: int = 16,
    progress: Progress = silent,
    device: str = "cpu",
) -> ObjectClassifier:
    """The classifier trained on pictures by class: AdamW, one cycle up to 0.01, shifts and mirror images."""
    place = choose_device(device)
    generator = torch.Generator().manual_seed(derive_seed("object_classifier", seed))
    with seeded(derive_seed("object_classifier weights", seed)):
        model = ObjectClassifier(len(pictures), width).to(place)
    learn(model, pictures, Course(epochs, 0.01, 0.01, 32), generator, progress)
    return model.cpu().eval()


def learn(
    model: nn.Module,
    pictures: Mapping[str, NDArray[np.uint8]],
    course: Course,
    generator: torch.Generator,
    progress: Progress = silent,
    vary: Vary | None = None,
) -> None:
    """Train a network of single objects where it is, on pictures by class, shifted and mirrored, or else varied."""
    place = next(model.parameters()).device
    inputs = as_inputs(np.concatenate(list(pictures.values())))
    labels = torch.arange(len(pictures)).repeat_interleave(torch.tensor([len(part) for part in pictures.values()]))
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=course.decay)
    steps = course.epochs * -(-len(inputs) // course.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, course.rate, total_steps=steps)
    model.train()
    for epoch in range(course.epochs):
        for rows in torch.randperm(len(inputs), generator=generator).split(course.batch):
            shown = (vary or varied)(inputs[rows], generator).to(place)
            loss = nn.functional.cross_entropy(model(shown), labels[rows].to(place))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        progress("training", epoch + 1, course.epochs)


def varied(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """The pictures moved by up to an eighth of their side, the border repeated, every other time mirrored."""
    side = inputs.shape[-1]
    most = side // 8
    down, across = torch.randint(0, 2 * most + 1, (2,), generator=generator).tolist()
    padded = nn.functional.pad(inputs, [most] * 4, mode="replicate")
    moved = padded[:, :, down : down + side, across : across + side]
    mirrored = torch.rand(len(inputs), generator=generator) < 0.5
    return torch.where(mirrored[:, None, None, None], moved.flip(3), moved)


def accuracy(model: nn.Module, pictures: Mapping[str, NDArray[np.uint8]]) -> float:
    """Share of the pictures whose class the model names."""
    right: list[Any] = []
    with torch.no_grad():
        for place, pixels in enumerate(pictures.values()):
            right += (model(as_inputs(pixels)).argmax(1) == place).tolist()
    return float(np.mean(right))

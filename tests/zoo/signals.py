"""Small networks over signals, volumes and questions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.own import CLASSES, Cut


def signal_end(width: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def signal_fcn() -> nn.Module:
    """The fully convolutional network of time series."""
    layers = []
    for inputs, outputs, size in ((3, 8, 7), (8, 16, 5), (16, 8, 3)):
        layers += [nn.Conv1d(inputs, outputs, size, padding=size // 2), nn.BatchNorm1d(outputs), nn.ReLU()]
    return Cut(nn.Sequential(*layers), signal_end(8))


class InceptionTime(nn.Module):
    """Kernels of several lengths side by side behind a bottleneck, and a shortcut with a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.neck = nn.Conv1d(3, 6, 1, bias=False)
        self.convs = nn.ModuleList(nn.Conv1d(6, 4, size, padding=size // 2, bias=False) for size in (9, 5, 3))
        self.pool = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(3, 4, 1, bias=False))
        self.norm = nn.BatchNorm1d(16)
        self.res = nn.Sequential(nn.Conv1d(3, 16, 1, bias=False), nn.BatchNorm1d(16))
        self.last, self.out = nn.ReLU(), nn.Linear(16, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        neck = self.neck(inputs)
        joined = torch.cat([layer(neck) for layer in self.convs] + [self.pool(inputs)], 1)
        maps = self.last(F.relu(self.norm(joined)) + self.res(inputs))
        logits: Tensor = self.out(maps.mean(2))
        return logits


def dilated() -> nn.Module:
    """A temporal network: ever wider dilations, weights normed."""
    norm = nn.utils.parametrizations.weight_norm
    layers = []
    for dilation in (1, 2, 4):
        layers += [norm(nn.Conv1d(3 if dilation == 1 else 8, 8, 3, padding=dilation, dilation=dilation)), nn.ReLU()]
    return Cut(nn.Sequential(*layers), signal_end(8))


class Recurrent(nn.Module):
    """A recurrent layer over time, perhaps behind a convolution; the last state, or the mean of all, answers."""

    def __init__(self, layer: nn.Module, width: int, convolution: bool = False, mean: bool = False) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, 6, 3, stride=2, padding=1), nn.ReLU()) if convolution else nn.Identity()
        self.layer = layer
        self.out = nn.Linear(width, CLASSES)
        self.mean = mean

    def forward(self, inputs: Tensor) -> Tensor:
        states = self.layer(self.conv(inputs).permute(2, 0, 1))[0]
        logits: Tensor = self.out(states.mean(0) if self.mean else states[-1])
        return logits


class TimeFirst(nn.Module):
    """Activations with time in front of cases: axis 0 is no axis of cases."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.dense, self.out = nn.Conv1d(3, 8, 3, padding=1), nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(F.relu(self.dense(self.conv(inputs).permute(2, 0, 1))).mean(0))
        return logits


class SignalTransformer(nn.Module):
    """torch's own encoder layer as it comes: time first, norms behind, ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 3, padding=1)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.layer(self.conv(inputs).permute(2, 0, 1)).mean(0))
        return logits


class TokenNorm(nn.Module):
    """A batch norm over tokens next to a dense layer over features: as many of both."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm, self.out = nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Linear(6, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(F.relu(self.norm(self.dense(inputs))).mean(1))
        return logits


class Perceptron(nn.Module):
    """Dense layers with norms between, over the flattened input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(60, 16),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Linear(16, 16),
            nn.ReLU(),
            nn.Linear(16, CLASSES),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layers(inputs)
        return logits


def volume_cnn() -> nn.Module:
    layers = [
        nn.Conv3d(1, 6, 3, padding=1),
        nn.BatchNorm3d(6),
        nn.ReLU(True),
        nn.MaxPool3d(2),
        nn.Conv3d(6, 8, 3, padding=1),
    ]
    head = nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, CLASSES))
    return Cut(nn.Sequential(*layers, nn.ReLU(True)), head)


class GatedByWords(nn.Module):
    """Maps scaled and shifted by a question, which does not depend on the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.words, self.reader = nn.Embedding(5, 8), nn.GRU(8, 16, batch_first=True)
        self.last, self.out = nn.ReLU(), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
        scale, shift = self.reader(self.words(question))[0][:, -1, :, None, None].chunk(2, 1)
        maps = self.last(self.second(F.relu(self.first(inputs))) * (1 + scale) + shift)
        logits: Tensor = self.out(maps.mean((2, 3)))
        return logits


class Relations(nn.Module):
    """A relation network in small: a dense layer over all pairs of cells and the question, summed."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 6, 3, stride=4, padding=1), nn.ReLU())
        self.words = nn.Embedding(5, 4)
        self.pairs, self.out = nn.Linear(16, 12), nn.Linear(12, CLASSES)

    def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
        cells = self.convs(inputs).flatten(2).transpose(1, 2)
        count = cells.shape[1]
        first = cells[:, :, None].expand(-1, -1, count, -1)
        second = cells[:, None].expand(-1, count, -1, -1)
        words = self.words(question).mean(1)[:, None, None].expand(-1, count, count, -1)
        related = F.relu(self.pairs(torch.cat([first, second, words], 3)))
        logits: Tensor = self.out(related.sum((1, 2)))
        return logits

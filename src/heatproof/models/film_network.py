"""The VQA network that ships with Heatproof, for simple questions: FiLM (Perez et al. 2018, arXiv 1709.07871), small.

The eye keeps a fine grid (16 x 16), so that neighbours do not share a cell, and each cell sees a whole object. The
question then works on single cells: by factors and shifts of their channels it lets those through whose object it
means, and of these what it asks for; the strongest cell answers. No two activations that depend on the picture are
multiplied with each other, so that every explainer, LRP included, has a rule for every layer.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from heatproof.models.relation_network import answers, words
from heatproof.models.weights import load_shipped, load_weights

GRID = 16
CHANNELS = 64
BLOCKS = 3
READING = 128
EYE = ((32, 2), (48, 2), (48, 1), (64, 2), (64, 1), (CHANNELS, 1))
"""Channels and stride of each 3 x 3 convolution: together they see 55 x 55 pixels, more than most objects cover."""


class Eye(nn.Sequential):
    """Pictures (B, 3, 128, 128) to cells (B, 64, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        width = 3
        for number, (channels, stride) in enumerate(EYE, 1):
            self.add_module(f"conv{number}", nn.Conv2d(width, channels, 3, stride=stride, padding=1, bias=False))
            self.add_module(f"bn{number}", nn.BatchNorm2d(channels))
            self.add_module(f"relu{number}", nn.ReLU())
            width = channels


class Reader(nn.Module):
    """Question tokens (B, L) from `encode` to a reading (B, 128); zeros in front change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(words) + 1, 32)
        self.gru = nn.GRU(32, READING, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        forwards = tokens.flip(1)  # first word first, zeros behind
        lengths = (forwards != 0).sum(1)
        states = self.gru(self.embedding(forwards[:, : int(lengths.max())]))[0]
        return cast(Tensor, states[torch.arange(len(tokens), device=tokens.device), lengths - 1])


class Block(nn.Module):
    """One layer of every cell for itself, its channels scaled and shifted by the question."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        self.bn = nn.BatchNorm2d(CHANNELS, affine=False)  # the question scales and shifts
        self.relu = nn.ReLU()

    def forward(self, cells: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        found = self.bn(self.conv(cells))
        return cells + cast(Tensor, self.relu((1 + gain) * found + shift))


class FilmNetwork(nn.Module):
    """Pictures (B, 3, 128, 128) in [0, 1] and question tokens (B, L) from `encode` to logits (B, 28)."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = Eye()
        self.reader = Reader()
        self.film = nn.Linear(READING, BLOCKS * 2 * CHANNELS)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.gather = nn.Conv2d(CHANNELS, 128, 1)
        self.gather_relu = nn.ReLU()
        self.strongest = nn.AdaptiveMaxPool2d(1)
        self.answer1 = nn.Linear(128, 128)
        self.answer_relu = nn.ReLU()
        self.answer2 = nn.Linear(128, len(answers))

    def forward(self, pictures: Tensor, tokens: Tensor) -> Tensor:
        return self.think(self.eye(pictures), self.reader(tokens))

    def think(self, cells: Tensor, reading: Tensor) -> Tensor:
        """From what the eye sees (B, 64, 16, 16) and the question's reading (B, 128) to the logits."""
        factors = self.film(reading).view(-1, BLOCKS, 2, CHANNELS, 1, 1)
        for number, block in enumerate(self.blocks):
            cells = block(cells, factors[:, number, 0], factors[:, number, 1])
        strongest = self.strongest(self.gather_relu(self.gather(cells))).flatten(1)
        return cast(Tensor, self.answer2(self.answer_relu(self.answer1(strongest))))


def load_film_network(path: Path | None = None) -> FilmNetwork:
    """The trained network, ready to answer: the one that ships, or what `heatproof train vqa` wrote."""
    network = FilmNetwork()
    load_shipped(network, "film_vqa") if path is None else load_weights(network, path)
    return network.eval()

"""A small vision transformer for single objects: Focus' classifier in the other half of today's architectures.

Trained as the convolutional one was, on rendered pictures that never ship: `heatproof train focus-vit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from heatproof.devices import choose_device, seeded
from heatproof.models.object_classifier import Course, learn, varied
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PATCH = 8
GRID = 8
"""Patches along a side of the pictures that it learns from; at other sizes its positions are interpolated."""
COURSE = Course(epochs=40, rate=1.5e-3, decay=0.05, batch=64)
MOVED = Course(epochs=6, rate=7e-4, decay=0.05, batch=64)
"""What it learns then: objects that are smaller, anywhere in the picture, as they are in mosaics."""


class Block(nn.Module):
    """Attention and a two-layer network, each behind a layer norm and beside a shortcut (Dosovitskiy et al. 2021)."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def attended(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed: Tensor = self.proj(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return mixed

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attended(self.norm1(tokens))
        changed: Tensor = tokens + self.mlp(self.norm2(tokens))
        return changed


class ObjectVit(nn.Module):
    """Pictures (B, 3, H, W), H and W multiples of 8, to logits, read from a class token.

    Patches of 8 x 8 pixels become tokens by three convolutions, which learn from fewer pictures than one large one
    (Xiao et al. 2021, Early convolutions help transformers see better).
    """

    def __init__(self, classes: int = 6, width: int = 96, depth: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width // 4, width // 2, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width // 2, width, 3, stride=2, padding=1),
        )
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, width, GRID, GRID))
        self.blocks = nn.Sequential(*(Block(width, heads, 3 * width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        patches = self.patches(pictures)
        tokens = (patches + self.positions_at(patches.shape[2], patches.shape[3])).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], 1)
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits

    def positions_at(self, rows: int, columns: int) -> Tensor:
        """The learned positions, stretched to a grid of this size."""
        if (rows, columns) == (GRID, GRID):
            return self.positions
        return functional.interpolate(self.positions, (rows, columns), mode="bilinear", align_corners=False)


def train(
    pictures: Mapping[str, NDArray[np.uint8]],
    seed: int,
    epochs: int | None = None,
    progress: Progress = silent,
    device: str = "cpu",
) -> ObjectVit:
    """The transformer trained on pictures by class, first as they are, then made smaller and moved."""
    place = choose_device(device)
    with seeded(derive_seed("object_vit weights", seed)):
        model = ObjectVit(len(pictures)).to(place)
    generator = torch.Generator().manual_seed(derive_seed("object_vit", seed))
    learn(model, pictures, COURSE if epochs is None else COURSE.lasting(epochs), generator, progress)
    learn_moved(model, pictures, seed, MOVED if epochs is None else MOVED.lasting(epochs), progress)
    return model.cpu().eval()


def learn_moved(
    model: ObjectVit,
    pictures: Mapping[str, NDArray[np.uint8]],
    seed: int,
    course: Course = MOVED,
    progress: Progress = silent,
) -> None:
    generator = torch.Generator().manual_seed(derive_seed("object_vit moved", seed))
    learn(model, pictures, course, generator, progress, vary=moved)


def moved(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """The pictures shrunk to half their side at least, anywhere on a ground that repeats their border; then varied."""
    side = inputs.shape[-1]
    small = int(torch.randint(side // 2, side + 1, (), generator=generator))
    above, before = torch.randint(0, side - small + 1, (2,), generator=generator).tolist()
    shrunk = functional.interpolate(inputs, (small, small), mode="bilinear", antialias=True, align_corners=False)
    rest = side - small
    padded = functional.pad(shrunk, [before, rest - before, above, rest - above], mode="replicate")
    return varied(padded, generator)

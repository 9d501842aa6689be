"""Grids of pictures of distinct classes, each of which is explained: the grid pointing game and its variants.

GridPG (Böhle et al. 2021) asks a classifier that sees the whole grid about every class in it. In DiFull and DiPart (Rao
et al. 2022) the head sees one cell, whose class is explained.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Literal

from heatproof.errors import HeatproofError
from heatproof.mosaics.mosaics import Mosaic, MosaicSettings, deal
from heatproof.mosaics.pictures import Pictures
from heatproof.seeds import derive_seed

Setting = Literal["focus", "grid", "difull", "dipart"]
ONE_CELL = ("difull", "dipart")
"""Settings in which the head sees one cell."""


def draw_grids(pictures: Pictures, settings: MosaicSettings, seed: int = 0) -> list[Mosaic]:
    """Grids such that each class is in about `per_class` of them, at places that are drawn; pictures evenly, too."""
    tiles, classes = settings.grid**2, list(pictures.classes)
    if len(classes) < tiles:
        raise HeatproofError(
            f"a grid of {settings.grid}x{settings.grid} shows {tiles} distinct classes, and the pictures have"
            f" {len(classes)}; take a smaller --grid, or pictures of more classes."
        )
    if settings.only is not None and settings.only not in classes:
        raise HeatproofError(f"there is no class {settings.only!r} among the pictures: {', '.join(classes)}.")
    rng = random.Random(derive_seed(seed, "grids"))
    hands = deal(classes, ceil(settings.per_class * len(classes) / tiles), tiles, rng, repeats=False)
    counts = {label: sum(label in hand for hand in hands) for label in classes}
    shown = {
        label: iter(deal(pictures.by_class[label], counts[label], 1, random.Random(derive_seed(seed, label)), True))
        for label in classes
    }
    grids = []
    for number, hand in enumerate(hands):
        rng.shuffle(hand)
        files = tuple(next(shown[label])[0] for label in hand)
        grids.append(Mosaic(f"{number:06d}", files, tuple(hand), hand[0]))
    return grids


def each_class(grids: Sequence[Mosaic], only: str | None = None) -> list[Mosaic]:
    """Every class of every grid as a case of its own, called by grid and class."""
    return [
        replace(grid, name=f"{grid.name}-{label}", target=label)
        for grid in grids
        for label in dict.fromkeys(grid.labels)
        if only in (None, label)
    ]


def each_cell(grids: Sequence[Mosaic], only: str | None = None) -> list[Mosaic]:
    """Every cell of every grid as a case of its own, cell by cell: those of one cell are explained together."""
    return [
        replace(grid, name=f"{grid.name}-{cell}", target=grid.labels[cell], cell=cell)
        for cell in range(len(grids[0].labels))
        for grid in grids
        if only in (None, grid.labels[cell])
    ]


def cases_of(setting: Setting, grids: Sequence[Mosaic], only: str | None = None) -> list[Mosaic]:
    return each_cell(grids, only) if setting in ONE_CELL else each_class(grids, only)


def cells_of(mosaics: Sequence[Mosaic]) -> dict[str, int]:
    """How many cases there are of each cell, in their order; all in one part where no cell counts alone."""
    counts: dict[str, int] = {}
    for mosaic in mosaics:
        part = "" if mosaic.cell is None else f"cell{mosaic.cell}"
        counts[part] = counts.get(part, 0) + 1
    return counts

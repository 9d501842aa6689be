"""How well a classifier knows the pictures of the mosaics when it sees each alone: what its heatmaps can be worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.explainers.guards import untouched
from heatproof.lazy import np, torch
from heatproof.models.classifiers import Classifier
from heatproof.mosaics.mosaics import Mosaic, assemble
from heatproof.mosaics.pictures import Fit
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH = 16


def accuracy_alone(
    classifier: Classifier,
    outputs: Mapping[str, int],
    mosaics: Sequence[Mosaic],
    side: int,
    fit: Fit,
    progress: Progress = silent,
) -> float | None:
    """The share of the single pictures whose class has the highest logit of all; None if they are too small for it."""
    total = len({file for mosaic in mosaics for file in mosaic.files})
    from heatproof.explainers.wrapped import reached

    right: list[bool] = []
    tiles, module = single_pictures(mosaics, side, fit), reached(classifier.module)
    with torch.no_grad(), untouched(module):
        while some := list(islice(tiles, BATCH)):
            progress("single pictures", len(right), total)
            pixels, labels = zip(*some, strict=True)
            try:
                named = module(classifier.inputs(np.stack(pixels))).argmax(1).tolist()
            except RuntimeError:  # a mosaic has room for all strides of the network, one picture may not
                return None
            right += [found == outputs[label] for found, label in zip(named, labels, strict=True)]
    progress("single pictures", total, total)
    return sum(right) / len(right)


def single_pictures(mosaics: Sequence[Mosaic], side: int, fit: Fit) -> Iterator[tuple[NDArray[np.uint8], str]]:
    """Every picture that the mosaics show, once, with its class."""
    seen: set[Path] = set()
    for mosaic in mosaics:
        new = [place for place, file in enumerate(mosaic.files) if file not in seen]
        seen.update(mosaic.files)
        if not new:
            continue
        shown = assemble(mosaic, side, fit)
        for place in new:
            row, column = (side * number for number in divmod(place, mosaic.grid))
            yield shown[row : row + side, column : column + side], mosaic.labels[place]

"""How well a classifier knows the pictures of the mosaics when it sees each alone: what its heatmaps can be worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.explainers.guards import untouched
from heatproof.lazy import np, torch
from heatproof.models.classifiers import Classifier
from heatproof.models.sizes import Sizes
from heatproof.mosaics.mosaics import Mosaic, assemble
from heatproof.mosaics.pictures import Fit
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH = 16


@dataclass(frozen=True)
class Alone:
    """How many single pictures of each class there are, and how many of them the classifier names right."""

    pictures: Mapping[str, int]
    right: Mapping[str, int]

    @property
    def accuracy(self) -> float:
        """The share of all pictures."""
        return sum(self.right.values()) / sum(self.pictures.values())

    @property
    def mean_class_accuracy(self) -> float:
        """The share of each class, and of these the mean, as the paper has it."""
        shares = [self.right.get(label, 0) / count for label, count in self.pictures.items()]
        return sum(shares) / len(shares)

    @property
    def figures(self) -> dict[str, float]:
        return {"accuracy": self.accuracy, "mean_class_accuracy": self.mean_class_accuracy}


def accuracy_alone(
    classifier: Classifier,
    outputs: Mapping[str, int],
    mosaics: Sequence[Mosaic],
    sizes: Sizes,
    fit: Fit,
    progress: Progress = silent,
) -> Alone | None:
    """The single pictures whose class has the highest logit of all; None if they are too small for the network."""
    total = len({file for mosaic in mosaics for file in mosaic.files})
    from heatproof.explainers.wrapped import reached

    pictures, right = Counter[str](), Counter[str]()
    tiles, module = single_pictures(mosaics, sizes, fit), reached(classifier.module)
    with torch.no_grad(), untouched(module):
        while some := list(islice(tiles, BATCH)):
            progress("single pictures", pictures.total(), total)
            pixels, labels = zip(*some, strict=True)
            try:
                named = module(classifier.inputs(np.stack(pixels))).argmax(1).tolist()
            except RuntimeError:  # a mosaic has room for all strides of the network, one picture may not
                return None
            pictures.update(labels)
            right.update(label for found, label in zip(named, labels, strict=True) if found == outputs[label])
    progress("single pictures", total, total)
    return Alone(pictures, right)


def single_pictures(mosaics: Sequence[Mosaic], sizes: Sizes, fit: Fit) -> Iterator[tuple[NDArray[np.uint8], str]]:
    """Every picture that the mosaics show, once, with its class."""
    seen: set[Path] = set()
    for mosaic in mosaics:
        new = [place for place, file in enumerate(mosaic.files) if file not in seen]
        seen.update(mosaic.files)
        if not new:
            continue
        # Of a mosaic that is one file, the tiles are cut out of it as large as a single picture is to be.
        shown = assemble(mosaic, sizes.alone, fit)
        for place in new:
            row, column = (sizes.alone * number for number in divmod(place, mosaic.grid))
            yield shown[row : row + sizes.alone, column : column + sizes.alone], mosaic.labels[place]

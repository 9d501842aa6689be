"""How large pictures and mosaics are for a network: any size, its own alone, or others with positions interpolated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from heatproof.errors import HeatproofError
from heatproof.explainers.guards import untouched
from heatproof.lazy import torch
from heatproof.models.classifiers import Classifier
from heatproof.mosaics.pictures import LEAST_SIDE


@dataclass(frozen=True)
class Sizes:
    """The side of a tile, the side of a picture that is seen alone, and what was done about it, in words."""

    tile: int
    alone: int
    note: str = ""


def sized(classifier: Classifier, side: int, grid: int, given: bool) -> tuple[Classifier, Sizes]:
    """The classifier as it takes mosaics of grid x grid tiles, and their sizes; `side` is a tile's as far as is known.

    Where the user has not `given` it, a network that takes one size only gets mosaics of that size. A network that
    takes no such picture is left as it is: why, it says itself.
    """
    whole = grid * side
    fits = takes(classifier, whole)
    if not fits and classifier.stretched is not None:
        classifier = stretched(classifier, whole)
        fits = classifier.interpolates
    if fits:
        alone = first_taken(classifier, (side, classifier.size, whole)) or side
        return classifier, Sizes(side, alone, in_words(classifier, side, alone, whole))
    own = first_taken(classifier, (classifier.size, side))
    if own is None:
        return classifier, Sizes(side, side)
    tile = own // grid
    name = classifier.name
    if own % grid or tile < LEAST_SIDE:
        raise HeatproofError(
            f"model {name} takes pictures of {own} x {own} only, in which {grid} x {grid} tiles have no room;"
            " choose another --grid."
        )
    if given:
        raise HeatproofError(
            f"model {name} takes pictures of {own} x {own} only, and {grid} x {grid} tiles of {side} are {whole} x"
            f" {whole}; give --tile {tile}, or leave --tile out."
        )
    return classifier, Sizes(tile, own, in_words(classifier, tile, own, own))


def in_words(classifier: Classifier, tile: int, alone: int, whole: int) -> str:
    """What a reader should know about the sizes; nothing where all are as the network takes any."""
    name, size = classifier.name, classifier.size
    if classifier.interpolates and size is not None and whole != size:
        return (
            f"{name} learned from pictures of {size} x {size}; its positions are interpolated to mosaics of {whole} x"
            f" {whole}."
        )
    if alone != tile:
        return (
            f"{name} takes pictures of {alone} x {alone}: mosaics have tiles of {tile} x {tile}, and single pictures"
            f" are seen at {alone} x {alone}."
        )
    return ""


def stretched(classifier: Classifier, side: int) -> Classifier:
    """The classifier with interpolated positions, if it takes pictures of this side then."""
    assert classifier.stretched is not None
    try:
        changed = replace(classifier, module=classifier.stretched(classifier.module), interpolates=True)
    except NotImplementedError:
        return classifier
    return changed if takes(changed, side) else classifier


def first_taken(classifier: Classifier, sides: Iterable[int | None]) -> int | None:
    return next((side for side in dict.fromkeys(sides) if side is not None and takes(classifier, side)), None)


def takes(classifier: Classifier, side: int) -> bool:
    """Whether the network runs on a picture of this size."""
    try:
        with torch.no_grad(), untouched(classifier.module):
            classifier.module(torch.zeros(1, 3, side, side))
    except Exception:  # whatever a foreign network raises: an assertion, a shape that does not fit
        return False
    return True

"""What a network elsewhere makes of the signals: its probabilities or classes, from a file. Needs no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.arrays import read_arrays
from heatproof.benchmarks.svea.regions import DIGITS, PARTS, Cases
from heatproof.errors import HeatproofError
from heatproof.heatmap_files import read_array
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-3
"""How far probabilities may be from adding up to 1."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """By part of the data: the class that has the highest probability, and where they are given, the probabilities."""

    predicted: Mapping[str, NDArray[np.int64]]
    probabilities: Mapping[str, NDArray[np.float64]]
    stamp: str

    @property
    def has_probabilities(self) -> bool:
        return bool(self.probabilities)


def read_outputs(path: Path, what: str, cases: Cases) -> Outputs:
    """Probabilities (N, 10), or classes (N,): of the test signals, or of all, training signals first.

    A .npy of either, or a .npz with `test` and maybe `train`.
    """
    if path.suffix not in (".npy", ".npz") or not path.is_file():
        said = "does not exist" if not path.exists() else "is neither a .npy nor a .npz"
        raise HeatproofError(f"{path} {said}; give the {what} as an array (N, {DIGITS}) of probabilities.")
    arrays = {"": read_array(path)} if path.suffix == ".npy" else read_arrays(path)
    if len(arrays) == 1 and not set(arrays) & set(PARTS):
        (array,) = arrays.values()
        tests, every = len(cases.test), len(cases.test) + len(cases.train)
        if array.ndim and len(array) == every:
            arrays = {"train": array[: len(cases.train)], "test": array[len(cases.train) :]}
        elif array.ndim and len(array) == tests:
            arrays = {"test": array}
        else:
            raise HeatproofError(
                f"{path} has shape {array.shape}; the {what} are for the {tests:,} test signals, or for all {every:,},"
                " training signals first."
            )
    if "test" not in arrays:
        raise HeatproofError(f"{path} has no array `test`, the {what} for the test signals.")
    predicted: dict[str, NDArray[np.int64]] = {}
    probabilities: dict[str, NDArray[np.float64]] = {}
    for split in PARTS:
        if split in arrays:
            place = f"{path}{f', {split}' if path.suffix == '.npz' else ''}"
            array = checked(arrays[split], place, what, len(cases.part(split)[0]), split)
            predicted[split] = array if array.ndim == 1 else array.argmax(1)
            probabilities |= {split: array.astype(np.float64)} if array.ndim == 2 else {}
    return Outputs(predicted, probabilities, hashlib.sha256(path.read_bytes()).hexdigest()[:16])


def checked(array: NDArray[Any], place: str, what: str, count: int, split: str) -> NDArray[Any]:
    """The array, once it is seen to hold classes or probabilities of `count` signals."""
    if array.shape not in ((count,), (count, DIGITS)):
        raise HeatproofError(
            f"{place} has shape {array.shape}; the {what} for {count:,} {split} signals are ({count}, {DIGITS})"
            f" probabilities, or ({count},) classes."
        )
    if array.ndim == 1:
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= DIGITS:
            raise HeatproofError(f"{place}: classes must be whole numbers from 0 to {DIGITS - 1}.")
        return array
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise HeatproofError(f"{place}: probabilities must be numbers, none of them NaN or infinite.")
    if array.min() < 0 or np.abs(array.sum(1, dtype=np.float64) - 1).max() > ROUNDING:
        raise HeatproofError(f"{place}: the rows must be probabilities that add up to 1; take the softmax of logits.")
    return array

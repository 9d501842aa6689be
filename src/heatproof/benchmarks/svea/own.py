"""Signals of your own: a .npz of recordings with their classes, checked before any long work. No torch.

x_train, x_test      (N, positions) or (N, channels, positions)
y_train, y_test      (N,), class names or numbers
mask_test            (N, positions), if it is known where the class lies: then there are scores against it
mask_train           the same for training signals; nothing needs it
classes              what the network's outputs mean, in their order; without it, the classes as sorted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.arrays import read_arrays
from heatproof.benchmarks.svea.regions import PARTS, Cases
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np
from heatproof.mnist1d import Signals

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEEDED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("mask_train", "mask_test", "classes")
SHARE = 0.3
"""A region's part of a signal, as in the paper: 12 of 40 points."""
LEAST_LENGTH = 4
OFF_CENTRE = 1.0
"""A channel whose mean is further from zero than this many of its standard deviations is not centred."""


def has_masks(path: Path) -> bool:
    """Whether the file says where the class lies; False also where it cannot be read, which is said later."""
    try:
        return "mask_test" in read_arrays(path)
    except HeatproofError:
        return False


def own_signals(path: Path, region: int | None = None, limit: int | None = None) -> Cases:
    """The signals of the file, or about `limit` of them, evenly from all places."""
    arrays = read_signals(path)
    classes, labels = read_classes(path, arrays)
    length = arrays["x_test"].shape[2]
    points = max(2, round(SHARE * length)) if region is None else region
    require_whole("region", points, 1)
    if points > length:
        raise HeatproofError(f"region: {points} points do not fit signals of {length}; {path} has these.")
    places = {split: np.arange(len(labels[split])) for split in PARTS}
    total = sum(map(len, places.values()))
    if limit is not None and limit < total:
        places = {split: thinned(found, labels[split], limit / total) for split, found in places.items()}
    parts = {
        split: Signals(arrays[f"x_{split}"][chosen], labels[split][chosen], mask_of(path, arrays, split)[chosen])
        for split, chosen in places.items()
    }
    return Cases(
        parts["train"],
        parts["test"],
        places["train"],
        places["test"],
        region=points,
        classes=classes,
        noun="class",
        has_masks="mask_test" in arrays,
    )


def thinned(places: NDArray[np.int64], labels: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """About this share of the places, of each class evenly and at least one."""
    kept = []
    for label in np.unique(labels):
        mine = places[labels == label]
        kept.append(mine[np.linspace(0, len(mine) - 1, max(1, round(share * len(mine)))).astype(np.int64)])
    return np.sort(np.concatenate(kept))


def read_signals(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file, signals as (N, channels, positions) in float64."""
    if path.suffix != ".npz":
        raise HeatproofError(f"signals: {path} is no .npz; give one with {', '.join(NEEDED)} (numpy.savez).")
    arrays = read_arrays(path)
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        has = ", ".join(arrays) or "nothing"
        raise HeatproofError(f"{path} has no {', '.join(missing)}; it needs {', '.join(NEEDED)} and has {has}.")
    for name in arrays:
        if name not in (*NEEDED, *OPTIONAL):
            raise unknown_name(f"array of {path}", name, (*NEEDED, *OPTIONAL))
    for split in PARTS:
        arrays[f"x_{split}"] = checked_signals(path, f"x_{split}", arrays[f"x_{split}"])
    shapes = {split: arrays[f"x_{split}"].shape[1:] for split in PARTS}
    if shapes["train"] != shapes["test"]:
        raise HeatproofError(
            f"{path}: training signals are {in_words(shapes['train'])}, test signals {in_words(shapes['test'])};"
            " cut or resample them to one length."
        )
    return arrays


def in_words(shape: Sequence[int]) -> str:
    channels, length = shape
    return f"of {channels} channel{'s' * (channels > 1)} and {length} points"


def checked_signals(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if array.ndim not in (2, 3) or array.dtype.kind not in "fiub":
        raise HeatproofError(
            f"{path}: {name} is {array.dtype} {array.shape}; signals are numbers (N, positions) or (N, channels,"
            " positions)."
        )
    shaped = np.ascontiguousarray(array if array.ndim == 3 else array[:, None], dtype=np.float64)
    if min(shaped.shape) == 0 or shaped.shape[2] < LEAST_LENGTH:
        raise HeatproofError(
            f"{path}: {name} has shape {array.shape}; at least one signal of {LEAST_LENGTH} points is needed."
        )
    if not np.isfinite(shaped).all():
        signals = np.flatnonzero(~np.isfinite(shaped).all((1, 2)))
        _, channel, point = np.argwhere(~np.isfinite(shaped))[0]
        raise HeatproofError(
            f"{path}: {name} has NaN or infinite values in {len(signals):,} of {len(shaped):,} signals, first in signal"
            f" {signals[0]}, channel {channel}, point {point}; fill the gaps or leave these signals out."
        )
    return shaped


def read_classes(
    path: Path, arrays: Mapping[str, NDArray[Any]]
) -> tuple[tuple[int | str, ...], dict[str, NDArray[np.int64]]]:
    """The classes in the order of outputs, and the place of each signal's class in it."""
    found = {f"y_{split}": plain_labels(path, f"y_{split}", arrays[f"y_{split}"]) for split in PARTS}
    for split in PARTS:
        count = len(arrays[f"x_{split}"])
        if len(found[f"y_{split}"]) != count:
            raise HeatproofError(
                f"{path}: y_{split} has {len(found[f'y_{split}']):,} classes for the {count:,} signals of x_{split}."
            )
    taught = set(found["y_train"])
    if len(taught) < 2:
        raise HeatproofError(
            f"{path}: y_train has one class only ({found['y_train'][0]}); telling classes apart takes two."
        )
    known: list[int | str] = sorted(taught, key=lambda label: (isinstance(label, str), label))
    if "classes" in arrays:
        known = plain_labels(path, "classes", arrays["classes"])
        if len(set(known)) < len(known):
            raise HeatproofError(f"{path}: classes names one class twice: {', '.join(map(str, known))}.")
    numbers = {label: place for place, label in enumerate(known)}
    for name, labels in found.items():
        foreign = [label for label in labels if label not in numbers]
        if foreign:
            whose = "classes" if "classes" in arrays else "y_train"
            raise HeatproofError(
                f"{path}: {name} has a class that {whose} has not: {foreign[0]!r}. Known: {', '.join(map(str, known))}."
            )
    return tuple(known), {split: np.array([numbers[label] for label in found[f"y_{split}"]]) for split in PARTS}


def plain_labels(path: Path, name: str, array: NDArray[Any]) -> list[int | str]:
    """Class names, or whole numbers, which may come as floats."""
    whole = array.dtype.kind in "iub" or (array.dtype.kind == "f" and bool((array == np.round(array)).all()))
    if array.ndim != 1 or not (whole or array.dtype.kind == "U"):
        raise HeatproofError(f"{path}: {name} is {array.dtype} {array.shape}; it must be (N,) names or whole numbers.")
    return [int(value) if whole else str(value) for value in array.tolist()]


def mask_of(path: Path, arrays: Mapping[str, NDArray[Any]], split: str) -> NDArray[np.bool_]:
    """Where the class lies in each signal; nowhere where the file does not say."""
    count, _, length = arrays[f"x_{split}"].shape
    name = f"mask_{split}"
    if name not in arrays:
        return np.zeros((count, length), dtype=np.bool_)
    mask = arrays[name]
    if mask.shape != (count, length):
        raise HeatproofError(f"{path}: {name} has shape {mask.shape}; it must be ({count}, {length}).")
    if mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise HeatproofError(f"{path}: {name} must hold 0 and 1 (or False and True) alone.")
    return mask.astype(np.bool_)


def centring(cases: Cases) -> list[str]:
    """A note where zero, which stands for everything outside a region, is no value in the middle of a channel."""
    mean, spread = cases.train.x.mean((0, 2)), cases.train.x.std((0, 2))
    off = [place for place in range(cases.channels) if abs(mean[place]) > OFF_CENTRE * spread[place]]
    if not off:
        return []
    return [
        f"Zero stands for all that lies outside a region in Drop and Increase, and it is far from what is usual in"
        f" channel{'s' * (len(off) > 1)} {', '.join(map(str, off))} (counted from 0): subtract each channel's mean from"
        " the signals, or read these two scores with care."
    ]

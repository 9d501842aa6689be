"""The pictures that mosaics are made of: a folder per class, or a CSV with filename, label and subset."""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from heatproof.errors import HeatproofError
from heatproof.harmless import unguarded
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENDINGS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
LEAST_SIDE = 16
MODES = frozenset({"RGB", "L", "P", "1", "RGBA", "LA"})
"""What becomes RGB without a guess; CMYK would need a colour profile."""
TRAINING = "train"
MOST_TURNED = 30
"""Degrees by which pictures are turned for training, to either side."""

Fit = Literal["crop", "squash", "centre"]
"""How a picture becomes a tile: `crop` as the original (squashed to 8/7 of the tile, middle cut out), squashed, or
`centre`, as networks usually see photographs (the shorter side to 8/7 of the tile, middle cut out)."""


@dataclass(frozen=True)
class Pictures:
    """Files by class, both in a fixed order."""

    by_class: dict[str, tuple[Path, ...]]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.by_class)

    def __len__(self) -> int:
        return sum(map(len, self.by_class.values()))


def find_pictures(place: Path, subset: str | None = None, least: int = 2) -> Pictures:
    """The pictures of a class-per-folder tree or of a CSV; of a CSV those of `subset`, or all but train.

    There must be at least so many classes.
    """
    if place.is_dir():
        if subset is not None:
            raise HeatproofError(f"{place} is a folder: subset {subset!r} needs a CSV with filename, label and subset.")
        return from_folders(place, least)
    if place.suffix.lower() == ".csv":
        return from_csv(place, subset, least)
    raise HeatproofError(f"there is no folder {place}; give a folder with a sub-folder per class, or a .csv file.")


def from_folders(place: Path, least: int = 2) -> Pictures:
    found = {
        name_of(folder): tuple(sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS))
        for folder in sorted(place.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
    }
    empty = [name for name, files in found.items() if not files]
    if empty:
        raise HeatproofError(f"{place / empty[0]} holds no picture ({', '.join(sorted(ENDINGS))}).")
    return checked_classes(Pictures(found), place, least)


def name_of(folder: Path) -> str:
    """What a class is called: its folder's name, with codes for bytes that are no letters."""
    return os.fsencode(folder.name).decode("utf-8", "backslashreplace")


def from_csv(place: Path, subset: str | None, least: int = 2) -> Pictures:
    """Rows of filename (from the CSV's folder), label and, if it has such a column, subset."""
    rows = read_table(place, ("filename", "label"))
    if "subset" not in rows[0] and subset is not None:
        raise HeatproofError(f"{place} has no column subset, so {subset!r} cannot be chosen.")
    found: dict[str, list[Path]] = {}
    for row in rows:
        if subset is None and row.get("subset") == TRAINING:
            continue
        if subset is None or row["subset"] == subset:
            found.setdefault(row["label"], []).append(place.parent / row["filename"])
    if not found:
        known = ", ".join(sorted({row.get("subset", "") for row in rows}))
        raise HeatproofError(f"{place} has no pictures of subset {subset or 'other than train'!r}; it has: {known}.")
    absent = sorted({row["label"] for row in rows} - found.keys())
    if least > 1 and absent:  # for several classes they are what a network tells apart: none is left out silently
        raise HeatproofError(
            f"{place}: class {absent[0]!r} has no pictures of subset {subset or 'other than train'!r}; give it some, or"
            " remove the rows of this class."
        )
    return checked_classes(Pictures({label: tuple(files) for label, files in sorted(found.items())}), place, least)


def has_training(place: Path) -> bool:
    """Whether this is a CSV that says which pictures are for training."""
    is_table = place.suffix.lower() == ".csv" and place.is_file()
    return is_table and any(row.get("subset") == TRAINING for row in read_table(place, ("filename", "label")))


def read_table(place: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV that must have these columns; what is wrong is said with the line."""
    try:
        with place.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            heads = reader.fieldnames or ()
            rows: list[dict[str, Any]] = [
                {name: unguarded(value) if isinstance(value, str) else value for name, value in row.items()}
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise HeatproofError(f"{place} cannot be read as CSV: {problem}.") from problem
    if not heads:
        raise HeatproofError(f"{place} is empty; it must have the columns {', '.join(columns)}.")
    missing = [name for name in columns if name not in heads]
    if missing:
        raise HeatproofError(f"{place} has no column {missing[0]}; it must have {', '.join(columns)}.")
    if not rows:
        raise HeatproofError(f"{place} has a heading but no rows.")
    for number, row in enumerate(rows, 2):
        if None in row:
            raise HeatproofError(f"{place}, line {number} has more cells than there are columns.")
        for name in columns:
            if not row[name]:
                raise HeatproofError(f"{place}, line {number}: {name} is empty.")
    return rows


def checked_classes(pictures: Pictures, place: Path, least: int = 2) -> Pictures:
    if len(pictures.by_class) < least:
        named = f"only the class {pictures.classes[0]!r}" if pictures.by_class else "no class"
        raise HeatproofError(f"{place} has {named}; a mosaic needs pictures of two classes: give each its own folder.")
    return pictures


def check_picture(path: Path) -> None:
    """Raise an error that says why a file cannot be a tile; reads the head of the file only."""
    from PIL import Image

    if not path.is_file():
        raise HeatproofError(f"there is no picture {path}.")
    try:
        with Image.open(path) as image:
            size, mode, frames = image.size, image.mode, getattr(image, "n_frames", 1)
    except Exception as problem:  # Pillow has many kinds of errors for damaged files
        raise HeatproofError(f"{path} cannot be read as a picture ({problem}); replace or remove it.") from problem
    if min(size) < LEAST_SIDE:
        raise HeatproofError(f"{path} is {size[0]}x{size[1]}, too small: each side must have {LEAST_SIDE} pixels.")
    if mode not in MODES:
        raise HeatproofError(f"{path} is of colour mode {mode}; convert it to RGB.")
    if frames > 1:
        raise HeatproofError(f"{path} is animated ({frames} frames); keep one frame of it.")


def tile(path: Path, side: int, fit: Fit = "crop") -> NDArray[np.uint8]:
    """The picture as 8-bit RGB (side, side, 3)."""
    from PIL import Image

    return framed(in_rgb(path), side, fit, Image.Resampling.BILINEAR)


def framed(image: Any, side: int, fit: Fit, resampling: Any) -> NDArray[np.uint8]:
    """A picture of Pillow's as a tile. A mask of the same size goes the same way, with the nearest pixels."""
    width, height = size_before_crop(image.size, side, fit)
    whole = image if image.size == (width, height) else image.resize((width, height), resampling)
    left, top = round((width - side) / 2), round((height - side) / 2)
    return np.asarray(whole)[top : top + side, left : left + side]


def size_before_crop(size: tuple[int, int], side: int, fit: Fit) -> tuple[int, int]:
    """Width and height to which a picture of this size is brought before the middle of it is taken."""
    if fit == "squash":
        return side, side
    whole = before_crop(side)
    if fit == "crop":
        return whole, whole
    short = min(size)
    width, height = (whole * extent // short for extent in size)
    return width, height


def varied_tile(path: Path, side: int, rng: random.Random) -> NDArray[np.uint8]:
    """The picture as networks learn from it: squashed as for `crop`, turned, cut out anywhere, perhaps mirrored.

    As the original does: turned by up to 30 degrees to either side, nearest pixels, black corners.
    """
    whole = before_crop(side)
    turned = squashed(path, whole).rotate(rng.uniform(-MOST_TURNED, MOST_TURNED))
    down, right = rng.randint(0, whole - side), rng.randint(0, whole - side)
    cut: NDArray[np.uint8] = np.asarray(turned)[down : down + side, right : right + side]
    return cut[:, ::-1] if rng.random() < 0.5 else cut


def before_crop(side: int) -> int:
    """The side to which a picture is squashed before a tile is cut out of it: 256 for 224."""
    return round(side * 8 / 7)


def squashed(path: Path, side: int) -> Any:
    """The picture in RGB, both sides squashed to `side`."""
    from PIL import Image

    flat = in_rgb(path)
    return flat if flat.size == (side, side) else flat.resize((side, side), Image.Resampling.BILINEAR)


def in_rgb(path: Path) -> Any:
    """The picture of a file, of Pillow's, in RGB."""
    from PIL import Image

    check_picture(path)
    try:
        with Image.open(path) as image:
            return on_white(image) if image.mode in ("RGBA", "LA") else image.convert("RGB")
    except Exception as problem:
        raise HeatproofError(f"{path} cannot be read as a picture ({problem}); replace or remove it.") from problem


def on_white(image: Any) -> Any:
    """A picture with transparency on a white ground."""
    from PIL import Image

    coloured = image.convert("RGBA")
    ground = Image.new("RGBA", coloured.size, "white")
    return Image.alpha_composite(ground, coloured).convert("RGB")

"""Which pixels belong to which object: from a compact id buffer, or from CLEVR-XAI's flat-coloured mask pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.clevr.pictures import read_picture
from heatproof.clevr.srgb import linear_values
from heatproof.errors import HeatproofError
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BACKGROUND = (64, 64, 64)
"""The 8-bit colour of pixels that belong to no object in a flat-coloured mask."""


def read_ids(path: Path, objects: Sequence[Mapping[str, Any]]) -> NDArray[np.uint8]:
    """An id buffer (H, W): 0 background, k the object `objects[k - 1]`."""
    mode, ids = read_picture(path)
    if mode not in ("L", "P"):
        raise HeatproofError(f"{path}: of mode {mode}, but an id buffer is an 8-bit greyscale picture")
    highest = int(ids.max())
    if highest > len(objects):
        raise HeatproofError(f"{path}: shows object {highest}, but the scene has {len(objects)} objects")
    require_every_object(path, ids, objects)
    return ids


def read_flat_colours(path: Path, objects: Sequence[Mapping[str, Any]]) -> NDArray[np.uint8]:
    """The id buffer of a flat-coloured mask, by each object's `mask_color`."""
    mode, picture = read_picture(path)
    if mode not in ("RGB", "RGBA"):
        raise HeatproofError(f"{path}: of mode {mode}, but a flat-coloured mask is RGB or RGBA")
    colours = [thing.get("mask_color") for thing in objects]
    without = [describe(place, thing) for place, thing in enumerate(objects) if not is_colour(thing.get("mask_color"))]
    if without:
        raise HeatproofError(f"{path}: the scene gives no mask_color (three numbers) for {', '.join(without)}")
    ids = decode_colours(picture, np.asarray(colours, dtype=np.float64))
    if ids is None:
        raise HeatproofError(f"{path}: no pixel has the background colour {BACKGROUND}")
    require_every_object(path, ids, objects)
    return ids


def decode_colours(picture: NDArray[np.uint8], mask_colours: NDArray[np.float64]) -> NDArray[np.uint8] | None:
    """Ids by the colour nearest to each object's linear `mask_colours` (N, 3); None if there is no background.

    Objects whose nearest colour is another object's as well get no pixel, except the nearest of them.
    """
    red, green, blue = (picture[..., channel].astype(np.uint32) for channel in range(3))
    codes = (red << 16) | (green << 8) | blue
    background = (BACKGROUND[0] << 16) | (BACKGROUND[1] << 8) | BACKGROUND[2]
    foreground = codes != background
    if foreground.all():
        return None
    ids = np.zeros(codes.shape, dtype=np.uint8)
    present, where = np.unique(codes[foreground], return_inverse=True)  # most pixels are background: sort the rest only
    if len(present) == 0:
        return ids
    shown = np.stack([(present >> shift) & 255 for shift in (16, 8, 0)], axis=1)
    distances = np.sqrt(((linear_values(shown)[:, None] - mask_colours[None]) ** 2).sum(2))  # (colours, objects)
    nearest = distances.argmin(0)
    owner = np.zeros(len(present), dtype=np.uint8)
    for place in np.argsort(-distances.min(0), kind="stable"):
        owner[nearest[place]] = place + 1
    ids[foreground] = owner[where]
    return ids


def require_every_object(path: Path, ids: NDArray[np.uint8], objects: Sequence[Mapping[str, Any]]) -> None:
    """An error that names the objects without a pixel."""
    seen = np.zeros(256, dtype=np.bool_)
    seen[ids] = True
    missed = [describe(place, thing) for place, thing in enumerate(objects) if not seen[place + 1]]
    if missed:
        raise HeatproofError(f"{path}: misses {', '.join(missed)}")


def is_colour(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(part, int | float) for part in value)


def describe(place: int, thing: Mapping[str, Any]) -> str:
    """An object in words, counted from 0 as in programs."""
    words = " ".join(str(thing[name]) for name in ("size", "color", "material", "shape") if name in thing)
    return f"object {place} ({words})" if words else f"object {place}"

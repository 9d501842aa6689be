"""Relevance as small files: a picture of few colours that are the more opaque the more there is, or a line of letters.

Both have steps of strength on either side of zero: colours for the class on one side, against it on the other.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np
from heatproof.report.gallery import FULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 16
"""Steps of strength on each side of zero."""
FOR, AGAINST = (214, 69, 61), (53, 102, 196)
"""Red and blue, which every kind of colour vision tells apart."""
ZERO = ord("P")
"""The letter of no relevance; a step more or less is the next letter or the one before."""


def steps(heat: NDArray[Any], peak: float) -> NDArray[np.int8]:
    """Heat in steps between -STEPS and STEPS: `peak` and beyond is the last; what is not finite is 0."""
    scaled = np.clip(np.where(np.isfinite(heat), heat, 0.0) / (peak or 1.0), -1.0, 1.0)
    found: NDArray[np.int8] = np.rint(STEPS * scaled).astype(np.int8)
    return found


def picture_peak(heat: NDArray[Any]) -> float:
    """So much that a hundredth of those pixels that have any heat is at it or above."""
    size = np.abs(heat[np.isfinite(heat) & (heat != 0)])
    return float(np.quantile(size, FULL)) if len(size) else 1.0


def signal_peak(heat: NDArray[Any]) -> float:
    """The largest of all."""
    size = np.abs(heat[np.isfinite(heat)])
    return float(size.max()) if len(size) else 1.0


def flaw(heat: NDArray[Any]) -> str:
    """What is wrong with heat in which there is nothing to see; empty for others."""
    return "not finite" if not np.isfinite(heat).all() else "" if heat.any() else "all zero"


def letters(heat: NDArray[Any]) -> str:
    """A signal's heat, a letter for each position."""
    return "".join(chr(ZERO + step) for step in steps(heat, signal_peak(heat)).tolist())


@lru_cache
def palette() -> tuple[list[int], bytes]:
    """Colours and opacities of the steps from -STEPS to STEPS; what is 0 is not seen."""
    places = range(-STEPS, STEPS + 1)
    colours = [part for step in places for part in (FOR if step > 0 else AGAINST)]
    return colours, bytes(round(255 * abs(step) / STEPS) for step in places)


def heat_png(heat: NDArray[Any]) -> bytes:
    """A picture's heat (H, W) as PNG, to be laid over the picture."""
    from PIL import Image

    colours, opacities = palette()
    places = (steps(heat, picture_peak(heat)) + STEPS).astype(np.uint8)
    image = Image.frombytes("P", (heat.shape[1], heat.shape[0]), places.tobytes())
    image.putpalette(colours)
    file = BytesIO()
    image.save(file, "PNG", transparency=opacities)
    return file.getvalue()


def shrunk(heat: NDArray[Any], longest: int) -> NDArray[Any]:
    """Heat (H, W) of at most this length, each pixel the mean of those that it stands for."""
    from PIL import Image

    height, width = heat.shape
    if max(height, width) <= longest:
        return heat
    size = (max(1, width * longest // max(heat.shape)), max(1, height * longest // max(heat.shape)))
    finite = np.where(np.isfinite(heat), heat, 0.0).astype(np.float32)
    return np.asarray(Image.fromarray(finite).resize(size, Image.Resampling.BOX))


def disagreement(maps: NDArray[Any]) -> float | None:
    """How differently maps (methods, positions) order the positions: 1 less their mean rank correlation.

    Maps that are the same everywhere or not finite say nothing; of fewer than two others there is no disagreement.
    """
    useful = maps[np.isfinite(maps).all(1)]
    useful = useful[np.ptp(useful, axis=1) > 0]
    if len(useful) < 2:
        return None
    ranks = np.stack([ranks_of(one) for one in useful])
    ranks -= ranks.mean(1, keepdims=True)
    ranks /= np.sqrt((ranks**2).sum(1, keepdims=True))
    pairs = np.triu_indices(len(ranks), 1)
    return 1.0 - float((ranks @ ranks.T)[pairs].mean())


def ranks_of(values: NDArray[Any]) -> NDArray[Any]:
    """Ranks from the smallest up; ties share the mean of theirs. By sorting: maps have many positions."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[Any] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks

"""sRGB, the curve between light and the 8-bit values of pictures (IEC 61966-2-1)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from heatproof.exact import power
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEND_ENCODED, BEND_LIGHT = 0.0404482362771082, 0.0031308
"""Where the straight part of the curve ends, on either side."""


@cache
def linear(value: int) -> float:
    """Linear light of an 8-bit value."""
    share = value / 255
    return power((share + 0.055) / 1.055, 2.4) if share >= BEND_ENCODED else share / 12.92


def linear_values(values: NDArray[Any]) -> NDArray[np.float64]:
    """Linear light of an array of 8-bit values."""
    light: NDArray[np.float64] = np.array([linear(value) for value in range(256)])[values]
    return light


def srgb(light: float) -> int:
    """The 8-bit value nearest to linear light in [0, 1]."""
    share = 12.92 * light if light <= BEND_LIGHT else 1.055 * light ** (1 / 2.4) - 0.055
    return round(255 * share)


def encoded(light: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The same for an array of any light; within 1 of it, because powers of float32 are rounded as processors like."""
    light = np.clip(light, 0.0, 1.0)
    curve = np.where(light <= BEND_LIGHT, 12.92 * light, 1.055 * light ** np.float32(1 / 2.4) - 0.055)
    return (255 * curve + 0.5).astype(np.uint8)

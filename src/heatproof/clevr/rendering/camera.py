"""The pinhole camera of CLEVR: looks at the origin, 35 mm lens on a 32 mm sensor, a view three wide and two high.

Every picture shows this view, whatever its size: 128x128 is what one gets by squashing 480x320. What objects are seen
is decided here, so there is no product of matrices: its last bit would hang on the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HALF_VIEW = (32.0 / 35.0 / 2, 32.0 / 35.0 / 3)
"""Tangents of half the view's angles, across and up."""


def axes_towards_origin(place: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Local axes (columns: right, up, backwards) of something at `place` that looks at the origin, upright."""
    back = unit(np.asarray(place, dtype=np.float64))
    right = unit(np.cross((0.0, 0.0, 1.0), back))
    return np.stack([right, np.cross(back, right), back], axis=1)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vector at length 1."""
    x, y, z = vector
    scaled: NDArray[np.float64] = vector / np.sqrt(x * x + y * y + z * z)
    return scaled


@dataclass(frozen=True)
class Camera:
    """Where the camera stands, and the size of the picture in pixels."""

    place: tuple[float, float, float]
    width: int
    height: int

    @cached_property
    def axes(self) -> NDArray[np.float64]:
        return axes_towards_origin(self.place)

    def project(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points (N, 3) to (N, 3): pixels from the left, pixels from the top, distance along the line of sight."""
        x, y, z = (points - np.asarray(self.place)).T
        right, up, back = (x * axis[0] + y * axis[1] + z * axis[2] for axis in self.axes.T)
        depth = -back
        across = (right / depth / HALF_VIEW[0] + 1) / 2 * self.width
        down = (1 - up / depth / HALF_VIEW[1]) / 2 * self.height
        return np.stack([across, down, depth], axis=1)

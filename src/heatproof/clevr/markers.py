"""A planted cue: a small square beside one object of a picture, nearer to it than to any other.

It stands on the ground alone, covers no object, and is drawn after rendering: a picture without it is the picture as it
was, to the last bit, so that its effect on a network is measured exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 5
"""Pixels of the square's side, in pictures of 128x128."""
COLOUR = (255, 0, 255)
"""Magenta, which no object of CLEVR has."""
CLEAR = 1
"""Pixels of ground all around it."""
LEAD = 3.0
"""Pixels by which it is nearer to its object than to any other."""
REACH = 9.0
"""Pixels from its middle to the object, at most."""
AROUND = int(2 * REACH + LEAD) + SIDE
"""Pixels around an object that decide where its marker can stand; what is farther away is not looked at."""


def beside(ids: NDArray[Any], thing: int) -> tuple[int, int] | None:
    """The middle (row, column) of the marker of object `thing`, as near to it as can be; None if there is no room.

    `ids` (H, W) has 0 on the ground and k on object k.
    """
    from scipy.ndimage import binary_erosion, distance_transform_edt

    rows, columns = np.nonzero(ids == thing)
    if not len(rows):
        return None
    top, left = (max(0, int(places.min()) - AROUND) for places in (rows, columns))
    near = ids[top : int(rows.max()) + AROUND + 1, left : int(columns.max()) + AROUND + 1]
    own = distance_transform_edt(near != thing)
    rest = (near != 0) & (near != thing)
    others = distance_transform_edt(~rest) if rest.any() else np.full(near.shape, np.inf)
    width = SIDE + 2 * CLEAR
    room = binary_erosion(near == 0, np.ones((width, width), dtype=bool))  # beyond the edge there is none
    own = np.where(room & (others >= own + LEAD), own, np.inf)
    row, column = np.unravel_index(int(own.argmin()), own.shape)
    return (top + int(row), left + int(column)) if own[row, column] <= REACH else None


def covered(place: tuple[int, int], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels (H, W) of the marker whose middle is there."""
    found = np.zeros(shape, dtype=bool)
    row, column = (middle - SIDE // 2 for middle in place)
    found[row : row + SIDE, column : column + SIDE] = True
    return found


def with_marker(picture: NDArray[np.uint8], place: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture (H, W, 3) with a marker there."""
    found = picture.copy()
    found[covered(place, picture.shape[:2])] = COLOUR
    return found

"""The outline of a mask, along the edges of its pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Corner = tuple[int, int]


def outlines(mask: NDArray[Any]) -> list[list[Corner]]:
    """Closed lines through corners (x, y) of pixels, only where they turn, the mask to their right.

    Holes have lines of their own; pixels that touch at a corner only are not joined.
    """
    padded = np.pad(np.asarray(mask, dtype=bool), 1)
    ahead: dict[Corner, list[Corner]] = {}
    for start, stop in border(padded):
        ahead.setdefault(start, []).append(stop)
    found = []
    while ahead:
        begin = next(iter(ahead))
        line = [begin, step(ahead, begin, None)]
        while line[-1] != begin:
            line.append(step(ahead, line[-1], line[-2]))
        found.append(turns(line[:-1]))
    return found


def border(padded: NDArray[Any]) -> list[tuple[Corner, Corner]]:
    """The edges of pixels between the mask and what is not in it, each with the mask to its right."""
    # y grows downwards: what goes right has the mask below it.
    inside, above, left = padded[1:, 1:], padded[:-1, 1:], padded[1:, :-1]
    edges: list[tuple[Corner, Corner]] = []
    for y, x in np.argwhere(inside & ~above).tolist():
        edges.append(((x, y), (x + 1, y)))
    for y, x in np.argwhere(~inside & above).tolist():
        edges.append(((x + 1, y), (x, y)))
    for y, x in np.argwhere(inside & ~left).tolist():
        edges.append(((x, y + 1), (x, y)))
    for y, x in np.argwhere(~inside & left).tolist():
        edges.append(((x, y), (x, y + 1)))
    return edges


def step(ahead: dict[Corner, list[Corner]], corner: Corner, before: Corner | None) -> Corner:
    """The next corner, which is used up; where two ways go on, the one that turns right, around the same pixel."""
    ways = ahead[corner]
    chosen = ways[0]
    if before is not None and len(ways) > 1:
        right = (corner[0] - (corner[1] - before[1]), corner[1] + (corner[0] - before[0]))
        chosen = right if right in ways else chosen
    ways.remove(chosen)
    if not ways:
        del ahead[corner]
    return chosen


def turns(line: list[Corner]) -> list[Corner]:
    """The corners of a closed line at which it changes its direction."""
    around = zip([line[-1], *line[:-1]], line, [*line[1:], line[0]], strict=True)
    return [here for a, here, b in around if (here[0] - a[0], here[1] - a[1]) != (b[0] - here[0], b[1] - here[1])]

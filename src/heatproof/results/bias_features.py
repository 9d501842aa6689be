"""What sets pictures apart that draw relevance: in the network's own features, and beside pictures of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ROUNDS = 100
"""Rounds of two means; mostly it takes fewer than ten."""


@dataclass(frozen=True)
class Look:
    """How named pictures lie among all of their class in the network's own features.

    pictures   of the class, and `named` of them
    group      the size of that of two groups (two means) in which more of the named lie, and `inside`, how many do
    neighbours how many of the named have another named picture as nearest neighbour, and `chance`, how many would
               if the same number had been named by lot
    """

    pictures: int
    named: int
    group: int
    inside: int
    neighbours: int
    chance: float


def look_at(features: NDArray[Any], named: NDArray[np.bool_]) -> Look:
    """Named pictures among all of a class, by its features (N, D) with each picture's length taken out."""
    points = unit_length(features)
    groups = two_groups(points)
    mine = groups if (named & groups).sum() > (named & ~groups).sum() else ~groups
    count = int(named.sum())
    near = named[nearest(points)]
    return Look(
        pictures=len(points),
        named=count,
        group=int(mine.sum()),
        inside=int((named & mine).sum()),
        neighbours=int((near & named).sum()),
        chance=count * (count - 1) / max(1, len(points) - 1),
    )


def unit_length(features: NDArray[Any]) -> NDArray[np.float64]:
    """So that angles count: networks see brighter pictures with longer vectors."""
    points = np.asarray(features, dtype=np.float64).reshape(len(features), -1)
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 0, lengths, 1))


def two_groups(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points (N, D) lie in the second of two groups: Lloyd's two means, from both ends of the widest direction.

    No chance plays a part, so that a page says the same tomorrow.
    """
    centred = points - points.mean(0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    second: NDArray[np.bool_] = along > np.median(along)
    for _ in range(MOST_ROUNDS):
        if second.all() or not second.any():
            break
        centres = points[~second].mean(0), points[second].mean(0)
        first_way, second_way = (((points - centre) ** 2).sum(1) for centre in centres)
        moved: NDArray[np.bool_] = second_way < first_way
        if (moved == second).all():
            break
        second = moved
    return second


def nearest(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """The nearest other point of each (N, D) of unit length."""
    alike = points @ points.T
    np.fill_diagonal(alike, -np.inf)
    return np.asarray(alike.argmax(1))


def telling_fact(
    facts: Mapping[str, Mapping[str, float]], some: Sequence[str], others: Sequence[str]
) -> tuple[str, float]:
    """The fact that tells some pictures from others best, in words, and how well: the area under the ROC curve."""
    best, name = 0.5, ""
    for fact in facts[some[0]]:
        a, b = (np.array([facts[file][fact] for file in files]) for files in (some, others))
        above = float((a[:, None] > b).mean() + (a[:, None] == b).mean() / 2)
        if max(above, 1 - above) > best:
            best, name = max(above, 1 - above), f"{'high' if above > 0.5 else 'low'} {fact}"
    return name, best

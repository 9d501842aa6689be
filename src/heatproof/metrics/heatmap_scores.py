"""Mass and rank accuracy of many heatmaps for many poolings and ground truths at once.

At the speed of memory: one pooled map at a time, which stays in the processor's cache, and a selection instead of a
sort. Needs no torch, except for poolings that are not among the ten, which are functions of tensors. The metrics
`mass_accuracy`, `rank_accuracy` and `focus` of tensors come from here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np, torch
from heatproof.pooling import pool
from heatproof.pooling import poolings as known_poolings

if TYPE_CHECKING:
    from numpy.typing import NDArray

REASONS = (
    "",
    "the mask is empty or covers everything",
    "the heatmap has NaN or infinite values",
    "the heatmap is zero everywhere",
    "no relevance of the sign that the score is about",
)
"""Why a score is undefined, by the kernels' state: the truth is missing, or the map is unusable."""


@dataclass(frozen=True, eq=False)
class HeatmapScores:
    """Scores (poolings, ground truths, cases); NaN where undefined, and `state` says why (an index of REASONS)."""

    poolings: tuple[str, ...]
    ground_truths: tuple[str, ...]
    mass: NDArray[np.float64]
    rank: NDArray[np.float64]
    state: NDArray[np.int8]


def score_heatmaps(
    relevance: NDArray[Any],
    masks: Mapping[str, NDArray[np.bool_]],
    poolings: Sequence[str] | None = None,
    *,
    ranks: bool = True,
) -> HeatmapScores:
    """Scores of relevance (B, C, *space), signed, against boolean masks (B, *space) by name.

    Without `ranks` it is faster, and there is no rank accuracy (NaN).
    """
    from heatproof.metrics import heatmap_kernels as kernels

    chosen = tuple(known_poolings) if poolings is None else tuple(poolings)
    for name in chosen:
        known_poolings[name]
    if relevance.ndim < 3:
        raise HeatproofError(f"relevance must be (cases, channels, *space), got shape {relevance.shape}.")
    for name, mask in masks.items():
        if mask.shape != (relevance.shape[0], *relevance.shape[2:]) or mask.dtype != np.bool_:
            raise HeatproofError(
                f"mask {name} must be boolean of shape {(relevance.shape[0], *relevance.shape[2:])},"
                f" got {mask.dtype} {mask.shape}."
            )
    if relevance.dtype not in (np.float32, np.float64):
        relevance = relevance.astype(np.float64)
    cases, positions = len(relevance), math.prod(relevance.shape[2:])
    stacked = np.stack([np.ascontiguousarray(mask).reshape(cases, positions) for mask in masks.values()])
    shape = (len(chosen), len(stacked), cases)
    mass, rank, state = np.full(shape, np.nan), np.full(shape, np.nan), np.empty(shape, np.int8)

    def fill(places: list[int], signed: NDArray[Any], names: Sequence[str]) -> None:
        """Score `signed` (B, C, *space) under the compiled poolings of these names, into these places."""
        flat = np.ascontiguousarray(signed).reshape(cases, signed.shape[1], positions)
        codes = np.array([kernels.CODES[name] for name in names], dtype=np.int64)
        part = mass[places], rank[places], state[places]
        kernels.score(flat, stacked, codes, ranks, *part)
        mass[places], rank[places], state[places] = part

    compiled = [place for place, name in enumerate(chosen) if name in kernels.CODES]
    fill(compiled, relevance, [chosen[place] for place in compiled])
    for place in sorted(set(range(len(chosen))) - set(compiled)):
        own = relevance.astype(np.float64)  # a copy, which the function may change
        pooled = pool(torch.as_tensor(own), chosen[place]).cpu().numpy()
        fill([place], pooled[:, None], ["sum_pos"])  # of one channel that is not negative: itself
    return HeatmapScores(chosen, tuple(masks), mass, rank, state)


def points(heatmap: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The pointing game of non-negative heatmaps (B, positions): of several maxima, the share inside the mask.

    NaN for a mask that is empty or full, an all-zero heatmap or one that is not finite.
    """
    peak = heatmap == heatmap.max(1, keepdims=True)
    defined = mask.any(1) & ~mask.all(1) & (heatmap > 0).any(1) & np.isfinite(heatmap).all(1)
    with np.errstate(invalid="ignore"):
        share = (peak & mask).sum(1) / peak.sum(1)
    return np.where(defined, share, np.nan)


def pooled(relevance: NDArray[Any], pooling: str) -> NDArray[np.float64]:
    """Heatmaps (B, positions) of relevance (B, C, positions); without torch for the ten poolings."""
    from heatproof.metrics import heatmap_kernels as kernels

    if pooling not in kernels.CODES:
        return np.asarray(pool(torch.as_tensor(relevance.astype(np.float64)), pooling).cpu().numpy())
    heatmaps = np.empty((len(relevance), relevance.shape[2]))
    for signed, heatmap in zip(np.ascontiguousarray(relevance), heatmaps, strict=True):
        kernels.pool_into(signed, kernels.CODES[pooling], heatmap)
    return heatmaps


def tile_masks(space: tuple[int, int], grid: int, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`localisation.grid_mask` of arrays, without torch."""
    rows, columns = (((np.arange(n) + 1) * grid - 1) // n for n in space)
    masks: NDArray[np.bool_] = chosen[:, rows[:, None] * grid + columns]
    return masks

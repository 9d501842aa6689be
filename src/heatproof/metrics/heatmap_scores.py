"""Mass and rank accuracy of many heatmaps for many poolings and ground truths at once; needs no torch.

At the speed of memory: one pooled map at a time, which stays in the processor's cache, and a selection instead of a
sort. The metrics `mass_accuracy`, `rank_accuracy` and `focus` of tensors come from here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.pooling import poolings as known_poolings

if TYPE_CHECKING:
    from numpy.typing import NDArray

REASONS = ("", "the mask is empty", "the heatmap has NaN or infinite values", "the heatmap is zero everywhere")
"""Why a score is undefined, by the kernels' state."""


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
    cases, channels = relevance.shape[:2]
    flat = np.ascontiguousarray(relevance).reshape(cases, channels, -1)
    stacked = np.stack([np.ascontiguousarray(mask).reshape(cases, -1) for mask in masks.values()])
    shape = (len(chosen), len(stacked), cases)
    mass, rank, state = np.full(shape, np.nan), np.full(shape, np.nan), np.empty(shape, np.int8)
    codes = np.array([kernels.CODES[name] for name in chosen], dtype=np.int64)
    kernels.score(flat, stacked, codes, ranks, mass, rank, state)
    return HeatmapScores(chosen, tuple(masks), mass, rank, state)

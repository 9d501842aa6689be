"""Every score of many heatmaps against object masks, for all poolings at once; positions may count neither way.

Needs no torch, except for poolings that are not among the ten. The metrics of tensors in `segmentation.py` come from
here too.
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

OUTSIDE, INSIDE, VOID = 0, 1, 2
"""What the truth says of a position; what is void counts neither way."""
POOLED = (
    "mass_accuracy",
    "rank_accuracy",
    "pointing_game",
    "pixel_auc",
    "average_precision",
    "best_iou",
    "adaptive_iou",
    "pixel_accuracy",
    "segmentation_ap",
)
"""The metrics in the order of the kernel's scores."""
TWO_CLASS_POOLING = "sum_pos"
"""The one pooling under which `segmentation_ap` is scored, which takes as long as all others together."""
SIGNED = (
    "attribution_precision",
    "attribution_recall",
    "attribution_accuracy",
    "attribution_f1",
    "dual_polarity_precision",
)
NO_TRUTH, NOT_FINITE, ALL_ZERO, NO_SIGN = 1, 2, 3, 4
"""Indices of REASONS."""


@dataclass(frozen=True, eq=False)
class MaskScores:
    """Scores (poolings, cases) by metric; NaN where undefined, and `state` says why (an index of REASONS)."""

    poolings: tuple[str, ...]
    values: Mapping[str, NDArray[np.float64]]
    state: NDArray[np.int8]
    shares: NDArray[np.float64]
    """The share of each mask of the positions that count, and how many of these there are."""
    positions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SignedScores:
    """Scores (cases,) by metric, and why they are undefined where they are (an index of REASONS)."""

    values: Mapping[str, NDArray[np.float64]]
    state: Mapping[str, NDArray[np.int8]]


def shares_of(truth: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of each mask (B, *space) of the positions that count; zero where none does."""
    found: NDArray[np.float64] = count_of(truth, INSIDE) / np.maximum(positions, 1)
    return found


def positions_of(truth: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How many positions of each truth (B, *space) count."""
    return math.prod(truth.shape[1:]) - count_of(truth, VOID)


def count_of(truth: NDArray[np.uint8], meaning: int) -> NDArray[np.int64]:
    """Positions of that meaning in each truth; one by one, because counting along an axis takes ten times as long."""
    return np.array([np.count_nonzero(one == meaning) for one in truth], dtype=np.int64)


def score_masks(
    relevance: NDArray[Any],
    truth: NDArray[np.uint8],
    poolings: Sequence[str] | None = None,
    tolerance: int = 0,
) -> MaskScores:
    """Scores of relevance (B, C, *space), signed, against truth (B, *space) of OUTSIDE, INSIDE and VOID.

    The pointing game takes a maximum that is at most `tolerance` positions away from the mask for a hit.
    """
    from heatproof.metrics import heatmap_kernels as kernels

    chosen = tuple(known_poolings) if poolings is None else tuple(poolings)
    for name in chosen:
        known_poolings[name]
    check_truth(relevance, truth)
    if relevance.dtype not in (np.float32, np.float64):
        relevance = relevance.astype(np.float64)
    cases, positions = len(relevance), math.prod(relevance.shape[2:])
    flat = np.ascontiguousarray(truth).reshape(cases, positions)
    near = near_masks(truth, tolerance).reshape(cases, positions)
    found, state = np.full((len(chosen), cases, kernels.SCORES), np.nan), np.empty((len(chosen), cases), np.int8)

    def fill(places: Sequence[int], signed: NDArray[Any], names: Sequence[str], both: str) -> None:
        """Score `signed` (B, C, *space) under the compiled poolings of these names, into these places."""
        maps = np.ascontiguousarray(signed).reshape(cases, signed.shape[1], positions)
        codes = np.array([kernels.CODES[name] for name in names], dtype=np.int64)
        # of one channel of float32, sizes are of float32 too, and half as long to sort
        narrow = maps.shape[1] == 1 and maps.dtype == np.float32
        keys = np.empty((3, positions + 1), np.uint32 if narrow else np.uint64)
        part, why = found[places], state[places]
        kernels.score_truth(maps, flat, near, codes, kernels.CODES.get(both, -1), keys, part, why)
        found[places], state[places] = part, why

    compiled = [place for place, name in enumerate(chosen) if name in kernels.CODES]
    fill(compiled, relevance, [chosen[place] for place in compiled], TWO_CLASS_POOLING)
    for place in sorted(set(range(len(chosen))) - set(compiled)):
        own = relevance.astype(np.float64)  # a copy, which the function may change
        pooled = pool(torch.as_tensor(own), chosen[place]).cpu().numpy()
        fill([place], pooled[:, None], ["sum_pos"], "")  # of one channel that is not negative: itself
    values = {metric: found[..., place] for place, metric in enumerate(POOLED)}
    counted = positions_of(truth)
    shares = shares_of(truth, counted)
    with np.errstate(divide="ignore", invalid="ignore"):
        values["lift"] = values["mass_accuracy"] / shares
    return MaskScores(chosen, values, state, shares, counted)


def near_masks(truth: NDArray[np.uint8], tolerance: int) -> NDArray[np.bool_]:
    """What counts as a hit (B, *space): the mask, and what is at most `tolerance` positions away from it."""
    inside: NDArray[np.bool_] = truth == INSIDE
    if not tolerance:
        return inside
    from scipy.ndimage import distance_transform_edt

    return np.stack([distance_transform_edt(~mask) <= tolerance if mask.any() else mask for mask in inside])


def score_signed(
    relevance: NDArray[Any], truth: NDArray[np.uint8], shares: NDArray[np.float64] | None = None
) -> SignedScores:
    """The attribution confusion matrix of relevance (B, C, *space), channels added up, in numbers.

    Positive relevance inside the mask is right, so is negative relevance outside. `shares` of the masks, if known.
    """
    from heatproof.metrics import heatmap_kernels as kernels

    check_truth(relevance, truth)
    if relevance.dtype not in (np.float32, np.float64):
        relevance = relevance.astype(np.float64)
    cases, positions = len(relevance), math.prod(relevance.shape[2:])
    sums = np.empty((4, 1, cases))
    maps = np.ascontiguousarray(relevance).reshape(cases, relevance.shape[1], positions)
    kernels.signed_sums(maps, np.ascontiguousarray(truth).reshape(1, cases, positions), sums)
    shares = shares_of(truth, positions_of(truth)) if shares is None else shares
    values = confusion_scores(*sums[:, 0])
    missing = (shares == 0) | (shares == 1)
    broken, silent = ~np.isfinite(sums[:, 0]).all(0), sums[:, 0].sum(0) == 0
    state = {}
    for metric, found in values.items():
        found[missing] = np.nan
        why = np.select([missing, broken, silent, np.isnan(found)], [NO_TRUTH, NOT_FINITE, ALL_ZERO, NO_SIGN], 0)
        state[metric] = why.astype(np.int8)
    return SignedScores(values, state)


def confusion_scores(
    positive: NDArray[Any], positive_outside: NDArray[Any], negative: NDArray[Any], negative_outside: NDArray[Any]
) -> dict[str, NDArray[np.float64]]:
    """The scores of SIGNED from the four sums of relevance, of which none is negative."""
    right = positive + negative_outside
    total = right + positive_outside + negative
    with np.errstate(divide="ignore", invalid="ignore"):
        for_it = positive / (positive + positive_outside)
        against_it = negative_outside / (negative + negative_outside)
        of_both = np.where(np.isnan(against_it), for_it, np.where(np.isnan(for_it), against_it, 0))
        of_both = np.where(np.isnan(for_it) | np.isnan(against_it), of_both, (for_it + against_it) / 2)
        found = (
            for_it,
            positive / (positive + negative),
            right / total,
            2 * positive / (2 * positive + positive_outside + negative),
            of_both,
        )
    return dict(zip(SIGNED, (np.array(values, dtype=np.float64) for values in found), strict=True))


def check_truth(relevance: NDArray[Any], truth: NDArray[np.uint8]) -> None:
    if relevance.ndim < 3:
        raise HeatproofError(f"relevance must be (cases, channels, *space), got shape {relevance.shape}.")
    expected = (relevance.shape[0], *relevance.shape[2:])
    if truth.shape != expected or truth.dtype != np.uint8:
        raise HeatproofError(f"truth must be uint8 of shape {expected}, got {truth.dtype} {truth.shape}.")

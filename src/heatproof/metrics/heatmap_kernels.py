"""The inner loops of mass and rank accuracy, compiled by Numba: pool, add up, select, count.

One file on purpose: Numba's cache looks only at the file of the function that is called from Python.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CODES = {
    name: code
    for code, name in enumerate(
        (
            "sum_abs", "sum_pos", "max_norm", "l1_norm", "l2_norm", "l2_norm_sq",
            "pos_sum", "pos_max_norm", "pos_l2_norm", "pos_l2_norm_sq",
        )
    )
}  # fmt: skip
"""What the kernels call the poolings."""

DEFINED, NO_TRUTH, NOT_FINITE, ALL_ZERO = 0, 1, 2, 3

BIN_BITS = 13
BINS = 1 << BIN_BITS
SHIFTS = (50, 37, 24, 11, 0)
"""Which bits each round of a selection looks at: all 63 below the sign, the highest first."""

options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**options)  # type: ignore[untyped-decorator]
def pool_into(relevance: NDArray[Any], code: int, pooled: Floats) -> None:
    """Channels (C, N) to one value per position (N,), in float64 and channel by channel."""
    channels, positions = relevance.shape
    clipped = code >= 6
    kind = code - 6 if clipped else code
    pooled[:] = 0.0
    for c in range(channels):
        row = relevance[c]
        for n in range(positions):
            value = float(row[n])
            if clipped and value < 0:
                value = 0.0
            if (not clipped and kind < 2) or (clipped and kind == 0):
                pooled[n] += value
            elif (not clipped and kind == 2) or (clipped and kind == 1):
                size = abs(value)
                pooled[n] = size if size > pooled[n] or size != size else pooled[n]
            elif not clipped and kind == 3:
                pooled[n] += abs(value)
            else:
                pooled[n] += value * value
    if code == 0:
        for n in range(positions):
            pooled[n] = abs(pooled[n])
    elif code == 1:
        for n in range(positions):
            if pooled[n] <= 0:  # minus zero too, whose bits are not those of zero
                pooled[n] = 0.0
    elif code in (4, 8):
        for n in range(positions):
            pooled[n] = math.sqrt(pooled[n])


@njit(fastmath={"reassoc"}, **options)  # type: ignore[untyped-decorator]
def add_up(values: Floats) -> float:
    """The sum, in an order that the processor can do several at a time."""
    total = 0.0
    for value in values:
        total += value
    return total


@njit(fastmath={"reassoc"}, **options)  # type: ignore[untyped-decorator]
def share_inside(values: Floats, mask: NDArray[np.bool_]) -> float:
    """What lies inside over what lies inside and outside: exactly 1 where nothing lies outside."""
    inside, outside = 0.0, 0.0
    for n in range(len(values)):
        kept = values[n] * mask[n]
        inside += kept
        outside += values[n] - kept
    return inside / (inside + outside)


@njit(**options)  # type: ignore[untyped-decorator]
def kth_largest(bits: NDArray[np.int64], k: int, left: NDArray[np.int64], bins: NDArray[np.int32]) -> int:
    """The k-th largest of non-negative floats, as bits, whose order is theirs: bins of ever lower bits."""
    count = len(bits)
    left[:count] = bits
    for shift in SHIFTS:
        bins[:] = 0
        for n in range(count):
            bins[(left[n] >> shift) & (BINS - 1)] += 1
        place = BINS - 1
        while bins[place] < k:
            k -= bins[place]
            place -= 1
        kept = 0
        for n in range(count):
            entry = left[n]
            left[kept] = entry
            kept += ((entry >> shift) & (BINS - 1)) == place
        count = kept
        if count == 1:
            break
    return int(left[0])


@njit(**options)  # type: ignore[untyped-decorator]
def rank_of(bits: NDArray[np.int64], kth: int, mask: NDArray[np.bool_], size: int) -> float:
    """Share of the `size` largest that lie inside the mask; those equal to the last share the places left."""
    above, above_inside, tied, tied_inside = 0, 0, 0, 0
    for n in range(len(bits)):
        inside = mask[n]
        more = bits[n] > kth
        same = bits[n] == kth
        above += more
        above_inside += more & inside
        tied += same
        tied_inside += same & inside
    return (above_inside + (size - above) * (tied_inside / tied)) / size


@njit(**options)  # type: ignore[untyped-decorator]
def score(
    relevance: NDArray[Any],
    masks: NDArray[np.bool_],
    codes: NDArray[np.int64],
    ranked: bool,
    mass: Floats,
    rank: Floats,
    state: NDArray[np.int8],
) -> None:
    """Fill mass, rank (if `ranked`) and state (P, M, B) of relevance (B, C, N) against masks (M, B, N)."""
    cases, _, positions = relevance.shape
    pooled = np.empty(positions)
    bits = pooled.view(np.int64)
    left = np.empty(positions, np.int64)
    bins = np.empty(BINS, np.int32)
    sizes = np.empty(len(masks), np.int64)
    for b in range(cases):
        for m in range(len(masks)):
            sizes[m] = masks[m, b].sum()
        for p in range(len(codes)):
            pool_into(relevance[b], codes[p], pooled)
            total = add_up(pooled)
            finite = True
            if not math.isfinite(total):  # finite values may add up to more than there is: look at each
                for n in range(positions):
                    finite &= math.isfinite(pooled[n])
            for m in range(len(masks)):
                if sizes[m] == 0 or sizes[m] == positions:
                    state[p, m, b] = NO_TRUTH
                elif not finite:
                    state[p, m, b] = NOT_FINITE
                elif total == 0:
                    state[p, m, b] = ALL_ZERO
                else:
                    state[p, m, b] = DEFINED
                    mass[p, m, b] = share_inside(pooled, masks[m, b])
                    if ranked:
                        kth = kth_largest(bits, sizes[m], left, bins)
                        rank[p, m, b] = rank_of(bits, kth, masks[m, b], sizes[m])

"""The inner loops of scores against masks, compiled by Numba: pool, add up, select, sort, count.

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
    for n in range(len(values)):
        total += values[n]
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


# Every score of a mask at once, positions that count neither way left out.

OUTSIDE, INSIDE, VOID = 0, 1, 2
"""What the truth says of a position."""
MASS, RANK, POINTING, AUC, PRECISION, BEST_IOU, ADAPTIVE_IOU, PIXELS, TWO_CLASSES = range(9)
"""Places of the scores."""
SCORES, BY_ORDER = 9, (RANK, POINTING, AUC, PRECISION, BEST_IOU)
MOST_DIGIT = 11
"""Bits that a round of sorting looks at."""
LEAST_SQUARED, MOST_SQUARED = 1e-150, 1e150
"""Between these, squares keep the order of what is squared, and their roots are exact."""


@njit(**options)  # type: ignore[untyped-decorator]
def sort_keys(keys: NDArray[Any], other: NDArray[Any], bits: int) -> None:
    """Sort unsigned whole numbers of so many bits, ascending: by their lowest digits first."""
    count, rounds = len(keys), -(-bits // MOST_DIGIT)
    width = np.uint64(-(-bits // rounds))  # small digits need small tables
    digits = 1 << int(width)
    lowest = np.uint64(digits - 1)
    counts = np.zeros((rounds, digits), np.int32)
    for n in range(count):
        key = np.uint64(keys[n])
        for digit in range(rounds):
            counts[digit, key & lowest] += 1
            key >>= width
    here, there, moved = keys, other[:count], False
    for digit in range(rounds):
        shift = np.uint64(digit) * width
        place = counts[digit]
        if count == 0 or place[(np.uint64(here[0]) >> shift) & lowest] == count:
            continue  # all are alike in it
        before = 0
        for value in range(digits):
            this = place[value]
            place[value] = before
            before += this
        for n in range(count):
            own = (np.uint64(here[n]) >> shift) & lowest
            there[place[own]] = here[n]
            place[own] += 1
        here, there, moved = there, here, not moved
    if moved:
        keys[:] = here


@njit(**options)  # type: ignore[untyped-decorator]
def begin(keys: NDArray[Any], zeros: int, zeros_inside: int) -> None:
    """The keys of zeros, which stand first; of equal values those that lie inside are last."""
    keys[: zeros - zeros_inside] = 0
    keys[zeros - zeros_inside : zeros] = 1


@njit(**options)  # type: ignore[untyped-decorator]
def ordered(
    values: Floats, inside: NDArray[np.bool_], keys: NDArray[Any], other: NDArray[Any], narrow: NDArray[np.float32]
) -> int:
    """Keys of non-negative values in ascending order: the bits of the value, and lowest whether it lies inside.

    Zeros, of which there may be many, are not sorted; how many there are is what it gives. Keys of 32 bits are of
    values that float32 holds exactly. There is room for one key more than there are values.
    """
    is_narrow = keys.itemsize == 4
    zeros, zeros_inside = 0, 0
    for n in range(len(values)):
        zero = values[n] == 0
        zeros += zero
        zeros_inside += zero & inside[n]
    if is_narrow:
        for n in range(len(values)):
            narrow[n] = values[n]
    place, short, wide = zeros, narrow.view(np.uint32), values.view(np.uint64)
    for n in range(len(values)):  # without a branch, which nobody could foresee; one key too many may be written
        bits = np.uint64(short[n]) if is_narrow else wide[n]
        keys[place] = (bits << np.uint64(1)) | np.uint64(inside[n])
        place += values[n] != 0
    sort_keys(keys[zeros:place], other, 8 * keys.itemsize)
    begin(keys, zeros, zeros_inside)
    return zeros


@njit(**options)  # type: ignore[untyped-decorator]
def ordered_twice(
    values: Floats,
    inside: NDArray[np.bool_],
    minus: NDArray[np.bool_],
    keys: NDArray[Any],
    narrow: NDArray[np.float32],
    zeros: NDArray[np.int64],
) -> bool:
    """The keys (3, N + 1) of sizes, as above, and of the positive parts among them, by one sort.

    Fills the first two rows and how many zeros each has. False, and nothing is done, if sizes are so far apart that
    their keys have no bit to spare for the sign.
    """
    count, is_narrow = len(values), keys.itemsize == 4
    if is_narrow:
        for n in range(count):
            narrow[n] = values[n]
    short, wide = narrow.view(np.int32), values.view(np.int64)
    least, most = np.int64(2**63 - 1), np.int64(0)
    none, none_inside, cut, cut_inside = 0, 0, 0, 0
    for n in range(count):
        bits = np.int64(short[n]) if is_narrow else wide[n]
        least, most = min(least, bits if bits else np.int64(2**63 - 1)), max(most, bits)
        zero = bits == 0
        gone = zero | minus[n]
        none += zero
        none_inside += zero & inside[n]
        cut += gone
        cut_inside += gone & inside[n]
    span = most - least + 1
    if span >> (8 * keys.itemsize - 3):
        return False
    width = 2
    while span:
        width, span = width + 1, span >> 1
    sizes, positives, place = keys[0], keys[1], none
    for n in range(count):
        bits = np.int64(short[n]) if is_narrow else wide[n]
        sizes[place] = ((bits - least + 1) << 2) | (np.int64(inside[n]) << 1) | np.int64(minus[n])
        place += bits != 0
    sort_keys(sizes[none:count], keys[2], width)
    place = cut
    for n in range(none, count):
        key = np.int64(sizes[n])
        whole = (((key >> 2) + least - 1) << 1) | ((key >> 1) & 1)
        sizes[n] = positives[place] = whole
        place += int(1 - (key & 1))
    begin(sizes, none, none_inside)
    begin(positives, cut, cut_inside)
    zeros[0], zeros[1] = none, cut
    return True


@njit(**options)  # type: ignore[untyped-decorator]
def walk(keys: NDArray[Any], zeros: int, size: int, at: NDArray[np.int32], found: Floats) -> int:
    """Rank accuracy, ROC AUC, average precision and best IoU from ordered keys, from the largest value down.

    Positions of one value come together: what follows from them does not depend on their order. Only values of which
    some position lies inside are gone through: `at` is filled with the places of these, and how many it gives.
    """
    count = len(keys)
    above, here = count - zeros, 0
    for n in range(above):  # without a branch, which nobody could foresee
        at[here] = n
        here += int(keys[count - 1 - n] & 1)
    taken, hits, pairs, precision, part, whole, ranked = 0, 0, 0.0, 0.0, 0, 1, False
    while hits < size:
        if hits < here:
            first = at[hits]  # of a value, those inside come first
            last, value = first + 1, keys[count - 1 - first] >> 1
            while last < above and keys[count - 1 - last] >> 1 == value:
                last += 1
            more_inside = 1
            while hits + more_inside < here and at[hits + more_inside] < last:
                more_inside += 1
        else:
            first, last, more_inside = above, count, size - here
        if not ranked and last >= size:
            found[RANK] = (hits + max(0, size - first) * (more_inside / (last - first))) / size
            ranked = True
        pairs += (first - taken) * float(hits) + (last - first - more_inside) * (hits + more_inside / 2)
        taken = last
        hits += more_inside
        precision += more_inside * (hits / taken)
        if hits * whole > part * (size + taken - hits):  # as fractions, without a division
            part, whole = hits, size + taken - hits
    if not ranked:
        found[RANK] = 1.0
    pairs += (count - taken) * float(size)
    found[AUC] = pairs / (float(size) * (count - size))
    found[PRECISION] = precision / size
    found[BEST_IOU] = part / whole
    return here


@njit(**options)  # type: ignore[untyped-decorator]
def two_classes(
    keys: NDArray[Any], zeros: int, size: int, heights: Floats, narrow: NDArray[np.float32], steps: NDArray[np.int32]
) -> float:
    """Average precision of background and object together: each position once as 1 - h, once as h, h from 0 to 1.

    Half for a map that is the same everywhere. Two pointers walk down both lists, which are in order already; zeros
    are the first of one and the last of the other. `steps` (2, N + 1) has room for where there are hits.
    """
    count, is_narrow = len(keys), keys.itemsize == 4
    short, wide = narrow.view(np.uint32), heights.view(np.uint64)
    if is_narrow:
        for n in range(zeros, count):  # one loop after the other, each of which the processor does several at a time
            short[n] = keys[n] >> 1
        for n in range(zeros, count):
            heights[n] = narrow[n]
    else:
        for n in range(zeros, count):
            wide[n] = keys[n] >> 1
    least = 0.0 if zeros else heights[0]
    span = heights[count - 1] - least
    if span <= 0 or not math.isfinite(span):
        return 0.5
    zeros_inside = size
    for n in range(zeros, count):
        heights[n] = (heights[n] - least) / span
        zeros_inside -= int(keys[n] & 1)
    up, down = zeros, count - 1
    high, low = heights[down], 1 - heights[up]
    more, taken = zeros - zeros_inside, zeros  # 1 - 0 is the largest, as the largest height is
    hits, last = more, 0
    while up < count:
        value = high if high > low else low
        while high == value:
            hit = int(keys[down] & 1)
            more, hits, taken, down = more + hit, hits + hit, taken + 1, down - 1
            high = heights[down] if down >= zeros else -1.0
        while low == value:
            hit = 1 - int(keys[up] & 1)
            more, hits, taken, up = more + hit, hits + hit, taken + 1, up + 1
            low = 1 - heights[up] if up < count else -1.0
        if value == 0:  # the last: 1 - 1
            more, hits, taken = more + zeros_inside, hits + zeros_inside, taken + zeros
        steps[0, last], steps[1, last] = hits, taken
        last += more > 0
        more = 0
    return float(precisions(steps[0, :last], steps[1, :last])) / count


@njit(fastmath={"reassoc"}, **options)  # type: ignore[untyped-decorator]
def precisions(hits: NDArray[np.int32], taken: NDArray[np.int32]) -> float:
    """The sum over all hits of the share of hits among what is taken by then; several at a time."""
    total = float(hits[0]) * (hits[0] / taken[0])
    for n in range(1, len(hits)):
        total += (hits[n] - hits[n - 1]) * (hits[n] / taken[n])
    return float(total)


@njit(**options)  # type: ignore[untyped-decorator]
def largest(values: Floats) -> float:
    """The largest of finite values that are not negative: of their bits, whose order is theirs, several at a time."""
    bits, found = values.view(np.int64), np.zeros(1, np.int64)
    most = np.int64(0)
    for n in range(len(bits)):
        most = max(most, bits[n])
    found[0] = most
    return float(found.view(np.float64)[0])


@njit(**options)  # type: ignore[untyped-decorator]
def at_mean(
    keys: NDArray[Any], zeros: int, size: int, at: NDArray[np.int32], threshold: float, squared: bool, found: Floats
) -> None:
    """IoU and share of rightly marked positions, where all are marked that reach the threshold, the map's mean.

    From ordered keys, and the places `at` which those above zero lie inside; `squared` where these are of what was
    squared.
    """
    count, is_narrow = len(keys), keys.itemsize == 4
    one = np.zeros(1, np.uint64)
    short, narrow, wide = one.view(np.uint32), one.view(np.float32), one.view(np.float64)
    first, last = 0, count
    while first < last:
        middle = (first + last) // 2
        if is_narrow:
            short[0] = keys[middle] >> 1
            value = float(narrow[0])
        else:
            one[0] = keys[middle] >> 1
            value = wide[0]
        if (value * value if squared else value) >= threshold:
            last = middle
        else:
            first = middle + 1
    marked = count - first
    hits = np.searchsorted(at, marked) if marked <= count - zeros else size  # zeros are marked all or none
    found[ADAPTIVE_IOU] = hits / (size + marked - hits)
    found[PIXELS] = (count - size - marked + 2 * hits) / count


@njit(**options)  # type: ignore[untyped-decorator]
def points_at(values: Floats, near: NDArray[np.bool_], most: float) -> float:
    """Of the positions of the largest value, the share that lies on the mask or near it."""
    peaks, right = 0, 0
    for n in range(len(values)):
        peak = values[n] == most
        peaks += peak
        right += peak & near[n]
    return right / peaks


@njit(**options)  # type: ignore[untyped-decorator]
def is_finite(values: Floats) -> bool:
    """Whether all are; finite values may add up to more than there is, so then each is looked at."""
    finite = True
    if not math.isfinite(add_up(values)):
        for n in range(len(values)):
            finite &= math.isfinite(values[n])
    return finite


@njit(**options)  # type: ignore[untyped-decorator]
def signs_and_squares(row: NDArray[Any]) -> tuple[bool, bool]:
    """Whether any value is negative, and whether all have squares that keep their order."""
    negative, safe = False, True
    for n in range(len(row)):
        size = abs(float(row[n]))
        negative |= row[n] < 0
        safe &= size == 0 or (size > LEAST_SQUARED and size < MOST_SQUARED)
    return negative, safe


@njit(**options)  # type: ignore[untyped-decorator]
def score_truth(
    relevance: NDArray[Any],
    truth: NDArray[np.uint8],
    near: NDArray[np.bool_],
    codes: NDArray[np.int64],
    both: int,
    keys: NDArray[Any],
    found: Floats,
    state: NDArray[np.int8],
) -> None:
    """Fill found (P, B, 9) and state (P, B) of relevance (B, C, N) against truth (B, N), `near` with a tolerance.

    Nothing is done twice: with one channel there are the values' sizes, their positive parts, and the squares of
    both, which have the same order. `keys` (3, N + 1) says by its type how wide they must be. TWO_CLASSES is of the
    pooling `both` alone, which must not be squared.
    """
    cases, channels, positions = relevance.shape
    pooled, kept, heights = np.empty(positions), np.empty(positions), np.empty(positions)
    narrow, at, is_narrow = np.empty(positions, np.float32), np.empty((2, positions), np.int32), keys.itemsize == 4
    inside, close, minus = np.empty(positions, np.bool_), np.empty(positions, np.bool_), np.empty(positions, np.bool_)
    made, zeros, above = np.empty((2, 2), np.int64), np.empty(2, np.int64), np.empty(2, np.int64)
    ready, steps = np.empty(2, np.bool_), np.empty((2, positions + 1), np.int32)
    cut = False
    for code in codes:
        cut |= code in (1, 6, 7, 8)
    for b in range(cases):
        count, size = 0, 0
        for n in range(positions):
            inside[n], close[n], minus[n] = truth[b, n] == INSIDE, near[b, n], relevance[b, 0, n] < 0
            size += inside[n]
            count += truth[b, n] != VOID
        if count < positions:
            here = 0
            for n in range(positions):
                inside[here], close[here], minus[here] = truth[b, n] == INSIDE, near[b, n], relevance[b, 0, n] < 0
                here += truth[b, n] != VOID
        negative, safe = signs_and_squares(relevance[b, 0])
        safe &= channels == 1
        made[:], ready[:] = -1, False
        for p in range(len(codes)):
            if size == 0 or size == count:
                state[p, b] = NO_TRUTH
                continue
            kind, square = int(negative and codes[p] in (1, 6, 7, 8, 9)), int(codes[p] in (5, 9))
            like = made[kind, square] if safe and codes[p] != both else -1
            if like >= 0:
                found[p, b, :TWO_CLASSES], state[p, b] = found[like, b, :TWO_CLASSES], state[like, b]
                continue
            pool_into(relevance[b], codes[p], pooled)
            values, here = pooled, 0
            if count < positions:
                for n in range(positions):
                    if truth[b, n] != VOID:
                        kept[here] = pooled[n]
                        here += 1
                values = kept[:count]
            scores, marks = found[p, b], inside[:count]
            finite = is_finite(pooled)
            most = largest(values) if finite else 0.0
            if not finite:
                state[p, b] = NOT_FINITE
            elif most == 0:
                state[p, b] = ALL_ZERO
            else:
                state[p, b] = DEFINED
                scores[MASS] = share_inside(values, marks)
                threshold = min(add_up(values) / count, most)  # by rounding it may be more, where all are alike
                root = made[kind, 0]
                squared = bool(square) and (root >= 0 or is_narrow)
                if root >= 0:
                    for k in BY_ORDER:
                        scores[k] = found[root, b, k]
                else:
                    if squared:
                        for n in range(count):  # what was squared, which float32 holds
                            values[n] = math.sqrt(values[n])
                        most = math.sqrt(most)
                    scores[POINTING] = points_at(values, close[:count], most)
                    as_it_is = squared or not square
                    if as_it_is and kind == 0 and safe and negative and cut:
                        ready[:] = ordered_twice(values, marks, minus, keys, narrow, zeros)
                    if not (as_it_is and ready[kind]):
                        zeros[kind], ready[kind] = ordered(values, marks, keys[kind], keys[2], narrow), False
                    above[kind] = walk(keys[kind, :count], zeros[kind], size, at[kind], scores)
                if codes[p] == both:
                    scores[TWO_CLASSES] = two_classes(keys[kind, :count], zeros[kind], size, heights, narrow, steps)
                places = at[kind, : above[kind]]
                at_mean(keys[kind, :count], zeros[kind], size, places, threshold, squared, scores)
            if safe:
                made[kind, square] = p


@njit(fastmath={"reassoc", "nsz"}, **options)  # type: ignore[untyped-decorator]
def signed_sums(relevance: NDArray[Any], truth: NDArray[np.uint8], sums: Floats) -> None:
    """Fill sums (4, M, B): positive inside, positive outside, negative inside and outside by their sizes.

    Of relevance (B, C, N), its channels added up, and truth (M, B, N). A value that is not finite makes all of them so.
    """
    cases, channels, positions = relevance.shape
    values = np.empty(positions)
    for b in range(cases):
        for n in range(positions):
            values[n] = relevance[b, 0, n]
        for c in range(1, channels):
            for n in range(positions):
                values[n] += float(relevance[b, c, n])
        for m in range(len(truth)):
            where = truth[m, b]
            positive, positive_outside, negative, negative_outside, broken = 0.0, 0.0, 0.0, 0.0, 0.0
            for n in range(positions):  # without branches, so that the processor does several at a time
                inside = values[n] if where[n] == INSIDE else 0.0
                outside = values[n] if where[n] == OUTSIDE else 0.0
                positive += max(inside, 0.0)
                negative += max(-inside, 0.0)
                positive_outside += max(outside, 0.0)
                negative_outside += max(-outside, 0.0)
                broken += (inside - inside) + (outside - outside)  # zero, or NaN if one is not finite
            sums[0, m, b], sums[1, m, b] = positive + broken, positive_outside + broken
            sums[2, m, b], sums[3, m, b] = negative + broken, negative_outside + broken

"""Means with 95 % intervals, by a bootstrap that is one matrix product.

A resample of n cases spreads less than n cases can tell: intervals are stretched by what Student's t adds to the normal
distribution, and reach further to the side of a long tail. That leaves large samples as they are, and keeps 95 % of
small ones honest; `python -m benchmarks simulation` counts how often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 2000
LEVEL = 0.95
DRAWN_AT_ONCE = 1 * 10**6
KEPT = 4 * 10**6
"""So many draws at most are kept for the next time."""


def case_weights(cases: int, seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """How often each case is drawn (resamples, cases) when `cases` are drawn with replacement."""
    return np.concatenate(list(weight_blocks(cases, seed, resamples)))


def weight_blocks(cases: int, seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """The rows of `case_weights`, a few at a time, so that memory does not grow with the cases."""
    few = cases * resamples <= KEPT and cases < 2**16
    for counts in drawn_before(cases, seed, resamples) if few else draw(cases, seed, resamples):
        yield counts.astype(np.float64)


@lru_cache(maxsize=2)
def drawn_before(cases: int, seed: int, resamples: int) -> tuple[NDArray[np.uint16], ...]:
    """What `draw` gives: a run's tables ask for the same draws dozens of times."""
    return tuple(counts.astype(np.uint16) for counts in draw(cases, seed, resamples))


def draw(cases: int, seed: int, resamples: int) -> Iterator[NDArray[np.int64]]:
    """How often each case is drawn, by blocks of resamples."""
    rng = np.random.default_rng([seed, cases])
    step = max(1, DRAWN_AT_ONCE // max(1, cases))
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        drawn = rng.integers(0, cases, size=(rows, cases))
        counts = np.bincount((drawn + np.arange(rows)[:, None] * cases).ravel(), minlength=rows * cases)
        yield counts.reshape(rows, cases)


def bootstrap_means(
    values: NDArray[np.float64], seed: int, resamples: int = RESAMPLES, clusters: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Means (resamples, columns) of values (cases, columns) over resampled cases; undefined values (NaN) do not count.

    All columns see the same resamples, so that differences between them can be judged too. Cases of one cluster (a
    number per case) are drawn together.
    """
    defined = ~np.isnan(values)
    filled = cluster_sums(np.where(defined, values, 0.0), clusters)
    # Most columns miss the same cases, or none: what is counted once serves all of these.
    _, first, alike = np.unique(np.packbits(defined, axis=0), axis=1, return_index=True, return_inverse=True)
    counted = cluster_sums(defined[:, first].astype(np.float64), clusters)
    with np.errstate(invalid="ignore"):
        return np.concatenate(
            [
                (weights @ filled) / (weights @ counted)[:, alike.ravel()]
                for weights in weight_blocks(len(filled), seed, resamples)
            ]
        )


def cluster_sums(values: NDArray[np.float64], clusters: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Values (cases, columns) summed up over the cases of each cluster; each case is one where none are given."""
    if clusters is None:
        return values
    order = np.argsort(clusters, kind="stable")
    first = np.flatnonzero(np.diff(clusters[order], prepend=clusters[order[:1]] - 1))
    found: NDArray[np.float64] = np.add.reduceat(values[order], first, axis=0) if len(values) else values
    return found


def interval(means: NDArray[np.float64], level: float = LEVEL) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Percentile interval (low, high) of bootstrap means (resamples, columns)."""
    tail = (1 - level) / 2
    low, high = quantiles(np.sort(means, axis=0), (tail, 1 - tail))
    return low, high


def stretch(counts: NDArray[Any]) -> NDArray[np.float64]:
    """How much wider than a resample's spread the 95 % interval of so many independent values is; at least 2 of them.

    Student's t over the normal quantile, and n - 1 for n in the variance: 1.002 for 1,000 values, 1.16 for 10.
    """
    from scipy.special import ndtri, stdtrit  # scipy.stats takes longer to load than a run's tables take

    n = np.maximum(np.asarray(counts, dtype=np.float64), 2.0)
    top = (1 + LEVEL) / 2
    found: NDArray[np.float64] = np.sqrt(n / (n - 1)) * stdtrit(n - 1, top) / ndtri(top)
    return found


def reach(
    values: NDArray[np.float64], mean: NDArray[np.float64], clusters: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """How much further than a resample's spread the 95 % interval of each mean reaches to the side of the tail.

    (z² + 2) / 6 · Σe³ / (n Σe²), with z = 1.96 and e what each of the n values is off the mean: what percentile
    intervals lack to be right to the second order (Hall 1988). Above 0 where the tail is on the side of high values. A
    share of two values has no tail: it is as likely to be high as the other one is to be low.
    """
    from scipy.special import ndtri

    defined = ~np.isnan(values)
    off = cluster_sums(np.where(defined, values - mean, 0.0), clusters)
    squares = off * off
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (ndtri((1 + LEVEL) / 2) ** 2 + 2) / 6 * (squares * off).sum(0) / (defined.sum(0) * squares.sum(0))
        ends = (values == np.fmin.reduce(values, axis=0)) | (values == np.fmax.reduce(values, axis=0)) | ~defined
    return np.where(np.isfinite(found) & ~ends.all(0), found, 0.0)


@dataclass(frozen=True)
class Sample:
    """What an interval rests on, by column.

    counts       independent values, or clusters of them
    same         whether all values are the same end of the range
    least, most  the lowest and highest values that there are
    reach        how much further the interval reaches to the side of a tail; see `reach`
    """

    mean: NDArray[np.float64]
    counts: NDArray[Any]
    same: NDArray[np.bool_]
    least: float = -math.inf
    most: float = math.inf
    reach: NDArray[np.float64] | float = 0.0

    @classmethod
    def of(
        cls,
        values: NDArray[np.float64],
        mean: NDArray[np.float64],
        clusters: NDArray[np.int64] | None = None,
        ends: tuple[float, float] = (-math.inf, math.inf),
        shares: NDArray[np.bool_] | None = None,
    ) -> Sample:
        """Of values (cases, columns) and their means; undefined values (NaN) do not count.

        `shares` says which columns count how often something was so: by default those whose values are all at an end.
        """
        counts = independent(~np.isnan(values), clusters)
        same = np.fmax.reduce(values, axis=0) == np.fmin.reduce(values, axis=0)
        return cls(mean, counts, same & (at_ends(values, ends) if shares is None else shares), *ends,
                   reach(values, mean, clusters))  # fmt: skip

    def around(self, means: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The 95 % interval of the mean from bootstrap means (resamples, columns); NaN where there is one value only.

        Values that are all at the same end of the range spread not at all, but those not seen may: the interval then is
        that of a share of which n of n were seen (Clopper and Pearson). A value inside of the range that all cases have
        to the last digit is no chance: it has no width.
        """
        low, high = interval(means)
        factor = np.where(self.counts > 1, stretch(self.counts), np.nan)
        low = self.mean - factor * (self.mean - low) + np.minimum(self.reach, 0.0)
        high = self.mean + factor * (high - self.mean) + np.maximum(self.reach, 0.0)
        if math.isfinite(self.least) and math.isfinite(self.most):
            unseen = 1 - ((1 - LEVEL) / 2) ** (1 / np.maximum(self.counts, 1))
            same = self.same & (self.counts > 1)
            low = np.where(same, self.mean - unseen * (self.mean - self.least), np.maximum(low, self.least))
            high = np.where(same, self.mean + unseen * (self.most - self.mean), np.minimum(high, self.most))
        return low, high


def at_ends(values: NDArray[np.float64], ends: tuple[float, float]) -> NDArray[np.bool_]:
    """Whether all values of a column (cases, columns) are at an end of the range, as where each is a yes or a no."""
    found: NDArray[np.bool_] = ((values == ends[0]) | (values == ends[1]) | np.isnan(values)).all(0)
    return found


def mean_interval(
    values: NDArray[np.float64],
    seed: int,
    clusters: NDArray[np.int64] | None = None,
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 95 % interval of the mean of each column of values (cases, columns), which lie between `ends`."""
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, values, 0.0).sum(0) / defined.sum(0)
    return Sample.of(values, mean, clusters, ends).around(bootstrap_means(values, seed, clusters=clusters))


def independent(defined: NDArray[np.bool_], clusters: NDArray[np.int64] | None) -> NDArray[Any]:
    """How many independent values each column of (cases, columns) has: those defined, or the clusters of these."""
    some = defined if clusters is None else cluster_sums(defined.astype(np.float64), clusters) > 0
    counts: NDArray[Any] = some.sum(0)
    return counts


def quantiles(ordered: NDArray[np.float64], shares: Sequence[float]) -> list[NDArray[np.float64]]:
    """Quantiles of each column of sorted values, NaN last and not counted; NaN where a column has none.

    NumPy's linear rule. Its nanquantile goes through the columns one by one, which takes longer than all else together.
    """
    counts = (~np.isnan(ordered)).sum(0)
    columns = np.arange(ordered.shape[1])
    found = []
    for share in shares:
        place = share * np.maximum(counts - 1, 0)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        low, high, part = ordered[below, columns], ordered[above, columns], place - below
        found.append(np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part)))
    return found


def quantile_interval(
    ordered: NDArray[np.float64], share: float, counts: NDArray[Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 95 % interval of a quantile of each column of sorted values (NaN last): two of the values themselves.

    How many of n values lie below the true quantile is binomial, whatever their distribution. NaN where n values are
    too few to bound it. Where values hang together they tell as much as fewer that do not: `counts` says how many
    (Woodruff 1952), and the places among these are those among all, rounded outwards.
    """
    there = (~np.isnan(ordered)).sum(0)
    counts = there if counts is None else np.clip(np.floor(counts), 0, there).astype(np.int64)
    columns, none = np.arange(ordered.shape[1]), np.full(ordered.shape[1], np.nan)
    if not len(ordered):
        return none, none
    places = {n: binomial_places(n, share) for n in set(counts.tolist())}
    low, high = (np.array([places[n][end] for n in counts.tolist()], dtype=np.int64) for end in (0, 1))
    ratio = there / np.maximum(counts, 1)
    low, high = np.floor((low + 1) * ratio).astype(np.int64) - 1, np.ceil(high * ratio).astype(np.int64)
    lows = np.where(low >= 0, ordered[np.maximum(low, 0), columns], np.nan)
    highs = np.where(high < there, ordered[np.minimum(high, len(ordered) - 1), columns], np.nan)
    return lows, highs


@lru_cache(maxsize=4096)
def binomial_places(n: int, share: float) -> tuple[int, int]:
    """The places of two of n sorted values between which the quantile lies in 95 %; -1 and n where there are none."""
    from scipy.special import bdtr

    tail = (1 - LEVEL) / 2
    below = bdtr(np.arange(n + 1), n, share)  # chance of at most k values below
    return int((below <= tail).sum()) - 1, int((below < 1 - tail).sum())


def told_by(
    values: NDArray[np.float64], quantile: NDArray[np.float64], clusters: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """How many independent values tell as much of the share below a quantile as these (cases, columns) do."""
    defined = ~np.isnan(values)
    counts: NDArray[np.float64] = defined.sum(0).astype(np.float64)
    if clusters is None:
        return counts
    with np.errstate(invalid="ignore", divide="ignore"):
        below = np.where(defined, values <= quantile, False)
        share = below.sum(0) / counts
        off = cluster_sums(np.where(defined, below - share, 0.0), clusters)
        groups = independent(defined, clusters)
        inflation = (off**2).sum(0) / (counts * share * (1 - share)) * stretch(groups) ** 2
    return np.where(np.isfinite(inflation), counts / np.maximum(inflation, 1.0), groups)


def over_models(means: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Means (resamples, columns) over resampled models too, from case-bootstrap means (resamples, models, columns).

    Models are drawn as cases are, and what they spread by is stretched as of so few values; models that have no value
    in a column do not count in it.
    """
    resamples, models, _ = means.shape
    drawn = case_weights(models, seed + 1, resamples)[:, :, None]
    defined = ~np.isnan(means)
    filled = np.where(defined, means, 0.0)
    with np.errstate(invalid="ignore"):
        middle = filled.sum(1) / defined.sum(1)
        combined = (drawn * filled).sum(1) / (drawn * defined).sum(1)
    factor = stretch(np.maximum(defined.any(0).sum(0), 2))
    found: NDArray[np.float64] = middle + factor * (combined - middle)
    return np.where(np.isnan(found), middle, found)

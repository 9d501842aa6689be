"""Explainers against each other on the same cases: differences, tests over all pairs, groups, and intervals of ranks.

Cases that hang together (questions about one picture) are drawn, and have their signs turned, together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from heatproof.lazy import np
from heatproof.results.statistics import LEVEL, Sample, at_ends, bootstrap_means, cluster_sums, over_models

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

FLIPS = 9999
"""Sign patterns that a test tries beside the observed one; all of them where there are fewer."""
ROUNDING = 1e-9
"""Of the spread of turned sums: how far below the observed one a sum may be and count as equal to it."""
ALPHA = 1 - LEVEL
POWER = 0.8


@dataclass(frozen=True, eq=False)
class Contest:
    """Scores (cases, entrants) without gaps among entrants, and what can be told from them.

    clusters          a number per case; cases of the same number are not independent
    higher_is_better  which of two scores is the better one
    models            the same scores by model (models, cases, entrants), where there are several
    ends              the lowest and highest scores that there are
    """

    values: Values
    higher_is_better: bool
    seed: int
    clusters: NDArray[np.int64] | None = None
    models: Values | None = None
    ends: tuple[float, float] = (-math.inf, math.inf)

    @property
    def count(self) -> int:
        return int(self.values.shape[1])

    @property
    def cases(self) -> int:
        return len(self.values)

    @cached_property
    def sums(self) -> Values:
        """The scores summed up over each cluster (clusters, entrants)."""
        return cluster_sums(self.values, self.clusters)

    @cached_property
    def means(self) -> Values:
        means: Values = self.values.mean(0)
        return means

    @cached_property
    def order(self) -> list[int]:
        """The entrants, best first; equals in the order in which they came."""
        sign = -1.0 if self.higher_is_better else 1.0
        return [int(place) for place in np.argsort(sign * self.means, kind="stable")]

    @cached_property
    def resampled(self) -> Values:
        """Means (resamples, entrants) over resampled clusters, and over resampled models where there are several."""
        if self.models is None:
            return bootstrap_means(self.values, self.seed, clusters=self.clusters)
        side_by_side = np.hstack(list(self.models))
        means = bootstrap_means(side_by_side, self.seed, clusters=self.clusters)
        return over_models(means.reshape(len(means), len(self.models), self.count), self.seed)

    @cached_property
    def differences(self) -> Values:
        """(entrants, entrants): the mean of the first minus that of the second."""
        return self.means[:, None] - self.means[None, :]

    @cached_property
    def difference_intervals(self) -> tuple[Values, Values]:
        """Low and high ends of the 95 % intervals of the differences; NaN where there is one cluster only."""
        lows, highs = [], []
        span, shares = self.ends[1] - self.ends[0], at_ends(self.values, self.ends)
        for place in range(self.count):
            apart = self.values[:, [place]] - self.values
            both = shares[place] & shares  # two that hit alike on all cases seen may yet differ on the next one
            sample = Sample.of(apart, self.differences[place], self.clusters, (-span, span), both)
            low, high = sample.around(self.resampled[:, [place]] - self.resampled)
            low[place] = high[place] = 0.0
            lows.append(low)
            highs.append(high)
        return np.stack(lows), np.stack(highs)

    @cached_property
    def effects(self) -> Values:
        """(entrants, entrants): how often the first is better than the second on the same case, ties halved."""
        sign = 1.0 if self.higher_is_better else -1.0
        found = np.full((self.count, self.count), 0.5)
        for place in range(self.count):
            apart = sign * (self.values[:, [place]] - self.values)
            found[place] = ((apart > 0) + 0.5 * (apart == 0)).mean(0)
        return found

    @cached_property
    def p_values(self) -> Values:
        """(entrants, entrants): two-sided p of no difference, if the sign of each cluster's difference is chance."""
        turned = np.ascontiguousarray(flipped_sums(self.sums, self.seed).T)
        totals = self.sums.sum(0)
        found = np.ones((self.count, self.count))
        for place in range(self.count - 1):  # against all that follow: a sum and the same below zero are as far from it
            squares = ((self.sums[:, [place]] - self.sums) ** 2).sum(0)
            rest = slice(place + 1, None)
            p = chances(totals[place] - totals[rest], turned[place] - turned[rest], squares[rest])
            found[place, rest] = found[rest, place] = p
        return found

    @cached_property
    def adjusted(self) -> Values:
        """The p-values after Holm's correction over all pairs."""
        rows, columns = np.triu_indices(self.count, 1)
        found = np.ones((self.count, self.count))
        found[rows, columns] = found[columns, rows] = holm(self.p_values[rows, columns])
        return found

    @cached_property
    def differ(self) -> NDArray[np.bool_]:
        """Which pairs can be told apart at 5 % over all of them.

        The tests turn cases. Where there are several models, the interval of the difference, for which models are drawn
        too, must leave out zero as well: an order that hangs on the models that were drawn is none.
        """
        found = self.adjusted < ALPHA
        if self.models is not None:
            low, high = self.difference_intervals
            found &= (low > 0) | (high < 0)
        return found

    def is_better(self, first: int, second: int) -> bool:
        """Whether the first is surely the better of the two."""
        ahead = self.differences[first, second] > 0
        return bool(self.differ[first, second]) and ahead == self.higher_is_better

    def only(self, entrants: Sequence[int]) -> Contest:
        """The same contest without the others."""
        chosen = list(entrants)
        models = None if self.models is None else self.models[:, :, chosen]
        return replace(self, values=self.values[:, chosen], models=models)

    def groups(self, order: Sequence[int]) -> list[list[int]]:
        """Entrants that cannot be told apart: every largest set of which no pair differs, best first.

        Two share a group if and only if they cannot be told apart (the compact letters of Piepho 2004).
        """
        found = [list(order)]
        for first, second in combinations(order, 2):
            if not self.differ[first, second]:
                continue
            parted: list[list[int]] = []
            for group in found:
                both = first in group and second in group
                parted += [[e for e in group if e != first], [e for e in group if e != second]] if both else [group]
            found = [group for group in parted if not any(set(group) < set(other) for other in parted)]
            found = [list(group) for group in dict.fromkeys(map(tuple, found))]
        return sorted(found, key=lambda group: [order.index(entrant) for entrant in group])

    def level_with(self, first: int, order: Sequence[int]) -> list[int]:
        """The entrants of this order that cannot be told apart from one of them, itself among them."""
        return [other for other in order if not self.differ[first, other]]

    @cached_property
    def ranks(self) -> tuple[Values, Values, Values]:
        """The rank of each entrant (1 is best, ties shared), and the ends of its 95 % interval over resamples."""
        sign = 1.0 if self.higher_is_better else -1.0
        drawn = np.sort(ranks_of(sign * self.resampled), axis=0)
        left_out = int(ALPHA / 2 * (len(drawn) - 1))  # at either end; between two ranks there is none
        return ranks_of(sign * self.means[None])[0], drawn[left_out], drawn[-1 - left_out]

    @cached_property
    def mean_ranks(self) -> Values:
        """The mean over cases of the rank that each entrant has on the case."""
        sign = 1.0 if self.higher_is_better else -1.0
        means: Values = ranks_of(sign * self.values).mean(0)
        return means

    def cases_to_tell(self, first: int, second: int) -> int | None:
        """How many cases like these it would take to tell two apart four times of five; None if they are equal.

        At the level that Holm's correction begins with, as for one of all pairs: by Student's t of differences that
        spread as those seen.
        """
        from scipy.special import ndtri

        apart = self.values[:, first] - self.values[:, second]
        mean, clusters = float(apart.mean()), len(self.sums)
        if mean == 0 or clusters < 2:
            return None
        off = cluster_sums((apart - mean)[:, None], self.clusters)
        error = math.sqrt(float((off**2).sum()) * clusters / (clusters - 1)) / self.cases
        pairs = self.count * (self.count - 1) / 2
        needed = float(ndtri(1 - ALPHA / pairs / 2) + ndtri(POWER))
        return max(2, math.ceil(self.cases * (needed * error / mean) ** 2))


def has_all_signs(clusters: int) -> bool:
    """Whether there are so few sign patterns that all are tried."""
    return clusters < math.log2(FLIPS)


def sign_test(differences: Values, seed: int, clusters: NDArray[np.int64] | None = None) -> Values:
    """Two-sided p of no difference for each column (cases, columns); undefined differences (NaN) say nothing."""
    sums = cluster_sums(np.nan_to_num(differences), clusters)
    return chances(sums.sum(0), flipped_sums(sums, seed).T, (sums**2).sum(0))


def chances(observed: Values, turned: Values, squares: Values) -> Values:
    """How often signs by chance (Fisher's randomisation test) give a sum as far from zero as the one observed.

    observed (columns,), the sums under all sign patterns or random ones (columns, flips), and the sums of squares
    (columns,). Where none of the random signs reaches what was observed, Hoeffding's bound of the same distribution,
    2 exp(-t² / 2Σd²), says how far beyond it lies.
    """
    # Equal sums are the rule where scores are 0 or 1, and one that rounding makes smaller is equal still.
    limits, flips = np.abs(observed) - ROUNDING * np.sqrt(squares), turned.shape[1]
    reached = np.array([np.count_nonzero(np.abs(sums) >= limit) for sums, limit in zip(turned, limits, strict=True)])
    if flips < FLIPS:
        every: Values = reached / flips
        return every
    sampled = (1 + reached) / (1 + flips)
    with np.errstate(invalid="ignore", divide="ignore"):
        bound = 2 * np.exp(-(observed**2) / (2 * squares))
    found: Values = np.where(squares > 0, np.minimum(sampled, np.where(reached == 0, bound, 1.0)), 1.0)
    return found


def flipped_sums(sums: Values, seed: int, flips: int = FLIPS) -> Values:
    """Sums over clusters (flips, entrants), each cluster with a random sign; all patterns where these are fewer."""
    if has_all_signs(len(sums)):
        patterns = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
        every: Values = (2.0 * patterns - 1.0) @ sums
        return every
    rng = np.random.default_rng([seed, len(sums), 1])
    step = max(1, 2 * 10**6 // max(1, len(sums)))
    found = []
    for first in range(0, flips, step):
        rows = min(step, flips - first)
        bits = np.frombuffer(rng.bytes(rows * ((len(sums) + 7) // 8)), dtype=np.uint8).reshape(rows, -1)
        found.append((2.0 * np.unpackbits(bits, axis=1, count=len(sums)) - 1.0) @ sums)
    return np.concatenate(found)


def holm(p_values: Values) -> Values:
    """Holm's step-down correction: the k-th smallest of m times m - k + 1, never falling, at most 1."""
    if not len(p_values):
        return p_values
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    found = np.empty_like(p_values)
    found[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return found


def ranks_of(values: Values) -> Values:
    """Ranks (rows, columns) within each row, 1 for the largest; ties share the mean of theirs."""
    twice = np.ones(values.shape, dtype=np.int32)
    for column in values.T[:, :, None]:
        twice += column > values
        twice += column >= values
    found: Values = twice / 2
    return found

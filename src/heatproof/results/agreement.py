"""Does the order hold? Ranks of the same explainers under every reading of a run, and how well these agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from heatproof.lazy import np
from heatproof.results.contest import ranks_of
from heatproof.results.statistics import interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.results.leaderboard import Block

    Values = NDArray[np.float64]

DRAWS = 200
"""Resamples that intervals of correlations rest on."""
FEWEST = 3
"""Explainers below which an order says nothing."""
AXES = ("metric", "ground_truth", "pooling", "subset", "target", "model")

Reading = tuple[str, ...]
"""A value for each of AXES."""


@dataclass(frozen=True)
class Agreement:
    """How well the order agrees between readings that differ along one axis.

    `matrix` has Spearman's rank correlation of each two readings; `mean`, `low` and `high` are the mean over all pairs
    and its 95 % interval over resampled cases; the two readings that agree least are `apart`, with `least`.
    """

    axis: str
    readings: Sequence[str]
    explainers: int
    matrix: Sequence[Sequence[float | None]]
    mean: float
    low: float
    high: float
    least: float
    apart: tuple[str, str]


@dataclass(frozen=True)
class Standing:
    """The ranks of an explainer over all readings: their mean and spread, the best and the worst."""

    explainer: str
    target: str
    mean: float
    spread: float
    best: float
    worst: float
    readings: int


@dataclass
class Orders:
    """Collects the means of methods, and some of their resamples, under every reading."""

    better_high: Mapping[str, bool]
    """By metric: whether higher is better."""
    methods: frozenset[str]
    """Explainers that are neither floors nor ceilings."""
    means: dict[Reading, dict[str, float]] = field(default_factory=dict)
    drawn: dict[Reading, dict[str, NDArray[np.float32]]] = field(default_factory=dict)

    def add(self, block: Block, whole: Values) -> None:
        """Note a block: its means that count unusable maps as uniform ones, and their resamples (resamples, keys)."""
        named = block.named
        sign = 1.0 if self.better_high[named["metric"]] else -1.0
        kept = [place for place, (*_, explainer) in enumerate(block.keys) if explainer in self.methods]
        with np.errstate(invalid="ignore"):
            totals, counts = np.nansum(block.whole, 0), (~np.isnan(block.whole)).sum(0)
        for place in kept:
            model, target, explainer = block.keys[place]
            if counts[place]:
                reading = (named["metric"], named["ground_truth"], named["pooling"], named["subset"], target, model)
                self.means.setdefault(reading, {})[explainer] = sign * float(totals[place] / counts[place])
                draws = (sign * whole[:DRAWS, place]).astype(np.float32)
                self.drawn.setdefault(reading, {})[explainer] = draws

    def agreements(self, shown: Sequence[Reading]) -> list[Agreement]:
        """Along each axis, among readings that are as the first shown one otherwise.

        Metrics are compared as they are shown: each under the ground truth and pooling of its own column.
        """
        if not shown:
            return []
        found = []
        for place, axis in enumerate(AXES):
            if axis == "metric":
                readings = [reading for reading in shown if reading[4:] == shown[0][4:]]
                names = [metric_name(reading, readings) for reading in readings]
            else:
                readings = [reading for reading in self.means if differs_only(reading, shown[0], place)]
                names = [reading[place] for reading in readings]
            if (agreement := self.agreement(axis, readings, names)) is not None:
                found.append(agreement)
        return found

    def agreement(self, axis: str, readings: Sequence[Reading], names: Sequence[str]) -> Agreement | None:
        """Between these readings, over the explainers that all of them have; None where there are too few of either."""
        readings = [reading for reading in readings if reading in self.means]
        common = (
            [name for name in self.means[readings[0]] if all(name in self.means[r] for r in readings)]
            if readings
            else []
        )
        if len(readings) < 2 or len(common) < FEWEST:
            return None
        means = np.array([[self.means[reading][name] for name in common] for reading in readings])
        matrix = rank_correlations(means[None])[0]
        draws = np.stack([np.stack([self.drawn[reading][name] for name in common], 1) for reading in readings], 1)
        pairs = list(combinations(range(len(readings)), 2))
        first, second = (np.array(side) for side in zip(*pairs, strict=True))
        between = matrix[first, second]
        if np.isnan(between).all():
            return None
        drawn = rank_correlations(draws.astype(np.float64))[:, first, second]
        with np.errstate(invalid="ignore"):  # where all tie in a draw, there is nothing to take the mean of
            sampled = np.nansum(drawn, axis=1) / (~np.isnan(drawn)).sum(1)
        low, high = around(float(np.nanmean(between)), sampled)
        worst = int(np.nanargmin(between))
        return Agreement(
            axis,
            list(names),
            len(common),
            [[None if np.isnan(value) else float(value) for value in row] for row in matrix],
            float(np.nanmean(between)),
            low,
            high,
            float(between[worst]),
            (names[pairs[worst][0]], names[pairs[worst][1]]),
        )

    def standings(self) -> list[Standing]:
        """The ranks of every method over all readings that have the most methods, best mean rank first."""
        found = []
        for target in dict.fromkeys(reading[4] for reading in self.means):
            readings = [reading for reading in self.means if reading[4] == target]
            most = max(len(self.means[reading]) for reading in readings)
            full = [reading for reading in readings if len(self.means[reading]) == most]
            names = list(self.means[full[0]])
            full = [reading for reading in full if set(self.means[reading]) == set(names)]
            ranks = ranks_of(np.array([[self.means[reading][name] for name in names] for reading in full]))
            for place, name in enumerate(names):
                here = ranks[:, place]
                mean, spread, best, worst = (float(f(here)) for f in (np.mean, np.std, np.min, np.max))
                found.append(Standing(name, target, mean, spread, best, worst, len(full)))
        return sorted(found, key=lambda standing: standing.mean)


def around(correlation: float, drawn: Values) -> tuple[float, float]:
    """The 95 % interval of a mean rank correlation, from its resamples.

    Resampling adds noise to orders that have some already, so that resampled correlations lie lower: they are shifted
    until their median is what was found.
    """
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return -1.0, 1.0
    (low,), (high,) = interval(drawn[:, None])
    shift = correlation - float(np.median(drawn))
    return max(-1.0, min(float(low) + shift, correlation)), min(1.0, max(float(high) + shift, correlation))


def differs_only(reading: Reading, base: Reading, place: int) -> bool:
    """Whether a reading is the base, or differs from it in this place alone."""
    return all(value == there for at, (value, there) in enumerate(zip(reading, base, strict=True)) if at != place)


def metric_name(reading: Reading, among: Sequence[Reading]) -> str:
    """A metric, with what tells it apart from another column of the same metric."""
    alike = [other for other in among if other[0] == reading[0]]
    told = [reading[at] for at in (1, 2) if len({other[at] for other in alike}) > 1]
    return ", ".join([reading[0], *told])


def rank_correlations(means: Values) -> Values:
    """Spearman's correlation (draws, readings, readings) of means (draws, readings, explainers); NaN where all tie."""
    ranks = ranks_of(means.reshape(-1, means.shape[2])).reshape(means.shape)
    centred = ranks - ranks.mean(2, keepdims=True)
    length = np.sqrt((centred**2).sum(2))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Values = np.einsum("dik,djk->dij", centred, centred) / (length[:, :, None] * length[:, None, :])
    return found


def between_runs(orders: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, str, int, float]]:
    """Each two runs, given the rank of every explainer in them: what they are, how many both have, and Spearman's."""
    for (one, first), (other, second) in combinations(orders.items(), 2):
        common = [name for name in first if name in second]
        if len(common) >= FEWEST:
            pair = np.array([[[-first[name] for name in common], [-second[name] for name in common]]])
            yield one, other, len(common), float(rank_correlations(pair)[0, 0, 1])

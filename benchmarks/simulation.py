"""How sure the verdict's numbers are, by simulation: worlds whose truth is known, judged many times over.

Coverage of intervals, errors of groupings, and runs that stop once they are settled. `python -m benchmarks simulation`
prints the table of docs/verdict.md; the tests run a small version of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from heatproof.results.contest import Contest, ranks_of
from heatproof.results.sequential import MARGIN, Race
from heatproof.results.skill import Scale
from heatproof.results.statistics import bootstrap_means, mean_interval, quantile_interval, told_by
from heatproof.story import MetricWords

Values: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int, int], Values]
"""So many worlds of so many cases: (cases, worlds)."""

WITHIN = (0.93, 0.97)
"""What a 95 % interval must cover."""
ERRORS = 0.05
FROM = 20
"""Cases, or clusters of these, from which on intervals must cover that; of fewer it is told."""
UNIT = (0.0, 1.0)


@dataclass(frozen=True)
class Line:
    """A line of the table: what was simulated, how often it came out right or wrong, and what it may be."""

    what: str
    share: float
    worlds: int
    least: float = 0.0
    most: float = 1.0
    note: str = ""

    @property
    def off(self) -> float:
        """Three standard errors: what the simulation itself may be off by."""
        return 3 * float(np.sqrt(max(self.share * (1 - self.share), 1e-4) / self.worlds))

    @property
    def holds(self) -> bool:
        return self.least - self.off <= self.share <= self.most + self.off

    @property
    def demand(self) -> str:
        if (self.least, self.most) == (0.0, 1.0):
            return "told only"
        if self.most == 1.0:
            return f"at least {100 * self.least:.0f} %"
        return (
            f"{100 * self.least:.0f} to {100 * self.most:.0f} %" if self.least else f"at most {100 * self.most:.0f} %"
        )

    def __str__(self) -> str:
        return f"| {self.what} | {100 * self.share:.1f} % | {self.demand} | {self.worlds:,} | {self.note} |"


def covering(what: str, hits: NDArray[np.bool_], cases: int, demanded: bool = True, note: str = "") -> Line:
    """The share of intervals that hold the truth."""
    least, most = WITHIN if demanded and cases >= FROM else (0.0, 1.0)
    return Line(what, float(hits.mean()), hits.size, least, most, note)


# Intervals of means

SCORES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n, worlds: rng.normal(0.5, 0.1, (n, worlds)), 0.5),
    "Beta(2, 5)": (lambda rng, n, worlds: rng.beta(2, 5, (n, worlds)), 2 / 7),
    "Beta(0.5, 3)": (lambda rng, n, worlds: rng.beta(0.5, 3, (n, worlds)), 1 / 7),
    "Beta(5, 0.5)": (lambda rng, n, worlds: rng.beta(5, 0.5, (n, worlds)), 10 / 11),
}
COUNTS = (5, 10, 20, 50, 200, 1000)


def means(rng: np.random.Generator, worlds: int, counts: Sequence[int] = COUNTS) -> Iterator[Line]:
    for n in counts:
        some = max(200, min(worlds, 400_000 // n))
        for name, (draw, truth) in SCORES.items():
            ends = (-np.inf, np.inf) if name == "normal" else UNIT
            low, high = mean_interval(draw(rng, n, some), int(rng.integers(2**31)), ends=ends)
            yield covering(f"mean of {n} scores, {name}", (low <= truth) & (truth <= high), n)
        share = rng.uniform(0.05, 0.95, some)
        low, high = mean_interval((rng.random((n, some)) < share).astype(float), int(rng.integers(2**31)), ends=UNIT)
        yield covering(f"mean of {n} scores of 0 or 1", (low <= share) & (share <= high), n, note="shares 5 to 95 %")
        yield from clustered(rng, n, max(200, some // 4))


def clustered(rng: np.random.Generator, clusters: int, worlds: int) -> Iterator[Line]:
    """Mean and median, with one to seven cases to a cluster, which share half of their variance."""
    sizes = rng.integers(1, 8, clusters)
    of = np.repeat(np.arange(clusters), sizes)
    common = rng.normal(0, 0.1, (clusters, worlds))
    values = 0.5 + common[of] + rng.normal(0, 0.1, (len(of), worlds))
    low, high = mean_interval(values, int(rng.integers(2**31)), of)
    yield covering(f"mean of {clusters} clusters of 1 to 7", (low <= 0.5) & (high >= 0.5), clusters)
    ordered = np.sort(values, axis=0)
    low, high = quantile_interval(ordered, 0.5, told_by(values, np.median(values, axis=0), of))
    held = ~(low > 0.5) & ~(high < 0.5)  # an end that cannot be told is no end
    least = WITHIN[0] if clusters >= FROM else 0.0
    yield Line(f"median of {clusters} clusters of 1 to 7", float(held.mean()), worlds, least, note="whole places only")


# Groups of methods that cannot be told apart

GROUPS: dict[str, tuple[Sequence[float], str]] = {
    "eight equal methods": ((0.0,) * 8, "normal"),
    "four equal, four others": ((0.0,) * 4 + (0.05, 0.1, 0.15, 0.2), "normal"),
    "eight equal methods, Beta(0.5, 3)": ((0.0,) * 8, "Beta(0.5, 3)"),
    "eight equal methods, 0 or 1": ((0.0,) * 8, "0 or 1"),
    "equal means, other shapes": ((0.0,) * 8, "shapes"),
}


def world(rng: np.random.Generator, n: int, shifts: Sequence[float], kind: str) -> Values:
    """Scores (cases, methods) that hang together by how hard a case is."""
    k = len(shifts)
    hard = rng.normal(0, 0.1, (n, 1))
    if kind == "normal":
        return 0.5 + np.array(shifts) + hard + rng.normal(0, 0.1, (n, k))
    if kind == "0 or 1":
        return (rng.random((n, k)) < 0.7 + hard).astype(float)
    if kind == "shapes":  # the same mean, from two values to a bell
        size = np.geomspace(0.3, 30, k)
        return rng.beta(0.3 * size, 0.7 * size, (n, k))
    return rng.beta(0.5, 3, (n, k))


def groupings(rng: np.random.Generator, worlds: int, counts: Sequence[int] = (20, 100)) -> Iterator[Line]:
    """How often any two methods of the same true mean are told apart, in a table of eight."""
    for n in counts:
        for name, (shifts, kind) in GROUPS.items():
            wrong, found = 0, 0.0
            equal = np.subtract.outer(shifts, shifts) == 0
            for _ in range(worlds):
                held = Contest(world(rng, n, shifts, kind), True, int(rng.integers(2**31)))
                wrong += bool((held.differ & equal).any())
                found += float(held.differ[~equal].mean()) if (~equal).any() else 0.0
            note = f"{100 * found / worlds:.0f} % of the others told apart" if (~equal).any() else ""
            yield Line(f"any error in the groups, {n} cases, {name}", wrong / worlds, worlds, 0.0, ERRORS, note)


# Ranks and skill

ORDERS = {"equal": np.zeros(6), "pairs": np.repeat(np.arange(3), 2) * 0.05, "steps": np.arange(6) * 0.03}


def ranks(rng: np.random.Generator, worlds: int, counts: Sequence[int] = (20, 200)) -> Iterator[Line]:
    """Of methods of equal means, the rank that they share."""
    for n in counts:
        for name, shifts in ORDERS.items():
            hits = []
            truth = ranks_of(shifts[None])[0]
            for _ in range(worlds):
                held = Contest(world(rng, n, list(shifts), "normal"), True, int(rng.integers(2**31)))
                _, low, high = held.ranks
                hits.append((low <= truth) & (truth <= high))
            # An order that is plain has a rank of which nothing is doubtful: there the interval always holds it.
            least, most = (WITHIN[0], 1.0) if n >= FROM else (0.0, 1.0)
            yield Line(f"rank of 6 methods, {name}, {n} cases", float(np.mean(hits)), 6 * worlds, least, most)


def skills(rng: np.random.Generator, worlds: int, counts: Sequence[int] = (10, 20, 100, 500)) -> Iterator[Line]:
    """Of a method between two floors and the ceiling, all on the same cases."""
    families = {"low": "floor", "high": "floor", "oracle": "ceiling"}
    keys = [("net", "logit", name) for name in ("method", "low", "high", "oracle")]
    scale = Scale(MetricWords("m", "M", ""), families)
    for n in counts:
        hits = []
        for _ in range(worlds):
            hard = rng.beta(2, 5, (n, 1))
            values = np.hstack(
                [0.3 + 0.5 * hard, 0.05 + 0.3 * hard, 0.1 + 0.3 * hard, np.full((n, 1), 0.95)]
            ) + rng.uniform(-0.05, 0.05, (n, 4))
            truth = (0.3 + 0.5 * 2 / 7 - 0.1 - 0.3 * 2 / 7) / (0.95 - 0.1 - 0.3 * 2 / 7)
            drawn = bootstrap_means(values, int(rng.integers(2**31)))
            _, low, high = scale.skills(keys, values.mean(0), drawn, np.full(4, n))
            hits.append(low[0] <= truth <= high[0])
        yield covering(f"skill, {n} cases", np.array(hits), n)


# Runs that stop once they are settled


@dataclass(frozen=True)
class Data:
    """A data set of so many blocks of cases, and its scores by method."""

    name: str
    blocks: int
    size: int
    means: Sequence[float]
    """Of the methods, in the world that the data set is drawn from."""
    draw: Callable[[np.random.Generator, int], Values]
    """Scores (cases, methods)."""


FIVE, ONE, EQUAL = np.arange(5) * 0.05, np.arange(5) * 0.01, (0.0,) * 5
RARE = np.array([0.0, 0.02, 0.04])
DATA = (
    Data("steps of 5 points", 300, 32, FIVE, lambda rng, n: world(rng, n, FIVE, "normal")),
    Data("steps of 1 point", 300, 32, ONE, lambda rng, n: world(rng, n, ONE, "normal")),
    Data("five equal methods", 300, 32, EQUAL, lambda rng, n: world(rng, n, EQUAL, "normal")),
    Data("0 or 1, equal", 300, 8, EQUAL, lambda rng, n: world(rng, n, EQUAL, "0 or 1")),
    Data("equal means, other shapes", 300, 8, EQUAL, lambda rng, n: world(rng, n, EQUAL, "shapes")),
    Data("rare failures, single cases", 600, 1, -RARE, lambda rng, n: 1.0 - (rng.random((n, 3)) < RARE)),
    Data("whole blocks alike", 300, 32, FIVE, lambda rng, n: alike(rng, n, 32, FIVE)),
)


def alike(rng: np.random.Generator, n: int, size: int, shifts: Values) -> Values:
    """Scores in which the cases of a block hang together."""
    of_block = rng.normal(0, 0.1, (-(-n // size), len(shifts)))
    return 0.5 + shifts + np.repeat(of_block, size, axis=0)[:n] + rng.normal(0, 0.1, (n, len(shifts)))


def settled(rng: np.random.Generator, worlds: int, data: Sequence[Data] = DATA) -> Iterator[Line]:
    """How often anything that was settled is not so in the whole data set, and what was saved."""
    for made in data:
        wrong, saved, later = 0, 0.0, 0
        for _ in range(worlds):
            error, share, grouped = stop_early(rng, made)
            wrong, saved, later = wrong + error, saved + share, later + grouped
        note = f"{100 * saved / worlds:.0f} % of the cases saved; groups err in {100 * later / worlds:.1f} %"
        yield Line(f"any wrong order, {made.name}", wrong / worlds, worlds, 0.0, ERRORS, note)


def stop_early(rng: np.random.Generator, data: Data) -> tuple[bool, float, bool]:
    """Whether the order was settled wrongly, the share of cases saved, and whether the verdict's groups then err."""
    values = data.draw(rng, data.blocks * data.size)
    pairs = list(combinations(range(values.shape[1]), 2))
    first, second = np.array(pairs).T
    apart = values[:, first] - values[:, second]
    sums, truth = apart.reshape(data.blocks, data.size, -1).sum(1), apart.mean(0)
    race = Race(pairs, data.blocks, data.size)
    order = rng.permutation(data.blocks)
    for block in order:
        if race.is_settled:
            break
        race.add(sums[block], np.full(len(pairs), data.size))
    wrong = (race.above & (truth < 0)) | (race.below & (truth > 0)) | (race.close & (np.abs(truth) >= MARGIN))
    seen = np.isin(np.arange(len(values)) // data.size, order[: race.seen])
    held = Contest(values[seen], True, 0, (np.arange(len(values)) // data.size)[seen])
    turned = held.differ & (np.sign(held.differences) != np.sign(np.subtract.outer(data.means, data.means)))
    return bool(wrong.any()), 1 - race.seen / data.blocks, bool(turned.any())


def lines(seed: int = 0, worlds: int = 2000, contests: int = 600, runs: int = 200) -> Iterator[Line]:
    """The whole table."""
    rng = np.random.default_rng(seed)
    yield from means(rng, worlds)
    yield from ranks(rng, contests)
    yield from skills(rng, worlds // 2)
    yield from groupings(rng, worlds)
    yield from settled(rng, runs)


def main() -> None:
    print(f"heatproof {version('heatproof')}, {datetime.date.today()}; 95 % intervals, errors at 5 %")
    print("| what | came out | demanded | tries | |")
    print("|---|---|---|---|---|")
    failed = []
    for line in lines():
        print(line, flush=True)
        failed += [] if line.holds else [line.what]
    if failed:
        raise SystemExit(f"out of range: {'; '.join(failed)}")

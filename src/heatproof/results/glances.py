"""Scores of one variant side by side, and what a glance at them tells: ranks with their ends, groups, floors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from heatproof.executors.threads import in_turn
from heatproof.lazy import np
from heatproof.results.columns import Columns, Gathered
from heatproof.results.contest import Contest
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

BASELINES = ("floor", "ceiling", "raw")
"""Families that are not judged, but judged by."""
HEARD = 0.5
"""Share of the cases that an entrant must have a score for, where it is not known what a uniform map would get."""
LETTERS = ascii_letters + digits

Name = tuple[str, str]
"""What is explained, and the explainer."""


@dataclass(frozen=True)
class Glance:
    """What a reading of the table that is not shown first says of a method.

    Its rank with the ends of its interval, the letters of its groups, and what is said where it does not surely beat
    every floor. `subset` is the part of the cases that it is about, `model` the network; empty for all together.
    """

    metric: str
    ground_truth: str
    pooling: str
    target: str
    explainer: str
    groups: str
    rank: float
    rank_low: float
    rank_high: float
    floor: str
    subset: str = "all"
    model: str = ""


@dataclass(frozen=True, eq=False)
class Field:
    """The entrants of a contest, with their families, and the contest."""

    names: Sequence[Name]
    families: Sequence[str]
    contest: Contest

    @property
    def methods(self) -> list[int]:
        """The places of those that are judged, best first."""
        return [place for place in self.contest.order if self.families[place] not in BASELINES]

    @property
    def floors(self) -> list[int]:
        """The places of the floors, best first."""
        return [place for place in self.contest.order if self.families[place] == "floor"]

    def undefeated(self, place: int) -> list[int]:
        """The floors that a method does not surely beat, best first."""
        return [floor for floor in self.floors if not self.contest.is_better(place, floor)]

    @property
    def letters(self) -> dict[int, str]:
        """The letters of each method's groups."""
        return group_letters([group for group in self.contest.groups(self.methods) if len(group) > 1])


def field_of(columns: Columns, target: str, words: MetricWords, families: Mapping[str, str], seed: int) -> Field | None:
    """The explainers of this quantity, and those that know nothing of the model, on the cases that all of them have."""
    names, by_model = side_by_side(columns, target)
    kinds = [families.get(explainer, "raw") for _, explainer in names]
    there = ~np.isnan(by_model).any((0, 2))
    if not there.any() or not any(kind not in BASELINES for kind in kinds):
        return None
    by_model = by_model[:, there]
    clusters = None if columns.clusters is None else columns.clusters[there]
    models = by_model if len(by_model) > 1 else None
    return Field(names, kinds, Contest(by_model.mean(0), words.higher_is_better, seed, clusters, models, words.range))


def side_by_side(columns: Columns, target: str) -> tuple[list[Name], NDArray[np.float64]]:
    """What is compared (target, explainer), and its scores (models, cases, entrants).

    Left out is what some model has not at all. A map that is missing counts as a uniform one; where it is not known
    what that would get, only cases that all entrants have can be compared, so that one that has few is left out.
    """
    models = sorted({model for model, *_ in columns.keys})
    place = {key: at for at, key in enumerate(columns.keys)}
    names = list(dict.fromkeys((t, e) for _, t, e in columns.keys if t in ("", target)))
    names = [name for name in names if all((model, *name) in place for model in models)]
    whole = columns.whole
    found = np.stack([whole[:, [place[(model, *name)] for name in names]] for model in models])
    defined = np.all(~np.isnan(found), axis=0)
    heard = defined.sum(0) >= HEARD * defined.any(1).sum()
    kept = np.flatnonzero(heard & defined.any(0))
    return [names[at] for at in kept], found[:, :, kept]


def group_letters(groups: Sequence[Sequence[int]]) -> dict[int, str]:
    """A letter for each group, the best group's first."""
    found: dict[int, str] = {}
    for letter, group in zip(LETTERS, groups, strict=False):
        for place in group:
            found[place] = found.get(place, "") + letter
    return found


def against_floor(mean: float, floor: float, short: str, higher_is_better: bool) -> str:
    """What is said of a method that does not surely beat a floor."""
    is_ahead = mean > floor if higher_is_better else mean < floor
    return f"{'not surely' if is_ahead else 'no'} better than {short}"


def glances(
    scores: Gathered,
    metrics: Mapping[str, MetricWords],
    families: Mapping[str, str],
    short: Mapping[str, str],
    seed: int,
    held: Collection[tuple[str, ...]],
) -> Iterator[Glance]:
    """A glance at every method under every metric, truth and pooling over all cases, but for contests that were held.

    Those that were held are looked at by part of the cases and by network too.

    held  metric, ground truth, pooling and explained quantity of these
    """
    shown = {entry[:3] for entry in held}

    def of(columns: Columns) -> list[Glance]:
        words = metrics[columns.variant[0]]
        targets = sorted({target for _, target, _ in columns.keys if target}) or [""]
        seen: list[Glance] = []
        for subset, model, part in parts(columns, scores if columns.variant in shown else None):
            for target in targets:
                if (subset, model) == ("all", "") and (*columns.variant, target) in held:
                    continue
                if (found := field_of(part, target, words, families, seed)) is not None:
                    several = field_glances(found, columns.variant, target, words, short)
                    seen += (replace(glance, subset=subset, model=model) for glance in several)
        return seen

    yield from chain.from_iterable(in_turn(of, scores.columns(list(metrics))))


def parts(columns: Columns, scores: Gathered | None) -> Iterator[tuple[str, str, Columns]]:
    """All scores, and those of each part of the cases, on all networks and, where there are several, on each.

    Without `scores`, which say what parts and networks there are: all of them only.
    """
    if scores is None:
        yield "all", "", columns
        return
    models = sorted(scores.models) if len(scores.models) > 1 else []
    for place, subset in enumerate(("all", *scores.subsets)):
        cases = columns.of_subset(place - 1) if place else columns
        yield subset, "", cases
        for model in models:
            yield subset, model, cases.of_model(model)


def field_glances(
    field: Field, variant: tuple[str, ...], target: str, words: MetricWords, short: Mapping[str, str]
) -> Iterator[Glance]:
    metric, truth, pooling = variant
    letters, means = field.letters, field.contest.means
    ranks = field.contest.only(field.methods).ranks
    for place, rank, low, high in zip(field.methods, *(side.tolist() for side in ranks), strict=True):
        explainer, floors = field.names[place][1], field.undefeated(place)
        said = ""
        if floors:
            best = field.names[floors[0]][1]
            said = against_floor(means[place], means[floors[0]], short.get(best, best), words.higher_is_better)
        yield Glance(metric, truth, pooling, target, explainer, letters.get(place, ""), rank, low, high, said)

"""The verdict on a run, as plain data: who leads and who cannot be told apart, against floors, by cost, how surely."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations
from typing import Any

from heatproof.executors.threads import in_turn
from heatproof.lazy import np, pl
from heatproof.results.agreement import Agreement, Orders, Reading, Standing
from heatproof.results.columns import VARIANT, Columns, Gathered, Key
from heatproof.results.contest import Contest
from heatproof.results.glances import BASELINES, Field, Glance, against_floor, field_of, glances
from heatproof.results.health import Check, checks
from heatproof.story import Story


@dataclass(frozen=True)
class Entrant:
    """An explainer in a contest. Means are those that count unusable maps as uniform ones.

    rank            1 is best, floors and ceiling left out; with the ends of its interval over resampled cases
    mean_rank       over cases
    groups          a letter for each group of methods that cannot be told apart from it
    no_better_than  the best of the floors that it does not surely beat; empty if it beats all
    is_pareto       whether no other method is both better and cheaper
    """

    explainer: str
    short: str
    target: str
    family: str
    mean: float
    low: float | None
    high: float | None
    undefined: float
    skill: float | None = None
    skill_low: float | None = None
    skill_high: float | None = None
    rank: float | None = None
    rank_low: float | None = None
    rank_high: float | None = None
    mean_rank: float | None = None
    groups: str = ""
    no_better_than: str = ""
    seconds: float | None = None
    passes: float | None = None
    memory: float | None = None
    is_pareto: bool = False

    @property
    def is_baseline(self) -> bool:
        return self.family in BASELINES


@dataclass(frozen=True)
class Pair:
    """Two entrants, by their places: the mean of the first minus that of the second, and what can be said of it.

    low, high  the 95 % interval of the difference; None where there is a single case, or cluster of cases
    p          two-sided, of Fisher's randomisation test on the same cases; `adjusted` after Holm over all pairs
    superior   how often the first is better than the second on the same case, ties halved
    apart      whether the two can be told apart at 95 % over all pairs
    """

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    p: float
    adjusted: float
    superior: float
    apart: bool = False


@dataclass(frozen=True)
class Judged:
    """A contest that was held: one metric under one ground truth and pooling, for one explained quantity.

    entrants  methods best first, then floors and ceilings best first
    leaders   how many methods cannot be told apart from the first, itself among them; `leading` says which
    needed    cases that it would take to tell the first two of these apart; None where more cases would not
    """

    target: str
    metric: str
    ground_truth: str
    pooling: str
    model: str
    cases: int
    clusters: int
    entrants: tuple[Entrant, ...]
    pairs: tuple[Pair, ...]
    leaders: int = 0
    needed: int | None = None

    @property
    def methods(self) -> list[Entrant]:
        return [entrant for entrant in self.entrants if not entrant.is_baseline]

    @property
    def leading(self) -> list[Entrant]:
        """The first method and those that cannot be told apart from it."""
        behind = {pair.second for pair in self.pairs if pair.first == 0 and pair.apart}
        return [method for place, method in enumerate(self.methods) if place not in behind]

    def against_floor(self, entrant: Entrant, higher_is_better: bool) -> str:
        """What is said of a method that does not surely beat a floor; empty for one that does."""
        floor = next((e for e in self.entrants if e.short == entrant.no_better_than and e.is_baseline), None)
        if floor is None:
            return ""
        return against_floor(entrant.mean, floor.mean, floor.short, higher_is_better)

    def pair(self, first: int, second: int) -> Pair | None:
        return next((pair for pair in self.pairs if (pair.first, pair.second) == (first, second)), None)


@dataclass(frozen=True)
class Verdict:
    """All that is said of a run; `contests` has that of the metric and quantity that rank first.

    `glances` are at all readings over all cases that the tables do not show first.
    """

    contests: tuple[Judged, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    standings: tuple[Standing, ...] = ()
    checks: tuple[Check, ...] = ()
    sentences: tuple[str, ...] = field(default=())
    glances: tuple[Glance, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def read_verdict(content: Mapping[str, Any]) -> Verdict:
    """The verdict from plain data; what a later version may have added is left out."""
    return Verdict(
        tuple(
            known(
                Judged,
                entry
                | {
                    "entrants": tuple(known(Entrant, entrant) for entrant in entry["entrants"]),
                    "pairs": tuple(known(Pair, pair) for pair in entry["pairs"]),
                },
            )
            for entry in content["contests"]
        ),
        tuple(known(Agreement, entry | {"apart": tuple(entry["apart"])}) for entry in content["agreements"]),
        tuple(known(Standing, entry) for entry in content["standings"]),
        tuple(known(Check, entry) for entry in content["checks"]),
        tuple(content["sentences"]),
        tuple(known(Glance, entry) for entry in content.get("glances", ())),
    )


def known(kind: Any, content: Mapping[str, Any]) -> Any:
    """An object of this kind from those of the entries that it knows."""
    names = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in content.items() if name in names})


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a verdict is made of: scores, orders under all readings, the leaderboard, what the run says of itself."""

    scores: Gathered
    orders: Orders
    table: pl.DataFrame
    story: Story
    entries: Sequence[Mapping[str, Any]]
    """Of the explainers, from run.json."""
    seed: int
    failures: int = 0

    @property
    def families(self) -> dict[str, str]:
        return {entry["explainer"]: entry["family"] for entry in self.entries}

    @property
    def short(self) -> dict[str, str]:
        return {entry["explainer"]: entry["short"] for entry in self.entries}


def methods_of(entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The explainers that are judged."""
    return frozenset(entry["explainer"] for entry in entries if entry["family"] not in BASELINES)


def judge(evidence: Evidence) -> Verdict:
    """Hold every contest that the tables show, and say what follows."""
    from heatproof.results.sentences import sentences

    held = list(contests(evidence))
    shown: list[Reading] = [
        (
            judged.metric,
            judged.ground_truth,
            judged.pooling,
            "all",
            judged.target,
            next(iter(sorted(evidence.scores.models))),
        )
        for judged in held
    ]
    found = Verdict(
        tuple(held),
        tuple(evidence.orders.agreements(shown)),
        tuple(evidence.orders.standings()),
        tuple(checks(evidence.scores, evidence.story, evidence.families, evidence.failures, held)),
    )
    seen = {(judged.metric, judged.ground_truth, judged.pooling, judged.target) for judged in held}
    further = glances(evidence.scores, evidence.story.metric, evidence.families, evidence.short, evidence.seed, seen)
    return replace(found, sentences=tuple(sentences(found, evidence.story)), glances=tuple(further))


def contests(evidence: Evidence) -> Iterator[Judged]:
    """One for each explained quantity and column of the tables, in the order in which they are shown."""
    story = evidence.story
    shown = shown_variants(story, evidence.scores.variants)

    def columns() -> Iterator[Columns]:  # read anew each time, which takes less memory than to keep them
        return evidence.scores.columns([words.name for words in story.metrics], shown)

    targets = sorted({target for found in columns() for _, target, _ in found.keys if target}, key=place_of(story))
    asked = ((found, target) for target in targets or [""] for found in columns())
    held = in_turn(lambda these: contest(evidence, *these), asked)
    yield from (judged for judged in held if judged is not None)


def place_of(story: Story) -> Any:
    """Explained quantities in the order of the tables: the one that the paper explains first."""
    order = ["probability", "logit", "log_probability"]
    return lambda target: (target != story.words.as_published, order.index(target) if target in order else len(order))


def shown_variants(story: Story, variants: Collection[Key]) -> list[Key]:
    """The variants that the tables show first: the story's own choice, or those without pooling or of the first."""
    if story.columns:
        chosen = [(column.metric, column.ground_truth, column.pooling) for column in story.columns]
        return [variant for variant in chosen if variant in variants]
    first = [*story.poolings, *(variant[2] for variant in variants if variant[2])][:1]
    return [variant for variant in variants if variant[2] in ("", *first)]


def contest(evidence: Evidence, columns: Columns, target: str) -> Judged | None:
    """What is said of the explainers of this quantity; None where there is nobody to judge."""
    words = evidence.story.metric[columns.variant[0]]
    found = field_of(columns, target, words, evidence.families, evidence.seed)
    return None if found is None else judged(evidence, columns.variant, target, found)


def judged(evidence: Evidence, variant: Key, target: str, found: Field) -> Judged:
    """What a contest showed, methods first."""
    lines = leaderboard_lines(evidence.table, variant)
    names, families, held, methods = found.names, found.families, found.contest, found.methods
    order = methods + [place for place in held.order if families[place] in BASELINES]
    alone, letters = held.only(methods), found.letters
    ranks = {place: [float(side[k]) for side in (*alone.ranks, alone.mean_ranks)] for k, place in enumerate(methods)}
    costs = {place: lines[names[place]]["seconds_per_case"] for place in methods}
    entrants = []
    for place in order:
        line = lines[names[place]]
        undefeated = found.undefeated(place) if place in ranks else []
        rank = dict(zip(("rank", "rank_low", "rank_high", "mean_rank"), ranks.get(place, [None] * 4), strict=True))
        explainer = names[place][1]
        entrants.append(
            Entrant(
                explainer,
                evidence.short.get(explainer, explainer),
                names[place][0],
                families[place],
                float(held.means[place]),
                line["ci_low_all"],
                line["ci_high_all"],
                line["undefined"],
                line["skill"],
                line["skill_low"],
                line["skill_high"],
                **rank,
                groups=letters.get(place, ""),
                no_better_than=evidence.short.get(names[undefeated[0]][1], "") if undefeated else "",
                seconds=line["seconds_per_case"],
                passes=line["passes_per_case"],
                memory=line["peak_memory"],
                is_pareto=place in ranks and is_pareto(place, held, costs),
            )
        )
    pairs = [pair_of(held, i, j, order) for i, j in combinations(range(len(order)), 2)]
    level = held.level_with(methods[0], methods)
    needed = held.cases_to_tell(*level[:2]) if len(level) > 1 else None
    model = next(iter(lines.values()))["model"]
    axes = dict(zip(VARIANT, variant, strict=True))
    return Judged(
        target, **axes, model=model, cases=held.cases, clusters=len(held.sums), entrants=tuple(entrants),
        pairs=tuple(pairs), leaders=len(level), needed=None if needed is not None and needed <= held.cases else needed,
    )  # fmt: skip


def pair_of(held: Contest, first: int, second: int, order: Sequence[int]) -> Pair:
    """What a contest says of the entrants at two places of an order."""
    sides = order[first], order[second]
    low, high = (None if np.isnan(end[sides]) else float(end[sides]) for end in held.difference_intervals)
    p, adjusted, superior = (float(found[sides]) for found in (held.p_values, held.adjusted, held.effects))
    apart = bool(held.differ[sides])
    return Pair(first, second, float(held.differences[sides]), low, high, p, adjusted, superior, apart)


def leaderboard_lines(table: pl.DataFrame, variant: Key) -> dict[tuple[str, str], dict[str, Any]]:
    """The leaderboard's lines of a variant over all cases, by target and explainer; of several models their sum."""
    chosen = table.filter(
        (pl.col("subset") == "all"), *(pl.col(axis) == value for axis, value in zip(VARIANT, variant, strict=True))
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in chosen.iter_rows(named=True):  # a line that sums up models comes behind theirs
        found[line["target"], line["explainer"]] = line
    return found


def is_pareto(place: int, held: Contest, costs: Mapping[int, float | None]) -> bool:
    """Whether no other method is at least as good and as cheap, and better in one of the two."""
    cost = costs[place]
    if cost is None:
        return False
    sign = 1 if held.higher_is_better else -1
    mean = sign * held.means[place]
    return not any(
        other != place
        and there is not None
        and sign * held.means[other] >= mean
        and there <= cost
        and (sign * held.means[other] > mean or there < cost)
        for other, there in costs.items()
    )

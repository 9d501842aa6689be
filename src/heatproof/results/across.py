"""Several runs together: whether the order of methods in a cheap one tells the order in the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from heatproof.lazy import np
from heatproof.results.agreement import between_runs, rank_correlations

if TYPE_CHECKING:
    from heatproof.results.run import Results
    from heatproof.results.verdict import Judged

SURE = 0.05
"""Share of chance orders that may agree as well for a prediction to count."""
FEW = 8
"""Methods up to which every order is tried."""
DRAWS = 20_000


@dataclass(frozen=True)
class Meeting:
    """Two runs by their names, the methods that both have, Spearman's correlation of their ranks, and how often a
    chance order agrees as well."""

    first: str
    second: str
    methods: int
    correlation: float
    chance: float

    @property
    def is_sure(self) -> bool:
        return self.chance < SURE


def run_names(runs: Sequence[Results]) -> list[str]:
    """What each run is called beside the others: the first words of its title, else its folder's name."""
    titles = [run.story.title.partition(":")[0] for run in runs]
    folders = [run.folder.resolve().name for run in runs]
    names = titles if len(set(titles)) == len(runs) else folders
    return [name if names.count(name) == 1 else f"{name} {place}" for place, name in enumerate(names, 1)]


def meetings(runs: Mapping[str, Results]) -> list[Meeting]:
    """Each two runs that share enough methods; the cheaper one of both first."""
    order = sorted(runs, key=lambda name: cost(runs[name]))
    target = common_target(list(runs.values()))
    ranks = {name: ranks_by_name(runs[name], target) for name in order}
    return [
        Meeting(first, second, methods, correlation, chance_of(correlation, methods))
        for first, second, methods, correlation in between_runs(ranks)
        if not np.isnan(correlation)
    ]


def cost(run: Results) -> float:
    """What a case costs under the methods of a run, in the middle; without a measure a run counts as dear."""
    judged = next(iter(run.verdict.contests), None)
    seconds = [entrant.seconds for entrant in judged.methods if entrant.seconds] if judged else []
    return float(np.median(seconds)) if seconds else float("inf")


def common_target(runs: Sequence[Results]) -> str | None:
    """What all of them explain; None where there is nothing."""
    explained = [{judged.target for judged in run.verdict.contests} for run in runs]
    shared = sorted(set.intersection(*explained)) if explained else []
    return shared[0] if shared else None


def ranks_by_name(run: Results, target: str | None) -> dict[str, float]:
    """The rank of each method by its name alone: runs give it other parameters. Of several, the run's first counts."""
    judged = first_contest(run, target)
    names = {entry["explainer"]: entry["name"] or entry["explainer"] for entry in run.manifest["explainers"]}
    places = {entrant.explainer: entrant.rank for entrant in judged.methods} if judged else {}
    found: dict[str, float] = {}
    for explainer, name in names.items():
        rank = places.get(explainer)
        if rank is not None:
            found.setdefault(name, rank)
    return found


def first_contest(run: Results, target: str | None) -> Judged | None:
    """The contest of the metric that ranks, for this target or for the run's own."""
    contests = run.verdict.contests
    return next((judged for judged in contests if judged.target == target), next(iter(contests), None))


def chance_of(correlation: float, methods: int) -> float:
    """How often a random order of so many methods correlates as well: all orders of few, random ones of many."""
    places = np.arange(methods, dtype=np.float64)
    if methods <= FEW:
        orders = np.array(list(permutations(places)))
    else:
        rng = np.random.default_rng(methods)
        orders = np.stack([rng.permutation(places) for _ in range(DRAWS)])
    pairs = np.stack([np.broadcast_to(places, orders.shape), orders], axis=1)
    reached = rank_correlations(pairs)[:, 0, 1] >= correlation - 1e-9
    return float(reached.mean())


def across_sentences(runs: Mapping[str, Results]) -> list[str]:
    """Whether the cheapest of these runs predicts the others; empty for one run, or where they share too little."""
    if len(runs) < 2:
        return []
    found = meetings(runs)
    if not found:
        return ["These runs have fewer than three methods in common, so nothing can be said of one by another."]
    small = min(runs, key=lambda name: cost(runs[name]))
    said = [in_words(meeting) for meeting in found if meeting.first == small]
    others = [in_words(meeting) for meeting in found if meeting.first != small]
    return [f"Does the small benchmark predict the larger ones? {' '.join(said)}" if said else "", *others][not said :]


def in_words(meeting: Meeting) -> str:
    predicts = "predicts" if meeting.is_sure else "cannot be said to predict"
    share = f"{100 * meeting.chance:.1f}" if meeting.chance >= 0.001 else "less than 0.1"
    return (
        f"The order in {meeting.first} {predicts} that in {meeting.second}: rank correlation {meeting.correlation:.2f}"
        f" over the {meeting.methods} methods that both have, which {share} % of chance orders reach."
    )

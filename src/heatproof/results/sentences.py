"""The verdict in words, written from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from heatproof.results.agreement import Agreement
from heatproof.story import MetricWords, Story

if TYPE_CHECKING:
    from heatproof.results.verdict import Entrant, Judged, Verdict

NAMED = 4
"""Names that a sentence lists before it counts."""
HOLDS, FAILS = 0.8, 0.5
"""Rank correlations from which an order holds, and below which it does not."""
AXIS_WORDS = {
    "metric": "from metric to metric",
    "ground_truth": "from one truth to another",
    "pooling": "under other poolings",
    "subset": "on parts of the cases",
    "target": "for other explained quantities",
    "model": "from network to network",
}


def sentences(verdict: Verdict, story: Story) -> Iterator[str]:
    """What people came for: who can be trusted, how surely, and at what cost."""
    if not verdict.contests:
        return
    judged = verdict.contests[0]
    words = story.metric[judged.metric]
    yield lead(judged, words, story)
    if cheaper := cost(judged):
        yield cheaper
    if against := floors(judged, words):
        yield against
    if verdict.agreements:
        yield order(verdict.agreements)
    failed = [check for check in verdict.checks if check.passed is False]
    if failed:
        names = listed([check.name for check in failed])
        yield f"{len(failed)} of {len(verdict.checks)} health checks failed: {names}."


def lead(judged: Judged, words: MetricWords, story: Story) -> str:
    """Who leads, and whether that is sure."""
    methods, on = judged.methods, f"{judged.cases:,} {story.words.cases}"
    first, explained = methods[0], f" (explaining the {judged.target.replace('_', '-')})" if judged.target else ""
    where = f"On {judged.model}{explained}"
    score = f"{words.title} {percent(first.mean)}"
    if len(methods) == 1:
        return f"{where}, {first.short} is the only method: {score} over {on}."
    if judged.leaders == 1:
        return f"{where}, {first.short} leads: {score}, {ahead(judged)}; {on})."
    tied = judged.leading
    names, scores = [entrant.short for entrant in tied], f"{percent(first.mean)} to {percent(tied[-1].mean)} over {on}"
    places = [methods.index(entrant) for entrant in tied]
    if any(pair.apart for pair in judged.pairs if pair.first in places and pair.second in places):
        return (
            f"{where}, {names[0]} leads, but {listed(names[1:])} cannot be told apart from it: {words.title} {scores}."
        )
    if len(tied) == len(methods):
        return f"{where}, nobody leads: {listed(names)} cannot be told apart: {words.title} {scores}."
    return f"{where}, {listed(names)} lead and cannot be told apart: {words.title} {scores}."


def ahead(judged: Judged) -> str:
    """By how much the first leads the second, and between which ends: a negative one would be a lead of the second."""
    pair = judged.pair(0, 1)
    assert pair is not None
    said = f"{abs(100 * pair.difference):.1f} points ahead of {judged.methods[1].short} (95 % interval"
    if pair.low is None or pair.high is None:
        return f"{said} unknown"
    low, high = (pair.low, pair.high) if pair.difference > 0 else (-pair.high, -pair.low)
    return f"{said} {100 * low:.1f} to {100 * high:.1f}"


def cost(judged: Judged) -> str:
    """What can be had for less than the leader costs."""
    methods = judged.methods
    first = methods[0]
    leading = judged.leading
    priced = [entrant for entrant in leading if entrant.seconds]
    cheapest = min(priced, key=seconds, default=None)
    found = []
    if cheapest is not None and cheapest is not first and first.seconds and seconds(cheapest) < 0.5 * first.seconds:
        among = "Of these" if len(leading) == len(methods) else "Of those that lead"
        found.append(f"{among}, {cheapest.short} costs {fraction(cheapest, first)} of {first.short}")
    others = [entrant for entrant in methods if entrant not in leading and entrant.is_pareto and entrant.seconds]
    base = cheapest or first
    if others and base.seconds:
        bargain = others[0]
        if seconds(bargain) < 0.5 * base.seconds:
            lost = abs(100 * (bargain.mean - first.mean))
            found.append(f"{bargain.short} costs {fraction(bargain, base)} of {base.short} and loses {lost:.1f} points")
    return "; ".join(found) + "." if found else ""


def floors(judged: Judged, words: MetricWords) -> str:
    """Whether the methods beat what knows nothing of the model; not to beat it surely is not yet to be no better."""
    methods = judged.methods
    known = {entrant.short: entrant for entrant in judged.entrants if entrant.family == "floor"}
    if not known:
        return ""
    best = next(iter(known))
    unsure = [entrant for entrant in methods if entrant.no_better_than]
    if not unsure:
        return f"{'Every method beats' if len(methods) > 1 else 'It beats'} every floor; the best of these is {best}."
    sign = 1 if words.higher_is_better else -1
    beaten = [entrant for entrant in unsure if sign * (entrant.mean - known[entrant.no_better_than].mean) <= 0]
    if len(unsure) == len(methods):
        return f"No method is surely better than the floor {best}, which knows nothing of the model."
    said = []
    if beaten:
        are = "is" if len(beaten) == 1 else "are"
        said.append(f"{len(beaten)} of {len(methods)} methods {are} no better than a floor: {shorts(beaten)}")
    if rest := [entrant for entrant in unsure if entrant not in beaten]:
        of = f"{len(rest)} more" if beaten else f"{len(rest)} of {len(methods)} methods"
        are, than = "is" if len(rest) == 1 else "are", "one" if beaten else "a floor"
        said.append(f"{of} {are} not surely better than {than}: {shorts(rest)}")
    return f"{'; '.join(said)} (the best floor is {best}, which knows nothing of the model)."


def shorts(entrants: Sequence[Entrant]) -> str:
    return listed([entrant.short for entrant in entrants])


def order(agreements: Sequence[Agreement]) -> str:
    """Where the order holds, and where it does not."""
    said = {"holds": [], "seems to hold": [], "wavers": [], "does not hold": []}  # type: dict[str, list[str]]
    for agreement in agreements:
        surely = "holds" if agreement.low >= HOLDS else "does not hold" if agreement.high < FAILS else None
        kind = surely or ("seems to hold" if agreement.mean >= HOLDS else "wavers")
        said[kind].append(f"{AXIS_WORDS[agreement.axis]} ({agreement.mean:.2f})")
    parts = [f"{kind} {listed(where, all_of_them=True)}" for kind, where in said.items() if where]
    return "By rank correlation, the order of the methods " + "; it ".join(parts) + "."


def seconds(entrant: Entrant) -> float:
    return entrant.seconds or 0.0


def fraction(cheap: Entrant, dear: Entrant) -> str:
    """What one costs of the other, as people say it."""
    ratio = seconds(dear) / max(seconds(cheap), 1e-12)
    return f"1/{ratio:.0f}" if ratio >= 1.5 else f"{100 / ratio:.0f} %"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def listed(names: Sequence[str], all_of_them: bool = False) -> str:
    """Names in a row with "and"; of many, the first few and how many more."""
    if not all_of_them and len(names) > NAMED + 1:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""The verdict in words, written from its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from heatproof.results.agreement import Agreement
from heatproof.story import MetricWords, Story

if TYPE_CHECKING:
    from heatproof.results.verdict import Entrant, Judged, Verdict

NAMED = 4
"""Names that a sentence lists before it counts."""
HOLDS, FAILS = 0.8, 0.5
"""Rank correlations from which an order holds, and below which it does not."""
TRUST, SURE = "Which explainer can I trust?", "How sure is that?"
COST, SOUND = "What does it cost?", "Is the run sound?"
QUESTIONS = (TRUST, SURE, COST, SOUND)
"""That the sentences answer, in this order."""
AXIS_WORDS = {
    "metric": "from metric to metric",
    "ground_truth": "from one truth to another",
    "pooling": "under other poolings",
    "subset": "on parts of the cases",
    "target": "for other explained quantities",
    "model": "from network to network",
}


def sentences(verdict: Verdict, story: Story) -> Iterator[str]:
    """What people came for: who can be trusted, how surely, and at what cost; some begin with their question."""
    if not verdict.contests:
        return
    judged = verdict.contests[0]
    words = story.metric[judged.metric]
    leads, against = lead(judged, words), floors(judged, words)
    trusted = [against, leads] if nobody_beats_floors(judged) else [leads, against]
    yield from asked(TRUST, trusted)
    yield from asked(SURE, [told_apart(judged, story), order(verdict.agreements)])
    yield from asked(COST, [cost(judged)])
    yield from asked(SOUND, [soundness(verdict)])


def asked(question: str, answers: Iterable[str]) -> Iterator[str]:
    """The answers that there are, behind their question."""
    for place, answer in enumerate(filter(None, answers)):
        yield answer if place else f"{question} {answer}"


def question_of(sentence: str) -> tuple[str, str]:
    """The question that a sentence begins with, if any, and the rest."""
    found = next((question for question in QUESTIONS if sentence.startswith(f"{question} ")), "")
    return found, sentence[len(found) :].lstrip()


def soundness(verdict: Verdict) -> str:
    failed = [check.name for check in verdict.checks if check.passed is False]
    if not failed:
        return f"None of {len(verdict.checks)} health checks failed." if verdict.checks else ""
    return f"{len(failed)} of {len(verdict.checks)} health checks failed: {listed(failed)}."


def lead(judged: Judged, words: MetricWords) -> str:
    """Who leads, and who may be as good."""
    methods, explained = judged.methods, explaining(judged)
    where, first = f"On {judged.model}{explained}", methods[0]
    score = f"{words.title} {percent(first.mean)}"
    if len(methods) == 1:
        return f"{where}, {first.short} is the only method: {score}."
    tied = judged.leading
    if len(tied) == 1:
        return f"{where}, {first.short} leads: {score}."
    names, scores = shorts(tied), f"{words.title} {percent(first.mean)} to {percent(tied[-1].mean)}"
    places = [methods.index(entrant) for entrant in tied]
    differ = any(pair.apart for pair in judged.pairs if pair.first in places and pair.second in places)
    if differ or places != list(range(len(places))):
        others = shorts(tied[1:])
        return f"{where}, {first.short} leads: {score}; {others} cannot be told apart from it."
    if len(tied) == len(methods):
        return f"{where}, nobody leads: {names} cannot be told apart: {scores}."
    return f"{where}, {names} lead and cannot be told apart: {scores}."


def explaining(judged: Judged) -> str:
    return f" (explaining the {judged.target.replace('_', '-')})" if judged.target else ""


def told_apart(judged: Judged, story: Story) -> str:
    """By how much the first leads; where it does not lead alone, how many cases it would take to tell."""
    cases = counted(judged.cases, story)
    first, *others = judged.leading
    if len(judged.methods) == 1:
        if first.low is None or first.high is None:
            return f"It was tried on {cases}."
        return f"Over {cases}, its 95 % interval is {percent(first.low)} to {percent(first.high)}."
    if not others:
        return f"Over {cases}, {first.short} is {ahead(judged)}."
    more = f"it would take some {judged.needed:,}" if judged.needed is not None else "more cases alone would not help"
    return f"With {cases}, {first.short} and {others[0].short} cannot be told apart; {more}."


def counted(cases: int, story: Story) -> str:
    """So many cases by their name, of which one is none of many."""
    return f"{cases:,} {story.words.cases if cases != 1 else story.words.cases.removesuffix('s')}"


def ahead(judged: Judged) -> str:
    """By how much the first leads the second, and between which ends: a negative one would be a lead of the second."""
    pair = judged.pair(0, 1)
    assert pair is not None
    said = f"{abs(100 * pair.difference):.1f} points ahead of {judged.methods[1].short}"
    if pair.low is None or pair.high is None:
        return f"{said}, with no interval"
    low, high = (pair.low, pair.high) if pair.difference > 0 else (-pair.high, -pair.low)
    return f"{said} (95 % interval {100 * low:.1f} to {100 * high:.1f})"


def cost(judged: Judged) -> str:
    """What the first costs, and what can be had for less: all of it against the first."""
    first = judged.methods[0]
    if not first.seconds:
        return ""
    leading = judged.leading
    found = [f"{first.short} takes {duration(first.seconds)} of CPU time per case"]
    priced = [entrant for entrant in leading if entrant.seconds]
    cheapest, dearest = min(priced, key=seconds), max(priced, key=seconds)
    among = "of these" if len(leading) == len(judged.methods) else "of those that lead"
    if seconds(cheapest) < 0.5 * first.seconds:
        found.append(f"{among}, {cheapest.short} is cheapest with {fraction(cheapest, first)} of that")
    elif seconds(dearest) > 2 * first.seconds:
        found.append(f"{dearest.short}, which cannot be told apart from it, takes {times(dearest, first)}")
    others = [entrant for entrant in judged.methods if entrant not in leading and entrant.is_pareto and entrant.seconds]
    if others and seconds(bargain := others[0]) < 0.5 * seconds(cheapest):
        lost = abs(100 * (bargain.mean - first.mean))
        part = f"{fraction(bargain, first)} of what {first.short} does"
        found.append(f"{bargain.short} takes {part} and loses {lost:.1f} points")
    return "; ".join(found) + "."


def undefeating(judged: Judged) -> list[Entrant]:
    """The methods that do not surely beat every floor."""
    return [entrant for entrant in judged.methods if entrant.no_better_than]


def nobody_beats_floors(judged: Judged) -> bool:
    return len(undefeating(judged)) == len(judged.methods)


def floors(judged: Judged, words: MetricWords) -> str:
    """Whether the methods beat what knows nothing of the model; not to beat it surely is not yet to be no better."""
    methods = judged.methods
    known = {entrant.short: entrant for entrant in judged.entrants if entrant.family == "floor"}
    if not known:
        return ""
    best = next(iter(known))
    floor = f"{best} ({percent(known[best].mean)})"
    unsure = undefeating(judged)
    if not unsure:
        who = "Every method" if len(methods) > 1 else "It"
        return f"{who} beats the floors, which know nothing of the model; the best of these is {floor}."
    sign = 1 if words.higher_is_better else -1
    beaten = [entrant for entrant in unsure if sign * (entrant.mean - known[entrant.no_better_than].mean) <= 0]
    if nobody_beats_floors(judged):
        return f"None yet: no method is surely better than the floor {floor}, which knows nothing of the model."
    said = []
    if beaten:
        are = "is" if len(beaten) == 1 else "are"
        said.append(f"{len(beaten)} of {len(methods)} methods {are} no better than a floor: {shorts(beaten)}")
    if rest := [entrant for entrant in unsure if entrant not in beaten]:
        of = f"{len(rest)} more" if beaten else f"{len(rest)} of {len(methods)} methods"
        are, than = "is" if len(rest) == 1 else "are", "one" if beaten else "a floor"
        said.append(f"{of} {are} not surely better than {than}: {shorts(rest)}")
    return f"{'; '.join(said)} (the best floor is {floor}, which knows nothing of the model)."


def shorts(entrants: Sequence[Entrant]) -> str:
    return listed([entrant.short for entrant in entrants])


def order(agreements: Sequence[Agreement]) -> str:
    """Where the order holds, and where it does not."""
    said = {"holds": [], "seems to hold": [], "changes": [], "does not hold": []}  # type: dict[str, list[str]]
    for agreement in agreements:
        surely = "holds" if agreement.low >= HOLDS else "does not hold" if agreement.high < FAILS else None
        kind = surely or ("seems to hold" if agreement.mean >= HOLDS else "changes")
        said[kind].append(f"{AXIS_WORDS[agreement.axis]} ({agreement.mean:.2f})")
    parts = [f"{kind} {listed(where, all_of_them=True)}" for kind, where in said.items() if where]
    if not parts:
        return ""
    return f"The order of the methods {'; it '.join(parts)}. These are rank correlations: 1 is the very same order."


def seconds(entrant: Entrant) -> float:
    return entrant.seconds or 0.0


def fraction(cheap: Entrant, dear: Entrant) -> str:
    """What one costs of the other, as people say it."""
    ratio = seconds(dear) / max(seconds(cheap), 1e-12)
    return f"1/{ratio:.0f}" if ratio >= 1.5 else f"{100 / ratio:.0f} %"


def times(dear: Entrant, cheap: Entrant) -> str:
    ratio = seconds(dear) / seconds(cheap)
    return f"{ratio:,.0f} times as much" if ratio >= 9.5 else f"{ratio:.1f} times as much"


def duration(seconds: float) -> str:
    """A time with two digits, in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size or unit == "µs":
            value = seconds / size
            return f"{value:.2g} {unit}" if value < 99.5 else f"{value:,.0f} {unit}"
    raise AssertionError


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def listed(names: Sequence[str], all_of_them: bool = False) -> str:
    """Names in a row with "and"; of many, the first few and how many more."""
    if not all_of_them and len(names) > NAMED + 1:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""What the page says of twins: whether they are what they should be, and cases with and without the marker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from heatproof.benchmarks.clevr_removal.words import address, signed
from heatproof.benchmarks.clevr_twins.pairs import ABSENT, HOLDS, MISLEADS, Pair
from heatproof.benchmarks.clevr_xai import rows as questions_of
from heatproof.clevr.answers import in_words
from heatproof.lazy import np
from heatproof.story import Cell, Fact, Plate, Section, Table, Words

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa

PLATES = 3
WORDS = Words(cases="questions", truth="the marker", as_published="logit")
FACTS = (
    *questions_of.FACTS,
    Fact("effect_shortcut", "effect of the marker, shortcut twin"),
    Fact("effect_honest", "effect of the marker, honest twin"),
)


def caption(pair: Pair) -> str:
    """What the marker does to either twin."""
    told = [f"{signed(-seen.effect)} in the {twin} twin" for twin, seen in pair.twins.items()]
    return f"The answer's logit without the marker: {', '.join(told)}"


def sections(networks: Mapping[str, Vqa], pairs: Sequence[Pair], shown: Sequence[Pair]) -> tuple[Section, ...]:
    return (
        Section("Are the twins what they should be?", [accuracy_table(networks, pairs)]),
        Section("The same question with and without the marker", [plate(networks, one) for one in shown[:PLATES]]),
    )


def accuracy_table(networks: Mapping[str, Vqa], pairs: Sequence[Pair]) -> Table:
    """How often each twin is right, and how often it says what the marker suggests; what the marker does to it."""
    misled = [pair for pair in pairs if MISLEADS in pair.shown]
    lines = []
    for twin in networks:
        right = {
            HOLDS: share(pair.answer(networks, twin, HOLDS) == in_words(pair.question.answer) for pair in pairs),
            MISLEADS: share(pair.answer(networks, twin, MISLEADS) == in_words(pair.question.answer) for pair in misled),
            ABSENT: share(pair.answer(networks, twin, ABSENT) == in_words(pair.question.answer) for pair in pairs),
        }
        follows = share(pair.answer(networks, twin, MISLEADS) == pair.other for pair in misled)
        effect = float(np.median([abs(pair.twins[twin].effect) for pair in pairs]))
        cells = [Cell(f"{value:.1%}", value) for value in (*right.values(), follows)]
        lines.append((f"{twin} twin", [*cells, Cell(f"{effect:.2f}", effect)]))
    chance = share(pair.other == in_words(pair.question.answer) for pair in misled)
    heads = (
        "twin",
        "right: cue holds",
        "cue misleads",
        "cue is absent",
        "misled: says what it suggests",
        "median effect",
    )
    note = (
        f"{len(pairs):,} questions. Where the cue misleads, the marker stands beside another object, whose attribute is"
        f" the right answer in {chance:.1%} by chance. Effect: what the logit of the answer changes by when the marker"
        " is gone, its size."
    )
    return Table(
        "Answers with the marker beside the asked object, beside another one, and without it", heads, lines, note=note
    )


def share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return float(np.mean(found)) if found else float("nan")


def companions(networks: Mapping[str, Vqa], pair: Pair) -> list[tuple[str, str]]:
    """The picture three ways, with the answers of both."""
    titles = {HOLDS: "the marker holds", ABSENT: "without it", MISLEADS: "the marker misleads"}
    return [
        (
            f"{titles[cue]}: " + ", ".join(f"{twin} twin {pair.answer(networks, twin, cue)}" for twin in networks),
            address(picture),
        )
        for cue, picture in sorted(pair.shown.items(), key=lambda item: list(titles).index(item[0]))
    ]


def plate(networks: Mapping[str, Vqa], pair: Pair) -> Plate:
    title = f"{pair.question.text} {in_words(pair.question.answer)}"
    return Plate(title, "Under each picture: what the twins answer.", companions(networks, pair))


def entered(pairs: Sequence[Pair], chosen: Sequence[Pair]) -> str:
    effects = {twin: np.median([abs(pair.twins[twin].effect) for pair in chosen]) for twin in chosen[0].twins}
    told = ", ".join(f"{effect:.2f} in the {twin} twin" for twin, effect in effects.items())
    return (
        f"Of {len(pairs):,} questions with room for a marker both twins answer {len(chosen):,} right; these enter."
        f" Median effect of the marker on the answer's logit there: {told}."
    )

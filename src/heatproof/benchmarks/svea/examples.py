"""The signals that a page shows, as in Figure 6 of the paper: seen right and wrong, with what the SVM reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from heatproof.benchmarks.sample import MOST_SHOWN, stratified
from heatproof.benchmarks.svea.regions import Cases
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.story import Fact, Mark, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

FACTS = (
    Fact("label", "digit", filters=True),
    Fact("predicted", "the network sees"),
    Fact("correct", "the network is", filters=True, words=("right", "wrong")),
    Fact("probability", "its probability"),
)
WORDS = Words(
    cases="signals",
    favour="for the class",
    against="against it",
    truth="where the digit's template lies",
    mark="the region of explanation (ROE), and the digit that the SVM reads in it",
    as_published="probability",
)
KEY = ("explainer", "target", "case")


def facts_of(cases: Cases) -> tuple[Fact, ...]:
    """What is said of each signal, in the words of the data set."""
    return tuple(replace(fact, title=cases.noun) if fact.column == "label" else fact for fact in FACTS)


def words_of(cases: Cases) -> Words:
    if cases.noun == "digit":
        return WORDS
    truth = "the mask that is given with it"
    mark = f"the region of explanation (ROE), and the {cases.noun} that the SVM reads in it"
    return replace(WORDS, truth=truth, mark=mark)


def examples_of(
    cases: Sequence[str], labels: NDArray[np.int64], seen: NDArray[np.int64] | None, seed: int
) -> list[str]:
    """Test signals of each digit in turn, as many that the network sees right as that it sees wrong."""
    wrong = np.zeros(len(labels), bool) if seen is None else seen != labels
    strata = zip(wrong.tolist(), labels.tolist(), strict=True)
    return stratified(dict(zip(cases, strata, strict=True)), MOST_SHOWN, seed)


def named_examples(cases: Sequence[str], known: Sequence[str]) -> list[str]:
    """The test signals that somebody names; whoever is named twice is shown once."""
    if not cases:
        raise HeatproofError("examples is empty; name test signals such as test-0003.")
    for case in cases:
        if case not in known:
            raise HeatproofError(
                f"there is no test signal {case!r} to show as an example; they are {known[0]} to {known[-1]}."
            )
    return list(dict.fromkeys(cases))


def caption(label: int | str, seen: int | str) -> str:
    """What stands under an example's class where the network sees another."""
    return "" if label == seen else f"seen as {seen}"


def marks_of(
    rows: pl.DataFrame, summary: pl.DataFrame, model: str, examples: Sequence[str], cases: Cases
) -> list[Mark]:
    """The regions of the examples under each explainer, with the class that the SVM reads in them."""
    shown = (pl.col("model") == model) & pl.col("case").is_in(examples)
    read = summary.filter(shown).select(*KEY, "read")
    found = rows.filter(shown).join(read, on=KEY, how="left", maintain_order="left")
    return [
        Mark(explainer, target, case, int(start), cases.region, reading(label, cases.classes))
        for explainer, target, case, start, label in found.select(*KEY, "value", "read").iter_rows()
    ]


def reading(label: float | None, classes: Sequence[int | str]) -> str:
    """What the SVM reads, in words; nothing where it was not asked."""
    return "" if label is None or label != label else f"SVM reads {classes[int(label)]}"

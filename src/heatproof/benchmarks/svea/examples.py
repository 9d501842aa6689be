"""The signals that a page shows, as in Figure 6 of the paper: seen right and wrong, with what the SVM reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatproof.benchmarks.sample import MOST_SHOWN, stratified
from heatproof.benchmarks.svea.regions import ROE_LENGTH, case_name
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


def examples_of(
    cases: Sequence[str], labels: NDArray[np.int64], seen: NDArray[np.int64] | None, seed: int
) -> list[str]:
    """Test signals of each digit in turn, as many that the network sees right as that it sees wrong."""
    wrong = np.zeros(len(labels), bool) if seen is None else seen != labels
    strata = zip(wrong.tolist(), labels.tolist(), strict=True)
    return stratified(dict(zip(cases, strata, strict=True)), MOST_SHOWN, seed)


def named_examples(cases: Sequence[str], count: int) -> list[str]:
    """The test signals that somebody names; whoever is named twice is shown once."""
    if not cases:
        raise HeatproofError("examples is empty; name test signals such as test-0003.")
    known = {case_name("test", place) for place in range(count)}
    for case in cases:
        if case not in known:
            raise HeatproofError(
                f"there is no test signal {case!r} to show as an example; they are {case_name('test', 0)} to"
                f" {case_name('test', count - 1)}."
            )
    return list(dict.fromkeys(cases))


def caption(label: int, seen: int) -> str:
    """What stands under an example's digit where the network sees another."""
    return "" if label == seen else f"seen as {seen}"


def marks_of(rows: pl.DataFrame, summary: pl.DataFrame, model: str, examples: Sequence[str]) -> list[Mark]:
    """The regions of the examples under each explainer, with the digit that the SVM reads in them."""
    shown = (pl.col("model") == model) & pl.col("case").is_in(examples)
    read = summary.filter(shown).select(*KEY, "read")
    found = rows.filter(shown).join(read, on=KEY, how="left", maintain_order="left")
    return [
        Mark(explainer, target, case, int(start), ROE_LENGTH, reading(digit))
        for explainer, target, case, start, digit in found.select(*KEY, "value", "read").iter_rows()
    ]


def reading(digit: float | None) -> str:
    """What the SVM reads, in words; nothing where it was not asked."""
    return "" if digit is None or digit != digit else f"SVM reads {digit:.0f}"

"""Health checks: whether a run can be trusted at all, each passed or failed, in one sentence with its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.lazy import np, pl
from heatproof.results.columns import Columns, Gathered
from heatproof.results.sentences import counted
from heatproof.story import MetricWords, Story

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.results.verdict import Judged

SILENT = 0.01
"""Share of unusable maps that passes."""
ACCURATE = 0.8
"""Share of right decisions that passes: a truth about the right answer says little of a wrong one."""
SATURATED = 0.99999
"""A probability so near to 1 that it hardly has a gradient."""
LARGE = 0.5
"""Share of a picture that a true mask may cover: above it, chance looks good."""
EXACT = 1e-6
STANDARD_ERRORS = 4.0
"""That the mean of random maps may be off chance."""


@dataclass(frozen=True)
class Check:
    """What was looked at, whether it passed, and what was found. `passed` is None where it can only be told."""

    name: str
    passed: bool | None
    text: str


def checks(
    scores: Gathered, story: Story, families: Mapping[str, str], failures: int, held: Sequence[Judged]
) -> Iterator[Check]:
    """All that apply to a run, worst surprises first."""
    yield (
        Check("failed units", True, "Every unit of work was computed.")
        if not failures
        else Check("failed units", False, f"{failures} unit(s) of work failed; the page says which and why.")
    )
    localising = [words.name for words in story.metrics if words.localises]
    shown = {(judged.metric, judged.ground_truth, judged.pooling) for judged in held if judged.metric in localising}
    judged_columns = list(scores.columns(localising, shown))
    for columns in judged_columns:
        yield from known_ends(columns, story.metric[columns.variant[0]], families)
    if held:
        yield silence(held)
    if "correct" in scores.facts.columns:
        yield accuracy(scores.facts, story)
    if "probability" in scores.facts.columns and any(judged.target == "probability" for judged in held):
        yield saturation(scores.facts, story)
    for columns in sorted(judged_columns, key=lambda columns: columns.variant)[:1]:
        yield mask_sizes(columns, story)
    if story.repeats is not None:
        yield repeats(story)
    if held:
        yield settled(held[0], story)


def known_ends(columns: Columns, words: MetricWords, families: Mapping[str, str]) -> Iterator[Check]:
    """Random maps must score as uniform ones do, and the true mask must reach the end of the range."""
    under = ", ".join(part for part in columns.variant if part)
    values = columns.values
    for place, (_, _, explainer) in enumerate(columns.keys):
        defined = ~np.isnan(values[:, place]) & ~np.isnan(columns.uniform[:, place])
        if not defined.any():
            continue
        score, chance = values[defined, place], columns.uniform[defined, place]
        if explainer.partition(":")[0] == "random" and families.get(explainer) == "floor":
            off, within = float((score - chance).mean()), chance_may_differ(score - chance)
            yield Check(
                f"chance: {under}",
                None if within is None else abs(off) <= within,
                f"Random maps score {100 * score.mean():.1f} % where chance is {100 * chance.mean():.1f} %"
                + (
                    " (too few to tell)."
                    if within is None
                    else f" (at most {100 * within:.1f} points may lie between)."
                ),
            )
        if families.get(explainer) == "ceiling":
            yield Check(
                f"ceiling: {under}",
                abs(float(score.mean()) - words.best) <= EXACT,
                f"The true mask scores {100 * score.mean():.1f} % where {100 * words.best:.0f} % is the best there is.",
            )


def chance_may_differ(off: NDArray[np.float64]) -> float | None:
    """How far the mean of what random maps are off chance may be from zero, once in 16,000 runs; None of one case.

    Four standard errors, and more of few cases: Student's t.
    """
    from scipy.special import ndtr, stdtrit

    if len(off) < 2:
        return None
    errors = float(stdtrit(len(off) - 1, ndtr(STANDARD_ERRORS)))
    return errors * float(off.std(ddof=1)) / math.sqrt(len(off)) + EXACT


def silence(held: Sequence[Judged]) -> Check:
    """Few maps of methods may be unusable; floors and ceilings have none by nature where a score takes contrasts."""
    worst = max((method for judged in held for method in judged.methods), key=lambda method: method.undefined)
    if worst.undefined == 0:
        return Check("undefined scores", True, "Every map has its score.")
    return Check(
        "undefined scores",
        worst.undefined <= SILENT,
        f"{worst.short} has no usable map for {100 * worst.undefined:.1f} % of the cases; they rank as uniform.",
    )


def accuracy(facts: pl.DataFrame, story: Story) -> Check:
    """The explained network should mostly be right."""
    share = float(facts["correct"].cast(pl.Float64).mean() or 0.0)  # type: ignore[arg-type]
    return Check(
        "accuracy of the network",
        share >= ACCURATE,
        f"The network is right about {100 * share:.1f} % of the {facts['case'].n_unique():,} {story.words.cases}"
        " explained.",
    )


def saturation(facts: pl.DataFrame, story: Story) -> Check:
    """Explained probabilities should not be stuck at 1, where their gradient vanishes."""
    share = float((facts["probability"] > SATURATED).cast(pl.Float64).mean() or 0.0)  # type: ignore[arg-type]
    return Check(
        "saturation",
        share < LARGE,
        f"{100 * share:.1f} % of the {story.words.cases} have a probability above {SATURATED}, whose gradient is next"
        " to nothing: compare with what explains the logit.",
    )


def mask_sizes(columns: Columns, story: Story) -> Check:
    """The truth should be a small part of the picture."""
    shares = np.fmax.reduce(columns.uniform, axis=1)
    shares = shares[~np.isnan(shares)]
    low, middle, high = (100 * float(np.quantile(shares, at)) for at in (0.05, 0.5, 0.95)) if len(shares) else (0, 0, 0)
    return Check(
        "size of the truth",
        middle <= 100 * LARGE,
        f"The truth ({story.words.truth}) covers {middle:.1f} % of a case (median; {low:.1f} to {high:.1f} % in nine of"
        " ten): what a map that says nothing gets.",
    )


def repeats(story: Story) -> Check:
    assert story.repeats is not None
    if story.repeats == 0:
        return Check("repeated cases", True, f"No two {story.words.cases} are the same.")
    return Check(
        "repeated cases",
        False,
        f"{story.repeats} of the {story.words.cases} repeat another: n counts more than there is.",
    )


def settled(judged: Judged, story: Story) -> Check:
    """Whether there are enough cases to tell the first two methods apart."""
    methods = judged.methods
    if len(methods) < 2:
        return Check("sample size", None, "There is only one method, so nothing to tell it apart from.")
    if judged.leaders == 1:
        first, second = methods[:2]
        return Check(
            "sample size",
            True,
            f"{first.short} and {second.short} can be told apart with {counted(judged.cases, story)}.",
        )
    first, second = judged.leading[:2]
    more = (
        "more cases alone would not help"
        if judged.needed is None
        else f"it would take some {judged.needed:,} (at 95 % over all pairs, four times of five)"
    )
    return Check(
        "sample size",
        False,
        f"With {counted(judged.cases, story)}, {first.short} and {second.short} cannot be told apart; {more}.",
    )

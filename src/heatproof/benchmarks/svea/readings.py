"""What the SVM of the ROE test goes by, and what it misreads, under the method that serves it best. No torch.

The paper asks two things of an explanation beside its score: whether it tells what to change (actionability: the SVM's
130 weights can be read as they are) and whether the region is enough without the rest of the signal (contextfulness:
what is misread in a region although the network, which sees everything, is right).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.svea.regions import Cases, regions
from heatproof.lazy import np, pl
from heatproof.metrics.understandability import Svm, svm_weights
from heatproof.story import Cell, Paragraph, Section, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMED = 6
"""Misread signals that are named for each class."""
MOST_WEIGHTS = 60
"""Points of a region, over all channels, whose weights are still a table that can be read."""


def readings_section(cases: Cases, rows: pl.DataFrame, summary: pl.DataFrame, model: str, svm: Svm) -> list[Section]:
    """The section, from where regions start and what the SVM reads in them; none where no method came to its end."""
    best = best_method(summary.filter(pl.col("model") == model))
    if best is None:
        return []
    explainer, target = best
    mine = (pl.col("model") == model) & (pl.col("explainer") == explainer) & (pl.col("target") == target)
    starts = dict(rows.filter(mine).select("case", "value").rows())
    cut, there = regions(cases.train, np.array([starts[case] for case in cases.ids("train")]), cases.region)
    found = svm_weights(cut[there], cases.train.y[there], svm)
    if found is None:
        return []
    read = summary.filter(mine & (pl.col("metric") == "roe_accuracy") & pl.col("read").is_not_nan())
    seen = rows.filter(mine).select("case", "predicted", "correct")
    wrong = read.filter(pl.col("value") == 0).join(seen, on="case", how="left")
    name = f"{explainer} ({target})"
    return [
        Section(
            "What the SVM reads in the regions",
            [
                Paragraph(
                    f"Of all methods, {name} serves the SVM best on {model}. A weight says how much a point of the"
                    f" region speaks for a {cases.noun} (blue) or against it (orange): raise the one or lower the"
                    f" other, and the SVM reads that {cases.noun} sooner.",
                    lead="Actionability.",
                ),
                *([weight_table(cases, *found)] if found[1].shape[1] <= MOST_WEIGHTS else []),
                Paragraph(context_words(len(read), wrong), lead="Contextfulness."),
                misread_table(cases, read, wrong),
            ],
        )
    ]


def best_method(summary: pl.DataFrame) -> tuple[str, str] | None:
    """Explainer and target of the most right readings; floors, which explain no quantity of this model, left out."""
    methods = summary.filter(
        (pl.col("target") != "") & ~pl.col("explainer").str.starts_with("randomised:") & pl.col("value").is_not_nan()
    )
    if methods.is_empty():
        return None
    means = methods.group_by("explainer", "target", maintain_order=True).agg(pl.col("value").mean())
    explainer, target, _ = means.sort("value", descending=True, maintain_order=True).row(0)
    return str(explainer), str(target)


def weight_table(cases: Cases, labels: NDArray[np.int64], weights: NDArray[np.float64]) -> Table:
    """A row per class, a column per point of the region; of signals with channels, channel by channel."""
    peak = float(np.abs(weights).max()) or 1.0
    rows = [
        (
            str(cases.classes[label]),
            [Cell(f"{weight:+.2f}", float(weight), shade=float(weight) / peak) for weight in line],
        )
        for label, line in zip(labels.tolist(), weights, strict=True)
    ]
    points = range(1, cases.region + 1)
    channels = [""] if cases.channels == 1 else [f"{channel}:" for channel in range(1, cases.channels + 1)]
    heads = (cases.noun, *(f"{channel}{point}" for channel in channels for point in points))
    note = (
        "Points of the region from its first to its last"
        + ", channel by channel" * (cases.channels > 1)
        + f"; the bias of each {cases.noun} is left out."
    )
    return Table(f"Weights of the SVM, by {cases.noun} and point of the region", heads, rows, matrix=True, note=note)


def context_words(count: int, wrong: pl.DataFrame) -> str:
    right = int(wrong["correct"].sum())
    if not len(wrong):
        return f"The SVM reads all {count:,} test regions right."
    return (
        f"The SVM misreads {len(wrong):,} of {count:,} test regions. The network, which has the whole signal, sees"
        f" {right:,} of these right ({right / len(wrong):.0%}): for them the region does not carry what decides."
    )


def misread_table(cases: Cases, read: pl.DataFrame, wrong: pl.DataFrame) -> Table:
    """Class by class: how many are misread, as what, and which."""
    rows: list[tuple[str, Sequence[Cell]]] = []
    for digit in cases.classes:
        shown = read.filter(pl.col("label") == digit)
        mine = wrong.filter(pl.col("label") == digit)
        if shown.is_empty():
            continue
        share = len(mine) / len(shown)
        rows.append(
            (
                str(digit),
                [
                    Cell(str(len(shown)), len(shown)),
                    Cell(f"{100 * share:.1f}", share, bar=share),
                    Cell(most_read(mine, cases)),
                    Cell(named(mine, cases)),
                ],
            )
        )
    heads = (cases.noun, "test regions", "misread, %", "most often read as", "misread signals")
    return Table(
        "Test signals that the SVM misreads", heads, rows, note="Signals that the network sees right come first."
    )


def most_read(wrong: pl.DataFrame, cases: Cases) -> str:
    if wrong.is_empty():
        return ""
    counts: Any = wrong.group_by("read").len().sort("len", "read", descending=[True, False])
    digit, count = counts.row(0)
    return f"{cases.classes[int(digit)]} ({count})"


def named(wrong: pl.DataFrame, cases: Cases) -> str:
    """The first misread signals with what is read in them, and how many more there are."""
    ordered = wrong.sort("correct", "case", descending=[True, False]).select("case", "read").rows()
    said = ", ".join(f"{case} as {cases.classes[int(read)]}" for case, read in ordered[:NAMED])
    more = len(ordered) - NAMED
    return f"{said} and {more} more" if more > 0 else said

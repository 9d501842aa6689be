"""What a run of SVEA says beside its scores: how good the network is, and how scores go together. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from heatproof.benchmarks.orders import rank_correlation
from heatproof.benchmarks.svea.regions import CLASSES
from heatproof.lazy import np, pl
from heatproof.story import Cell, Paragraph, Section, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

OURS = ("roe_accuracy", "drop", "increase")
"""The paper's three scores."""
TITLES = {"roe_accuracy": "ROE", "drop": "Drop", "increase": "Increase"}
WORST_CONFUSIONS = 3


def performance(
    predicted: Mapping[str, NDArray[np.int64]],
    labels: NDArray[np.int64],
    classes: Sequence[int | str] = CLASSES,
    noun: str = "digit",
) -> Section:
    """The performance of the networks on the test signals: accuracy, accuracy per class, confusion matrix."""
    blocks: list[Paragraph | Table] = []
    for name, seen in predicted.items():
        matrix = confusion(seen, labels, len(classes))
        shown, right, total = matrix.sum(1), matrix.diagonal(), len(labels)
        blocks.append(
            Paragraph(
                f"{name} names {right.sum() / total:.1%} of the {total:,} test signals right."
                f" {most_confused(matrix, classes)}",
                lead="Accuracy.",
            )
        )
        rows = []
        for digit, row in enumerate(matrix.tolist()):
            cells = [confusion_cell(count, int(shown[digit]), k == digit) for k, count in enumerate(row)]
            share = right[digit] / shown[digit] if shown[digit] else None
            cells.append(Cell("–" if share is None else f"{100 * share:.1f}", share))
            rows.append((str(classes[digit]), cells))
        heads = (noun, *(f"seen as {name}" for name in classes), "accuracy, %")
        note = f"Test signals of each {noun}, by what is seen in them."
        blocks.append(Table(f"Confusion matrix of {name}", heads, rows, matrix=True, note=note))
    return Section("Performance of the network" + "s" * (len(predicted) > 1), blocks)


def confusion(seen: NDArray[np.int64], labels: NDArray[np.int64], classes: int = len(CLASSES)) -> NDArray[np.int64]:
    """How often each class (rows) is seen as each (columns)."""
    counts = np.bincount(labels * classes + seen, minlength=classes**2)
    matrix: NDArray[np.int64] = counts.reshape(classes, classes)
    return matrix


def confusion_cell(count: int, of: int, is_right: bool) -> Cell:
    share = count / of if of else 0.0
    return Cell(str(count), float(count), f"{share:.1%}", shade=share if is_right else -share, framed=is_right)


def most_confused(matrix: NDArray[np.int64], classes: Sequence[int | str] = CLASSES) -> str:
    """The pairs that are confused most often, in words."""
    wrong = matrix * (1 - np.eye(len(matrix), dtype=np.int64))
    order = np.argsort(-wrong, axis=None, kind="stable")[:WORST_CONFUSIONS]
    pairs = [divmod(int(place), len(matrix)) for place in order]
    said = [
        f"{classes[digit]} for {classes[seen]} ({wrong[digit, seen]} times)"
        for digit, seen in pairs
        if wrong[digit, seen]
    ]
    return f"Mistaken most often: {', '.join(said)}." if said else ""


def why_two_targets(rows: pl.DataFrame, table: pl.DataFrame, is_published: bool = True) -> list[str]:
    """Why the table has two targets, with this run's own numbers."""
    probabilities = rows.unique(["model", "case"])["probability"]
    saturated = (probabilities == 1.0).sum() / len(probabilities)
    lines = table.filter((pl.col("metric") == "roe_accuracy") & pl.col("explainer").is_in(["gradient", "grad_cam"]))
    means = {(r["explainer"], r["target"]): r["mean"] for r in lines.iter_rows(named=True)}  # sums of models are last
    changes = [
        f"{name} from {means[name, 'probability']:.1%} to {means[name, 'logit']:.1%}"
        for name in ("gradient", "grad_cam")
        if (means.get((name, "logit")) or 0) > (means.get((name, "probability")) or 1) + 0.02
    ]
    if not changes or saturated < 0.01:
        return []
    return [
        f"Why two targets? {saturated:.1%} of the signals get a probability of exactly 1.0 in float32, so its"
        " gradient cancels and what is left is rounding; methods that read the gradient then point anywhere."
        f" Explaining the logit instead takes {' and '.join(changes)} in the ROE test"
        + (": much of the published ranking of gradient and CAM methods is this artefact." if is_published else ".")
    ]


def agreement(table: pl.DataFrame) -> list[str]:
    """Section 5.2: do the three scores order methods alike, and as in the paper? Rank correlations over methods.

    Of several readings of a method, the first of the run counts where the paper has one.
    """
    lines = table.filter(pl.col("metric").is_in(OURS) & (pl.col("subset") == "all") & (pl.col("target") != ""))
    if lines.is_empty():
        return []
    model = ([m for m in lines["model"] if m.startswith("mean of ")] or lines["model"].to_list())[0]
    lines = lines.filter(pl.col("model") == model)
    said = []
    for target in lines["target"].unique(maintain_order=True):
        here = lines.filter(pl.col("target") == target)
        wide = here.pivot(on="metric", index="explainer", values="mean", maintain_order=True)
        if set(OURS) <= set(wide.columns) and (found := pairs_in_words(wide.select(OURS).drop_nulls())):
            said.append(f"Rank correlation, {target} explained, over {found}.")
        if words := beside_the_paper(here):
            said.append(words)
    return said


def pairs_in_words(wide: pl.DataFrame) -> str:
    """The correlation of each two of the three scores; empty for too few methods."""
    if len(wide) < 4:
        return ""
    pairs = [f"{TITLES[a]} and {TITLES[b]} {in_words(wide[a], wide[b])}" for a, b in combinations(OURS, 2)]
    return f"{len(wide)} methods: {', '.join(pairs)}"


def beside_the_paper(lines: pl.DataFrame) -> str:
    """The correlation of our three scores with the paper's, method by method, and of the paper's with each other."""
    named = lines.with_columns(
        name=pl.col("explainer").str.split(":").list.first(), published=pl.coalesce("reference", "reference_elsewhere")
    ).filter(pl.col("published").is_not_null() & pl.col("mean").is_not_null())
    named = named.unique(["name", "metric"], keep="first", maintain_order=True)
    ours, paper = (
        named.pivot(on="metric", index="name", values=values, maintain_order=True) for values in ("mean", "published")
    )
    if not set(OURS) <= set(ours.columns) or len(ours) < 4:
        return ""
    each = [f"{TITLES[metric]} {in_words(ours[metric], paper[metric])}" for metric in OURS]
    return (
        f"Rank correlation with the paper's rows, over {len(ours)} of its methods: {', '.join(each)}. Of the paper's"
        f" own rows with each other: {pairs_in_words(paper.select(OURS)).partition(': ')[2]}."
    )


def in_words(first: pl.Series, second: pl.Series) -> str:
    correlation, low, high = rank_correlation(first.to_list(), second.to_list())
    return f"{correlation:.2f} (95 % interval {low:.2f} to {high:.2f})"

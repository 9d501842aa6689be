"""Score rows of cases with masks, parts of the cases, and what is said of them at the end; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.masks.finding import SIZES, size_words
from heatproof.harmless import decodable
from heatproof.lazy import np, pl
from heatproof.metrics.heatmap_scores import REASONS
from heatproof.metrics.mask_scores import (
    POOLED,
    SIGNED,
    TWO_CLASS_POOLING,
    score_masks,
    score_signed,
)
from heatproof.metrics.uniform import uniform_column
from heatproof.story import Cell, Column, Fact, Paragraph, Section, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRUTH = "object"
METRICS = (*POOLED[:3], "lift", *POOLED[3:], *SIGNED)
SHOWN_POOLING = "sum_pos"
SHOWN = ("mass_accuracy", "rank_accuracy", "pointing_game", "pixel_auc", "best_iou")
FACTS = (
    Fact("target_class", "class", filters=True),
    Fact("predicted_class", "the network names"),
    Fact("correct", "the network is", filters=True, words=("right", "wrong")),
    Fact("probability", "probability of the explained class"),
    Fact("mask", "mask", filters=True),
)
MOST_CLASSES = 30
"""Classes that get lines of their own; of more, each would have too few pictures to say much."""


def columns_for(poolings: Sequence[str]) -> tuple[Column, ...]:
    """What the table shows first: each metric under the positive part of the summed channels, or the first pooling."""
    shown = SHOWN_POOLING if SHOWN_POOLING in poolings else poolings[0]
    return (*(Column(metric, TRUTH, shown) for metric in SHOWN), Column("attribution_accuracy", TRUTH, ""))


def score_table(
    cases: Sequence[str],
    facts: Mapping[str, Sequence[Any]],
    relevance: NDArray[Any],
    truth: NDArray[np.uint8],
    poolings: Sequence[str],
    tolerance: int = 0,
    problems: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Every score as rows, with the facts of each case, its mask's size and why a score is undefined."""
    scores = score_masks(relevance, truth, poolings, tolerance)
    signed, shares = score_signed(relevance, truth, scores.shares), scores.shares
    problems = problems or [""] * len(cases)
    known = pl.DataFrame(
        {"case": [decodable(case) for case in cases], **{name: list(column) for name, column in facts.items()}}
    ).with_columns(
        mask=pl.Series([size_words(share) for share in shares], dtype=pl.String),
        mask_share=pl.Series(shares),
        positions=pl.Series(scores.positions),
    )
    uniform = {metric: uniform_column(metric, shares.tolist()) for metric in METRICS}
    metrics: list[str] = []
    pooled_by: list[str] = []
    columns: list[NDArray[Any]] = []
    said: list[str] = []

    def add(metric: str, pooling: str, values: NDArray[Any], reasons: Sequence[str]) -> None:
        metrics.append(metric)
        pooled_by.append(pooling)
        columns.append(values)
        said.extend(problem or reason for problem, reason in zip(problems, reasons, strict=True))

    for place, pooling in enumerate(scores.poolings):
        reasons = [REASONS[code] for code in scores.state[place]]
        for metric, values in scores.values.items():
            if metric != "segmentation_ap" or pooling == TWO_CLASS_POOLING:
                add(metric, pooling, values[place], reasons)
    for metric, found in signed.values.items():
        add(metric, "", found, [REASONS[code] for code in signed.state[metric]])
    # all in one frame: a frame for each metric and pooling takes as long as reading the heatmaps
    block, case = np.divmod(np.arange(len(metrics) * len(cases)), max(1, len(cases)))
    return known[case].with_columns(
        metric=pl.Series(metrics, dtype=pl.String).gather(block),
        ground_truth=pl.lit(TRUTH),
        pooling=pl.Series(pooled_by, dtype=pl.String).gather(block),
        value=pl.Series(np.concatenate(columns)),
        uniform=pl.concat([uniform[metric] for metric in metrics]),
        undefined=pl.Series(said, dtype=pl.String),
    )


def parts_of_cases(classes: Sequence[str], predicted: bool) -> dict[str, pl.Expr]:
    """The parts that get lines of their own, as conditions on score rows."""
    parts: dict[str, pl.Expr] = {}
    if predicted:
        parts |= {"right": pl.col("correct").fill_null(False), "wrong": ~pl.col("correct").fill_null(True)}
    parts |= {f"mask:{word}": pl.col("mask") == word for word in SIZES}
    if 1 < len(classes) <= MOST_CLASSES:
        parts |= {f"class:{label}": pl.col("target_class") == label for label in classes}
    return parts


def mean_iou(iou: NDArray[Any], accuracy: NDArray[Any], sizes: NDArray[Any], counts: NDArray[Any]) -> float:
    """Mean of the IoU of object and of background over all positions of all cases, from each case's scores.

    sizes   positions of each mask
    counts  positions that count in each case
    """
    wrong = counts * (1 - accuracy)  # marked outside, or not marked inside
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(iou < 1, iou * wrong / (1 - iou), sizes)
    missed = sizes - hits
    extra = wrong - missed
    rest = counts - sizes - extra
    return float((hits.sum() / (sizes + extra).sum() + rest.sum() / (rest + missed + extra).sum()) / 2)


def remembered() -> pl.Expr:
    """The rows that the section below is made of."""
    metrics = ["pixel_accuracy", "adaptive_iou", "segmentation_ap"]
    return pl.col("metric").is_in(metrics) & (pl.col("pooling") == SHOWN_POOLING)


def segmentation_section(rows: pl.DataFrame) -> list[Section]:
    """Pixel accuracy, mIoU and mAP over all positions, as transformer explainers are compared on ImageNet's masks."""
    lines = []
    for (model, explainer, target), group in rows.group_by("model", "explainer", "target", maintain_order=True):
        wide = group.pivot(on="metric", index=["case", "mask_share", "positions"], values="value")
        if not {"pixel_accuracy", "adaptive_iou", "segmentation_ap"} <= set(wide.columns):
            continue
        wide = wide.fill_nan(None).drop_nulls()
        if wide.is_empty():
            continue
        counts = wide["positions"].to_numpy().astype(np.float64)
        accuracy, iou = wide["pixel_accuracy"].to_numpy(), wide["adaptive_iou"].to_numpy()
        numbers = (
            float((accuracy * counts).sum() / counts.sum()),
            mean_iou(iou, accuracy, wide["mask_share"].to_numpy() * counts, counts),
            float(wide["segmentation_ap"].to_numpy().mean()),
        )
        name = ", ".join(str(word) for word in (explainer, target, model if several(rows) else "") if word)
        cells = [Cell(f"{100 * value:.1f}", value) for value in numbers]
        lines.append((name, [Cell(f"{len(wide):,}", len(wide)), *cells]))
    if not lines:
        return []
    text = (
        "Each map is cut at its mean, and positions of all pictures are counted together, as Chefer et al. (2021) do"
        " for transformers on ImageNet's segmentations. Only usable maps are counted."
    )
    table = Table("Segmentation", ("method", "cases", "pixel accuracy", "mIoU", "mAP"), lines)
    return [Section("As a segmentation", [Paragraph(text), table])]


def several(rows: pl.DataFrame) -> bool:
    return rows["model"].n_unique() > 1

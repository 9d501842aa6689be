"""The leaderboard: one line per model, target, explainer, metric, ground truth, pooling and subset of the cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.results.columns import KEY, VARIANT, Columns, Gathered, Key
from heatproof.results.statistics import bootstrap_means, interval, over_models, quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = (
    "benchmark", "dataset", "model", "target", "explainer", "metric", "ground_truth", "pooling", "subset", "n",
    "mean", "std", "median", "ci_low", "ci_high", "reference", "seconds_per_case", "passes_per_case",
    "reference_elsewhere",
)  # fmt: skip
NUMBERS = COLUMNS[COLUMNS.index("mean") :]
AXES = (*KEY, *VARIANT, "subset")
FURTHER = ("least", "percentile_20", "percentile_80", "most", "reference_std", "reference_median")
"""Columns of statistics.csv behind the axes: what the leaderboard has no room for."""
HELD = 2 * 10**6
"""Scores that go through one bootstrap at a time."""


def leaderboard(
    scores: Gathered, *, benchmark: str, dataset: str, metrics: Sequence[str], reference: pl.DataFrame | None, seed: int
) -> pl.DataFrame:
    """Means, spreads and intervals of scores, with the paper's number and the cost of explaining.

    `std` is the population's over cases. Where there are several models, further lines sum them up: `model` says how
    many, `n` is their number, `std` the spread (ddof 1) of their means, and the interval resamples cases and models.
    All of a variant's subsets see the same resampled cases. The frame has the columns of the leaderboard and those of
    the further statistics.
    """
    lines: list[dict[str, Any]] = []
    models = len(scores.models)
    for group in groups(scores.columns(metrics)):
        blocks = [block for columns in group for block in subset_blocks(columns, scores.subsets)]
        ends = np.cumsum([block.values.shape[1] for block in blocks])[:-1]
        means = np.split(bootstrap_means(np.hstack([block.values for block in blocks]), seed), ends, axis=1)
        for block, resampled in zip(blocks, means, strict=True):
            lines += [line | block.named for line in case_lines(block.keys, block.values, resampled)]
            if models > 1:
                lines += [line | block.named for line in model_lines(block.keys, block.values, resampled, seed, models)]
    table = pl.DataFrame(lines, infer_schema_length=None).with_columns(
        benchmark=pl.lit(benchmark), dataset=pl.lit(dataset)
    )
    table = table.join(scores.costs, on=["target", "explainer"], how="left", maintain_order="left")
    if reference is not None:
        published = [name for name in ("explainer", "target", *VARIANT, "subset") if name in reference.columns]
        table = table.join(reference, on=published, how="left", maintain_order="left")
    for name in ("reference", "reference_elsewhere", *FURTHER):
        if name not in table.columns:
            table = table.with_columns(pl.lit(None, dtype=pl.Float64).alias(name))
    return table.select(*COLUMNS, *FURTHER)


@dataclass(frozen=True, eq=False)
class Block:
    """The scores (cases, keys) of one variant and subset; undefined for cases outside the subset."""

    named: dict[str, str]
    keys: Sequence[Key]
    values: NDArray[np.float64]


def subset_blocks(columns: Columns, subsets: Sequence[str]) -> Iterator[Block]:
    """A block for all cases and one for each subset that has any score."""
    named = dict(zip(VARIANT, columns.variant, strict=True))
    yield Block(named | {"subset": "all"}, columns.keys, columns.values)
    for name, flags in zip(subsets, columns.flags, strict=True):
        values = np.where(flags, columns.values, np.nan)
        if not np.isnan(values).all():
            yield Block(named | {"subset": name}, columns.keys, values)


def groups(variants: Iterable[Columns]) -> Iterator[list[Columns]]:
    """Variants that have the same cases and go through one bootstrap, as many as fit into HELD values."""
    held: list[Columns] = []
    for columns in variants:
        size = columns.values.size + columns.flags.size
        if held and (len(held) * size >= HELD or not np.array_equal(held[0].cases, columns.cases)):
            yield held
            held = []
        held.append(columns)
    if held:
        yield held


def case_lines(
    keys: Sequence[Sequence[str]], values: np.ndarray[Any, Any], means: np.ndarray[Any, Any]
) -> Iterator[dict[str, Any]]:
    """A line per model, target and explainer: statistics over cases."""
    low, high = interval(means)
    ordered = np.sort(values, axis=0)
    lines = np.ascontiguousarray(values.T)  # so that a sum is made in the same order whatever else is in the table
    defined = ~np.isnan(lines)
    counts = defined.sum(1)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, lines, 0.0).sum(1) / counts
        std = np.sqrt((np.where(defined, lines - mean[:, None], 0.0) ** 2).sum(1) / counts)
    shares = quantiles(ordered, (0.5, 0.0, 0.2, 0.8, 1.0))
    numbers = np.stack([mean, std, shares[0], low, high, *shares[1:]])
    names = ("mean", "std", "median", "ci_low", "ci_high", *FURTHER[:4])
    for column, key in enumerate(keys):
        found = numbers[:, column].tolist() if counts[column] else [None] * len(names)
        yield dict(zip(KEY, key, strict=True)) | {"n": int(counts[column])} | dict(zip(names, found, strict=True))


def model_lines(
    keys: Sequence[Sequence[str]], values: np.ndarray[Any, Any], means: np.ndarray[Any, Any], seed: int, models: int
) -> Iterator[dict[str, Any]]:
    """A line per target and explainer: statistics over the means of those models that have any."""
    columns: dict[tuple[str, str], list[int]] = {}
    for column, (_, target, explainer) in enumerate(keys):
        columns.setdefault((target, explainer), []).append(column)
    for (target, explainer), chosen in columns.items():
        low, high = interval(over_models(means[:, chosen, None], seed))
        defined = [column[~np.isnan(column)] for column in values[:, chosen].T]
        model_means = np.array([column.mean() for column in defined if len(column)])
        line = {"model": all_models(models), "target": target, "explainer": explainer}
        yield line | statistics(model_means, float(low[0]), float(high[0]))


def all_models(count: int) -> str:
    """What the `model` column says on lines that sum up several models."""
    return f"mean of {count} models"


def statistics(means: np.ndarray[Any, Any], low: float, high: float) -> dict[str, Any]:
    """Of the means of models; their spread is a sample's."""
    if not len(means):
        return {"n": 0, "mean": None, "std": None, "median": None, "ci_low": None, "ci_high": None}
    return {
        "n": len(means),
        "mean": float(means.mean()),
        "std": float(means.std(ddof=min(1, len(means) - 1))),
        "median": float(np.median(means)),
        "ci_low": low,
        "ci_high": high,
    }


def read_leaderboard(path: Path) -> pl.DataFrame:
    """leaderboard.csv with the types that it was written with; an axis that does not apply is empty text."""
    types = {name: pl.Float64 if name in NUMBERS else pl.Int64 if name == "n" else pl.String for name in COLUMNS}
    try:
        table = pl.read_csv(path, schema_overrides=types)
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise HeatproofError(f"{path} is damaged ({problem}); run again to make it anew.") from problem
    if table.columns != list(COLUMNS) or table.is_empty():
        raise HeatproofError(f"{path} is damaged: it has other columns than a leaderboard; run again to make it anew.")
    return table.with_columns(pl.col(pl.String).fill_null(""))

"""The leaderboard: one line per model, target, explainer, metric, ground truth, pooling and subset of the cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.results.statistics import bootstrap_means, interval, over_models

COLUMNS = (
    "benchmark", "dataset", "model", "target", "explainer", "metric", "ground_truth", "pooling", "subset", "n",
    "mean", "std", "median", "ci_low", "ci_high", "reference", "seconds_per_case", "passes_per_case",
)  # fmt: skip
NUMBERS = COLUMNS[COLUMNS.index("mean") :]
KEY = ("model", "target", "explainer")
VARIANT = ("metric", "ground_truth", "pooling")
AXES = (*KEY, *VARIANT, "subset")
FURTHER = ("least", "percentile_20", "percentile_80", "most", "reference_std", "reference_median")
"""Columns of statistics.csv behind the axes: what the leaderboard has no room for."""


def leaderboard(
    scores: pl.DataFrame,
    *,
    benchmark: str,
    dataset: str,
    metrics: Sequence[str],
    reference: pl.DataFrame,
    seed: int,
    subsets: Mapping[str, pl.Expr] | None = None,
) -> pl.DataFrame:
    """Means, spreads and intervals of score rows, with the paper's number and the cost of explaining.

    `std` is the population's over cases. Where there are several models, further lines sum them up: `model` says how
    many, `n` is their number, `std` the spread (ddof 1) of their means, and the interval resamples cases and models.
    A subset is a condition on the rows. All of a variant's subsets see the same resampled cases. The frame has the
    columns of the leaderboard and those of the further statistics.
    """
    lines: list[dict[str, Any]] = []
    models = scores["model"].n_unique()
    measured = scores.filter(pl.col("metric").is_in(list(metrics)))
    for variant, group in sorted(measured.group_by(*VARIANT), key=lambda item: variant_order(item[0], metrics)):
        keys = group.select(*KEY).unique(maintain_order=True).rows()
        chosen = {"all": values_by_key(group, None)}
        for name, condition in (subsets or {}).items():
            values = values_by_key(group, condition)
            if not np.isnan(values).all():
                chosen[name] = values
        means = np.split(bootstrap_means(np.hstack(list(chosen.values())), seed), len(chosen), axis=1)
        named = dict(zip(VARIANT, (str(part) for part in variant), strict=True))
        for (subset, values), resampled in zip(chosen.items(), means, strict=True):
            within = named | {"subset": subset}
            lines += [line | within for line in case_lines(keys, values, resampled)]
            lines += [line | within for line in model_lines(keys, values, resampled, seed, models)] * (models > 1)
    table = pl.DataFrame(lines, infer_schema_length=None).with_columns(
        benchmark=pl.lit(benchmark), dataset=pl.lit(dataset)
    )
    table = table.join(costs(scores), on=["target", "explainer"], how="left", maintain_order="left")
    published = [name for name in ("explainer", "target", *VARIANT, "subset") if name in reference.columns]
    table = table.join(reference, on=published, how="left", maintain_order="left")
    for name in FURTHER:
        if name not in table.columns:
            table = table.with_columns(pl.lit(None, dtype=pl.Float64).alias(name))
    return table.select(*COLUMNS, *FURTHER)


def values_by_key(group: pl.DataFrame, condition: pl.Expr | None) -> np.ndarray[Any, Any]:
    """Scores (cases, keys) of one variant; undefined for cases outside the subset.

    Cases come in the order of their names, keys in that of their first appearance.
    """
    if condition is not None:
        group = group.with_columns(value=pl.when(condition).then(pl.col("value")))
    wide = group.pivot(on=list(KEY), index="case", values="value", aggregate_function="first").sort("case")
    return wide.drop("case").to_numpy().astype(np.float64)


def variant_order(variant: Sequence[Any], metrics: Sequence[str]) -> tuple[int, str, str]:
    metric, ground_truth, pooling = (str(part) for part in variant)
    return list(metrics).index(metric), ground_truth, pooling


def case_lines(
    keys: Sequence[Sequence[str]], values: np.ndarray[Any, Any], means: np.ndarray[Any, Any]
) -> Iterator[dict[str, Any]]:
    """A line per model, target and explainer: statistics over cases."""
    low, high = interval(means)
    for column, key in enumerate(keys):
        defined = values[:, column][~np.isnan(values[:, column])]
        line = statistics(defined, 0, float(low[column]), float(high[column]))
        yield dict(zip(KEY, key, strict=True)) | line | spread(defined)


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
        yield line | statistics(model_means, 1, float(low[0]), float(high[0]))


def all_models(count: int) -> str:
    """What the `model` column says on lines that sum up several models."""
    return f"mean of {count} models"


def statistics(defined: np.ndarray[Any, Any], ddof: int, low: float, high: float) -> dict[str, Any]:
    if not len(defined):
        return {"n": 0, "mean": None, "std": None, "median": None, "ci_low": None, "ci_high": None}
    return {
        "n": len(defined),
        "mean": float(defined.mean()),
        "std": float(defined.std(ddof=min(ddof, len(defined) - 1))),
        "median": float(np.median(defined)),
        "ci_low": low,
        "ci_high": high,
    }


def spread(defined: np.ndarray[Any, Any]) -> dict[str, float | None]:
    """The further statistics over cases."""
    if not len(defined):
        return dict.fromkeys(("least", "percentile_20", "percentile_80", "most"))
    low, high = np.percentile(defined, [20, 80])
    return {
        "least": float(defined.min()),
        "percentile_20": float(low),
        "percentile_80": float(high),
        "most": float(defined.max()),
    }


def costs(scores: pl.DataFrame) -> pl.DataFrame:
    """Seconds and passes per case of each explainer, over all cases that it explained."""
    measured = scores.filter(pl.col("metric").is_in(["seconds", "passes"]))
    return measured.group_by("target", "explainer").agg(
        seconds_per_case=pl.col("value").filter(pl.col("metric") == "seconds").mean(),
        passes_per_case=pl.col("value").filter(pl.col("metric") == "passes").mean(),
    )


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

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
    "reference_elsewhere", "undefined", "mean_all", "ci_low_all", "ci_high_all",
)  # fmt: skip
NUMBERS = COLUMNS[COLUMNS.index("mean") :]
AXES = (*KEY, *VARIANT, "subset")
FURTHER = ("least", "percentile_20", "percentile_80", "most", "reference_std", "reference_median")
"""Columns of statistics.csv behind the axes: what the leaderboard has no room for."""
ALL = ("mean_all", "ci_low_all", "ci_high_all")
"""The reading in which an unusable map counts as a uniform one."""
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

    `mean` is over the scores that are defined, as the papers have it. `undefined` is the share of maps that have none
    by the explainer's own doing, and `mean_all` counts each of these as a uniform map: whoever is silent where it is
    hard gains nothing by it. There is no interval of a single case.
    """
    lines: list[dict[str, Any]] = []
    models = len(scores.models)
    for group in groups(scores.columns(metrics)):
        blocks = [block for columns in group for block in subset_blocks(columns, scores.subsets)]
        readings = [block.values for block in blocks] + [block.whole[:, block.gaps] for block in blocks]
        ends = np.cumsum([reading.shape[1] for reading in readings])[:-1]
        means = np.split(bootstrap_means(np.hstack(readings), seed), ends, axis=1)
        for block, plain, filled in zip(blocks, means, means[len(blocks) :], strict=False):
            whole = plain.copy()
            whole[:, block.gaps] = filled
            lines += [line | block.named for line in case_lines(block, plain, whole)]
            if models > 1:
                lines += [line | block.named for line in model_lines(block, plain, whole, seed, models)]
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
    whole: NDArray[np.float64]
    """The same, with unusable maps counted as uniform ones."""
    unusable: NDArray[np.bool_]

    @property
    def gaps(self) -> NDArray[np.int64]:
        """The columns in which the two readings differ."""
        return np.flatnonzero((np.isnan(self.values) & ~np.isnan(self.whole)).any(0))


def subset_blocks(columns: Columns, subsets: Sequence[str]) -> Iterator[Block]:
    """A block for all cases and one for each subset that has any score."""
    named = dict(zip(VARIANT, columns.variant, strict=True))
    whole, unusable = columns.whole, columns.unusable
    yield Block(named | {"subset": "all"}, columns.keys, columns.values, whole, unusable)
    for name, flags in zip(subsets, columns.flags, strict=True):
        values = np.where(flags, columns.values, np.nan)
        if not np.isnan(values).all():
            yield Block(
                named | {"subset": name}, columns.keys, values, np.where(flags, whole, np.nan), unusable & flags
            )


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


def case_lines(block: Block, means: NDArray[np.float64], means_all: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    """A line per model, target and explainer: statistics over cases, from the resampled means of both readings."""
    values = block.values
    low, high = interval(means)
    ordered = np.sort(values, axis=0)
    lines = np.ascontiguousarray(values.T)  # so that a sum is made in the same order whatever else is in the table
    defined = ~np.isnan(lines)
    counts, silent = defined.sum(1), block.unusable.sum(0)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, lines, 0.0).sum(1) / counts
        std = np.sqrt((np.where(defined, lines - mean[:, None], 0.0) ** 2).sum(1) / counts)
        undefined = silent / (counts + silent)
    mean_all, low_all, high_all = mean.copy(), low.copy(), high.copy()
    if len(gaps := block.gaps):
        mean_all[gaps] = np.nanmean(block.whole[:, gaps], axis=0)
        low_all[gaps], high_all[gaps] = interval(means_all[:, gaps])
    shares = quantiles(ordered, (0.5, 0.0, 0.2, 0.8, 1.0))
    numbers = np.stack([mean, std, shares[0], low, high, *shares[1:], mean_all, low_all, high_all])
    names = ("mean", "std", "median", "ci_low", "ci_high", *FURTHER[:4], *ALL)
    for column, key in enumerate(block.keys):
        found = [None if np.isnan(number) else float(number) for number in numbers[:, column]]
        line = dict(zip(names, found, strict=True)) | {"undefined": float(undefined[column])}
        if counts[column] < 2:
            line |= {"ci_low": None, "ci_high": None}
        if counts[column] + silent[column] < 2:
            line |= {"ci_low_all": None, "ci_high_all": None}
        yield dict(zip(KEY, key, strict=True)) | {"n": int(counts[column])} | line


def model_lines(
    block: Block, means: NDArray[np.float64], means_all: NDArray[np.float64], seed: int, models: int
) -> Iterator[dict[str, Any]]:
    """A line per target and explainer: statistics over the means of those models that have any."""
    columns: dict[tuple[str, str], list[int]] = {}
    for column, (_, target, explainer) in enumerate(block.keys):
        columns.setdefault((target, explainer), []).append(column)
    for (target, explainer), chosen in columns.items():
        low, high = interval(over_models(means[:, chosen, None], seed))
        low_all, high_all = interval(over_models(means_all[:, chosen, None], seed))
        silent = int(block.unusable[:, chosen].sum())
        heard = int((~np.isnan(block.values[:, chosen])).sum())
        line = {"model": all_models(models), "target": target, "explainer": explainer}
        line |= statistics(means_of(block.values[:, chosen]), float(low[0]), float(high[0]))
        whole = means_of(block.whole[:, chosen])
        numbers = (float(whole.mean()), float(low_all[0]), float(high_all[0])) if len(whole) else (None,) * 3
        yield line | dict(zip(ALL, numbers, strict=True)) | {"undefined": silent / max(1, silent + heard)}


def means_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each column over what is defined, of those columns that have anything."""
    defined = [column[~np.isnan(column)] for column in values.T]
    return np.array([column.mean() for column in defined if len(column)])


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

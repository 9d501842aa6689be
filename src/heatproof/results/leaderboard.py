"""The leaderboard: one line per model, target, explainer, metric, ground truth, pooling and subset of the cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.executors.threads import in_turn
from heatproof.lazy import np, pl
from heatproof.results.columns import KEY, VARIANT, Columns, Gathered, Key
from heatproof.results.skill import SKILL, Scale
from heatproof.results.statistics import (
    Sample,
    bootstrap_means,
    independent,
    over_models,
    quantile_interval,
    quantiles,
    told_by,
)
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = (
    "benchmark", "dataset", "model", "target", "explainer", "metric", "ground_truth", "pooling", "subset", "n",
    "mean", "std", "median", "ci_low", "ci_high", "reference", "seconds_per_case", "passes_per_case",
    "reference_elsewhere", "undefined", "mean_all", "ci_low_all", "ci_high_all", *SKILL, "peak_memory",
)  # fmt: skip
NUMBERS = COLUMNS[COLUMNS.index("mean") :]
AXES = (*KEY, *VARIANT, "subset")
SHARES = {"median": 0.5, "percentile_20": 0.2, "percentile_80": 0.8}
"""The quantiles that have intervals."""
QUANTILES = ("least", "percentile_20", "percentile_80", "most")
BOUNDS = tuple(f"{name}_{end}" for name in SHARES for end in ("low", "high"))
FURTHER = (*QUANTILES, "reference_std", "reference_median", *BOUNDS)
"""Columns of statistics.csv behind the axes: what the leaderboard has no room for."""
ALL = ("mean_all", "ci_low_all", "ci_high_all")
"""The reading in which an unusable map counts as a uniform one."""
HELD = 2 * 10**6
"""Scores that go through one bootstrap at a time."""
WIDEST = 1000
"""Columns of scores that do: what their resamples make stays in the cache."""


def leaderboard(
    scores: Gathered,
    *,
    benchmark: str,
    dataset: str,
    metrics: Sequence[MetricWords],
    families: Mapping[str, str],
    reference: pl.DataFrame | None,
    seed: int,
    look: Callable[[Block, NDArray[np.float64]], object] | None = None,
) -> pl.DataFrame:
    """Means, spreads and intervals of scores, with the paper's number and the cost of explaining.

    `std` is the population's over cases. Where there are several models, further lines sum them up: `model` says how
    many, `n` is their number, `std` the spread (ddof 1) of their means, and the interval resamples cases and models.
    All of a variant's subsets see the same resampled cases. The frame has the columns of the leaderboard and those of
    the further statistics.

    `mean` is over the scores that are defined, as the papers have it. `undefined` is the share of maps that have none
    by the explainer's own doing, and `mean_all` counts each of these as a uniform map: whoever is silent where it is
    hard gains nothing by it. There is no interval of a single case. `skill` puts `mean_all` on a scale from the best
    floor (0) to the ceiling (1); `families` says which explainers are floors or ceilings. `look` is shown every block
    of scores with the resamples of its `mean_all`.
    """
    lines: list[dict[str, Any]] = []
    models, words = len(scores.models), {metric.name: metric for metric in metrics}

    def lines_of(blocks: Sequence[Block]) -> tuple[Drawn, list[dict[str, Any]]]:
        drawn = Drawn.of(blocks, seed)
        scale = Scale(words[blocks[0].named["metric"]], families)
        found: list[dict[str, Any]] = []
        for block, numbers, (plain, whole) in zip(blocks, case_lines(drawn, scale), drawn.means, strict=True):
            found += (line | block.named for line in numbers)
            if models > 1:
                found += (line | block.named for line in model_lines(block, plain, whole, scale, seed, models))
        return drawn, found

    for drawn, found in in_turn(lines_of, alike_blocks(scores, list(words))):
        lines += found
        if look is not None:
            for block, (_, whole) in zip(drawn.blocks, drawn.means, strict=True):
                look(block, whole)
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
    clusters: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Drawn:
    """Blocks of one metric and the same cases side by side, and what resampled cases make of them.

    plain   means (resamples, columns) of the scores
    filled  those of the other reading at `gaps`, the columns in which it differs
    """

    blocks: Sequence[Block]
    values: NDArray[np.float64]
    whole: NDArray[np.float64]
    gaps: NDArray[np.int64]
    plain: NDArray[np.float64]
    filled: NDArray[np.float64]

    @classmethod
    def of(cls, blocks: Sequence[Block], seed: int) -> Drawn:
        values, whole = (np.hstack([getattr(block, name) for block in blocks]) for name in ("values", "whole"))
        gaps = np.flatnonzero((np.isnan(values) & ~np.isnan(whole)).any(0))
        means = bootstrap_means(np.hstack([values, whole[:, gaps]]), seed, clusters=blocks[0].clusters)
        return cls(blocks, values, whole, gaps, *np.split(means, [values.shape[1]], axis=1))

    @property
    def clusters(self) -> NDArray[np.int64] | None:
        return self.blocks[0].clusters

    @cached_property
    def means(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The means of each block's two readings."""
        whole = self.plain
        if len(self.gaps):
            whole = whole.copy()
            whole[:, self.gaps] = self.filled
        ends = np.cumsum([len(block.keys) for block in self.blocks])[:-1]
        return list(zip(*(np.split(reading, ends, axis=1) for reading in (self.plain, whole)), strict=True))

    def sample(
        self, values: NDArray[np.float64], mean: NDArray[np.float64], scale: Scale, chosen: NDArray[np.int64] | slice
    ) -> Sample:
        """What intervals of the means of the columns that are chosen rest on.

        A ceiling is made of the truth: that it has the best score on every case is no estimate.
        """
        sample = Sample.of(values, mean, self.clusters, scale.words.range)
        every = [scale.families.get(explainer) == "ceiling" for block in self.blocks for *_, explainer in block.keys]
        is_ceiling = np.array(every, dtype=bool)[chosen]
        return replace(sample, same=sample.same & ~(is_ceiling & (mean == scale.words.best)))


def alike_blocks(scores: Gathered, metrics: Sequence[str]) -> Iterator[list[Block]]:
    """All blocks; those of one metric and the same cases together, as many as go through one bootstrap."""
    for group in groups(scores.columns(metrics)):
        for blocks in portions(group, scores.subsets):
            yield from (list(alike) for _, alike in groupby(blocks, key=lambda block: block.named["metric"]))


def portions(group: Iterable[Columns], subsets: Sequence[str]) -> Iterator[list[Block]]:
    """The blocks of variants that have the same cases, as many at a time as fit into HELD values."""
    held: list[Block] = []
    for block in chain.from_iterable(subset_blocks(columns, subsets) for columns in group):
        columns = (len(held) + 1) * block.values.shape[1]
        if held and (columns > WIDEST or columns * len(block.values) > HELD):
            yield held
            held = []
        held.append(block)
    yield held


def subset_blocks(columns: Columns, subsets: Sequence[str]) -> Iterator[Block]:
    """A block for all cases and one for each subset that has any score."""
    named = dict(zip(VARIANT, columns.variant, strict=True))
    whole, unusable = columns.whole, columns.unusable
    yield Block(named | {"subset": "all"}, columns.keys, columns.values, whole, unusable, columns.clusters)
    for name, flags in zip(subsets, columns.flags, strict=True):
        values = np.where(flags, columns.values, np.nan)
        if not np.isnan(values).all():
            within, silent = np.where(flags, whole, np.nan), unusable & flags
            yield Block(named | {"subset": name}, columns.keys, values, within, silent, columns.clusters)


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


def case_lines(drawn: Drawn, scale: Scale) -> Iterator[list[dict[str, Any]]]:
    """By block a line per model, target and explainer: statistics over cases, intervals from the resampled means."""
    values, gaps = drawn.values, drawn.gaps
    ordered = np.sort(values, axis=0)
    lines = np.ascontiguousarray(values.T)  # so that a sum is made in the same order whatever else is in the table
    defined = ~np.isnan(lines)
    counts = defined.sum(1)
    silent = np.concatenate([block.unusable.sum(0) for block in drawn.blocks])
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, lines, 0.0).sum(1) / counts
        std = np.sqrt((np.where(defined, lines - mean[:, None], 0.0) ** 2).sum(1) / counts)
        undefined = silent / (counts + silent)
    sample = drawn.sample(values, mean, scale, slice(None))
    low, high = sample.around(drawn.plain)
    mean_all, low_all, high_all, rest_on = mean.copy(), low.copy(), high.copy(), sample.counts.copy()
    if len(gaps):
        mean_all[gaps] = np.nanmean(drawn.whole[:, gaps], axis=0)
        sample = drawn.sample(drawn.whole[:, gaps], mean_all[gaps], scale, gaps)
        low_all[gaps], high_all[gaps] = sample.around(drawn.filled)
        rest_on[gaps] = sample.counts
    shares = quantiles(ordered, (0.5, 0.0, 0.2, 0.8, 1.0))
    known = dict(zip(("median", *QUANTILES), shares, strict=True))
    bounds = [
        bound
        for name, share in SHARES.items()
        for bound in quantile_interval(ordered, share, told_by(values, known[name], drawn.clusters))
    ]
    numbers = np.stack([mean, std, shares[0], low, high, *shares[1:], mean_all, low_all, high_all, *bounds])
    names = ("mean", "std", "median", "ci_low", "ci_high", *QUANTILES, *ALL, *BOUNDS, *SKILL)
    start = 0
    for block, (_, means_all) in zip(drawn.blocks, drawn.means, strict=True):
        here = slice(start, start := start + len(block.keys))
        skills = np.stack(scale.skills(block.keys, mean_all[here], means_all, rest_on[here]))
        found = np.vstack([numbers[:, here], skills])
        yield [
            {
                **dict(zip(KEY, key, strict=True)),
                "n": int(count),
                **{name: None if math.isnan(number) else number for name, number in zip(names, column, strict=True)},
                "undefined": float(share),
            }
            for key, count, column, share in zip(
                block.keys, counts[here], found.T.tolist(), undefined[here], strict=True
            )
        ]


def model_lines(
    block: Block,
    means: NDArray[np.float64],
    means_all: NDArray[np.float64],
    scale: Scale,
    seed: int,
    models: int,
) -> Iterator[dict[str, Any]]:
    """A line per target and explainer: statistics over the means of those models that have any."""
    columns: dict[tuple[str, str], list[int]] = {}
    for column, (_, target, explainer) in enumerate(block.keys):
        columns.setdefault((target, explainer), []).append(column)
    summed = {line: over_models(means_all[:, chosen, None], seed)[:, 0] for line, chosen in columns.items()}
    whole = {line: means_of(block.whole[:, chosen]) for line, chosen in columns.items()}
    overall = np.array([found.mean() if len(found) else np.nan for found in whole.values()])
    keys = [("", *line) for line in columns]
    defined = ~np.isnan(block.whole)
    rest_on = np.array([independent(defined[:, chosen], block.clusters).max() for chosen in columns.values()])
    skills = np.stack(scale.skills(keys, overall, np.stack(list(summed.values()), 1), rest_on))
    for place, ((target, explainer), chosen) in enumerate(columns.items()):
        heard_of = means_of(block.values[:, chosen])
        ends = scale.words.range
        low, high = models_interval(heard_of, over_models(means[:, chosen, None], seed), rest_on[place], ends)
        low_all, high_all = models_interval(
            whole[target, explainer], summed[target, explainer][:, None], rest_on[place], ends
        )
        silent = int(block.unusable[:, chosen].sum())
        heard = int((~np.isnan(block.values[:, chosen])).sum())
        line: dict[str, Any] = {"model": all_models(models), "target": target, "explainer": explainer}
        line |= statistics(heard_of, low, high)
        numbers = (float(overall[place]), low_all, high_all) if len(whole[target, explainer]) else (None,) * 3
        skill = [None if np.isnan(number) else float(number) for number in skills[:, place]]
        line |= dict(zip(ALL, numbers, strict=True)) | dict(zip(SKILL, skill, strict=True))
        yield line | {"undefined": silent / max(1, silent + heard)}


def models_interval(
    means: NDArray[np.float64], drawn: NDArray[np.float64], cases: int, ends: tuple[float, float]
) -> tuple[float | None, float | None]:
    """The 95 % interval of the mean of models' means, from its resamples (resamples, 1); a single one has none."""
    if len(means) < 2:
        return None, None
    sample = Sample(means.mean(keepdims=True), np.array([cases]), np.array([False]), *ends)
    low, high = (float(end[0]) for end in sample.around(drawn))
    return None if np.isnan(low) else low, None if np.isnan(high) else high


def means_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each column over what is defined, of those columns that have anything."""
    defined = [column[~np.isnan(column)] for column in values.T]
    return np.array([column.mean() for column in defined if len(column)])


def all_models(count: int) -> str:
    """What the `model` column says on lines that sum up several models."""
    return f"mean of {count} models"


def statistics(means: np.ndarray[Any, Any], low: float | None, high: float | None) -> dict[str, Any]:
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


def read_leaderboard(content: bytes, path: Path) -> pl.DataFrame:
    """The content of leaderboard.csv with the types it was written with; an axis that does not apply is empty text."""
    types = {name: pl.Float64 if name in NUMBERS else pl.Int64 if name == "n" else pl.String for name in COLUMNS}
    table = pl.read_csv(content, schema_overrides=types)
    if table.columns != list(COLUMNS) or table.is_empty():
        raise HeatproofError(f"{path} is damaged: it has other columns than a leaderboard; run again to make it anew.")
    return table.with_columns(pl.col(pl.String).fill_null(""))


def read_statistics(content: bytes) -> pl.DataFrame:
    """The content of statistics.csv with the types that it was written with."""
    types = dict.fromkeys(AXES, pl.String) | {"n": pl.Int64} | dict.fromkeys(FURTHER, pl.Float64)
    return pl.read_csv(content, schema_overrides=types).with_columns(pl.col(pl.String).fill_null(""))

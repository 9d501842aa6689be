"""Which class does the model take for which? Pairs of classes whose Focus is low, found in the scores of a run.

For each mosaic and each other class in it, the pair's share is t / (t + o), with t and o the positive relevance of a
tile of the target and of the other class. At 0.5 the model sees as much of the target in pictures of the other class
as in its own. A pair is reported where the mean share is significantly below that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from typing import Any

from heatproof.benchmarks.focus import under_paper_pooling
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.results.run import Run
from heatproof.results.statistics import bootstrap_means, interval

LEAST = 3
"""Mosaics that a pair must have for a test."""


def tile_shares(run: Run, explainer: str, model: str | None = None) -> pl.DataFrame:
    """A row per mosaic of one explainer on one model: facts, and the share of relevance of each tile."""
    if run.manifest["configuration"]["benchmark"] != "focus":
        raise HeatproofError(f"{run.folder} is no run of focus.")
    labels = [entry["explainer"] for entry in run.manifest["explainers"]]
    chosen = [label for label in labels if label == explainer or label.split(":")[0] == explainer]
    if not chosen:
        raise HeatproofError(f"{run.folder} has no scores of {explainer}; it has: {', '.join(labels)}.")
    scores = run.scores().filter((pl.col("explainer") == chosen[0]) & pl.col("metric").str.starts_with("share_"))
    if scores.is_empty():
        raise HeatproofError(f"{run.folder} has no scores of {chosen[0]}: it failed there, see the table.")
    scores = scores.filter(pl.col("model") == (model or scores["model"][0]))
    scores = scores.filter(pl.col("target") == scores["target"][-1])
    facts = [name for name in scores.columns if name.startswith("label_")]
    return under_paper_pooling(scores).pivot(on="metric", index=["case", "target_class", *facts], values="value")


def pair_rows(shares: pl.DataFrame) -> pl.DataFrame:
    """A row per mosaic and other class in it: target_class, other, focus, share."""
    tiles = range(sum(name.startswith("label_") for name in shares.columns))
    rows: list[dict[str, Any]] = []
    for row in shares.iter_rows(named=True):
        target = row["target_class"]
        values = [(row[f"label_{i}"], row[f"share_{i}"]) for i in tiles]
        mine = [share for label, share in values if label == target]
        for other in sorted({label for label, _ in values} - {target}):
            theirs = [share for label, share in values if label == other]
            t, o = float(np.mean(mine)), float(np.mean(theirs))
            share = t / (t + o) if t + o > 0 else nan
            rows.append(
                {"case": row["case"], "target_class": target, "other": other, "focus": sum(mine), "share": share}
            )
    return pl.DataFrame(rows)


def find_pairs(pairs: pl.DataFrame, below: float = 0.5, level: float = 0.05, seed: int = 0) -> pl.DataFrame:
    """Every pair with its means and intervals, lowest share first; `found` where the share is significantly low.

    One-sided t-tests of mean share < `below`, corrected by Holm's method for the number of pairs.
    """
    lines = []
    for (target, other), group in pairs.group_by("target_class", "other"):
        values = group.select("focus", "share").to_numpy()
        values = values[~np.isnan(values).any(1)]
        if not len(values):
            continue
        low, high = interval(bootstrap_means(values, seed))
        line: dict[str, Any] = {"target_class": target, "other": other, "n": len(values)}
        for place, name in enumerate(("focus", "share")):
            line |= {name: values[:, place].mean(), f"{name}_low": low[place], f"{name}_high": high[place]}
        lines.append(line | {"p": p_below(values[:, 1], below)})
    if not lines:
        raise HeatproofError("no mosaic has a defined score, so there is nothing to compare.")
    table = pl.DataFrame(lines, infer_schema_length=None).sort("share", "target_class", "other")
    corrected = holm(table["p"].to_list())
    return table.with_columns(p_corrected=pl.Series(corrected), found=pl.Series([p < level for p in corrected]))


def p_below(values: np.ndarray[Any, Any], below: float) -> float:
    """Chance of a mean this low if the true mean is not below `below`; 1 for too few values to tell."""
    from scipy.stats import ttest_1samp

    if len(values) < LEAST:
        return 1.0
    p = float(ttest_1samp(values, below, alternative="less").pvalue) if values.std() > 0 else nan
    return (0.0 if values.mean() < below else 1.0) if isnan(p) else p


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for their number: the smallest times n, the next times n - 1 ..., never falling."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    corrected, highest = [0.0] * len(p), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, p[place] * (len(p) - rank)))
        corrected[place] = highest
    return corrected


def class_means(shares: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Mean Focus of each target class with its interval, lowest first."""
    lines = []
    per_mosaic = pair_rows(shares).unique("case", maintain_order=True)
    for (target,), group in per_mosaic.group_by("target_class"):
        values = group["focus"].drop_nans().to_numpy()[:, None]
        if len(values):
            low, high = interval(bootstrap_means(values, seed))
            lines.append(
                {"target_class": target, "n": len(values), "focus": float(values.mean())}
                | {"focus_low": float(low[0]), "focus_high": float(high[0])}
            )
    return pl.DataFrame(lines).sort("focus", "target_class")

"""From the relevance that lies on the marker in either twin to the scores of a method, which has explained both."""

from __future__ import annotations

from collections.abc import Sequence

from heatproof.cases import Batch
from heatproof.lazy import np, pl, torch
from heatproof.metrics import metrics
from heatproof.metrics.heatmap_scores import score_heatmaps

RAW = "on_marker"
"""The share of the relevance that lies on the marker in one twin; what scores are made of, and no score itself."""
TRUTH = "marker"
METRICS = ("cue_contrast", "cue_told", "cue_share", "false_cue_share")
SHOWN_POOLING = "l1_norm"


def raw_rows(batch: Batch, relevance: torch.Tensor, poolings: Sequence[str]) -> pl.DataFrame:
    """The share on the marker under every pooling, with the facts of each case."""
    mask = batch.masks[TRUTH].cpu().numpy()
    scored = score_heatmaps(relevance.cpu().numpy(), {TRUTH: mask}, poolings, ranks=False)
    known = pl.DataFrame({"case": list(batch.ids), **{name: list(column) for name, column in batch.facts.items()}})
    area = mask.reshape(len(batch), -1).mean(1)
    return pl.concat(
        known.with_columns(
            metric=pl.lit(RAW),
            ground_truth=pl.lit(TRUTH),
            pooling=pl.lit(pooling),
            value=pl.Series(scored.mass[place, 0], dtype=pl.Float64),
            uniform=pl.Series(area, dtype=pl.Float64),
        )
        for place, pooling in enumerate(scored.poolings)
    )


def pair_rows(rows: pl.DataFrame, shortcut: str, honest: str) -> pl.DataFrame:
    """METRICS of every case that a method has explained in both twins; they stand under the shortcut twin's name."""
    axes = ["case", "explainer", "target", "ground_truth", "pooling"]
    both = rows.filter(pl.col("model") == shortcut).join(
        rows.filter(pl.col("model") == honest).select(*axes, pl.col("value").alias("honest")),
        on=axes,
        how="inner",
        maintain_order="left",
    )
    ours, theirs, area = (both[name].to_numpy().astype(np.float64) for name in ("value", "honest", "uniform"))
    return pl.concat(
        both.drop("honest").with_columns(
            metric=pl.lit(metric),
            value=pl.Series(metrics[metric].function(ours, theirs), dtype=pl.Float64),
            uniform=pl.Series(metrics[metric].function(area, area), dtype=pl.Float64),
        )
        for metric in METRICS
    )

"""Score rows of heatmaps whose objects' effects are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.lazy import np, pl, torch
from heatproof.metrics import effects as on_effects
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.metrics.uniform import uniform_column
from heatproof.pooling import pool
from heatproof.story import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Score = Callable[[Values, Values], Values]

OF_ORDER: Mapping[str, Score] = {
    "effect_kendall": on_effects.effect_kendall,
    "effect_spearman": on_effects.effect_spearman,
    "effect_top1": on_effects.effect_top1,
}
"""Scores that compare objects with each other, each by sum and by mean."""
OF_SHARES: Mapping[str, Score] = {"effect_mass": on_effects.effect_mass, "idle_share": on_effects.idle_share}
"""Scores of what lies where, by the size of effects."""
METRICS = (
    *(f"{name}_{over}" for over in ("sum", "mean") for name in OF_ORDER),
    *OF_SHARES,
    "no_object_share",
    "mass_accuracy",
)
SIGNED = "signed"
"""A pooling of this benchmark's own: the sum over channels with its sign, for scores that take any order."""
SHOWN_TRUTH, SHOWN_POOLING = "logit_abs", "l1_norm"
"""What the tables show first."""


def score_table(batch: ObjectBatch, relevance: torch.Tensor, poolings: Sequence[str]) -> pl.DataFrame:
    """All scores as rows, with the facts of each case, and what a uniform map would get."""
    regions = batch.regions.cpu().numpy()
    truths = {name: truth.cpu().numpy() for name, truth in batch.truths.items()}
    objects = next(iter(truths.values())).shape[1]
    flat = np.ones(regions.shape)
    uniform = scores_of(flat, regions, truths, objects, signed=False)
    usable = relevance.isfinite().flatten(1).all(1).cpu().numpy()
    found: dict[tuple[str, str, str], tuple[Values, Values]] = {}
    signed = relevance.cpu().double().sum(1).numpy()
    for pooling in (*poolings, SIGNED):
        heatmap = np.array(signed if pooling == SIGNED else pool(relevance, pooling).cpu().numpy())
        heatmap[~usable] = 0.0
        for (metric, truth), values in scores_of(heatmap, regions, truths, objects, pooling == SIGNED).items():
            says = usable & (np.abs(heatmap).reshape(len(heatmap), -1).sum(1) > 0)
            found[metric, truth, pooling] = np.where(says, values, np.nan), uniform_of(uniform, truths, metric, truth)
    masks = {name: mask.cpu().numpy() for name, mask in batch.masks.items()}
    if masks:
        scored = score_heatmaps(relevance.cpu().numpy(), masks, poolings, ranks=False)
        for m, kind in enumerate(scored.ground_truths):
            share = uniform_column("mass_accuracy", masks[kind].reshape(len(batch), -1).mean(1)).to_numpy()
            for p, pooling in enumerate(scored.poolings):
                found["mass_accuracy", kind, pooling] = scored.mass[p, m], share
    known = pl.DataFrame({"case": list(batch.ids), **{name: list(column) for name, column in batch.facts.items()}})
    return pl.concat(
        [
            known.with_columns(
                metric=pl.lit(metric),
                ground_truth=pl.lit(truth),
                pooling=pl.lit(pooling),
                value=pl.Series(values, dtype=pl.Float64),
                uniform=pl.Series(flat_values, dtype=pl.Float64, nan_to_null=True),
            )
            for (metric, truth, pooling), (values, flat_values) in found.items()
        ]
    )


def scores_of(
    heatmap: Values, regions: NDArray[Any], truths: Mapping[str, Values], objects: int, signed: bool
) -> dict[tuple[str, str], Values]:
    """Scores (cases,) by (metric, truth) of heatmaps (cases, *space); of signed ones, those of order only."""
    sums, areas = on_effects.on_objects(heatmap, regions, objects)
    seen = areas[:, 1:] > 0
    by = {
        "sum": np.where(seen, sums[:, 1:], np.nan),
        "mean": np.where(seen, sums[:, 1:] / np.maximum(areas[:, 1:], 1), np.nan),
    }
    found: dict[tuple[str, str], Values] = {}
    for truth, effects in truths.items():
        judged = np.where(seen, effects, np.nan)
        knows = np.isfinite(judged).sum(1) > 1
        for over, values in by.items():
            for name, score in OF_ORDER.items():
                found[f"{name}_{over}", truth] = np.where(knows, score(settled(values), judged), np.nan)
        if not signed and truth.endswith("_abs"):
            for name, score in OF_SHARES.items():
                found[name, truth] = np.where(knows, score(sums, judged), np.nan)
    if not signed:
        found["no_object_share", ""] = on_effects.no_object_share(sums, sums)
    return found


def settled(values: Values) -> Values:
    """What lies on objects, without the last digits: a map that is the same on two objects does not order them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.nanmax(np.abs(np.where(np.isfinite(values), values, 0.0)), axis=1, keepdims=True)
        return np.where(size > 0, np.round(values / size, 12), values)


def uniform_of(
    uniform: Mapping[tuple[str, str], Values], truths: Mapping[str, Values], metric: str, truth: str
) -> Values:
    """What a uniform map gets: where it orders nothing, 0, or of the top object its chance; NaN without a truth."""
    values = uniform[metric, truth]
    if truth not in truths:
        return values
    there = np.isfinite(truths[truth]).sum(1)
    nothing = 1 / np.maximum(there, 1) if metric.startswith("effect_top1") else np.zeros(len(values))
    return np.where(there > 1, np.where(np.isnan(values), nothing, values), np.nan)


def shown_columns(poolings: Sequence[str], truth: str = "") -> tuple[Column, ...]:
    """The columns of the table, under one pooling; `truth` is the ground truth of the mask that stands beside them."""
    pooling = SHOWN_POOLING if SHOWN_POOLING in poolings else poolings[0]
    order = [Column(f"effect_{name}", SHOWN_TRUTH, pooling) for name in ("kendall_sum", "kendall_mean", "top1_sum")]
    shares = [Column(name, SHOWN_TRUTH, pooling) for name in OF_SHARES]
    mass = [Column("mass_accuracy", truth, pooling)] if truth else []
    return (*order, *shares, Column("no_object_share", "", pooling), *mass)

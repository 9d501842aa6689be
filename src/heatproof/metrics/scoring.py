"""Any generic metric on the relevance of some cases: every pooling, every ground truth, values checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.lazy import torch
from heatproof.metrics.base import Metric, missing_for
from heatproof.pooling import pool

ROUNDING = 1e-9
"""How far outside its range a value may lie: a share that is added up may come to a little more than 1."""


def score_with(
    metric: Metric, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module, poolings: Sequence[str]
) -> dict[tuple[str, str, str], torch.Tensor]:
    """Values (B,) by (metric, ground truth, pooling) of relevance (B, C, *space), signed.

    The ground truth is empty for a metric that needs none.
    """
    missing = missing_for(metric, batch.masks)
    if missing:
        raise HeatproofError(missing)
    expected = (len(batch), *batch.space)
    if (*relevance.shape[:1], *relevance.shape[2:]) != expected:
        raise HeatproofError(
            f"relevance must be (cases, channels, *space) with {len(batch)} cases and space {batch.space},"
            f" got shape {tuple(relevance.shape)}."
        )
    truths: dict[str, torch.Tensor | None] = dict(batch.masks) if "mask" in metric.needs else {"": None}
    values = {}
    for pooling in poolings:
        heatmap = pool(relevance, pooling)
        for truth, mask in truths.items():
            found = call_counted(metric, heatmap, mask, model, batch)
            problem = values_problem(metric, found, batch.ids)
            if problem:
                raise HeatproofError(problem)
            values[metric.name, truth, pooling] = found.detach()
    return values


def call_counted(
    metric: Metric, heatmap: torch.Tensor, mask: torch.Tensor | None, model: torch.nn.Module, batch: Batch
) -> Any:
    """The metric of the positions that count: where some do not, each case is a row of those that do.

    A metric that asks the model sees them all.
    """
    if batch.void is None or mask is None or "model" in metric.needs:
        return call_metric(metric, heatmap, mask, model, batch)
    kept = ~batch.void
    rows = [
        call_metric(metric, heatmap[i][kept[i]][None], mask[i][kept[i]][None], model, batch[i : i + 1])
        for i in range(len(batch))
    ]
    return torch.cat(rows) if rows else call_metric(metric, heatmap, mask, model, batch)


def call_metric(
    metric: Metric, heatmap: torch.Tensor, mask: torch.Tensor | None, model: torch.nn.Module, batch: Batch
) -> Any:
    """What the metric's function returns for what it needs; not checked."""
    further = [mask] if "mask" in metric.needs else []
    named = {"model": model, "batch": batch} if "model" in metric.needs else {}
    return metric.function(heatmap, *further, **named)


def values_problem(metric: Metric, values: Any, ids: Sequence[str]) -> str:
    """What is wrong with a metric's values for these cases, as a sentence; empty if nothing is."""
    if not isinstance(values, torch.Tensor):
        return f"metric {metric.name} must return a tensor, got {type(values).__name__}."
    if values.dtype != torch.float64 or tuple(values.shape) != (len(ids),):
        return (
            f"metric {metric.name} must return one float64 value per case, of shape ({len(ids)},),"
            f" got {values.dtype} {tuple(values.shape)}."
        )
    low, high = metric.range
    for case, value in zip(ids, values.tolist(), strict=True):
        if math.isinf(value) or value < low - ROUNDING or value > high + ROUNDING:
            return f"metric {metric.name} gave {value:g} for case {case}, outside its range [{low:g}, {high:g}]."
    return ""

"""Metrics: pure functions on tensors, found by name."""

from heatproof.metrics import (
    effects,
    fidelity,
    localisation,
    objects,
    segmentation,
    selectivity,
    twins,
    understandability,
)
from heatproof.metrics.base import Metric, metrics, missing_for, register_metric
from heatproof.metrics.scoring import score_with
from heatproof.metrics.spec import load_metrics

__all__ = [
    "Metric",
    "effects",
    "fidelity",
    "load_metrics",
    "localisation",
    "metrics",
    "missing_for",
    "objects",
    "register_metric",
    "score_with",
    "segmentation",
    "selectivity",
    "twins",
    "understandability",
]

"""Metrics: pure functions on tensors, found by name."""

from heatproof.metrics import fidelity, localisation, understandability
from heatproof.metrics.base import Metric, metrics, register_metric

__all__ = ["Metric", "fidelity", "localisation", "metrics", "register_metric", "understandability"]

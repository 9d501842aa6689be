"""Explainers: (model, batch) -> relevance."""

from heatproof.explainers import (
    attention,
    baselines,
    cam,
    deep_lift,
    gradients,
    kernel_shap,
    lime,
    noised,
    perturbation,
    propagation,
)
from heatproof.explainers.base import Explainer, ScoreExplainer, explainers, register_explainer

__all__ = [
    "Explainer",
    "ScoreExplainer",
    "attention",
    "baselines",
    "cam",
    "deep_lift",
    "explainers",
    "gradients",
    "kernel_shap",
    "lime",
    "noised",
    "perturbation",
    "propagation",
    "register_explainer",
]

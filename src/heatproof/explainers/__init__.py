"""Explainers: (model, batch) -> relevance."""

from heatproof.explainers import baselines, cam, gradients, lime, perturbation, propagation
from heatproof.explainers.base import Explainer, ScoreExplainer, explainers, register_explainer

__all__ = [
    "Explainer",
    "ScoreExplainer",
    "baselines",
    "cam",
    "explainers",
    "gradients",
    "lime",
    "perturbation",
    "propagation",
    "register_explainer",
]

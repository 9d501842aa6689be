"""Explainers: (model, batch) -> relevance."""

from heatproof.explainers import baselines, cam, gradients, perturbation, propagation
from heatproof.explainers.base import Explainer, ScoreExplainer, explainers, register_explainer

__all__ = [
    "Explainer",
    "ScoreExplainer",
    "baselines",
    "cam",
    "explainers",
    "gradients",
    "perturbation",
    "propagation",
    "register_explainer",
]

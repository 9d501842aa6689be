"""An explainer: a frozen dataclass whose fields are its parameters."""

from dataclasses import dataclass

import torch

from heatproof import Batch, CaseRandom, ScoreExplainer


@dataclass(frozen=True, kw_only=True)
class SquaredGradient(ScoreExplainer):
    """The gradient to the power of `power`, without its sign: |d S / d x| ^ power."""

    family = "gradient"
    paper = "nobody yet"
    cost = "2"
    looks_at = "values"

    power: float = 2.0

    def passes(self, size: object) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return self.gradient(model, batch.inputs, batch.context, batch.target).abs() ** self.power

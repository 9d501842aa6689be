"""Explainers that are made of another one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from heatproof.cases import Batch
from heatproof.explainers.base import Explainer, ScoreExplainer, Size
from heatproof.lazy import torch


@dataclass(frozen=True, kw_only=True)
class Around(ScoreExplainer):
    """Asks another explainer, `of`, which explains the same quantity."""

    of: str = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.other()  # a name that there is not is said at once

    @property
    def label(self) -> str:
        return f"{self.name}:{self.other().label}"

    def passes(self, size: Size) -> int:
        return self.other().passes(size)

    def other(self) -> Explainer:
        from heatproof.explainers.spec import make_explainer

        other = make_explainer(self.of)
        return replace(other, quantity=self.quantity) if isinstance(other, ScoreExplainer) else other

    def layer_read(self, model: torch.nn.Module, batch: Batch) -> str:
        return self.other().layer_read(model, batch)

    def problem_with(self, masks: Collection[str]) -> str:
        return self.other().problem_with(masks)

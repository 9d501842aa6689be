"""Models for explainers that know nothing of quantities, or of context."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from heatproof.explainers.base import Quantity, class_scores


class Scored(nn.Module):
    """Logits, probabilities or log-probabilities (B, K) of `model`; of one output those of both classes."""

    def __init__(self, model: nn.Module, quantity: Quantity) -> None:
        super().__init__()
        self.model = model
        self.quantity = quantity

    def __getattr__(self, name: str) -> Any:
        """Layers by the names that they have in the model itself."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def forward(self, inputs: Tensor, *context: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs, *context)
        return class_scores(outputs, self.quantity)


class Asked(nn.Module):
    """A model with its context filled in, so that it takes inputs alone."""

    def __init__(self, model: nn.Module, context: tuple[Tensor, ...]) -> None:
        super().__init__()
        self.model = model
        self.context = context

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs, *self.context)
        return outputs

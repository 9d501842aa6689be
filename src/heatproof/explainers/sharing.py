"""Explainers whose passes serve several quantities at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from heatproof.cases import Batch
from heatproof.explainers.base import Quantity, SampledExplainer, context_rows, quantity_of, slope
from heatproof.explainers.guards import hookable
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@dataclass(frozen=True, kw_only=True)
class SharingExplainer(SampledExplainer):
    """An explainer that asks about the same variants whatever the quantity: all come from the same forward passes.

    A subclass says how in `explain_each`. One that has an `explain` of its own is asked about each quantity in turn.
    """

    @abstractmethod
    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        """The relevance for each of these quantities."""

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return self.explain_each(model, batch, rng, (self.quantity,))[0]

    @property
    def shares_passes(self) -> bool:
        return type(self).explain is SharingExplainer.explain

    def each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        if not self.shares_passes:
            return super().each(model, batch, rng, quantities)
        model = hookable(model)
        return self.guarded(model, batch, lambda cases: self.explain_each(model, cases, rng, quantities))

    def scores(
        self,
        model: torch.nn.Module,
        inputs: torch.Tensor,
        batch: Batch,
        case: torch.Tensor,
        quantities: Sequence[Quantity],
    ) -> torch.Tensor:
        """Scores (quantities, rows) of variants by one pass; row i belongs to case `case[i]` of the batch.

        They have the inputs' precision, like the maps that are made of them, whatever that of the model's outputs.
        """
        from heatproof.explainers.memory import pieces, rejoined

        rows = pieces(inputs, batch.target[case], *context_rows(batch, case))
        with torch.no_grad():
            return rejoined([scores_of(model, quantities, *piece) for piece in rows], 1).to(batch.inputs.dtype)

    def gradients_at(
        self,
        model: torch.nn.Module,
        inputs: torch.Tensor,
        batch: Batch,
        case: torch.Tensor,
        quantities: Sequence[Quantity],
    ) -> list[torch.Tensor]:
        """The gradient at variants of each quantity, by one pass forward and one backward for each."""
        from heatproof.explainers.memory import pieces, rejoined

        rows = pieces(inputs, batch.target[case], *context_rows(batch, case))
        found = [gradients_of(model, quantities, *piece) for piece in rows]
        return [rejoined(gradients) for gradients in zip(*found, strict=True)]


def scores_of(
    model: torch.nn.Module,
    quantities: Sequence[Quantity],
    inputs: torch.Tensor,
    target: torch.Tensor,
    *context: torch.Tensor,
) -> torch.Tensor:
    """Each quantity of each row (quantities, rows)."""
    outputs = model(inputs, *context)
    scores = [quantity_of(outputs, target, quantity) for quantity in quantities]
    return torch.stack(scores) if len(scores) > 1 else scores[0].unsqueeze(0)


def gradients_of(
    model: torch.nn.Module,
    quantities: Sequence[Quantity],
    inputs: torch.Tensor,
    target: torch.Tensor,
    *context: torch.Tensor,
) -> list[torch.Tensor]:
    """d score / d inputs, row by row, of each quantity."""
    with torch.enable_grad():
        inputs = inputs.detach().requires_grad_()
        outputs = model(inputs, *context)
        totals = [quantity_of(outputs, target, quantity).sum() for quantity in quantities]
    return [slope(total, inputs, retain_graph=total is not totals[-1]) for total in totals]

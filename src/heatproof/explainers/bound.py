"""A model with its context filled in, for functions that know of inputs only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.scored import Scored

if TYPE_CHECKING:
    from heatproof.explainers.base import Quantity


class Bound(Scored):
    """The explained quantity (B, K) of `model`, which takes inputs alone.

    As many rows as there are cases get the context as it is; that of a single case goes with any number of rows.
    """

    def __init__(self, model: nn.Module, quantity: Quantity, context: tuple[Tensor, ...]) -> None:
        super().__init__(model, quantity)
        self.context = context

    def forward(self, inputs: Tensor, *context: Tensor) -> Tensor:
        return super().forward(inputs, *(context or self.context_of(len(inputs))))

    def context_of(self, rows: int) -> tuple[Tensor, ...]:
        """The context of so many rows."""
        cases = len(self.context[0])
        if rows == cases:
            return self.context
        if cases > 1:
            raise HeatproofError(
                f"the model was asked about {rows} rows, and it has the context of {cases} cases; which row belongs to"
                " which case is not known. Write the function as (model, inputs, target, *context) and call"
                " model(rows, *context) with the context of each row."
            )
        return tuple(tensor.repeat_interleave(rows, 0) for tensor in self.context)

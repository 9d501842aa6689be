"""Relevance that is lost on its way back, and to what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from heatproof.explainers.rules import LinearMap, Rule

Back: TypeAlias = Callable[[Tensor], Sequence[Tensor]]
"""How relevance goes back: from that of a value to that of each thing that it was made of."""


@dataclass
class Losses:
    """Relevance that did not go on at nodes of the graph: what biases kept, and what was lost there in all."""

    biases: float = 0.0
    in_all: float = 0.0

    def noted(self, back: Back, rule: Rule | None = None, linear: LinearMap | None = None) -> Back:
        """The same way back; what is lost on it, and how much of that to the biases of this map, is added up."""

        def way(relevance: Tensor) -> Sequence[Tensor]:
            found = back(relevance)
            self.in_all += float(relevance.sum()) - sum(float(given.sum()) for given in found)
            if rule is not None and linear is not None:
                self.biases += float(rule.taken_by_biases(linear, relevance))
            return found

        return way

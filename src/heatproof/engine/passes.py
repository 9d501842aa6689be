"""How often a model is asked while it is explained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from heatproof.lazy import torch


@dataclass
class Passes:
    """Rows that went forward through a model, and backward from its outputs."""

    forward: int = 0
    backward: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward

    def alone(self, seconds: float, cases: int, quantities: int) -> dict[str, float]:
        """Seconds and passes per case that one of several quantities would have taken alone.

        All of them share what goes forward; what goes backward is of each.
        """
        passes = self.forward + self.backward / quantities
        share = passes / self.total if self.total else 1.0
        return {"seconds": seconds * share / cases, "passes": passes / cases}


@contextmanager
def counted_passes(model: torch.nn.Module) -> Iterator[Passes]:
    """Counts rows that go forward through the model, and backward from its outputs."""
    from heatproof.explainers.same_network import is_checked

    passes = Passes()

    def forward(_module: torch.nn.Module, _args: Any, output: Any) -> None:
        if is_checked():
            return
        passes.forward += len(output)
        if output.requires_grad:
            output.register_hook(backward)

    def backward(gradient: torch.Tensor) -> None:
        passes.backward += len(gradient)

    hook = model.register_forward_hook(forward)
    try:
        yield passes
    finally:
        hook.remove()

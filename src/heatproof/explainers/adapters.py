"""Explainers made from what users have already."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import ScoreExplainer
from heatproof.lazy import np, torch
from heatproof.seeds import CaseRandom, derive_seed


@dataclass(frozen=True, kw_only=True)
class ForeignExplainer(ScoreExplainer):
    """Base of what others have written.

    If it draws random numbers (torch, NumPy, Python), it is asked again case by case, each with that case's own seed.
    """

    family = "yours"
    cost = "unknown"
    freezes = False

    @abstractmethod
    def relevance(self, model: torch.nn.Module, batch: Batch) -> Any:
        """What the other side makes of a batch; the inputs are a copy."""

    @property
    def is_ours(self) -> bool:
        return False

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        relevance, drew = self.ask(model, batch, rng)
        if drew and len(batch) > 1:
            relevance = torch.cat([self.ask(model, batch[i : i + 1], rng)[0] for i in range(len(batch))])
        return relevance

    def ask(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> tuple[torch.Tensor, bool]:
        """The relevance of a batch, and whether random numbers were drawn for it."""
        seed = derive_seed(rng.run_seed, rng.explainer, batch.ids[0])
        with torch.random.fork_rng(devices=[]), other_states_kept():
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            before = random_states()
            relevance = self.relevance(model, replace(batch, inputs=batch.inputs.clone()))
            drew = random_states() != before
        if relevance is None:
            raise HeatproofError(f"{self.label} returned None; a function must return the relevance.")
        relevance = torch.as_tensor(relevance, device=batch.inputs.device)
        return (relevance.unsqueeze(1) if relevance.ndim == batch.inputs.ndim - 1 else relevance), drew


@dataclass(frozen=True, kw_only=True)
class FunctionExplainer(ForeignExplainer):
    """A function `(model, inputs, target) -> relevance`, or `(model, inputs, target, *context)` for such models.

    It sees a model whose outputs are the explained quantity, so it needs no word about logits or probabilities.
    """

    function: Callable[..., Any] = field(repr=False)

    @property
    def label(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"quantity": self.quantity, "function": self.label}

    def relevance(self, model: torch.nn.Module, batch: Batch) -> Any:
        from heatproof.models.scored import Scored

        return self.function(Scored(model, self.quantity), batch.inputs, batch.target, *batch.context)


def random_states() -> tuple[Any, ...]:
    """The states of the global random number generators, in a form that compares."""
    return torch.get_rng_state().tolist(), str(np.random.get_state(legacy=False)), random.getstate()


@contextmanager
def other_states_kept() -> Iterator[None]:
    """NumPy's and Python's global random states, restored on leaving."""
    states = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])

"""Explainers made from what users have already."""

from __future__ import annotations

import inspect
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from heatproof.cases import Batch
from heatproof.devices import random_streams, seeded
from heatproof.errors import HeatproofError
from heatproof.explainers.base import ScoreExplainer, checked
from heatproof.lazy import np, torch
from heatproof.progress import part_by_part
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

    def one_by_one(self, batch: Batch) -> bool:
        """Whether such cases must be asked about one at a time."""
        return False

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        if len(batch) == 1 or not self.one_by_one(batch):
            relevance, drew = self.ask(model, batch, rng)
            if len(batch) == 1 or not drew:
                return relevance
        cases = [batch[i : i + 1] for i in range(len(batch))]
        maps = part_by_part(cases, lambda case: checked(self.ask(model, case, rng)[0], case, self.label))
        return torch.cat(maps)

    def ask(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> tuple[torch.Tensor, bool]:
        """The relevance of a batch, and whether random numbers were drawn for it."""
        seed, device = derive_seed(rng.run_seed, rng.explainer, batch.ids[0]), batch.inputs.device
        with seeded(seed, device), other_states_kept():
            np.random.seed(seed % 2**32)
            random.seed(seed)
            before = random_states(device)
            relevance = self.relevance(model, replace(batch, inputs=batch.inputs.clone()))
            drew = random_states(device) != before
        if relevance is None:
            raise HeatproofError(f"{self.label} returned None; a function must return the relevance.")
        relevance = torch.as_tensor(relevance, device=device)
        return (relevance.unsqueeze(1) if relevance.ndim == batch.inputs.ndim - 1 else relevance), drew


@dataclass(frozen=True, kw_only=True)
class FunctionExplainer(ForeignExplainer):
    """A function `(model, inputs, target) -> relevance`, or `(model, inputs, target, *context)`.

    It sees a model whose outputs are the explained quantity, so it needs no word about logits or probabilities. Nor
    about context: where a model takes some, a function of three arguments is asked case by case and sees a model that
    has the case's context already, for any number of rows. A function that takes more gets the context itself.
    """

    function: Callable[..., Any] = field(repr=False)

    @property
    def label(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"quantity": self.quantity, "function": self.label}

    def relevance(self, model: torch.nn.Module, batch: Batch) -> Any:
        from heatproof.explainers.bound import Bound
        from heatproof.explainers.scored import Scored

        if self.one_by_one(batch):
            return self.function(Bound(model, self.quantity, batch.context), batch.inputs, batch.target)
        return self.function(Scored(model, self.quantity), batch.inputs, batch.target, *batch.context)

    def one_by_one(self, batch: Batch) -> bool:
        return bool(batch.context) and not takes_context(self.function)


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether a function has places for more than model, inputs and target.

    A fourth parameter with a default other than None is a setting of the function's own (`steps=50`).
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some that are written in C have none
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    more = any(p.default is p.empty or p.default is None for p in places[3:])
    return more or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def random_states(device: torch.device) -> tuple[Any, ...]:
    """The states of the global random number generators, in a form that compares."""
    states = [stream.get_state().tolist() for stream in random_streams(device)]
    return states, str(np.random.get_state(legacy=False)), random.getstate()


@contextmanager
def other_states_kept() -> Iterator[None]:
    """NumPy's and Python's global random states, restored on leaving."""
    states = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])

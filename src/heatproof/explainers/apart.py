"""Whether the cases of a batch leave each other alone: only then has each a map of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.guards import own_copies
from heatproof.explainers.same_network import being_checked, drawn_at_random, first_difference, same

MIXES: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""The networks that were looked at, and whether their cases influence each other."""


def cases_kept_apart(model: nn.Module, batch: Batch, method: str) -> AbstractContextManager[None]:
    """In here a network whose cases influence each other takes one row at a time only; more are an error."""
    mixed = MIXES.get(model)
    if mixed is None:
        MIXES[model] = mixed = mixes(model, batch, method)
    return one_row_at_a_time(model, method) if mixed else nullcontext()


@contextmanager
def one_row_at_a_time(model: nn.Module, method: str) -> Iterator[None]:
    def require_one_row(_model: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(given[0], Tensor) and len(given[0]) > 1:
            raise HeatproofError(
                f"{method}: the cases of a batch influence each other in this model (a batch norm without running"
                " statistics?), so that no case has a map of its own. Explain one case at a time (--batch-size 1) by a"
                " method that asks about nothing else in the same pass (gradient, lrp, grad_cam ...), or give the"
                " norms statistics."
            )

    handle = model.register_forward_pre_hook(require_one_row)
    try:
        yield
    finally:
        handle.remove()


@being_checked()
def mixes(model: nn.Module, batch: Batch, method: str) -> bool:
    """Whether the outputs of the first case change by more than rounding if another one goes along.

    An error if they change by themselves.
    """
    first = batch[:1]
    other = batch[1:2].inputs if len(batch) > 1 else 1 - first.inputs
    both = torch.cat([first.inputs, other])
    context = tuple(torch.cat([tensor, tensor]) for tensor in first.context)

    def ask(inputs: Tensor, context: tuple[Tensor, ...]) -> Tensor:
        outputs: Tensor = model.forward(*own_copies((inputs, *context)))  # hooks need not know
        return outputs.detach()[:1]

    try:
        alone, beside = ask(first.inputs, first.context), ask(both, context)
        again = ask(first.inputs, first.context)  # after something else, which a model may remember
        if alone.shape != beside.shape or (same(beside, alone, alone.dtype) and same(again, alone, alone.dtype)):
            return False
        with torch.enable_grad():
            inputs = first.inputs.detach().requires_grad_()
            place, coarsest = first_difference(model, lambda: ask(inputs, first.context), nullcontext)
    except Exception:
        return False  # it takes no other rows, or gives no logits: the method itself finds out, and says so
    # What draws random numbers differs from itself; half precision inside is coarser than the outputs' type says.
    if not same(again, alone, coarsest):
        raise drawn_at_random(method, place)
    return not same(beside, alone, coarsest)

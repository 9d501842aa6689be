"""Whether a method that replaces torch functions still computes the network that it explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from math import sqrt
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.watching import Call, Watching, running_layer, tensors_in

SEEN: WeakKeyDictionary[nn.Module, set[tuple[str, str]]] = WeakKeyDictionary()
"""The methods, each with its form, that were found to compute a network as it is: looked at once each."""
CHECKED: ContextVar[bool] = ContextVar("checked", default=False)


@contextmanager
def being_checked() -> Iterator[None]:
    token = CHECKED.set(True)
    try:
        yield
    finally:
        CHECKED.reset(token)


def is_checked() -> bool:
    """Whether a pass is made to see that all is well, not to explain: what explaining takes does not count it."""
    return CHECKED.get()


def require_same_network(
    model: nn.Module,
    method: str,
    outputs: Tensor,
    run: Callable[[], Tensor],
    mode: Callable[[], AbstractContextManager[Any]],
    form: str = "",
) -> None:
    """An error if what a method computed differs from the model's plain outputs by more than rounding.

    `outputs` were computed under the method's `mode`; `run()` computes them anew. It is called once per network,
    method and `form` of it (which rules it has), and more often only to find the first function where the two part.
    """
    if (method, form) not in SEEN.get(model, ()):
        compare(model, method, outputs, run, mode)
        SEEN.setdefault(model, set()).add((method, form))


@being_checked()
def compare(
    model: nn.Module,
    method: str,
    outputs: Tensor,
    run: Callable[[], Tensor],
    mode: Callable[[], AbstractContextManager[Any]],
) -> None:
    """An error if they differ, and where."""
    plain = run()
    if not same(plain, outputs, plain.dtype):
        place, coarsest = first_difference(model, run, mode)
        if not same(plain, run(), coarsest):
            raise drawn_at_random(method, place)
        if not same(plain, outputs, coarsest):  # half precision inside is coarser than the outputs' type says
            raise HeatproofError(
                f"{method} does not compute this model as it is: its values part from the model's own {place}."
                " Take a gradient or perturbation method for it (heatproof list explainers)."
            )


def drawn_at_random(method: str, place: str) -> HeatproofError:
    """Of a model that has no score of its own for an input: nothing that is said of one pass holds for the next."""
    return HeatproofError(
        f"{method}: the model gives other outputs each time that it runs, also in evaluation mode (first {place});"
        " give dropout and the like `training=self.training`."
    )


def tolerance(dtype: torch.dtype) -> float:
    """Half of the digits that a number of this type has."""
    return sqrt(torch.finfo(dtype).eps)


def same(found: Tensor, expected: Tensor, dtype: torch.dtype) -> bool:
    """Whether two tensors are equal up to the rounding of this type, which grows with the largest value of a row."""
    if found.shape != expected.shape:
        return False
    scale = expected.detach().abs().flatten(1).amax(1) if expected.ndim > 1 else expected.detach().abs()
    limit = tolerance(dtype) * scale.view(-1, *[1] * (expected.ndim - 1))
    apart = (found.detach() - expected.detach()).abs() > limit
    return not bool(apart.any() or (found.isnan() != expected.isnan()).any())


class Noting(Watching):
    """Notes what each function gave: its name, the layer that called it and two sums that stand for the values."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.notes: list[tuple[str, str, list[tuple[float, float]]]] = []
        self.types: set[torch.dtype] = set()

    def replaces(self, name: str) -> bool:
        return False

    def watch(self, call: Call) -> Any:
        value = call.value()
        made = [made.detach() for made in tensors_in([value]) if made.requires_grad]
        if made:
            self.types.update(values.dtype for values in made)
            sums = [(float(values.double().sum()), float(values.double().abs().sum())) for values in made]
            self.notes.append((call.name, running_layer(self.model), sums))
        return value


def first_difference(
    model: nn.Module, run: Callable[[], Tensor], mode: Callable[[], AbstractContextManager[Any]]
) -> tuple[str, torch.dtype]:
    """Where the values under the mode first differ from plain ones, in words; and the coarsest type of numbers."""
    with Noting(model) as plain:
        run()
    with mode(), Noting(model) as watched:
        run()
    coarsest = max(plain.types, key=tolerance, default=torch.float32)
    close = tolerance(coarsest)
    for (name, layer, expected), (other, _, found) in zip(plain.notes, watched.notes, strict=False):
        differs = len(found) != len(expected) or any(
            abs(a - b) > close * max(size, other_size)
            for (a, size), (b, other_size) in zip(found, expected, strict=True)
        )
        if name != other or differs:
            return f"in the function {name!r}" + (f" of layer {layer!r}" if layer else ""), coarsest
    return "behind the last function that could be watched", coarsest

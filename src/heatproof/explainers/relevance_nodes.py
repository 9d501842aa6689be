"""Nodes of autograd's graph whose backward carries relevance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heatproof.explainers.losses import Back
from heatproof.explainers.watching import Call


class Redistribute(torch.autograd.Function):
    """A value computed elsewhere, whose relevance goes back to `inputs` as the way says.

    The value is hidden in the way, so that autograd takes it for new and lets the model change it in place.
    """

    @staticmethod
    def forward(ctx: Any, way: tuple[Tensor, Back], *inputs: Tensor) -> Tensor:
        value, ctx.back = way
        return own_tensor(value, inputs)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        back, ctx.back = ctx.back, None  # with what it holds: memory that is free again is in the cache
        return None, *back(relevance.contiguous())


class PassOn(torch.autograd.Function):
    """A function in place that passes relevance on, but not to `off`."""

    @staticmethod
    def forward(ctx: Any, place: Tensor, call: Call, off: Tensor | None) -> Tensor:
        call.value()
        ctx.mark_dirty(place)
        ctx.off = off
        return place

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        return relevance if ctx.off is None else relevance.masked_fill(ctx.off, 0), None, None


def own_tensor(value: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """The value as a tensor that is no view of another, without copying where nobody else holds its memory."""
    if not value._is_view():
        return value
    if type(value) is not Tensor or any(memory_of(value) == memory_of(given) for given in inputs):
        return value.clone()
    result: Tensor = value.new_empty(0).set_(value)  # type: ignore[call-overload]
    return result


def memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def redistributed(value: Tensor, back: Back, *inputs: Tensor) -> Tensor:
    """`value` as a node of the graph: its relevance goes to `inputs` as `back` says."""
    result: Tensor = Redistribute.apply((value, back), *inputs)  # type: ignore[no-untyped-call]
    return result


def passed_on(call: Call, carrier: Tensor) -> Tensor:
    """The value of an activation."""
    held = call.with_tensors(lambda tensor: tensor.detach())
    value = held.value()
    if any(value is tensor for tensor in held.tensors):
        return carrier  # it did nothing, as dropout, or wrote its value there
    return pass_on(value, carrier)


def pass_on(value: Tensor, carrier: Tensor) -> Tensor:
    """The value; its relevance goes to `carrier` as it is."""
    shape = carrier.shape
    return redistributed(value, lambda relevance: (relevance.sum_to_size(shape),), carrier)

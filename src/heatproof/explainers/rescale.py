"""A backward pass that carries DeepLIFT's multipliers instead of gradients.

The model sees the inputs and, in the second half of the rows, their baselines. Like the relevance graph, this watches
functions and not modules, so functional, reused and in-place activations count too, which Captum's hooks miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from heatproof.explainers.relevance_graph import ACTIVATIONS, detached

NEGLIGIBLE = 1e-10
"""Below this difference of an activation's inputs its gradient stands for the multiplier."""

MAX_POOLS = {"max_pool1d", "max_pool2d", "max_pool3d"}


class Rescale(TorchFunctionMode):
    """Inside this context, activations and max-pooling pass multipliers back; all else its gradient.

    An activation's multiplier is (f(x) - f(b)) / (x - b).
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if not args or not isinstance(args[0], Tensor) or not args[0].requires_grad:
            return func(*args, **kwargs)
        if name in ACTIVATIONS:
            copy = args[0].detach().requires_grad_()
            with torch.enable_grad():
                value = func(copy.clone(), *map(detached, args[1:]), **kwargs)
            return Multiplied.apply(args[0], value.detach(), slope(copy, value))  # type: ignore[no-untyped-call]
        if name in MAX_POOLS:
            return Pooled.apply(args[0], name, args[1:], kwargs)  # type: ignore[no-untyped-call]
        return func(*args, **kwargs)


def slope(inputs: Tensor, value: Tensor) -> Tensor:
    """The multiplier of an elementwise function at the first half of the rows."""
    half = len(inputs) // 2
    gradient = torch.autograd.grad(value.sum(), inputs)[0][:half]
    risen, moved = (values.detach()[:half] - values.detach()[half:] for values in (value, inputs))
    return torch.where(moved.abs() < NEGLIGIBLE, gradient, risen / moved)


class Multiplied(torch.autograd.Function):
    """A value computed elsewhere; backward goes through the multiplier, at the first half of the rows."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, value: Tensor, multiplier: Tensor) -> Tensor:
        ctx.save_for_backward(multiplier)
        return value

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Any:
        (multiplier,) = ctx.saved_tensors
        first = multiplier * signal[: len(multiplier)]
        return torch.cat([first, torch.zeros_like(first)]).contiguous(), None, None


class Pooled(torch.autograd.Function):
    """Max-pooling: a difference of its outputs is due to the place of the input's maximum, and of the baseline's.

    With o and r the two maxima and m the greater: m - r goes to the place of o, o - m to the place of r. Windows may
    overlap (Captum's unpooling keeps one of them only).
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        pool = getattr(functional, name)
        value: Tensor
        value, index = pool(inputs, *args, **(kwargs | {"return_indices": True}))
        ctx.save_for_backward(inputs, value, index)
        return value

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Any:
        inputs, value, index = ctx.saved_tensors
        half = len(inputs) // 2
        reached, base = value[:half], value[half:]
        top = torch.maximum(reached, base)
        given = torch.zeros_like(inputs[:half]).flatten(2)
        for due, place in ((top - base, index[:half]), (reached - top, index[half:])):
            given.scatter_add_(2, place.flatten(2), (signal[:half] * due).flatten(2))
        moved = inputs[:half] - inputs[half:]
        given = given.view_as(moved)
        first = torch.where(moved.abs() < NEGLIGIBLE, torch.zeros_like(given), given / moved)
        return torch.cat([first, torch.zeros_like(first)]), None, None, None

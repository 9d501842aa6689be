"""Torch functions that are linear maps of what depends on the inputs: dense layers, convolutions, products.

What depends on the inputs is called the carrier. Weights that depend on the inputs themselves, as in attention, make a
function no linear map, and there is none for it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import grad as way_back

from heatproof.explainers.products import by_onednn, rows_by
from heatproof.explainers.relevance_kinds import CONVOLUTIONS, LAYERS, PRODUCTS, SHIFTED_PRODUCTS, TRANSPOSED
from heatproof.explainers.rules import LinearMap
from heatproof.explainers.watching import Call

Keep = Callable[[Tensor], Tensor]
"""What a tensor holds now, without graph, whatever the model does to it later."""


@dataclass(frozen=True, eq=False)
class Found:
    """A function that is a linear map: the map, its value with bias, and the tensor that it is a map of."""

    linear: LinearMap
    value: Tensor
    source: Tensor
    side_by_side: Callable[[], bool] = lambda: False
    """Whether it is a convolution whose kernels do not overlap and leave nothing out: patches of a transformer."""


def named(call: Call, names: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a call by name."""
    return dict(zip(names, call.args, strict=False)) | call.kwargs


def plain(call: Call) -> Any:
    """The value of a call, without graph."""
    return call.with_tensors(lambda tensor: tensor.detach()).value()


def linear_map(call: Call, keep: Keep) -> Found | None:
    """The linear map that this call is, if it is one."""
    if call.name in LAYERS:
        return layer(call, keep)
    if call.name in PRODUCTS:
        return product(call, keep)
    if call.name in SHIFTED_PRODUCTS:
        return shifted_product(call, keep)
    return None


def layer(call: Call, keep: Keep) -> Found | None:
    """A dense layer or a convolution."""
    names = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
    if call.name in TRANSPOSED:
        names[5:] = ["output_padding", "groups", "dilation"]
    given = named(call, tuple(names))
    source, weight, bias = given.pop("input"), given.pop("weight"), given.pop("bias", None)
    if weight.requires_grad or (bias is not None and bias.requires_grad):
        return None
    # Rows that are not laid out one after another torch takes as many small matrices, which takes twice as long.
    of_tokens = call.name == "linear" and source.ndim > 2
    taken = source.detach().contiguous() if of_tokens else source.detach()
    product = by_onednn(taken, weight, bias) if of_tokens else None
    value: Tensor = call.func(taken, weight, bias, **given) if product is None else product

    def apply(inputs: Tensor, weights: Tensor) -> Tensor:
        result: Tensor = call.func(inputs, weights, None, **given)
        return result

    x, weight = alike(keep(taken), keep(weight))
    bias = None if bias is None else keep(bias)
    if call.name == "linear":
        linear = LinearMap(x, weight, bias, apply, "dense", True, *channels(call, source), adjoint=dense_adjoint)
        return Found(linear, value, source)
    if bias is not None:
        bias = bias.view(-1, *[1] * (weight.ndim - 2))
    second = 1 if given.get("groups", 1) == 1 else None  # else that axis is of one group only
    front, behind = (second, 0) if call.name in CONVOLUTIONS else (0, second)
    adjoint = adjoint_of(call.name, given)
    if source.ndim < weight.ndim:  # one case without an axis of cases, which torch's way back does not take
        front, behind, adjoint = None, None, None
    linear = LinearMap(x, weight, bias, apply, "conv", False, front, behind, adjoint)
    return Found(linear, value, source, lambda: cuts_patches(call.name, given, weight, x))


def cuts_patches(name: str, given: dict[str, Any], weight: Tensor, x: Tensor) -> bool:
    """Whether the kernels of a convolution lie side by side and cover all of its input."""
    kernel = tuple(weight.shape[2:])
    if name not in CONVOLUTIONS or x.ndim != weight.ndim or x.shape[1] != weight.shape[1] or max(kernel) == 1:
        return False
    if any(length % side for length, side in zip(x.shape[2:], kernel, strict=True)):
        return False
    settings = [("stride", 1, kernel), ("padding", 0, (0,) * len(kernel)), ("dilation", 1, (1,) * len(kernel))]
    return all(each(given.get(word, usual), kernel) == wanted for word, usual, wanted in settings)


def each(setting: Any, kernel: Sequence[int]) -> Any:
    """What a convolution is told, for each dimension; a word stays a word."""
    if isinstance(setting, str):
        return setting
    lengths = tuple(setting) if isinstance(setting, Sequence) else (setting,)
    return lengths if len(lengths) > 1 else lengths * len(kernel)


def patch_adjoint(s: Tensor, weight: Tensor, shape: torch.Size) -> Tensor:
    """The way back through a convolution whose kernels lie side by side: a product, laid out patch by patch."""
    kernel, dimensions = weight.shape[2:], len(shape) - 2
    patches = rows_by(s.movedim(1, -1).contiguous(), weight.flatten(1))
    cells = patches.unflatten(-1, (shape[1], *kernel))  # (B, *cells, C, *kernel)
    order = [
        axis for pair in zip(range(1, 1 + dimensions), range(2 + dimensions, cells.ndim), strict=True) for axis in pair
    ]
    found: Tensor = cells.permute(0, 1 + dimensions, *order).reshape(shape)
    return found


def dense_adjoint(s: Tensor, weight: Tensor, _: torch.Size) -> Tensor:
    return rows_by(s, weight) if s.ndim > 2 else s @ weight  # networks without tokens stay as they are


def adjoint_of(name: str, given: dict[str, Any]) -> Callable[[Tensor, Tensor, torch.Size], Tensor] | None:
    """The way back through a convolution, if torch has it as a function."""
    if name not in CONVOLUTIONS or isinstance(given.get("padding"), str):
        return None
    transpose = getattr(way_back, f"{name}_input")

    def adjoint(s: Tensor, weight: Tensor, shape: torch.Size) -> Tensor:
        result: Tensor = transpose(shape, weight, s, **given)
        return result

    return adjoint


def channels(call: Call, source: Tensor) -> tuple[int | None, int | None]:
    """Where a batch norm, which scales axis 1, can be merged with a dense map: only if that axis is the last."""
    if source.ndim != 2:
        return None, None
    return (1, 0) if call.name == "linear" else (0, 1)


def product(call: Call, keep: Keep) -> Found | None:
    """The product of one carrier and one constant."""
    if len(call.tensors) != 2 or len(call.carriers) != 1:
        return None
    first, second = call.tensors
    return as_map(call, first, second, keep)


def shifted_product(call: Call, keep: Keep) -> Found | None:
    """A product like that, added to another constant."""
    given = dict(zip(("input", "first", "second"), call.args, strict=False))
    if len(given) < 3 or given["input"].requires_grad or len(call.carriers) != 1:
        return None
    alpha, beta = call.kwargs.get("alpha", 1), call.kwargs.get("beta", 1)
    multiply = getattr(torch, SHIFTED_PRODUCTS[call.name])

    def scaled(first: Tensor, second: Tensor) -> Tensor:
        result: Tensor = alpha * multiply(first, second)
        return result

    inner = Call(SHIFTED_PRODUCTS[call.name], scaled, (given["first"], given["second"]), {})
    found = as_map(inner, given["first"], given["second"], keep)
    bias = beta * given["input"]  # before the value, which may be written to its place
    return Found(replace(found.linear, bias=bias), plain(call), found.source)


def as_map(call: Call, first: Tensor, second: Tensor, keep: Keep) -> Found:
    """A function that is linear in both of its tensors as a map of the one that depends on the inputs."""
    source, constant = (first, second) if first.requires_grad else (second, first)

    def apply(inputs: Tensor, weights: Tensor) -> Tensor:
        places = {id(source): inputs, id(constant): weights}
        result: Tensor = call.with_tensors(lambda tensor: places[id(tensor)]).value()
        return result

    x, weight = alike(keep(source), keep(constant).to_dense())  # rules take parts of weights
    plain = call.name in ("matmul", "mm") and source is first and constant.ndim == 2
    linear = LinearMap(x, weight, None, apply, "dense", plain, *(channels(call, source) if plain else (None, None)))
    return Found(linear, apply(source.detach(), constant), source)


def alike(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one precision: within autocast, layers take what is in two."""
    if x.dtype == weight.dtype:
        return x, weight
    precision = torch.promote_types(x.dtype, weight.dtype)
    return x.to(precision), weight.to(precision)


def along(weight: Tensor, axis: int, scale: Tensor) -> Tensor:
    """The weight times the scale of each channel on one of its axes."""
    return weight * scale.view(*[-1 if place == axis else 1 for place in range(weight.ndim)])

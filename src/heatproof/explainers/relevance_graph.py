"""A backward pass that carries relevance instead of gradients.

While the model runs, every torch function that touches relevance (a tensor that depends on the inputs) is looked at:
a linear map is tied to its rule, an activation passes relevance on, sums and averages share it in proportion, and
what only moves values about is left to autograd, whose backward moves relevance just so. What does not depend on the
inputs (a question through an LSTM) is a constant. Because functions are watched and not modules, it does not matter
whether a ReLU is a module, used twice, in place or a plain function call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from heatproof.errors import HeatproofError
from heatproof.explainers.rules import LinearMap, Rule, stable

ChooseRule = Callable[[int, str], Rule]
"""The rule of the n-th linear map on the way from the inputs, by its number and kind."""

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
ACTIVATIONS = {
    "relu", "relu_", "relu6", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "elu", "elu_", "selu", "celu",
    "gelu", "silu", "mish", "hardswish", "softplus", "tanh", "tanh_", "sigmoid", "sigmoid_", "threshold",
    "clamp", "clamp_", "clamp_min", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
}  # fmt: skip
PROPORTIONAL = {
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "interpolate", "sum", "mean",
}  # fmt: skip
ADDITIONS = {"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "__sub__", "__rsub__", "__isub__"}
SCALINGS = {"mul", "mul_", "__mul__", "__rmul__", "__imul__", "div", "div_", "__truediv__", "__itruediv__"}
MOVEMENTS = {
    "reshape", "view", "flatten", "unflatten", "permute", "transpose", "movedim", "swapaxes", "expand", "expand_as",
    "broadcast_to", "repeat", "repeat_interleave", "tile", "cat", "concat", "stack", "__getitem__", "split", "chunk",
    "unbind", "unsqueeze", "squeeze", "contiguous", "clone", "pad", "roll", "flip", "narrow", "select", "index_select",
    "gather", "unfold", "pixel_shuffle", "pixel_unshuffle", "to", "type_as", "float", "double", "view_as", "detach",
    "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "amax", "max", "__get__",
}  # fmt: skip
"""Autograd's own backward is right for these; taking a maximum sends relevance to the winner."""


class Redistribute(torch.autograd.Function):
    """A value computed elsewhere, whose relevance goes back to `inputs` as `back` says."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, back: Callable[[Tensor], Sequence[Tensor]], *inputs: Tensor) -> Tensor:
        ctx.back = back
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        return None, None, *ctx.back(relevance.contiguous())


def redistributed(value: Tensor, back: Callable[[Tensor], Sequence[Tensor]], *inputs: Tensor) -> Tensor:
    """`value` as a node of the graph: its relevance goes to `inputs` as `back` says."""
    result: Tensor = Redistribute.apply(value, back, *inputs)  # type: ignore[no-untyped-call]
    return result


class RelevanceGraph(TorchFunctionMode):
    """Inside this context, backward passes carry relevance."""

    def __init__(self, choose_rule: ChooseRule, merge_norms: bool = True) -> None:
        super().__init__()
        self.choose_rule = choose_rule
        self.merge_norms = merge_norms
        self.maps = 0
        self.last_map: tuple[Tensor, LinearMap, Rule, Tensor] | None = None
        """Output, map, rule, and the tensor that its relevance goes to."""
        self.last_norm: tuple[Tensor, Tensor, Tensor] | None = None
        """Output, input and scale."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        carriers = [value for value in tensors_in((*args, *kwargs.values())) if value.requires_grad]
        if not carriers or name in MOVEMENTS:
            return func(*args, **kwargs)
        if name in CONVOLUTIONS or name == "linear":
            return self.linear(func, name, args, kwargs)
        if name == "batch_norm":
            return self.batch_norm(func, args, kwargs)
        if name in ACTIVATIONS or (name in SCALINGS | ADDITIONS and len(carriers) == 1):
            return pass_on(func, args, kwargs, carriers[0])
        if name in PROPORTIONAL | ADDITIONS:
            return in_proportion(func, args, kwargs, carriers)
        result = func(*args, **kwargs)
        if not any(value.requires_grad for value in tensors_in([result])):
            return result  # sizes, comparisons and the like
        raise HeatproofError(
            f"lrp has no rule for the torch function {name!r} that this model uses;"
            " take a gradient or perturbation method for it (heatproof list explainers)."
        )

    def linear(self, func: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """Tie a dense layer or a convolution to its rule."""
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = dict(zip(names, args, strict=False)) | kwargs
        x, weight, bias = given.pop("input"), given.pop("weight"), given.pop("bias", None)
        if weight.requires_grad:
            raise HeatproofError("lrp needs weights that do not depend on the inputs.")
        value = func(x.detach(), weight, bias, **given)
        if bias is not None:
            bias = bias if name == "linear" else bias.view(-1, *[1] * (value.ndim - 2))

        def apply(inputs: Tensor, weights: Tensor) -> Tensor:
            result: Tensor = func(inputs, weights, None, **given)
            return result

        linear = LinearMap(x.detach(), weight, bias, apply, "dense" if name == "linear" else "conv")
        source = x
        if self.last_norm is not None and self.last_norm[0] is x and given.get("groups", 1) == 1:
            # Batch norm in front of the map: scale the weights; all else that reaches the output is bias.
            _, source, scale = self.last_norm
            weight = weight * scale.view(1, -1, *[1] * (weight.ndim - 2))
            linear = LinearMap(source.detach(), weight, value - apply(source.detach(), weight), apply, linear.kind)
        rule = self.choose_rule(self.maps, linear.kind)
        self.maps += 1
        return self.tie(value, linear, rule, source)

    def tie(self, value: Tensor, linear: LinearMap, rule: Rule, source: Tensor) -> Tensor:
        output = redistributed(value, lambda relevance: (redistribute_rows(rule, linear, relevance),), source)
        self.last_map = (output, linear, rule, source)
        return output

    def batch_norm(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """Merge a batch norm into the map before it or behind it; alone, it is a linear map of its own."""
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
        given = dict(zip(names, args, strict=False)) | kwargs
        x, mean, variance = given["input"], given["running_mean"], given["running_var"]
        value = func(x.detach(), *args[1:], **{k: v for k, v in kwargs.items() if k != "input"})
        scale = (variance + given.get("eps", 1e-5)).rsqrt()
        scale = scale if given.get("weight") is None else scale * given["weight"]
        shift = -mean * scale if given.get("bias") is None else given["bias"] - mean * scale
        column = (-1, *[1] * (x.ndim - 2))
        if self.merge_norms and self.last_map is not None and self.last_map[0] is x:
            _, linear, rule, source = self.last_map
            weight = linear.weight * scale.view(-1, *[1] * (linear.weight.ndim - 1))
            bias = shift.view(column) if linear.bias is None else linear.bias * scale.view(column) + shift.view(column)
            return self.tie(value, LinearMap(linear.x, weight, bias, linear.apply, linear.kind), rule, source)
        alone = LinearMap(x.detach(), scale.view(column), shift.view(column), lambda a, w: a * w, "norm")
        rule = self.choose_rule(-1, "norm")
        output = redistributed(value, lambda relevance: (rule.redistribute(alone, relevance),), x)
        if self.merge_norms:
            self.last_norm = (output, x, scale)
        return output


def redistribute_rows(rule: Rule, linear: LinearMap, relevance: Tensor) -> Tensor:
    """What the rule gives, worked out only for those rows of a dense layer (pairs, tokens) that have any relevance."""
    rows = relevance.any(-1)
    whole = linear.kind != "dense" or relevance.ndim == 2 or not rule.by_rows
    if whole or (linear.bias is not None and linear.bias.ndim > 1) or 2 * int(rows.sum()) > rows.numel():
        return rule.redistribute(linear, relevance)
    result = torch.zeros_like(linear.x)
    result[rows] = rule.redistribute(replace(linear, x=linear.x[rows]), relevance[rows])
    return result


def tensors_in(values: Sequence[Any]) -> list[Tensor]:
    """The tensors among the arguments of a function, also inside lists and tuples."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


def detached(value: Any) -> Any:
    """Arguments without graph, and copied, because some functions work in place."""
    return value.detach().clone() if isinstance(value, Tensor) and value.requires_grad else value


def pass_on(func: Any, args: Sequence[Any], kwargs: dict[str, Any], carrier: Tensor) -> Tensor:
    """The function's value; its relevance goes to `carrier` as it is."""
    value = func(*map(detached, args), **{name: detached(given) for name, given in kwargs.items()})

    def back(relevance: Tensor) -> tuple[Tensor]:
        return (relevance.sum_to_size(carrier.shape),)

    return redistributed(value, back, carrier)


def in_proportion(func: Any, args: Sequence[Any], kwargs: dict[str, Any], carriers: Sequence[Tensor]) -> Tensor:
    """The function's value; its relevance goes to the carriers by their contributions: x dz/dx / z."""
    copies = {id(carrier): carrier.detach().requires_grad_() for carrier in carriers}

    def replaced(value: Any) -> Any:
        if isinstance(value, Tensor) and id(value) in copies:
            return copies[id(value)].clone()
        return value

    with torch.enable_grad():
        graph = func(*map(replaced, args), **{name: replaced(given) for name, given in kwargs.items()})
    leaves = list(copies.values())

    def back(relevance: Tensor) -> list[Tensor]:
        shares = torch.autograd.grad(graph, leaves, relevance / stable(graph.detach()))
        return [leaf.detach() * share for leaf, share in zip(leaves, shares, strict=True)]

    unique = list({id(carrier): carrier for carrier in carriers}.values())
    return redistributed(graph.detach(), back, *unique)

"""Literal references for transformers: attention written out, its rollouts, and AttnLRP as a gradient.

Nothing here is Heatproof's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from zoo.references import OWN_STATISTICS, PASSED_ON, by_constant_deviation, passed_on, score, stretched

PRODUCTS = {"matmul", "__matmul__", "bmm", "einsum", "mul", "__mul__", "__rmul__", "mul_", "__imul__"}
DIVISIONS = {"div", "__truediv__", "div_", "true_divide"}


class WrittenOut(TorchFunctionMode):
    """Inside, attention is computed step by step, and what every softmax over the last axis gives is noted.

    With `relevance`, x times the gradient is AttnLRP without stabiliser. With m = R / z at each tensor: dense layers
    and sums have the gradient's own rule, an activation the slope f(z) / z; the rule of softmax, which is
    x_i (R_i - s_i sum R), is its gradient; a product gives half to each factor; what a norm divides by is a constant.
    """

    def __init__(self, relevance: bool = False) -> None:
        super().__init__()
        self.relevance = relevance
        self.attention: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "scaled_dot_product_attention":
            with self:
                return attended(*args, **kwargs)
        if name == "multi_head_attention_forward":
            with self:
                return by_heads(*args, **kwargs)
        if self.relevance:
            given = list(args[1:] if name == "einsum" else args)
            carriers = [value for value in given if isinstance(value, Tensor) and value.requires_grad]
            if len(carriers) == 1 and name in PASSED_ON:
                return passed_on(func, args, kwargs, carriers[0])
            if name in PRODUCTS and len(carriers) == 2:
                return func(*[halved(value) if isinstance(value, Tensor) else value for value in args])
            if name in DIVISIONS and len(carriers) == 2:
                return args[0] / args[1].detach()
            if name == "layer_norm":
                return centred_over_a_constant(*args, **kwargs)
            if carriers and name in OWN_STATISTICS and not (args[1:2] and isinstance(args[1], Tensor)):
                return by_constant_deviation(func, args, kwargs, carriers[0])
        result = func(*args, **kwargs)
        if name == "softmax" and result.ndim >= 3:
            self.attention.append(result)
        return result


def halved(x: Tensor) -> Tensor:
    """x, with half of its gradient."""
    return x / 2 + (x / 2).detach()


def attended(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, scale: float | None = None, **_: Any
) -> Tensor:
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (scores if attn_mask is None else scores + attn_mask).softmax(-1) @ value


def by_heads(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, *args: Any, **_: Any) -> Any:
    """torch's own attention over tokens (T, B, D): the same weights for all three, no masks."""
    weight, bias, out, shift = args[0], args[1], args[6], args[7]
    parts = F.linear(query, weight, bias).chunk(3, -1)
    q, k, v = (part.unflatten(-1, (heads, width // heads)).permute(1, 2, 0, 3) for part in parts)
    mixed = attended(q, k, v)
    return F.linear(mixed.permute(2, 0, 1, 3).flatten(2), out, shift), None


def centred_over_a_constant(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
    **__: Any,
) -> Tensor:
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdim=True)
    normed = centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt().detach()
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


def relevance(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor) -> Tensor:
    """AttnLRP as x times a gradient."""
    inputs = inputs.clone().requires_grad_()
    with WrittenOut(relevance=True):
        total = score(model, inputs, context, target).sum()
    return inputs.detach() * torch.autograd.grad(total, inputs)[0]


def looks(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor) -> tuple[Any, Any]:
    """Every block's attention (B, heads, T, T), and the gradient of the score there."""
    with WrittenOut() as seen:
        total = score(model, inputs.clone().requires_grad_(), context, target).sum()
    gradients = torch.autograd.grad(total, seen.attention)
    return [found.detach() for found in seen.attention], list(gradients)


def rolled_out(attention: list[Tensor]) -> Tensor:
    """The product over blocks of (A + I) / 2, case by case (B, T, T)."""
    cases = []
    for case in range(len(attention[0])):
        rolled = torch.eye(attention[0].shape[-1], dtype=attention[0].dtype)
        for block in attention:
            rolled = (block[case].mean(0) + torch.eye(len(rolled), dtype=rolled.dtype)) / 2 @ rolled
        cases.append(rolled)
    return torch.stack(cases)


def weighed_rollout(attention: list[Tensor], gradients: list[Tensor]) -> Tensor:
    """R = R + mean over heads of (dS/dA A)+ R, case by case."""
    cases = []
    for case in range(len(attention[0])):
        rolled = torch.eye(attention[0].shape[-1], dtype=attention[0].dtype)
        for block, gradient in zip(attention, gradients, strict=True):
            rolled = rolled + (block[case] * gradient[case]).clamp(min=0).mean(0) @ rolled
        cases.append(rolled)
    return torch.stack(cases)


def on_grid(looking: Tensor, grid: tuple[int, ...], class_token: bool, space: tuple[int, ...]) -> Tensor:
    """The class token's row of (B, T, T), or the mean row of the patches, as a map: the last tokens are the grid."""
    patches = prod(grid)
    row = looking[:, 0] if class_token else looking[:, -patches:].mean(1)
    return stretched(row[:, -patches:].unflatten(1, grid).unsqueeze(1), space)

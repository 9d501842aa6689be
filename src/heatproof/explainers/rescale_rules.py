"""DeepLIFT's multipliers of single torch functions, from their arguments and values at the inputs and at the baselines.

A multiplier is what stands for the derivative. For every function the multipliers times the differences of its
arguments add up to the difference of its values. Values are the function's own; only the way back is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cbrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heatproof.explainers.relevance_nodes import own_tensor

ROUNDING = 8.0
"""Differences of less than so many roundings say nothing about a slope: the derivative stands for it."""


class Valued(torch.autograd.Function):
    """A value computed elsewhere, in the place of one with the right way back."""

    @staticmethod
    def forward(ctx: Any, replaced: Tensor, value: list[Tensor]) -> Tensor:
        # From a list and no view, so that it counts as a fresh tensor, which may be changed in place.
        return own_tensor(value.pop(), [replaced])

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Any:
        return signal, None


class Multiplied(torch.autograd.Function):
    """A value computed elsewhere; the way back to each carrier goes through its multiplier, place by place."""

    @staticmethod
    def forward(ctx: Any, value: list[Tensor], multipliers: Sequence[Tensor], *carriers: Tensor) -> Tensor:
        ctx.multipliers = multipliers
        ctx.like = [(carrier.shape, carrier.dtype) for carrier in carriers]
        return value.pop()

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Any:
        given = [
            (signal * multiplier).sum_to_size(shape).to(dtype)
            for multiplier, (shape, dtype) in zip(ctx.multipliers, ctx.like, strict=True)
        ]
        return None, None, *given


class Pooled(torch.autograd.Function):
    """Maxima over places of the last axis; `due` says what part of a maximum's difference each of two places gets."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, value: list[Tensor], moved: Tensor, due: Sequence[Sequence[Tensor]]
    ) -> Tensor:
        ctx.moved, ctx.due = moved, due
        return value.pop()

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Any:
        given = torch.zeros_like(ctx.moved)
        for share, place in ctx.due:
            given.scatter_add_(-1, place, signal * share)
        return torch.where(ctx.moved == 0, 0.0, given / ctx.moved), None, None, None


OURS = (Valued, Multiplied, Pooled)


def valued(value: Tensor, replaced: Tensor) -> Tensor:
    """`value`, whose way back is that of `replaced`."""
    result: Tensor = Valued.apply(replaced, [value])  # type: ignore[no-untyped-call]
    return result


def multiplied(value: Tensor, multipliers: Sequence[Tensor], carriers: Sequence[Tensor]) -> Tensor:
    result: Tensor = Multiplied.apply([value], multipliers, *carriers)  # type: ignore[no-untyped-call]
    return result


def noise(*values: Tensor) -> Tensor:
    """Up to which difference numbers of this size may be equal."""
    total = values[0].abs()
    for more in values[1:]:
        total = total + more.abs()
    return total * (ROUNDING * torch.finfo(total.dtype).eps)


def slope(moved: Tensor, risen: Tensor, limit: Tensor | float) -> tuple[Tensor, Tensor | None]:
    """The quotient of differences, and where it means something; None: everywhere."""
    far = moved.abs() > limit
    return risen / moved, None if bool(far.all()) else far


def several_slopes(risen: Tensor, moved: Sequence[Tensor], gradients: Sequence[Tensor], limit: Tensor) -> list[Tensor]:
    """Multipliers of an elementwise function of several arguments: mean derivatives, and what lets them add up.

    What is missing goes to the arguments in proportion to their differences. For one argument that is the quotient.
    """
    largest = torch.stack([difference.abs() for difference in moved]).amax(0)
    far = largest > limit
    missing = risen - sum_of([a * b for a, b in zip(gradients, moved, strict=True)])
    parts = [difference / largest for difference in moved]
    per_part = missing / (largest * sum_of([part.square() for part in parts]))
    return [
        torch.where(far, gradient + per_part * part, gradient) for gradient, part in zip(gradients, parts, strict=True)
    ]


def sum_of(values: Sequence[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def pick_shares(risen: Tensor, moved: Sequence[Tensor], limit: Tensor) -> list[Tensor]:
    """Multipliers of two places of which one was picked for the input, the other for the baseline.

    Each gets of the difference in proportion to the square of its own, which is the smallest pair of multipliers that
    adds up. Where neither differs, it is the derivative of the input's.
    """
    largest = torch.maximum(moved[0].abs(), moved[1].abs())
    far = largest > limit
    parts = [torch.where(far, difference / largest, 0.0) for difference in moved]
    total = largest * (parts[0].square() + parts[1].square())
    otherwise = [torch.ones_like(risen), torch.zeros_like(risen)]
    return [torch.where(far, risen * part / total, other) for part, other in zip(parts, otherwise, strict=True)]


def due_shares(reached: Tensor, base: Tensor, place: Tensor, base_place: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What a difference of maxima is due to: the place of the input's maximum, and that of the baseline's.

    With o and r the two maxima and m the greater: m - r goes to the place of o, o - m to the place of r. Windows may
    overlap (Captum's unpooling keeps one of them only).
    """
    top = torch.maximum(reached, base)
    return [(top - base, place), (reached - top, base_place)]


def log_mean(a: Tensor, b: Tensor) -> Tensor:
    """(exp a - exp b) / (a - b): the slope of the exponential, also where the two are far apart."""
    apart = (a - b).abs()
    bend = torch.where(apart > 0, -torch.expm1(-apart) / apart, 1.0)
    return torch.exp(torch.maximum(a, b)) * bend


def logsumexp_weights(z: Tensor, base: Tensor, dim: Any) -> Tensor:
    """The multipliers of log sum exp: slopes of the exponential between the two softmaxes, which sum to 1.

    With p and q the logarithms of the softmaxes, the slopes times p - q add up to 1 - 1, so the weights times z - base
    to what both differ by beside p - q, the difference of the totals. A number that is added to all of z, or of the
    baseline, changes nothing, as it changes nothing of a softmax.
    """
    p, q = (values - torch.logsumexp(values, dim, keepdim=True) for values in (z, base))
    slopes = log_mean(p, q)
    return slopes / slopes.sum(dim, keepdim=True)


def length_weights(x: Tensor, b: Tensor, lengths: tuple[Tensor, Tensor], axes: list[int], mean: bool) -> list[Tensor]:
    """The multipliers of x over its length, as a, w and u of a x + w (u x), summed over the axes.

    a is the mean of 1 / length on the straight way from b to x. What is missing then (lengths change too) is due to the
    arguments in proportion to their differences. The two-point rule would be dominated by a baseline near zero, whose
    inverse length says nothing about the way. Where x and b hardly differ it is the derivative in the middle.
    """
    moved, middle = x - b, (x + b) / 2
    square = moved.square().sum(axes, keepdim=True)
    count = x.numel() // square.numel() if mean else 1
    way, ends = (square / count).sqrt(), lengths[0] + lengths[1]
    share = (way / ends).clamp_max(1 - torch.finfo(x.dtype).eps)
    inverse = torch.where(share > 0, 2 * torch.atanh(share) / way, 2 / ends)
    missing = x / lengths[0] - b / lengths[1] - inverse * moved
    close = share < cbrt(torch.finfo(x.dtype).eps)
    return [
        torch.where(close, 2 / ends, inverse),
        torch.where(close, -middle * (2 / ends) ** 3 / count, missing),
        torch.where(close, middle, moved / square),
    ]


def gauss_legendre(nodes: int) -> list[tuple[float, float]]:
    """Points between 0 and 1 with their weights: exact for polynomials up to degree 2 nodes - 1."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return [(float(p + 1) / 2, float(w) / 2) for p, w in zip(points, weights, strict=True)]

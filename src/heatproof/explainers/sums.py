"""Sums and averages, and how they share relevance: in proportion to what each part gives, or by positive parts only.

In proportion, parts of opposite signs can get more than there was, and below zero. By positive parts (z_plus,
excitation backprop) nothing is negative and no more leaves than came in; where no part is positive, it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from heatproof.explainers.linear_maps import named
from heatproof.explainers.rules import LinearMap, Part, over, times, total
from heatproof.explainers.watching import Call


@dataclass(frozen=True)
class Sharing:
    """How sums share: whether by positive parts only, and what keeps their denominators from zero."""

    positive: bool
    stabiliser: float

    def parts(self, values: Tensor) -> Tensor:
        return values.clamp(min=0) if self.positive else values

    def over(self, relevance: Tensor, z: Tensor) -> Tensor:
        return over(relevance, z, self.stabiliser)


def terms(call: Call) -> list[tuple[Tensor, Any]]:
    """What an addition adds: tensors that depend on the inputs, each with its constant factor; the rest left out."""
    if call.name == "addcmul":
        given = named(call, ("input", "tensor1", "tensor2"))
        first, second = given["tensor1"], given["tensor2"]
        factor, moving = (first, second) if second.requires_grad else (second, first)
        added = [(given["input"], 1), (moving, call.kwargs.get("value", 1) * factor)]
    else:
        given = named(call, ("input", "other"))
        alpha = given.get("alpha", 1)
        first, second = given["input"], given["other"]
        factors = {"add": (1, alpha), "sub": (1, -alpha), "rsub": (-alpha, 1)}[call.name]
        added = [(first, factors[0]), (second, factors[1])]
    return [(part, factor) for part, factor in added if isinstance(part, Tensor) and part.requires_grad]


def share_addition(
    added: Sequence[tuple[Tensor, Any]], sharing: Sharing, value: Tensor | None = None
) -> Callable[[Tensor], list[Tensor]]:
    """The way back of an addition: each part's share of the sum, or of the whole `value`, constants included."""

    def back(relevance: Tensor) -> list[Tensor]:
        parts = [sharing.parts(scaled(part, factor)) for part, factor in added]
        s = sharing.over(relevance, total(parts) if value is None else value)
        shares = [*(part * s for part in parts[:-1]), times(s, parts[-1])]
        return [share.sum_to_size(whole.shape) for share, (whole, _) in zip(shares, added, strict=True)]

    return back


def scaled(part: Tensor, factor: Any) -> Tensor:
    return part if not isinstance(factor, Tensor) and factor == 1 else part * factor


def share_average(x: Tensor, average: Callable[[Tensor], Tensor], sharing: Sharing) -> Callable[[Tensor], list[Tensor]]:
    """The way back of a linear function without negative weights: x_i dz/dx_i / z."""

    def back(relevance: Tensor) -> list[Tensor]:
        part = Part(LinearMap(x, x, None, lambda inputs, _: average(inputs), "sum"), sharing.parts(x), x)
        return [part.back(sharing.over(relevance, part.z))]

    return back


def share_centring(x: Tensor, groups: int, sharing: Sharing) -> Callable[[Tensor], list[Tensor]]:
    """The way back of x_j - mean of x over its group, to which x_j gives its own value less a share of it.

    The others give -x_i / n, which is a positive part where x_i is negative.
    """
    rows = x.reshape(len(x), groups, -1)
    size = rows.shape[-1]

    def back(relevance: Tensor) -> list[Tensor]:
        coming = relevance.reshape(rows.shape)
        if not sharing.positive:
            s = sharing.over(coming, rows - rows.mean(-1, keepdim=True))
            return [times(s.sub_(s.mean(-1, keepdim=True)), rows).view_as(x)]
        own, taken = rows.clamp(min=0) * (1 - 1 / size), rows.clamp(max=0) / -size
        s = sharing.over(coming, own + taken.sum(-1, keepdim=True) - taken)
        return [(own * s + taken * (s.sum(-1, keepdim=True) - s)).view_as(x)]

    return back

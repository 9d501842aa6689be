"""Rules of layer-wise relevance propagation: how the relevance of a linear map's outputs goes to its inputs.

A linear map is z = W x + b, where W may be a dense matrix or a convolution. Each rule says what share of R_j input i
gets: some modification of x_i w_ij over its sum. The tests hold them equal to zennit's and to literal loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from heatproof.lazy import torch

STABILISER = 1e-6


@dataclass(frozen=True, eq=False)
class LinearMap:
    """The inputs and parameters of one use of a linear layer; `apply(x, weight)` leaves the bias out."""

    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    """Of a shape that broadcasts to the outputs."""
    apply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    kind: str
    """"conv", "dense" or "norm"."""
    rows: bool = True
    """Whether a dense map treats each row of its inputs (all axes but the last) by itself."""
    channels_in: int | None = None
    """The weight's axis along which a batch norm in front of the map scales it, if one can be merged."""
    channels_out: int | None = None
    """The same of a batch norm behind it."""
    adjoint: Callable[[torch.Tensor, torch.Tensor, torch.Size], torch.Tensor] | None = None
    """(s, weight, shape of x) to W^T s, where it is known; else autograd finds it."""
    outputs: torch.Tensor | None = None
    """W x + b as the network has computed it, where that is kept: then it need not be computed again."""


class Part:
    """One modified pass z = W' x', and the way back: x' * (W'^T s)."""

    def __init__(self, linear: LinearMap, x: torch.Tensor, weight: torch.Tensor) -> None:
        self.x, self.weight, self.adjoint, self.apply = x, weight, linear.adjoint, linear.apply
        if self.adjoint is None:
            with torch.enable_grad():
                self.x = x.detach().requires_grad_()
                self.graph = linear.apply(self.x, weight)

    @property
    def z(self) -> torch.Tensor:
        return self.graph.detach() if self.adjoint is None else self.apply(self.x, self.weight)

    def back(self, s: torch.Tensor) -> torch.Tensor:
        if self.adjoint is not None:
            return times(self.adjoint(s, self.weight, self.x.shape), self.x)
        from heatproof.explainers.autograd_graph import pulled_back

        return self.x.detach() * pulled_back(self.graph, self.x, s)


def stable(z: torch.Tensor, epsilon: float = STABILISER) -> torch.Tensor:
    """z moved away from zero by epsilon, zero itself upwards.

    Like `over` and `times` it writes where it has just written: new memory takes longer than the arithmetic.
    """
    side = torch.ge(z, 0, out=torch.empty_like(z)).sub_(0.5)  # which torch works out quicker than a sign
    return torch.add(z, side, alpha=2 * epsilon, out=side)


def over(relevance: torch.Tensor, z: torch.Tensor, epsilon: float = STABILISER) -> torch.Tensor:
    """relevance / stable(z)"""
    divisor = stable(z, epsilon)
    alike = divisor.shape == relevance.shape and divisor.dtype == relevance.dtype
    return torch.div(relevance, divisor, out=divisor if alike else None)


def times(found: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """found * x, where nobody else needs `found`."""
    return found.mul_(x) if found.dtype == x.dtype else found * x


def away_from_zero(z: torch.Tensor) -> torch.Tensor:
    """z, where it is exactly zero the stabiliser."""
    return torch.where(z == 0, torch.full_like(z, STABILISER), z)


def biased(z: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return z if bias is None else z + bias


@dataclass(frozen=True, eq=False)
class Share:
    """Parts that relevance goes back to with factors s, and the bias that takes s times its value."""

    parts: list[Part]
    s: torch.Tensor
    bias: torch.Tensor | None = None

    def back(self) -> torch.Tensor:
        return total([part.back(self.s) for part in self.parts])


def positive(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.clamp(min=0)


@dataclass(frozen=True)
class Rule:
    """Base of all rules. `biases` says whether biases take their share of the relevance."""

    by_rows: ClassVar[bool] = True
    """Whether each row of inputs of a dense layer is treated by itself."""

    biases: bool = True

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        """What the relevance of the outputs is divided into; the inputs get the sum of it."""
        raise NotImplementedError

    def redistribute(self, linear: LinearMap, relevance: torch.Tensor) -> torch.Tensor:
        """The relevance of the inputs."""
        shares = self.shares(linear, relevance)
        return total([share.back() for share in shares]) if shares else torch.zeros_like(linear.x)

    def taken_by_biases(self, linear: LinearMap, relevance: torch.Tensor) -> torch.Tensor:
        """What of the relevance of all outputs together the biases keep."""
        taken = [(share.s * share.bias).sum() for share in self.shares(linear, relevance) if share.bias is not None]
        return total([relevance.new_zeros(()), *taken])

    def bias_of(self, linear: LinearMap) -> torch.Tensor | None:
        return linear.bias if self.biases else None


@dataclass(frozen=True)
class Epsilon(Rule):
    """x_i w_ij / (z_j + epsilon)."""

    epsilon: float = STABILISER

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        part, bias = Part(linear, linear.x, linear.weight), self.bias_of(linear)
        known = linear.outputs if self.biases else None
        z = biased(part.z, bias) if known is None else known
        return [Share([part], over(relevance, z, self.epsilon), bias)]


@dataclass(frozen=True)
class RelativeEpsilon(Rule):
    """Epsilon relative to the root mean square of z, added whatever its sign (the Focus paper's dense layers)."""

    by_rows = False

    share: float = 0.25

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        part, bias = Part(linear, linear.x, linear.weight), self.bias_of(linear)
        z = biased(part.z, bias)
        size = z.square().reshape(len(z), -1).mean(1).sqrt().view(-1, *[1] * (z.ndim - 1))
        return [Share([part], relevance / away_from_zero(z + self.share * size), bias)]


@dataclass(frozen=True)
class SameSignBias(Rule):
    """x_i w_i / (x_i w_i + b_i), the bias only where it has the sign of x_i w_i (the Focus paper's batch norm)."""

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        part, bias = Part(linear, linear.x, linear.weight), linear.bias
        z = part.z + 1e-9
        if bias is not None:
            bias = torch.where(bias * z > 0, bias, torch.zeros_like(z))
        return [Share([part], relevance / away_from_zero(biased(z, bias)), bias)]


@dataclass(frozen=True)
class ZPlus(Rule):
    """(x_i w_ij)^+ / sum_i (x_i w_ij)^+, also known as alpha 1, beta 0."""

    stabiliser: float = STABILISER

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        parts = [Part(linear, linear.x.clamp(min=0), linear.weight.clamp(min=0))]
        if bool((linear.x < 0).any()):  # behind a ReLU, half of the work is not needed
            parts.append(Part(linear, linear.x.clamp(max=0), linear.weight.clamp(max=0)))
        bias = positive(self.bias_of(linear))
        return [Share(parts, over(relevance, biased(sum_of(parts), bias), self.stabiliser), bias)]


@dataclass(frozen=True)
class Gamma(Rule):
    """Contributions of the output's own sign count 1 + gamma times."""

    gamma: float = 0.25
    stabiliser: float = STABILISER

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        x, weight = linear.x, linear.weight
        outputs = biased(linear.apply(x, weight), linear.bias) if linear.outputs is None else linear.outputs
        found = []
        for sign, side in ((1, outputs > 0), (-1, outputs < 0)):
            share = torch.where(side, relevance, torch.zeros_like(relevance))
            if not bool(share.any()):
                continue
            parts = [Part(linear, x.clamp(min=0), self.favour(weight, sign))]
            if bool((x < 0).any()):
                parts.append(Part(linear, x.clamp(max=0), self.favour(weight, -sign)))
            bias = self.bias_of(linear)
            bias = None if bias is None else self.favour(bias, sign)
            found.append(Share(parts, over(share, biased(sum_of(parts), bias), self.stabiliser), bias))
        return found

    def favour(self, tensor: torch.Tensor, sign: int) -> torch.Tensor:
        side = tensor.clamp(min=0) if sign > 0 else tensor.clamp(max=0)
        return tensor + self.gamma * side


@dataclass(frozen=True)
class Flat(Rule):
    """Every input of an output gets the same."""

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        part = Part(linear, torch.ones_like(linear.x), torch.ones_like(linear.weight))
        return [Share([part], over(relevance, part.z))]


@dataclass(frozen=True)
class WSquare(Rule):
    """w_ij^2 / sum_i w_ij^2, for inputs of no particular range."""

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        part = Part(linear, torch.ones_like(linear.x), linear.weight.square())
        return [Share([part], over(relevance, part.z))]


@dataclass(frozen=True)
class Box(Rule):
    """z^B, for inputs between `low` and `high`: x_i w_ij - low w_ij^+ - high w_ij^-, over its sum.

    Bounds that are not given are the least and the greatest value of each case.
    """

    by_rows = False

    low: float | None = None
    high: float | None = None

    def shares(self, linear: LinearMap, relevance: torch.Tensor) -> list[Share]:
        x, weight = linear.x, linear.weight
        column = (-1, *[1] * (x.ndim - 1))
        values = x.reshape(len(x), -1)
        low = values.amin(1).view(column) if self.low is None else torch.full_like(x, self.low)
        high = values.amax(1).view(column) if self.high is None else torch.full_like(x, self.high)
        inside = Part(linear, x, weight)
        floor = Part(linear, low.expand_as(x), weight.clamp(min=0))
        roof = Part(linear, high.expand_as(x), weight.clamp(max=0))
        s = over(relevance, inside.z - floor.z - roof.z)
        return [Share([inside], s), Share([floor], -s), Share([roof], -s)]


def sum_of(parts: list[Part]) -> torch.Tensor:
    return total([part.z for part in parts])


def total(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The sum of one tensor or more."""
    result = tensors[0]
    for tensor in tensors[1:]:
        result = result + tensor
    return result

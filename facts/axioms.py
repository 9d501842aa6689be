"""The axioms that papers claim for explainers, measured: a number per case, zero where the axiom is kept.

Completeness, sensitivity and implementation invariance after Sundararajan et al. 2017; dummy, that what a model cannot
see has no relevance, is the second half of their sensitivity.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from heatproof.cases import Batch

Explain = Callable[[nn.Module, Batch], Tensor]
POSITIONS = 16
"""So many positions are tried for one whose value alone changes the score."""
NOTHING = 1e-6
"""Relevance below this share of the largest is none."""


def scores(model: nn.Module, batch: Batch, inputs: Tensor) -> Tensor:
    """The target's logit (B,)."""
    with torch.no_grad():
        return model(inputs, *batch.context).gather(1, batch.target[:, None])[:, 0].double()


def completeness(explain: Explain, model: nn.Module, batch: Batch) -> Tensor:
    """How far the sum of the relevance is from S(x) - S(0), as a share of it."""
    due = scores(model, batch, batch.inputs) - scores(model, batch, torch.zeros_like(batch.inputs))
    return (explain(model, batch).double().flatten(1).sum(1) - due).abs() / due.abs()


def conservation(explain: Explain, model: nn.Module, batch: Batch) -> Tensor:
    """How far the sum of the relevance is from S(x), as a share of it: what LRP hands down."""
    due = scores(model, batch, batch.inputs)
    return (explain(model, batch).double().flatten(1).sum(1) - due).abs() / due.abs()


def sensitivity(explain: Explain, model: nn.Module, batch: Batch) -> Tensor:
    """1 where a position that alone differs from zero, and changes the score by that, has no relevance; else 0."""
    space = batch.inputs.shape[2:]
    generator = torch.Generator().manual_seed(0)
    places = torch.randperm(space.numel(), generator=generator)[:POSITIONS]
    alone = torch.zeros(len(batch), len(places), *batch.inputs.shape[1:], dtype=batch.inputs.dtype)
    for number, place in enumerate(places.tolist()):
        alone[:, number].flatten(2)[:, :, place] = batch.inputs.flatten(2)[:, :, place]
    empty = scores(model, batch, torch.zeros_like(batch.inputs))
    effects = torch.stack([(scores(model, batch, alone[:, n]) - empty).abs() for n in range(len(places))], 1)
    best = effects.argmax(1)
    inputs = alone[torch.arange(len(batch)), best]
    relevance = explain(model, replace(batch, inputs=inputs)).abs().sum(1).flatten(1)
    there = relevance.gather(1, places[best][:, None])[:, 0]
    missed = there <= NOTHING * relevance.amax(1).clamp(min=torch.finfo(relevance.dtype).tiny)
    return torch.where(effects.amax(1) > 0, missed.double(), torch.nan)


class Blind(nn.Module):
    """A network that does not see the first quarter of its inputs, along their last axis."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    @staticmethod
    def hidden(inputs: Tensor) -> Tensor:
        """The positions that it does not see, bool (*space)."""
        length = inputs.shape[-1]
        return (torch.arange(length) < length // 4).expand(inputs.shape[2:])

    def forward(self, inputs: Tensor, *context: Tensor) -> Tensor:
        outputs: Tensor = self.network(inputs * ~self.hidden(inputs), *context)
        return outputs


def dummy(explain: Explain, model: nn.Module, batch: Batch) -> Tensor:
    """The share of the relevance, without its sign, on positions that the network cannot see."""
    blind = Blind(copy.deepcopy(model)).eval()
    relevance = explain(blind, batch).double().abs().sum(1)
    hidden = Blind.hidden(batch.inputs)
    return (relevance * hidden).flatten(1).sum(1) / relevance.flatten(1).sum(1)


class Rewritten(nn.Module):
    """A linear layer as two layers that compute the same.

    Each unit is copied three times behind a ReLU; the second and third copy go out with weights that cancel. Where
    inputs can be negative (`signed`), a fourth copy carries what the first ReLU takes away: x = relu(x) - relu(-x).
    """

    def __init__(self, linear: nn.Linear, signed: bool) -> None:
        super().__init__()
        inputs, outputs = linear.in_features, linear.out_features
        noise = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(0)) * linear.weight.std()
        one = torch.eye(inputs)
        copies, sums = [one, one, one], [linear.weight, noise, -noise]
        if signed:
            copies, sums = [*copies, -one], [*sums, -linear.weight]
        self.copies = nn.Linear(inputs, len(copies) * inputs, bias=False)
        self.sums = nn.Linear(len(copies) * inputs, outputs)
        self.relu = nn.ReLU()
        self.to(linear.weight)
        with torch.no_grad():
            self.copies.weight.copy_(torch.cat(copies))
            self.sums.weight.copy_(torch.cat(sums, 1))
            self.sums.bias.copy_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.sums(self.relu(self.copies(inputs)))
        return outputs


def rewritten(model: nn.Module, batch: Batch) -> nn.Module:
    """The same function by another network: its last linear layer is written in two."""
    other = copy.deepcopy(model)
    name = [name for name, module in other.named_modules() if isinstance(module, nn.Linear)][-1]
    linear, least = other.get_submodule(name), []
    watch = linear.register_forward_pre_hook(lambda _, arguments: least.append(float(arguments[0].min())))
    with torch.no_grad():
        other(batch.inputs, *batch.context)
    watch.remove()
    above, _, own = name.rpartition(".")
    setattr(other.get_submodule(above), own, Rewritten(linear, signed=min(least) < 0))
    return other.eval()


def invariance(explain: Explain, model: nn.Module, batch: Batch) -> Tensor:
    """How far the relevance is from that of another network of the same function, as a share of its length."""
    one, other = (explain(network, batch).double().flatten(1) for network in (model, rewritten(model, batch)))
    return (one - other).norm(dim=1) / one.norm(dim=1)


AXIOMS: dict[str, Callable[[Explain, nn.Module, Batch], Tensor]] = {
    "completeness": completeness,
    "conservation": conservation,
    "sensitivity": sensitivity,
    "dummy": dummy,
    "invariance": invariance,
}

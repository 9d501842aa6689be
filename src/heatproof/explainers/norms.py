"""Norms as linear maps: their statistics count as constants, those that are taken from the activations too."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from heatproof.explainers.linear_maps import named
from heatproof.explainers.watching import Call


@dataclass(frozen=True, eq=False)
class Norm:
    """scale * x + shift, channel by channel; with `groups`, of x without its mean over each group of channels."""

    source: Tensor
    scale: Tensor
    """Like `shift` of a shape that broadcasts to the activations."""
    shift: Tensor
    groups: int | None = None


def norm_of(call: Call) -> Norm:
    """The norm that this call is."""
    if call.name == "group_norm":
        given = named(call, ("input", "num_groups", "weight", "bias", "eps"))
        weight, bias, eps = given.get("weight"), given.get("bias"), given.get("eps", 1e-5)
        return grouped(given["input"], given["num_groups"], weight, bias, eps)
    running, affine = ("running_mean", "running_var"), ("weight", "bias")
    own = "training" if call.name == "batch_norm" else "use_input_stats"
    # torch.batch_norm and torch.nn.functional.batch_norm differ in the order of their arguments
    names = running + affine if call.func is getattr(functional, call.name) else affine + running
    given = named(call, ("input", *names, own, "momentum", "eps", "cudnn_enabled"))
    x, mean, variance = given["input"], given.get("running_mean"), given.get("running_var")
    weight, bias, eps = given.get("weight"), given.get("bias"), given.get("eps", 1e-5)
    if given.get(own, call.name == "instance_norm") or mean is None or variance is None:
        if call.name == "instance_norm":
            return grouped(x, x.shape[1], weight, bias, eps)
        rest = [axis for axis in range(x.ndim) if axis != 1]
        variance, mean = torch.var_mean(x.detach(), rest, correction=0)
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return Norm(x, column(scale, x), column(shift, x))


def grouped(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Norm:
    """A norm over groups of channels of each case."""
    variance = x.detach().reshape(len(x), groups, -1).var(-1, correction=0)
    deviation = (variance + eps).rsqrt().repeat_interleave(x.shape[1] // groups, 1)
    scale = deviation if weight is None else deviation * weight
    shift = torch.zeros_like(scale[0]) if bias is None else bias
    return Norm(x, column(scale, x), column(shift, x), groups)


def column(values: Tensor, x: Tensor) -> Tensor:
    """Values of each channel in a shape that broadcasts to the activations."""
    return values.view(*values.shape, *[1] * (x.ndim - 2))


def centred(x: Tensor, groups: int) -> Tensor:
    """x without its mean over each group of channels."""
    rows = x.reshape(len(x), groups, -1)
    return (rows - rows.mean(-1, keepdim=True)).view_as(x)

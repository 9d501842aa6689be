"""Pooling: relevance (B, C, *space), signed, to a heatmap (B, *space) of non-negative values.

The ten poolings of CLEVR-XAI (Arras et al. 2022). `pos_` clips each channel at zero before it is pooled. Another one is
a function that is registered here under its name; it works wherever these do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from heatproof.errors import HeatproofError
from heatproof.lazy import torch
from heatproof.registry import Registry

Pooling: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"


def admitted(_name: str, found: Any) -> Pooling:
    """The function that a plug-in's entry point names."""
    if not callable(found) or isinstance(found, type):
        raise HeatproofError(f"it must be a function (relevance) -> heatmap, and is {found!r}.")
    pooling: Pooling = found
    return pooling


poolings: Registry[Pooling] = Registry("pooling", "heatproof.poolings", admitted)


def pool(relevance: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool the channels of `relevance` (B, C, *space) by the pooling of that name, in float64.

    The papers' code pools in float64 too, and must: squares of a saturated model's relevance underflow in float32.
    """
    if relevance.ndim < 3:
        raise HeatproofError(f"relevance must be (cases, channels, *space), got shape {tuple(relevance.shape)}.")
    heatmap = poolings[pooling](relevance.double())
    expected = (relevance.shape[0], *relevance.shape[2:])
    if tuple(heatmap.shape) != expected:
        raise HeatproofError(f"pooling {pooling} must give heatmaps {expected}, got shape {tuple(heatmap.shape)}.")
    if bool((heatmap < 0).any()):
        raise HeatproofError(
            f"pooling {pooling} gives negative values; a heatmap has none: clip them or drop the sign."
        )
    return heatmap.double()


@poolings.register("sum_abs")
def sum_abs(relevance: torch.Tensor) -> torch.Tensor:
    """|sum_c R_c|"""
    return relevance.sum(1).abs()


@poolings.register("sum_pos")
def sum_pos(relevance: torch.Tensor) -> torch.Tensor:
    """max(0, sum_c R_c)"""
    return relevance.sum(1).clamp(min=0)


@poolings.register("max_norm")
def max_norm(relevance: torch.Tensor) -> torch.Tensor:
    """max_c |R_c|"""
    return relevance.abs().amax(1)


@poolings.register("l1_norm")
def l1_norm(relevance: torch.Tensor) -> torch.Tensor:
    """sum_c |R_c|"""
    return relevance.abs().sum(1)


@poolings.register("l2_norm")
def l2_norm(relevance: torch.Tensor) -> torch.Tensor:
    """sqrt(sum_c R_c^2)"""
    return l2_norm_sq(relevance).sqrt()


@poolings.register("l2_norm_sq")
def l2_norm_sq(relevance: torch.Tensor) -> torch.Tensor:
    """sum_c R_c^2"""
    return relevance.square().sum(1)


@poolings.register("pos_sum")
def pos_sum(relevance: torch.Tensor) -> torch.Tensor:
    """sum_c max(0, R_c)"""
    return relevance.clamp(min=0).sum(1)


@poolings.register("pos_max_norm")
def pos_max_norm(relevance: torch.Tensor) -> torch.Tensor:
    """max_c max(0, R_c)"""
    return relevance.clamp(min=0).amax(1)


@poolings.register("pos_l2_norm")
def pos_l2_norm(relevance: torch.Tensor) -> torch.Tensor:
    """sqrt(sum_c max(0, R_c)^2)"""
    return l2_norm(relevance.clamp(min=0))


@poolings.register("pos_l2_norm_sq")
def pos_l2_norm_sq(relevance: torch.Tensor) -> torch.Tensor:
    """sum_c max(0, R_c)^2"""
    return l2_norm_sq(relevance.clamp(min=0))

"""Class activation maps for inputs with any number of space dimensions (the usual libraries are 2-D only).

All of them weigh the feature maps A_k of one layer, g = d S / d A. The layer is the last one with spatial extent,
found by watching a forward pass, or the one that `layer` names.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import (
    Quantity,
    SampledExplainer,
    ScoreExplainer,
    quantity_of,
    register_explainer,
    require_one_of,
)
from heatproof.explainers.gradients import GuidedBackprop
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


def spatial_activation(model: torch.nn.Module, batch: Batch, layer: str | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's outputs and the output of `layer`, or of the last layer with spatial extent, from one pass.

    Both keep their graph. Pooling to a fixed size does not count as such a layer, because what it returns is no
    longer where it was; nor does anything that does not depend on the inputs (the words of a question).
    """
    inputs = batch.inputs.detach().requires_grad_()
    seen: list[torch.Tensor] = []

    def has_extent(output: object) -> bool:
        return (
            isinstance(output, torch.Tensor)
            and output.requires_grad
            and output.ndim == inputs.ndim
            and len(output) == len(inputs)
            and max(output.shape[2:]) > 1
        )

    def remember(_module: torch.nn.Module, _args: Any, output: Any) -> torch.Tensor | None:
        if not has_extent(output):
            return None
        seen[:] = [output]
        return output.clone() if layer else None  # what follows may change it in place

    if layer is None:
        watched = [m for m in model.modules() if not any(m.children()) and "Adaptive" not in type(m).__name__]
    else:
        modules = dict(model.named_modules())
        if layer not in modules:
            raise unknown_name("layer", layer, (name for name in modules if name))
        watched = [modules[layer]]
    hooks = [module.register_forward_hook(remember) for module in watched]
    try:
        with torch.enable_grad():
            outputs = model(inputs, *batch.context)
    finally:
        for hook in hooks:
            hook.remove()
    if not seen:
        found = f"layer {layer!r} has none" if layer else "no layer of the model has any"
        raise HeatproofError(
            f"a class activation map needs a layer with spatial extent, and {found}."
            " Name a convolution with layer=NAME, or take a method that reads the input only (gradient, rise ...)."
        )
    return outputs, seen[0]


def resize(maps: torch.Tensor, space: tuple[int, ...]) -> torch.Tensor:
    """Maps (B, C, *any) up-sampled linearly to (B, C, *space)."""
    if tuple(maps.shape[2:]) == space:
        return maps
    modes = {1: "linear", 2: "bilinear", 3: "trilinear"}
    if len(space) not in modes:
        raise HeatproofError(f"class activation maps support inputs of 1, 2 or 3 space dimensions, got {len(space)}.")
    return torch.nn.functional.interpolate(maps, size=space, mode=modes[len(space)], align_corners=False)


def per_map(weights: torch.Tensor, maps: torch.Tensor) -> torch.Tensor:
    """Weights (B, C) with singleton space dimensions, to multiply maps (B, C, *space)."""
    return weights.view(*weights.shape, *[1] * (maps.ndim - 2))


def min_max(maps: torch.Tensor) -> torch.Tensor:
    """Each map (B, C, *space) scaled to [0, 1]; a constant map becomes zero."""
    flat = maps.flatten(2)
    low, high = flat.amin(2), flat.amax(2)
    spread = torch.where(high > low, high - low, torch.ones_like(high))
    return (maps - per_map(low, maps)) / per_map(spread, maps)


def ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    """numerator / denominator, zero where the denominator is zero."""
    return torch.where(denominator == 0, torch.zeros_like(denominator), numerator / denominator)


def maps_and_gradient(
    model: torch.nn.Module, batch: Batch, layer: str | None, quantity: Quantity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Feature maps A (B, C, *any) of the layer, and d S / d A."""
    outputs, maps = spatial_activation(model, batch, layer)
    with torch.enable_grad():
        total = quantity_of(outputs, batch.target, quantity).sum()
    (gradient,) = torch.autograd.grad(total, maps, allow_unused=True)
    if gradient is None:
        raise HeatproofError(
            "the layer that the class activation map reads does not lead to the model's output;"
            " name one that does with layer=NAME."
        )
    return maps.detach(), gradient


@dataclass(frozen=True, kw_only=True)
class GradientCam(ScoreExplainer):
    """max(0, sum_k w_k A_k), up-sampled to the input; a subclass says what w_k is."""

    family = "cam"
    cost = "2"

    layer: str | None = None

    def passes(self, channels: int) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        maps, gradient = maps_and_gradient(model, batch, self.layer, self.quantity)
        weights = self.weights(maps, gradient)
        cam = ((per_map(weights, maps) if weights.ndim == 2 else weights) * maps).sum(1, keepdim=True)
        return resize(cam.clamp(min=0), batch.space)

    @abstractmethod
    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """One weight per map (B, C), or per position (B, C, *any), from the maps and the gradient at them."""


@register_explainer("grad_cam")
@dataclass(frozen=True, kw_only=True)
class GradCam(GradientCam):
    """Grad-CAM: w_k = mean of g_k over space."""

    paper = "Selvaraju et al. 2017"

    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.flatten(2).mean(2)


@register_explainer("grad_cam_pp")
@dataclass(frozen=True, kw_only=True)
class GradCamPP(GradientCam):
    """Grad-CAM++: w_k = sum of alpha max(0, g_k), alpha = g^2 / (2 g^2 + g^3 sum of A_k), zero where g is zero.

    alpha="normalised" divides alpha by its sum over space, as the method's first public code does. That sum has
    both signs and can come near zero; it is here because it reproduces SVEA's published scores.
    """

    paper = "Chattopadhay et al. 2018"

    alpha: Literal["plain", "normalised"] = "plain"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "alpha", ("plain", "normalised"))

    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        maps, gradient = maps.flatten(2), gradient.flatten(2)
        square = gradient.square()
        alpha = ratio(square, 2 * square + maps.sum(2, keepdim=True) * gradient.pow(3))
        if self.alpha == "normalised":
            total = alpha.sum(2, keepdim=True)
            alpha = torch.where(total == 0, alpha, alpha / total)
        return (alpha * gradient.clamp(min=0)).sum(2)


@register_explainer("xgrad_cam")
@dataclass(frozen=True, kw_only=True)
class XGradCam(GradientCam):
    """XGrad-CAM: w_k = sum of (A_k g_k) / sum of A_k over space, zero for an empty map."""

    paper = "Fu et al. 2020"

    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        return ratio((maps * gradient).flatten(2).sum(2), maps.flatten(2).sum(2))


@register_explainer("layer_cam")
@dataclass(frozen=True, kw_only=True)
class LayerCam(GradientCam):
    """LayerCAM: max(0, sum_k max(0, g_k) A_k), a weight for every position."""

    paper = "Jiang et al. 2021"

    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clamp(min=0)


@register_explainer("guided_grad_cam")
@dataclass(frozen=True, kw_only=True)
class GuidedGradCam(ScoreExplainer):
    """Guided backprop times the up-sampled Grad-CAM."""

    family = "cam"
    paper = "Selvaraju et al. 2017"
    cost = "4"

    layer: str | None = None
    relus: Literal["all", "convs"] = "all"

    def passes(self, channels: int) -> int:
        return 4

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        guided = GuidedBackprop(quantity=self.quantity, relus=self.relus).explain(model, batch, rng)
        return guided * GradCam(quantity=self.quantity, layer=self.layer).explain(model, batch, rng)


@register_explainer("score_cam")
@dataclass(frozen=True, kw_only=True)
class ScoreCam(SampledExplainer):
    """Score-CAM: max(0, sum_k w_k A_k), w = softmax over k of the score of x times the k-th map scaled to [0, 1]."""

    family = "cam"
    paper = "Wang et al. 2020"
    cost = "1 + channels"

    layer: str | None = None

    def passes(self, channels: int) -> int:
        return 1 + channels

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        _, maps = spatial_activation(model, batch, self.layer)
        maps = resize(maps.detach(), batch.space)
        every = torch.ones(maps.shape[:2], dtype=torch.bool, device=maps.device)
        weights = masked_scores(self, model, batch, min_max(maps), every).softmax(1)
        return (per_map(weights, maps) * maps).sum(1, keepdim=True).clamp(min=0)


def masked_scores(
    explainer: SampledExplainer, model: torch.nn.Module, batch: Batch, masks: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """Score of x times each wanted mask: masks (B, C, *space), wanted and result (B, C); the others are zero."""
    scores = torch.zeros(masks.shape[:2], dtype=masks.dtype, device=masks.device)
    cases, channels = wanted.nonzero(as_tuple=True)
    for start in range(0, len(cases), explainer.rows):
        case, channel = cases[start : start + explainer.rows], channels[start : start + explainer.rows]
        masked = batch.inputs[case] * masks[case, channel].unsqueeze(1)
        scores[case, channel] = explainer.score_rows(model, masked, batch, case)
    return scores

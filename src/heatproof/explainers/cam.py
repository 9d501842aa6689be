"""Class activation maps for inputs with any number of space dimensions (the usual libraries are 2-D only).

All of them weigh the feature maps A_k of one layer, g = d S / d A. The layer is the last one with spatial extent,
found by watching a forward pass, or the one that `layer` names; `layer=before_max_pool` is what a max-pooling at the
end of the features was made of, where the last layer is behind it (AlexNet, VGG). In a transformer the maps are its
tokens without the class token, laid out on the grid of patches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import (
    Quantity,
    ScoreExplainer,
    Size,
    quantity_of,
    register_explainer,
    require_one_of,
)
from heatproof.explainers.gradients import GuidedBackprop
from heatproof.explainers.guards import untouched
from heatproof.explainers.sharing import SharingExplainer
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom

if TYPE_CHECKING:
    from heatproof.explainers.layers import Activation


ROUNDING = 8
"""Units in the last place by which the values of a constant map may differ."""


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
    low = flat.amin(2)
    spread = flat.amax(2) - low
    return (maps - per_map(low, maps)) / per_map(spread.where(spread != 0, 1), maps)


def masks_of(maps: torch.Tensor, space: tuple[int, ...]) -> torch.Tensor:
    """Maps (B, C, *any) up-sampled and scaled to [0, 1]; zero where a map is constant.

    That is judged before up-sampling, which makes rounding noise of a constant.
    """
    low, high = maps.flatten(2).amin(2), maps.flatten(2).amax(2)
    noise = ROUNDING * torch.finfo(maps.dtype).eps * torch.maximum(low.abs(), high.abs())
    return min_max(resize(maps, space)).where(per_map(high - low > noise, maps), 0)


def ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    """numerator / denominator, zero where the denominator is zero."""
    return (numerator / denominator).where(denominator != 0, 0)


@dataclass(frozen=True, eq=False)
class Stage:
    """Feature maps A (B, C, *any) of a layer, and d S / d A for each explained quantity S."""

    layer: str
    maps: torch.Tensor
    gradients: list[torch.Tensor]


def maps_and_gradient(
    model: torch.nn.Module, batch: Batch, layer: str | None, quantity: Quantity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Feature maps A (B, C, *any) of the layer, and d S / d A."""
    stage = stages(model, batch, layer, (quantity,), every=False)[-1]
    return stage.maps, stage.gradients[0]


def stages(
    model: torch.nn.Module, batch: Batch, layer: str | None, quantities: Sequence[Quantity], every: bool
) -> list[Stage]:
    """The last layer of every extent, fine to coarse, or the last one alone."""
    from heatproof.explainers.layers import last_of_each_extent, spatial_activations

    outputs, found = spatial_activations(model, batch, layer, every)
    if found[-1].tokens:
        return [stage_of_tokens(model, batch, quantities, outputs, found, looked_for=layer is None and not every)]
    found = last_of_each_extent(found) if every else found[-1:]
    gradients = gradients_at(found, outputs, batch, quantities)
    chosen = [place for place, each in enumerate(gradients) if each]
    if not chosen:
        raise leads_nowhere()
    return [Stage(found[place].name, found[place].maps(), gradients[place]) for place in chosen]


def stage_of_tokens(
    model: torch.nn.Module,
    batch: Batch,
    quantities: Sequence[Quantity],
    outputs: torch.Tensor,
    found: list[Activation],
    looked_for: bool,
) -> Stage:
    """The tokens of one pass that count.

    Where they are looked for, which they are is remembered; where that has changed, they are looked for anew.
    """
    from heatproof.explainers.known_layers import forget, is_known, remember

    found = [activation for activation in found if activation.tokens]
    gradients = gradients_at(found, outputs, batch, quantities)
    place = tokens_that_count(found, gradients)
    if looked_for and is_known(model, batch, None):
        if place != 0:
            forget(model, batch, None)
            return stages(model, batch, None, quantities, every=False)[-1]
    elif looked_for and place is not None:
        remember(model, batch, None, outputs, found[place], found[place + 1 :])
    if place is None:
        raise leads_nowhere()
    return Stage(found[place].name, found[place].maps(), gradients[place])


def leads_nowhere() -> HeatproofError:
    return HeatproofError(
        "the layer that the class activation map reads does not lead to the model's output;"
        " name one that does with layer=NAME."
    )


def gradients_at(
    found: list[Activation], outputs: torch.Tensor, batch: Batch, quantities: Sequence[Quantity]
) -> list[list[torch.Tensor]]:
    """The gradients at activations of one pass, as maps: none where it does not lead there. Each quantity needs a
    backward pass."""
    with torch.enable_grad():
        totals = [quantity_of(outputs, batch.target, quantity).sum() for quantity in quantities]
    edges = [activation.edge for activation in found]
    backward = [
        torch.autograd.grad(total, edges, allow_unused=True, retain_graph=total is not totals[-1]) for total in totals
    ]
    return [
        [activation.places.maps(given) for given in each if given is not None]
        for activation, *each in zip(found, *backward, strict=True)
    ]


def tokens_that_count(found: list[Activation], gradients: list[list[torch.Tensor]]) -> int | None:
    """The last tokens whose grid has a gradient, and all of it: which of these activations, if any.

    What the last block of a transformer makes of all but the class token leads nowhere. All that the grid still has to
    say then passes the norm before the last attention, and only the class token passes by.
    """
    only_the_class_token = len(found) == 1
    for place in reversed(range(len(found))):
        if any(bool(gradient.any()) for gradient in gradients[place]):
            if found[place].is_bottleneck or only_the_class_token:
                return place
        elif found[place].is_bottleneck:
            only_the_class_token = True
    return None


def layers_read(model: torch.nn.Module, batch: Batch, layer: str | None, every: bool = False) -> str:
    """The names of the layers that `stages` gives for the logit."""
    with untouched(model):
        return ", ".join(stage.layer for stage in stages(model, batch, layer, ("logit",), every))


@dataclass(frozen=True, kw_only=True)
class GradientCam(ScoreExplainer):
    """max(0, sum_k w_k A_k), up-sampled to the input; a subclass says what w_k is."""

    family = "cam"
    looks_at = "values"
    dimensions = "1, 2, 3"
    cost = "2"

    layer: str | None = None

    def passes(self, size: Size) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        maps, gradient = maps_and_gradient(model, batch, self.layer, self.quantity)
        weights = self.weights(maps, gradient)
        cam = ((per_map(weights, maps) if weights.ndim == 2 else weights) * maps).sum(1, keepdim=True)
        return resize(self.lifted(cam).clamp(min=0), batch.space)

    def layer_read(self, model: torch.nn.Module, batch: Batch) -> str:
        return layers_read(model, batch, self.layer)

    def lifted(self, cam: torch.Tensor) -> torch.Tensor:
        """The weighted sum as it goes into max(0, .)."""
        return cam

    @abstractmethod
    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """One weight per map (B, C), or per position (B, C, *any), from the maps and the gradient at them."""


@register_explainer("grad_cam")
@dataclass(frozen=True, kw_only=True)
class GradCam(GradientCam):
    """Grad-CAM: w_k = mean of g_k over space; with `gradients=positive`, of max(0, g_k)."""

    paper = "Selvaraju et al. 2017"

    gradients: Literal["all", "positive"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "gradients", ("all", "positive"))

    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        counted = gradient.clamp(min=0) if self.gradients == "positive" else gradient
        return counted.flatten(2).mean(2)


@register_explainer("grad_cam_pp")
@dataclass(frozen=True, kw_only=True)
class GradCamPP(GradientCam):
    """Grad-CAM++: w_k = sum of alpha max(0, g_k), alpha = g^2 / (2 g^2 + g^3 sum of A_k), zero where g is zero.

    alpha="normalised" divides alpha by its sum over space, as the method's first public code does. That sum has
    both signs and can come near zero; it is here because it reproduces SVEA's published scores.

    eps    added to the denominator of alpha: gradients below its root then count little, not as much as large ones
    shift  subtract the lowest value of the weighted sum of maps from it, before max(0, .)

    Focus was published with eps=1e-6 and shift.
    """

    paper = "Chattopadhay et al. 2018"

    alpha: Literal["plain", "normalised"] = "plain"
    eps: float = 0.0
    shift: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "alpha", ("plain", "normalised"))
        if not 0 <= self.eps < float("inf"):
            raise HeatproofError(f"{self.name}: eps must be zero or more, got {self.eps}.")

    def lifted(self, cam: torch.Tensor) -> torch.Tensor:
        return cam - per_map(cam.flatten(2).amin(2), cam) if self.shift else cam

    def weights(self, maps: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        maps, gradient = maps.flatten(2), gradient.flatten(2)
        square = gradient.square()
        alpha = ratio(square, 2 * square + maps.sum(2, keepdim=True) * gradient.pow(3) + self.eps)
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
    """Guided backprop times the up-sampled Grad-CAM; `relus` and `gradients` are theirs."""

    family = "cam"
    looks_at = "relus"
    dimensions = "1, 2, 3"
    paper = "Selvaraju et al. 2017"
    cost = "4"

    layer: str | None = None
    relus: Literal["all", "convs"] = "all"
    gradients: Literal["all", "positive"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "relus", ("all", "convs"))
        require_one_of(self, "gradients", ("all", "positive"))

    def passes(self, size: Size) -> int:
        return 4

    def layer_read(self, model: torch.nn.Module, batch: Batch) -> str:
        return layers_read(model, batch, self.layer)

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        cam = GradCam(quantity=self.quantity, layer=self.layer, gradients=self.gradients)
        guided = GuidedBackprop(quantity=self.quantity, relus=self.relus)
        return cam.explain(model, batch, rng) * guided.explain(model, batch, rng)


@register_explainer("score_cam")
@dataclass(frozen=True, kw_only=True)
class ScoreCam(SharingExplainer):
    """Score-CAM: max(0, sum_k w_k A_k), w = softmax over k of the score of x times the k-th map scaled to [0, 1]."""

    family = "cam"
    looks_at = "values"
    dimensions = "1, 2, 3"
    paper = "Wang et al. 2020"
    cost = "1 + channels"

    layer: str | None = None

    def passes(self, size: Size) -> int:
        return 1 + size.channels[-1]

    def layer_read(self, model: torch.nn.Module, batch: Batch) -> str:
        return layers_read(model, batch, self.layer)

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        maps = self.maps(model, batch)
        scores = batch.inputs.new_zeros(len(quantities), *maps.shape[:2])

        def work(case: torch.Tensor, channel: torch.Tensor) -> None:
            mask = masks_of(maps[case, channel].unsqueeze(1), batch.space)
            scores[:, case, channel] = self.scores(model, batch.inputs[case] * mask, batch, case, quantities)

        self.sweep(model, batch, maps.shape[1], work)
        # Up-sampling is linear, so the sum may come first.
        cams = [(per_map(weights.softmax(1), maps) * maps).sum(1, keepdim=True) for weights in scores]
        return [resize(cam, batch.space).clamp(min=0) for cam in cams]

    def maps(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The feature maps; of a transformer those that Grad-CAM of the logit reads, for which it takes a gradient."""
        from heatproof.explainers.layers import spatial_activations

        outputs, found = spatial_activations(model, batch, self.layer, every=False)
        if found[-1].tokens and self.layer is None:
            return stage_of_tokens(model, batch, ("logit",), outputs, found, looked_for=True).maps
        return found[-1].maps()

"""What must hold for a method on a network: each identity says nothing, or a sentence of what is off.

Every identity has a reference of its own: plain autograd, hooks on autograd's nodes, a literal hook at a layer, an
exact sum, a loop. A network that has a twin (the same function in plain code) has its references taken there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import heatproof
from zoo import attention, references
from zoo.kinds import Layer, Network
from zoo.own import AddedUp
from zoo.watched import unchanged

TARGET = torch.tensor([1, 3])
CAMS = ("grad_cam", "layer_cam", "xgrad_cam", "grad_cam_pp")
TINY = 1e-20
"""A stabiliser that is none, also where a score without biases is as small as 1e-10."""


class WrongError(AssertionError):
    """An explanation that is not what it should be."""


class Subject:
    """A network with its cases, and what our methods say of it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.model = network.build()
        plain = copy.deepcopy(self.model) if network.twin is None else network.build_twin()
        self.plain = plain.requires_grad_(False)  # what does not depend on the inputs is a constant
        self.inputs, self.context = network.inputs(), network.context()
        with torch.no_grad():
            outputs = self.plain(self.inputs.clone(), *self.context)
            if network.twin is not None:
                same("the twin's output", self.model(self.inputs.clone(), *self.context), outputs, 1e-10)
        self.target = TARGET if outputs.shape[1] > 1 else torch.tensor([1, 0])
        assert self.reference(references.gradient).any(), "a network that does not depend on its inputs tells nothing"

    def explain(self, method: str, model: nn.Module | None = None, cases: int = 2, **parameters: object) -> Tensor:
        """What Heatproof says; the model and the caller's tensors must be left as they are."""
        model = model or self.model
        inputs = self.inputs[:cases].clone()
        context = tuple(tensor[:cases].clone() for tensor in self.context)
        with unchanged(model, inputs, *context):
            found: Tensor = heatproof.explain(
                model, inputs, method, target=self.target[:cases], context=context, **parameters
            )
        if not found.isfinite().all():
            raise WrongError(f"{method} has values that are not finite")
        return found

    def reference(self, function: Callable[..., Tensor], *more: object) -> Tensor:
        return function(self.plain, self.inputs, self.context, self.target, *more)

    @cached_property
    def without_biases(self) -> nn.Module:
        """The network without biases, shifts and means."""
        model = copy.deepcopy(self.model)
        with torch.no_grad():
            for name, values in (*model.named_parameters(), *model.named_buffers()):
                if name.endswith(("bias", "running_mean", "bias_ih_l0", "bias_hh_l0")):
                    values.zero_()
        return model


def same(what: str, found: Tensor, expected: Tensor, tolerance: float = 1e-7) -> None:
    """Equal, to a share of the expected map's size."""
    size = expected.norm().item()
    off = (found - expected).norm().item() / (size or 1.0)
    if not off <= tolerance:
        raise WrongError(f"{what} is {off:.2g} off")


def alone(subject: Subject, method: str, tolerance: float = 1e-7, **parameters: object) -> None:
    """A case in a batch and by itself has the same map."""
    together = subject.explain(method, **parameters)
    same(f"{method} of a case alone", subject.explain(method, cases=1, **parameters), together[:1], tolerance)


# Gradients


def gradients(subject: Subject) -> None:
    """Reference: plain autograd."""
    expected = subject.reference(references.gradient)
    same("gradient", subject.explain("gradient"), expected)
    same("gradient of a case alone", subject.explain("gradient", cases=1), expected[:1])
    same("gradient_x_input", subject.explain("gradient_x_input"), subject.inputs * expected)


def integrals(subject: Subject) -> None:
    """Reference: autograd, point by point."""
    expected = subject.reference(references.integrated, 3)
    found = subject.explain("integrated_gradients", steps=3, rule="gauss_legendre", rows=8)
    same("integrated_gradients", found, expected)


def noisy_gradients(subject: Subject) -> None:
    """Reference: the same case alone."""
    alone(subject, "smoothgrad", samples=2, rows=4)
    alone(subject, "vargrad", samples=2, rows=4)


# Rectifiers


def rectified_gradients(subject: Subject) -> None:
    """Reference: hooks on the rectifiers' own nodes in the autograd graph."""
    for method, guided in (("guided_backprop", True), ("deconvnet", False)):
        found = subject.explain(method)
        expected, count = references.rectified(
            subject.plain, subject.inputs, subject.context, subject.target, guided=guided
        )
        if not count:
            raise WrongError(f"{method} answers, though there is no rectifier")
        same(method, found, expected)


def guided_maps(subject: Subject) -> None:
    """Reference: the product of the two references."""
    found = subject.explain("guided_grad_cam")
    guided, _ = references.rectified(subject.plain, subject.inputs, subject.context, subject.target, guided=True)
    same("guided_grad_cam", found, guided * literal_cam(subject, "grad_cam", subject.network.layer))


# Class activation maps


def literal_cam(subject: Subject, method: str, layer: Layer | None) -> Tensor:
    if layer is None:
        raise WrongError(f"{method} answers, though there are no maps")
    maps, slopes = references.maps_at(subject.plain, subject.inputs, subject.context, subject.target, layer)
    return references.cam(method, maps, slopes, subject.network.shape[1:])


def automatic_layer(subject: Subject) -> None:
    """Reference: a forward hook at the layer that a person would name."""
    for method in CAMS:
        same(method, subject.explain(method), literal_cam(subject, method, subject.network.layer), 1e-6)


def named_layer(subject: Subject) -> None:
    """Reference: a forward hook at the layer of that name."""
    layer = subject.network.layer
    as_it_is = replace(layer, then=None) if layer else None
    name = layer.name if layer else [*dict(subject.model.named_modules()), "none"][1]
    for method in CAMS:
        same(f"{method} at {name}", subject.explain(method, layer=name), literal_cam(subject, method, as_it_is), 1e-6)


def masked_by_maps(subject: Subject) -> None:
    """Reference: Score-CAM by a loop over the maps of that layer; SISE has the same case alone."""
    found = subject.explain("score_cam", rows=32)
    layer = subject.network.layer
    if layer is None:
        raise WrongError("score_cam answers, though there are no maps")
    maps, _ = references.maps_at(subject.plain, subject.inputs, subject.context, subject.target, layer)
    same("score_cam", found, subject.reference(references.score_cam, maps), 1e-6)
    alone(subject, "sise", 1e-6, mu=0.8, layers="last", rows=32)


# Relevance


def relevance_is_a_gradient(subject: Subject) -> None:
    """Reference: the input times autograd's gradient with slopes of secants, stabiliser taken out."""
    found = subject.explain("lrp", composite="epsilon", epsilon=TINY)
    same("lrp", found, subject.reference(references.relevance), 1e-5)


def relevance_is_kept(subject: Subject) -> None:
    """Reference: the score, which relevance adds up to where there is no bias."""
    model = subject.without_biases
    found = subject.explain("lrp", model, composite="epsilon", epsilon=TINY)
    with torch.no_grad():
        score = references.score(model, subject.inputs, subject.context, subject.target)
    same("lrp's sum", found.flatten(1).sum(1), score, 1e-5)


def composites(subject: Subject) -> None:
    """Reference: the same case alone, for the composite that is the default."""
    alone(subject, "lrp", 1e-6)


def relevance_through_attention(subject: Subject) -> None:
    """Reference: the input times a gradient with AttnLRP's rules for softmax, products and norms."""
    found = subject.explain("lrp", composite="attn_lrp", epsilon=TINY)
    same("lrp:composite=attn_lrp", found, subject.reference(attention.relevance), 1e-5)
    alone(subject, "lrp", 1e-6, composite="attn_lrp")
    alone(subject, "lrp", 1e-6, composite="cp_lrp")


def chances(subject: Subject) -> None:
    """Reference: what a chance is: never negative, and one in sum at most."""
    found = subject.explain("excitation_backprop")
    least, most = found.min().item(), found.flatten(1).sum(1).max().item()
    if least < -1e-9 or most > 1 + 1e-6:
        raise WrongError(f"excitation_backprop has values from {least:.2g}, and {most:.4g} in sum")


def attention_itself(subject: Subject) -> None:
    """Reference: attention written out by formulas, case by case; le_grad has the same case alone."""
    layer = subject.network.layer
    found = {name: subject.explain(name) for name in ("raw_attention", "attention_rollout", "chefer")}
    if layer is None or not layer.grid:
        raise WrongError("methods of attention answer, though there is no grid of tokens")
    looks, gradients = subject.reference(attention.looks)
    expected = {
        "raw_attention": looks[-1].mean(1),
        "attention_rollout": attention.rolled_out(looks),
        "chefer": attention.weighed_rollout(looks, gradients),
    }
    for name, looking in expected.items():
        grid = attention.on_grid(looking, layer.grid, layer.class_token, subject.network.shape[1:])
        same(name, found[name], grid, 1e-6)
    alone(subject, "le_grad", 1e-6)


def adds_up(subject: Subject) -> None:
    """Reference: the difference of the two scores."""
    for baseline, start in (("zero", 0 * subject.inputs), ("0.3", 0 * subject.inputs + 0.3)):
        found = subject.explain("deep_lift", baseline=baseline).flatten(1).sum(1)
        with torch.no_grad():
            expected = subject.reference(references.score) - references.score(
                subject.plain, start, subject.context, subject.target
            )
        same(f"deep_lift's sum over {baseline}", found, expected, 1e-5)
    alone(subject, "deep_lift", 1e-6)


# Perturbation


def occlusion_is_a_loop(subject: Subject) -> None:
    """Reference: the windows of half the longest extent, one after the other."""
    space = subject.network.shape[1:]
    window = max(space) // 2
    lengths = [min(window, extent) for extent in space]
    found = subject.explain("occlusion", window=window, stride=window, rows=8)
    expected = torch.zeros_like(found)
    with torch.no_grad():
        whole = subject.reference(references.score)
        for corner in product(*[range(0, extent, window) for extent in space]):
            place = (..., *[slice(start, start + length) for start, length in zip(corner, lengths, strict=True)])
            hidden = subject.inputs.clone()
            hidden[place] = 0
            lost = whole - references.score(subject.plain, hidden, subject.context, subject.target)
            expected[place] = lost.view(-1, *[1] * (found.ndim - 1))
    same("occlusion", found, expected, 1e-6)


def sum_recovered(subject: Subject) -> None:
    """Reference: what each place adds, where the score is a sum over places, and nothing stands where a zero is."""
    if not isinstance(subject.plain, AddedUp):
        return
    parts = (subject.inputs * subject.plain.weight[subject.target]).sum(1, keepdim=True).detach()
    same("occlusion of a sum", subject.explain("occlusion", window=1, stride=1, rows=64), parts)
    blocks = F.avg_pool2d(parts, 4) * 16  # sixteen blocks of four by four
    expected = F.interpolate(blocks, scale_factor=4.0, mode="nearest")
    few = {"segmenter": "blocks", "segments": 16, "hide": "zero", "rows": 64}
    same("kernel_shap of a sum", subject.explain("kernel_shap", samples=100, **few), expected, 1e-6)
    same("lime of a sum", subject.explain("lime", samples=400, **few), expected, 0.05)  # which shrinks: a ridge of one


def asked_alone(subject: Subject) -> None:
    """Reference: the same case alone."""
    alone(subject, "rise", 1e-6, masks=4, rows=8)
    alone(subject, "lime", 1e-5, samples=12, rows=12)
    alone(subject, "kernel_shap", 1e-5, samples=12, rows=12)


def one_of_two(subject: Subject) -> None:
    """Reference: a probability's gradient by the chain rule, also for a network with a single output."""
    with torch.no_grad():
        outputs = subject.plain(subject.inputs.clone(), *subject.context)
        score = subject.reference(references.score)
    slope = subject.reference(references.gradient)
    if outputs.shape[1] != 1:
        return
    chance = torch.sigmoid(score).view(-1, *[1] * (slope.ndim - 1))
    same(
        "the probability's gradient", subject.explain("gradient", quantity="probability"), chance * (1 - chance) * slope
    )


@dataclass(frozen=True)
class Identity:
    name: str
    family: str
    check: Callable[[Subject], None]


FAMILIES = {
    "gradients": "gradient, gradient_x_input, integrated_gradients, smoothgrad, vargrad",
    "guided": "guided_backprop, deconvnet",
    "CAMs": "grad_cam, grad_cam_pp, xgrad_cam, layer_cam, guided_grad_cam",
    "masks": "score_cam, sise",
    "LRP": "lrp, excitation_backprop",
    "attn_lrp": "lrp:composite=attn_lrp, lrp:composite=cp_lrp",
    "attention": "raw_attention, attention_rollout, chefer, le_grad",
    "deep_lift": "deep_lift",
    "perturbation": "occlusion, rise, lime, kernel_shap",
}
"""Families of methods: the columns of the matrix."""

IDENTITIES = [
    Identity("gradients", "gradients", gradients),
    Identity("integrals", "gradients", integrals),
    Identity("noisy gradients", "gradients", noisy_gradients),
    Identity("one output", "gradients", one_of_two),
    Identity("rectifiers", "guided", rectified_gradients),
    Identity("automatic layer", "CAMs", automatic_layer),
    Identity("named layer", "CAMs", named_layer),
    Identity("guided maps", "guided", guided_maps),
    Identity("masks", "masks", masked_by_maps),
    Identity("relevance", "LRP", relevance_is_a_gradient),
    Identity("relevance kept", "LRP", relevance_is_kept),
    Identity("composites", "LRP", composites),
    Identity("chances", "LRP", chances),
    Identity("relevance through attention", "attn_lrp", relevance_through_attention),
    Identity("attention itself", "attention", attention_itself),
    Identity("adds up", "deep_lift", adds_up),
    Identity("occlusion", "perturbation", occlusion_is_a_loop),
    Identity("a sum recovered", "perturbation", sum_recovered),
    Identity("perturbation", "perturbation", asked_alone),
]

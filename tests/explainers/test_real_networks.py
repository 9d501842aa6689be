"""The methods on AlexNet, ResNet-18, VGG16 and the Relation Network, against Captum and the grad-cam library."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from captum import attr
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.explainers import explainers
from heatproof.explainers.cam import maps_and_gradient
from heatproof.explainers.spec import make_explainer
from heatproof.models.image_classifiers import make_classifier
from heatproof.models.relation_network import RelationNetwork, encode
from heatproof.seeds import CaseRandom
from reference.libraries import import_grad_cam

RNG = CaseRandom(0, "test")
LAYERS = {"alexnet": "features.12", "resnet18": "layer4.1.relu"}
on_both = pytest.mark.parametrize("name", list(LAYERS))


@cache
def network(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The classifier with random weights; ReLUs not in place, because Captum's hooks cannot have that."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = make_classifier(name, 5).to(dtype).eval()
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1, generator=torch.Generator().manual_seed(1))
    return model.requires_grad_(False)


BATCH = Batch(
    torch.rand(2, 3, 96, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    torch.tensor([1, 4]),
    ("a", "b"),
)


def captum_gradients(name: str, model: nn.Module) -> Tensor:
    """What Captum says for our explainer `name`."""
    x, y = BATCH.inputs.clone(), BATCH.target
    if name == "gradient":
        return attr.Saliency(model).attribute(x, target=y, abs=False)
    if name == "gradient_x_input":
        return attr.InputXGradient(model).attribute(x, target=y)
    if name == "integrated_gradients":
        return attr.IntegratedGradients(model).attribute(x, target=y, n_steps=6, method="gausslegendre")
    if name == "guided_backprop":
        return attr.GuidedBackprop(model).attribute(x, target=y)
    assert name == "deconvnet"
    return attr.Deconvolution(model).attribute(x, target=y)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "spec",
    [
        "gradient",
        "gradient_x_input",
        "integrated_gradients:steps=6,rule=gauss_legendre",
        "guided_backprop",
        "deconvnet",
    ],
)
@on_both
def test_gradients_equal_captum(name: str, spec: str) -> None:
    """Reference: Captum; its Gauss-Legendre weights are float32."""
    expected = captum_gradients(spec.split(":")[0], network(name)).detach()
    close = {"rtol": 1e-6, "atol": 1e-8 * float(expected.abs().max())}
    torch.testing.assert_close(make_explainer(spec)(network(name), BATCH, RNG), expected, **close)


@pytest.mark.parametrize("spec", ["grad_cam", "grad_cam_pp", "grad_cam_pp:eps=1e-6", "xgrad_cam", "layer_cam"])
@on_both
def test_class_activation_maps_equal_the_grad_cam_library(name: str, spec: str) -> None:
    """Reference: pytorch-grad-cam, whose maps are scaled to [0, 1] per case; ours finds the layer by itself.

    Large logits make the library's stabilisers (1e-6 beside squared gradients) negligible, but for Grad-CAM++ with the
    same stabiliser, which matters to small ones.
    """
    library = import_grad_cam()
    kinds = {
        "grad_cam": library.GradCAM, "grad_cam_pp": library.GradCAMPlusPlus, "xgrad_cam": library.XGradCAM,
        "layer_cam": library.LayerCAM,
    }  # fmt: skip
    model = copy.deepcopy(network(name))
    list(model.modules())[-1].weight.mul_(1 if "eps" in spec else 1e4)
    with kinds[spec.split(":")[0]](model=model, target_layers=[model.get_submodule(LAYERS[name])]) as cam:
        targets = [library.utils.model_targets.ClassifierOutputTarget(int(t)) for t in BATCH.target]
        expected = cam(input_tensor=BATCH.inputs.clone().requires_grad_(), targets=targets)
    found = make_explainer(spec)(model, BATCH, RNG)[:, 0].numpy()
    low = found.min((1, 2), keepdims=True)
    scaled = (found - low) / (1e-7 + (found - low).max((1, 2), keepdims=True))
    assert scaled.any()
    np.testing.assert_allclose(scaled, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
@on_both
def test_guided_grad_cam_equals_captum(name: str) -> None:
    """Reference: Captum's GuidedGradCam, interpolated linearly."""
    model = network(name)
    captum = attr.GuidedGradCam(model, model.get_submodule(LAYERS[name]))
    expected = captum.attribute(BATCH.inputs.clone(), target=BATCH.target, interpolate_mode="bilinear").detach()
    close = {"rtol": 1e-8, "atol": 1e-10 * float(expected.abs().max())}
    torch.testing.assert_close(make_explainer("guided_grad_cam")(model, BATCH, RNG), expected, **close)


@on_both
def test_occlusion_equals_captum(name: str) -> None:
    """Reference: Captum's Occlusion in float32 arithmetic, windows of 32, some over the edge."""
    model = network(name)
    expected = attr.Occlusion(model).attribute(
        BATCH.inputs.clone(), target=BATCH.target, sliding_window_shapes=(3, 32, 32), strides=(3, 24, 24)
    )
    found = make_explainer("occlusion:window=32,stride=24")(model, BATCH, RNG).expand_as(expected)
    scale = float(expected.abs().max())
    torch.testing.assert_close(found, expected.double(), rtol=1e-4, atol=1e-5 * scale)


@on_both
def test_deep_lift_adds_up(name: str) -> None:
    """Axiom: the relevance adds up to S(x) - S(0), through overlapping pooling, residual sums and batch norm."""
    model = network(name)
    with torch.no_grad():
        difference = (model(BATCH.inputs) - model(0 * BATCH.inputs)).gather(1, BATCH.target[:, None])[:, 0]
    found = make_explainer("deep_lift")(model, BATCH, RNG).flatten(1).sum(1)
    torch.testing.assert_close(found, difference, rtol=1e-7, atol=1e-9)


SMALL: dict[str, dict[str, Any]] = {
    "smoothgrad": {"samples": 2}, "vargrad": {"samples": 2}, "integrated_gradients": {"steps": 2},
    "rise": {"masks": 3}, "lime": {"samples": 4, "segmenter": "blocks"},
    "kernel_shap": {"samples": 4, "segmenter": "blocks"}, "occlusion": {"window": 224, "stride": 224},
    "sise": {"mu": 0.97}, "score_cam": {"layer": "features.0"},
}  # fmt: skip
"""Few passes each; AlexNet's first layer has the fewest maps."""


@pytest.mark.parametrize("name", [name for name, cls in explainers.items() if cls.family != "attention"])
def test_mosaics_of_any_size(name: str) -> None:
    """One picture of 448 x 448 and one of odd sides into AlexNet, whose pooling adapts, in single precision."""
    model = network("alexnet", torch.float32)
    for space in ((448, 448), (231, 177)):
        inputs = torch.rand(1, 3, *space, generator=torch.Generator().manual_seed(1))
        mask = torch.zeros(1, *space, dtype=torch.bool)
        mask[:, 20:60, 30:70] = True
        batch = Batch(inputs, torch.tensor([2]), ("mosaic",), masks={"quadrant": mask})
        relevance = make_explainer(name, **SMALL.get(name, {}))(model, batch, RNG)
        assert relevance.shape[2:] == space
        assert relevance.dtype == torch.float32
        if explainers[name].family != "cam":  # which may be zero everywhere
            assert relevance.any()


def test_the_relation_network_is_read_at_its_convolutions() -> None:
    """Not at the maps of 64 x 256 that its pairs look like; and every method takes its question along."""
    torch.manual_seed(0)
    model = RelationNetwork(factorised=True).eval()
    batch = Batch(
        torch.rand(1, 3, 128, 128),
        torch.tensor([3]),
        ("scene",),
        context=(encode("What color is the large cube?"),),
        masks={"object": torch.ones(1, 128, 128, dtype=torch.bool)},
    )
    maps, gradient = maps_and_gradient(model, batch, None, "logit")
    named, _ = maps_and_gradient(model, batch, "convs.relu4", "logit")
    assert torch.equal(maps, named)
    assert gradient.shape == (1, 24, 8, 8)
    for name, cls in explainers.items():
        if cls.family != "attention":
            few = {key: value for key, value in SMALL.get(name, {}).items() if key != "layer"}
            assert cls(**few)(model, batch, RNG).shape[2:] == (128, 128)


class Transposed(nn.Module):
    """Convolution, batch norm, and a head over cells: its gradient arrives at the batch norm in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.cell, self.head = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        cells = self.norm(self.conv(inputs)).flatten(2).transpose(1, 2)
        logits: Tensor = self.head(torch.tanh(self.cell(cells)).sum(1))
        return logits


@pytest.mark.parametrize("cases", [1, 2])
@pytest.mark.parametrize("spec", ["gradient", "integrated_gradients:steps=1", "smoothgrad:samples=1,sigma=1e-12"])
def test_gradients_through_batch_norm_are_right_for_one_case(spec: str, cases: int) -> None:
    """Reference: central differences in float64. torch 2.13 itself is wrong here for one case (CPU)."""
    torch.manual_seed(0)
    model = Transposed().double().eval()
    nn.init.normal_(model.norm.weight)
    model.norm.running_var.uniform_(0.5, 2)
    inputs = torch.randn(cases, 2, 5, 4, dtype=torch.float64)
    batch = Batch(inputs, torch.arange(cases), tuple("ab"[:cases]))

    def score(points: Tensor) -> Tensor:
        with torch.no_grad():
            return model(points).gather(1, batch.target[:, None])[:, 0]

    def slopes(at: Tensor) -> Tensor:
        found = torch.zeros_like(at)
        for place in np.ndindex(*at.shape[1:]):
            step = torch.zeros_like(at)
            step[(slice(None), *place)] = 1e-6
            found[(slice(None), *place)] = (score(at + step) - score(at - step)) / 2e-6
        return found

    if spec.startswith("integrated"):
        expected = inputs * (slopes(inputs) + slopes(0 * inputs)) / 2
    else:
        expected = slopes(inputs)
    torch.testing.assert_close(make_explainer(spec)(model, batch, RNG), expected, rtol=1e-6, atol=1e-8)

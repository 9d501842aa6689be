"""Class activation maps against Captum and against literal loops, in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from captum.attr import GuidedGradCam as CaptumGuidedGradCam
from captum.attr import LayerAttribution, LayerGradCam
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.base import QUANTITIES, Explainer, Quantity
from heatproof.explainers.cam import (
    GradCam,
    GradCamPP,
    GuidedGradCam,
    LayerCam,
    ScoreCam,
    XGradCam,
    maps_and_gradient,
    min_max,
    resize,
)
from heatproof.explainers.gradients import GuidedBackprop
from heatproof.seeds import CaseRandom
from reference import explainers as reference
from reference.explainers import Array, Net

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}
quantities = pytest.mark.parametrize("quantity", QUANTITIES)


def assert_equals_loop(explainer: Explainer, net: Net, literal: Callable[[Net, int], Array]) -> None:
    """The first cases' relevance (one channel) equals the literal implementation, and some of it is not zero."""
    relevance = explainer(net.model, net.batch, RNG)
    assert relevance.shape == (len(net.batch), 1, *net.batch.space)
    expected = np.stack([literal(net, case) for case in range(3)])
    assert expected.any()
    np.testing.assert_allclose(relevance[:3, 0], expected, **CLOSE)


def cut_earlier(net: Net, depth: int) -> Net:
    """The network cut by hand after the first `depth` layers of its features."""
    features = net.model.features
    assert isinstance(features, nn.Sequential)
    rest = features[depth:]
    return Net(net.model, net.batch, f"features.{depth - 1}", features[:depth], lambda maps: net.model.head(rest(maps)))


def test_the_cut_networks_are_the_models(net: Net) -> None:
    """Features and head, on which the loops rest, together give the model's logits."""
    with torch.no_grad():
        logits = net.head(net.features(net.batch.inputs), *net.batch.context)
        torch.testing.assert_close(logits, net.model(net.batch.inputs, *net.batch.context), rtol=0, atol=0)


MODULES = ["signal", "strided_signal", "picture", "volume", "question"]
"""The networks whose layer is a module: Captum knows neither functions nor tokens."""


@quantities
@pytest.mark.parametrize("name", MODULES)
def test_grad_cam_equals_captum(nets: dict[str, Net], name: str, quantity: Quantity) -> None:
    """Reference: Captum's LayerGradCam with ReLU, interpolated linearly."""
    net = nets[name]
    turn: dict[str, Callable[[Tensor], Tensor]] = {
        "logit": lambda z: z,
        "probability": lambda z: z.softmax(1),
        "log_probability": lambda z: z.log_softmax(1),
    }
    captum = LayerGradCam(lambda *args: turn[quantity](net.model(*args)), net.model.get_submodule(net.layer))
    cam = captum.attribute(
        net.batch.inputs.clone(),
        target=net.batch.target,
        additional_forward_args=net.batch.context or None,
        relu_attributions=True,
    )
    expected = LayerAttribution.interpolate(cam, net.batch.space, MODES[len(net.batch.space)]).detach()
    torch.testing.assert_close(GradCam(quantity=quantity)(net.model, net.batch, RNG), expected, **CLOSE)


@quantities
def test_grad_cam_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: the formula in loops, with its own up-sampling."""
    assert_equals_loop(GradCam(quantity=quantity), net, lambda n, case: reference.grad_cam(n, case, quantity))


@quantities
@pytest.mark.parametrize("alpha", ["plain", "normalised"])
def test_grad_cam_pp_equals_the_loop(net: Net, quantity: Quantity, alpha: Literal["plain", "normalised"]) -> None:
    """Reference: alpha and the weights position by position, with and without the division by alpha's sum."""
    assert_equals_loop(
        GradCamPP(quantity=quantity, alpha=alpha),
        net,
        lambda n, case: reference.grad_cam_pp(n, case, quantity, normalised=alpha == "normalised"),
    )


@pytest.mark.parametrize("layer", [None, "features.1"], ids=["no map below zero", "maps of both signs"])
@pytest.mark.parametrize("eps", [1e-6, 0.1])
def test_grad_cam_pp_as_published_with_focus_equals_the_loop(picture_net: Net, layer: str | None, eps: float) -> None:
    """Reference: the same loop with a stabiliser in alpha, and the sum of maps shifted by its lowest value."""
    net = picture_net if layer is None else cut_earlier(picture_net, 2)
    assert_equals_loop(
        GradCamPP(eps=eps, shift=True, layer=layer),
        net,
        lambda n, case: reference.grad_cam_pp(n, case, "logit", eps=eps, shift=True),
    )
    for other in (GradCamPP(eps=eps, layer=layer), GradCamPP(shift=True, layer=layer)):
        assert not torch.allclose(other(net.model, net.batch, RNG), GradCamPP(layer=layer)(net.model, net.batch, RNG))


def test_eps_below_zero_is_refused() -> None:
    with pytest.raises(HeatproofError, match="grad_cam_pp: eps must be zero or more, got -1"):
        GradCamPP(eps=-1.0)


@quantities
def test_xgrad_cam_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: the formula in loops; the 2-D network has a map that is always empty."""
    assert_equals_loop(XGradCam(quantity=quantity), net, lambda n, case: reference.xgrad_cam(n, case, quantity))


@quantities
def test_score_cam_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: one masked input per map, its score, a softmax in plain numbers."""
    assert_equals_loop(ScoreCam(quantity=quantity), net, lambda n, case: reference.score_cam(n, case, quantity))


@pytest.mark.parametrize("depth", [2, 3], ids=["before ReLU", "after ReLU"])
@pytest.mark.parametrize("make", [GradCam, GradCamPP, XGradCam, ScoreCam])
def test_a_named_layer_is_read(picture_net: Net, make: Callable[..., Explainer], depth: int) -> None:
    """Reference: the loops on the model cut by hand at another layer, with maps of one sign and of both."""
    earlier = cut_earlier(picture_net, depth)
    assert (earlier.maps(0) < 0).any() == (depth == 2)
    literal = {
        GradCam: reference.grad_cam,
        GradCamPP: reference.grad_cam_pp,
        XGradCam: reference.xgrad_cam,
        ScoreCam: reference.score_cam,
    }[make]
    assert_equals_loop(make(layer=earlier.layer), earlier, lambda n, case: literal(n, case, "logit"))


@pytest.mark.parametrize("make", [GradCam, GradCamPP, XGradCam, ScoreCam])
def test_the_last_layer_with_extent_is_the_default(net: Net, make: Callable[..., Explainer]) -> None:
    """Naming the last ReLU changes nothing; the pooling to a fixed size after it does not count."""
    named = make(layer=net.layer)(net.model, net.batch, RNG)
    torch.testing.assert_close(named, make()(net.model, net.batch, RNG), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("small", "large"), [((9,), (35,)), ((40,), (13,)), ((3, 4), (11, 14)), ((1, 5), (7, 7)), ((2, 3, 4), (5, 6, 7))]
)
def test_resize_equals_the_loop(small: tuple[int, ...], large: tuple[int, ...]) -> None:
    """Reference: linear interpolation between half-pixel centres, edges clamped, corner by corner."""
    maps = torch.randn(2, 3, *small, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = [[reference.stretch(a, large) for a in case] for case in maps.numpy()]
    np.testing.assert_allclose(resize(maps, large), expected, **CLOSE)


def test_min_max_equals_the_loop() -> None:
    """Reference: (v - min) / (max - min) map by map; a constant map becomes zero."""
    maps = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    maps[1, 2] = 7.0
    expected = [[reference.scaled(a) for a in case] for case in maps.numpy()]
    np.testing.assert_allclose(min_max(maps), expected, rtol=1e-12)
    assert not min_max(maps)[1, 2].any()


@quantities
def test_layer_cam_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: positive gradient times map, position by position, then the literal up-sampling."""

    def literal(n: Net, case: int) -> Array:
        maps, gradient = n.maps(case), n.map_gradient(case, quantity)
        cam = np.zeros(maps.shape[1:])
        for position in np.ndindex(*cam.shape):
            total = sum(max(0.0, g[position]) * a[position] for a, g in zip(maps, gradient, strict=True))
            cam[position] = max(0.0, total)
        return reference.stretch(cam, n.batch.space)

    assert_equals_loop(LayerCam(quantity=quantity), net, literal)


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")
@pytest.mark.parametrize("name", MODULES)
def test_guided_grad_cam_equals_captum(nets: dict[str, Net], name: str) -> None:
    """Reference: Captum's GuidedGradCam, interpolated linearly."""
    net = nets[name]
    captum = CaptumGuidedGradCam(net.model, net.model.get_submodule(net.layer))
    expected = captum.attribute(
        net.batch.inputs.clone(),
        target=net.batch.target,
        additional_forward_args=net.batch.context or None,
        interpolate_mode=MODES[len(net.batch.space)],
    ).detach()
    torch.testing.assert_close(GuidedGradCam()(net.model, net.batch, RNG), expected, **CLOSE)


def test_positive_gradients_equal_the_loop(map_net: Net) -> None:
    """Reference: map by map, each weighed by the mean of the positive part of its gradient."""
    net = map_net
    maps, gradient = maps_and_gradient(net.model, net.batch, None, "logit")
    expected = torch.zeros(len(net.batch), 1, *maps.shape[2:], dtype=maps.dtype)
    for case in range(len(net.batch)):
        for k in range(maps.shape[1]):
            slopes = gradient[case, k].flatten().tolist()
            expected[case, 0] += sum(max(0.0, slope) for slope in slopes) / len(slopes) * maps[case, k]
    expected = LayerAttribution.interpolate(expected.clamp(min=0), net.batch.space, MODES[len(net.batch.space)])
    found = GradCam(gradients="positive")(net.model, net.batch, RNG)
    torch.testing.assert_close(found, expected, **CLOSE)
    guided = GuidedGradCam(gradients="positive")(net.model, net.batch, RNG)
    torch.testing.assert_close(guided, GuidedBackprop()(net.model, net.batch, RNG) * expected, **CLOSE)
    with pytest.raises(HeatproofError, match="gradients"):
        GradCam(gradients="some")

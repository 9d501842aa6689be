"""Explainers over noisy copies. Reference: the other explainer on copies made by hand, and Captum's NoiseTunnel."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from captum.attr import InputXGradient, LayerGradCam, NoiseTunnel

from heatproof.errors import HeatproofError
from heatproof.exact import normal
from heatproof.explainers.noised import Noised
from heatproof.explainers.spec import make_explainer, make_explainers
from heatproof.seeds import CaseRandom
from reference.explainers import Net

RNG = CaseRandom(3, "noised")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def copies(net: Net, samples: int, sigma: float) -> list:
    """Batches of noisy copies, case by case: SmoothGrad's noise from the stream of the case and copy."""
    found = []
    for copy in range(samples):
        rows = []
        for case, inputs in zip(net.batch.ids, net.batch.inputs, strict=True):
            generator = RNG.generator(f"{case} copy {copy}")
            noise = normal(inputs.shape, generator).to(inputs)
            rows.append(inputs + sigma * (inputs.max() - inputs.min()) * noise)
        found.append(replace(net.batch, inputs=torch.stack(rows)))
    return found


@pytest.mark.parametrize("name", ["gradient", "grad_cam", "lrp", "guided_backprop"])
def test_it_is_the_other_explainer_over_noisy_copies(picture_net: Net, name: str) -> None:
    other = make_explainer(name)
    each = torch.stack([other(picture_net.model, batch, RNG) for batch in copies(picture_net, 4, 0.2)])
    expected = {"mean": each.mean(0), "square": (each**2).mean(0), "variance": (each**2).mean(0) - each.mean(0) ** 2}
    for summary, values in expected.items():
        found = Noised(of=name, samples=4, sigma=0.2, summary=summary)(picture_net.model, picture_net.batch, RNG)
        torch.testing.assert_close(found, values, **CLOSE)


def test_the_mean_over_copies_equals_captum_on_each(picture_net: Net) -> None:
    """Reference: Captum's Grad-CAM on each copy."""
    layer = picture_net.model.get_submodule(make_explainer("grad_cam").layer_read(picture_net.model, picture_net.batch))
    maps = []
    for batch in copies(picture_net, 3, 0.1):
        found = LayerGradCam(picture_net.model, layer).attribute(
            batch.inputs, target=batch.target, relu_attributions=True, attribute_to_layer_input=False
        )
        maps.append(torch.nn.functional.interpolate(found, batch.space, mode="bilinear"))
    ours = Noised(of="grad_cam", samples=3, sigma=0.1)(picture_net.model, picture_net.batch, RNG)
    torch.testing.assert_close(ours, torch.stack(maps).mean(0).detach(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [("smoothgrad", "mean"), ("smoothgrad_sq", "square"), ("vargrad", "variance")])
def test_it_equals_captums_noise_tunnel(picture_net: Net, kind: tuple[str, str], monkeypatch) -> None:
    """The tunnel draws its noise by torch.normal, case by case and copy by copy: it gets ours there."""
    batch, (theirs, ours) = picture_net.batch, kind
    noise = torch.stack([copy.inputs - batch.inputs for copy in copies(picture_net, 4, 0.2)], 1).flatten(0, 1)
    monkeypatch.setattr(torch, "normal", lambda mean, std: noise)
    expected = NoiseTunnel(InputXGradient(picture_net.model)).attribute(
        batch.inputs.clone(), nt_type=theirs, nt_samples=4, target=batch.target
    )
    found = Noised(of="gradient_x_input", samples=4, sigma=0.2, summary=ours)(picture_net.model, batch, RNG)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=1e-12)


def test_parameters_of_both_stand_side_by_side() -> None:
    made = make_explainer("noised:lrp:composite=gamma,samples=7,gamma=0.5,sigma=0.3")
    assert made == Noised(of="lrp:composite=gamma,gamma=0.5", samples=7, sigma=0.3)
    assert make_explainer(made.label) == make_explainer("noised:lrp:composite=gamma,gamma=0.5,samples=7,sigma=0.3")
    assert make_explainer("noised:samples=3") == Noised(samples=3)
    two = make_explainers("noised:grad_cam:samples=3,sigma=0.2,rise:masks=5")
    assert [explainer.label for explainer in two] == ["noised:grad_cam:samples=3,sigma=0.2", "rise:masks=5"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [("noised:random", "does not look at the model"), ("noised:gradinet", "gradient"),
     ("noised:gradient:samples=0", "samples must be above zero"),
     ("noised:gradient:summary=median", "summary 'median'")],
)  # fmt: skip
def test_bad_parameters_are_named(spec: str, words: str) -> None:
    with pytest.raises(HeatproofError, match=words):
        make_explainer(spec)

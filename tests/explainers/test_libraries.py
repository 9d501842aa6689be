"""Explainers of Captum and zennit by name, against the libraries called by hand."""

from __future__ import annotations

import pytest
import torch
from captum import attr
from torch import nn

from heatproof.errors import HeatproofError
from heatproof.explainers.libraries import CaptumExplainer, library
from heatproof.explainers.scored import Scored
from heatproof.explainers.spec import make_explainer, make_explainers, split_specs
from heatproof.seeds import CaseRandom, derive_seed
from heatproof.testing import check_explainer
from reference.explainers import Net
from reference.libraries import import_zennit

RNG = CaseRandom(0, "captum")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("quantity", ["logit", "probability"])
def test_a_captum_class_is_called_as_by_hand(net: Net, quantity: str) -> None:
    """Reference: Captum's IntegratedGradients, with context where the network takes some."""
    explainer = make_explainer("captum:IntegratedGradients:n_steps=7,method=riemann_trapezoid", quantity=quantity)
    expected = attr.IntegratedGradients(Scored(net.model, quantity)).attribute(
        net.batch.inputs.clone(),
        target=net.batch.target,
        additional_forward_args=net.batch.context or None,
        n_steps=7,
        method="riemann_trapezoid",
    )
    torch.testing.assert_close(explainer(net.model, net.batch, RNG), expected.detach(), **CLOSE)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_arguments_go_where_they_belong(picture_net: Net) -> None:
    """Reference: by hand, for an argument of the constructor, a tuple, a layer by its name, and a noise tunnel."""
    model, batch = picture_net.model, picture_net.batch
    x, y = batch.inputs.clone(), batch.target
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(0, "captum", batch.ids[0]))
        noisy = attr.NoiseTunnel(attr.Saliency(model)).attribute(x[:1], target=y[:1], nt_samples=3)
    cam = attr.LayerGradCam(model, model.features[4]).attribute(x, target=y)
    expected = {
        "captum:IntegratedGradients:multiply_by_inputs=False,n_steps=5": attr.IntegratedGradients(
            model, multiply_by_inputs=False
        ).attribute(x, target=y, n_steps=5),
        "captum:Occlusion:sliding_window_shapes=(3,4,4),strides=(3,2,2)": attr.Occlusion(model).attribute(
            x, target=y, sliding_window_shapes=(3, 4, 4), strides=(3, 2, 2)
        ),
        "captum:LayerGradCam:layer=features.4": attr.LayerAttribution.interpolate(cam, (11, 14), "bilinear"),
        "captum:NoiseTunnel:of=Saliency,nt_samples=3": noisy,
    }
    for spec, relevance in expected.items():
        found = make_explainer(spec)(model, batch, RNG)
        torch.testing.assert_close(found[: len(relevance)], relevance.detach(), **CLOSE)


@pytest.mark.parametrize("spec", ["captum:Lime:n_samples=15", "captum:NoiseTunnel:of=Saliency", "captum:DeepLift"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_captum_keeps_the_contract(spec: str) -> None:
    """Random methods are seeded case by case, so the batch does not matter; hooks are gone."""
    check_explainer(spec)


@pytest.mark.parametrize("composite", ["EpsilonPlus", "EpsilonPlusFlat", "EpsilonAlpha2Beta1"])
def test_a_zennit_composite_is_called_as_by_hand(composite: str, signal_net: Net) -> None:
    """Reference: zennit's Gradient attributor from the target's logit."""
    zennit = import_zennit()
    model, batch = signal_net.model, signal_net.batch
    chosen = nn.functional.one_hot(batch.target, 10).double()
    with zennit.attribution.Gradient(model=model, composite=getattr(zennit.composites, composite)()) as attributor:
        expected = attributor(batch.inputs.clone(), lambda outputs: outputs * chosen)[1]
    found = make_explainer(f"zennit:{composite}")(model, batch, RNG)
    torch.testing.assert_close(found, expected.detach(), **CLOSE)


def test_a_zennit_composite_with_bounds_and_a_canonizer(picture_net: Net) -> None:
    """Reference: by hand; and a network that takes a question."""
    zennit = import_zennit()
    pytest.importorskip("zennit.canonizers")
    model, batch = picture_net.model, picture_net.batch
    chosen = nn.functional.one_hot(batch.target, 4).double()
    composite = zennit.composites.EpsilonGammaBox(
        low=torch.full_like(batch.inputs, -3),
        high=torch.full_like(batch.inputs, 3),
        canonizers=[zennit.canonizers.SequentialMergeBatchNorm()],
    )
    with zennit.attribution.Gradient(model=model, composite=composite) as attributor:
        expected = attributor(batch.inputs.clone(), lambda outputs: outputs * chosen)[1]
    spec = "zennit:EpsilonGammaBox:low=-3,high=3,canonizer=SequentialMergeBatchNorm"
    torch.testing.assert_close(make_explainer(spec)(model, batch, RNG), expected.detach(), **CLOSE)


def test_zennit_takes_context(nets: dict[str, Net]) -> None:
    import_zennit()
    net = nets["question"]
    assert make_explainer("zennit:EpsilonPlus")(net.model, net.batch, RNG).any()


def test_labels_are_specs_again() -> None:
    """Brackets keep their commas, and the label makes the same explainer."""
    specs = "rise:masks=5,captum:Occlusion:sliding_window_shapes=(3,4,4),strides=(3,2,2),gradient"
    parts = split_specs(specs)
    assert parts == ["rise:masks=5", "captum:Occlusion:sliding_window_shapes=(3,4,4),strides=(3,2,2)", "gradient"]
    made = make_explainers(specs)[1]
    assert isinstance(made, CaptumExplainer)
    assert dict(made.options) == {"sliding_window_shapes": (3, 4, 4), "strides": (3, 2, 2)}
    assert make_explainer(made.label) == made
    assert made.parameters["strides"] == (3, 2, 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("captum:Salency", "unknown captum class 'Salency'.*'Saliency'"),
        ("captum:Saliency:abz=1", "unknown argument of captum:Saliency:abz=1 'abz'.*'abs'"),
        ("captum:LayerGradCam:layer=feature.4", r"unknown layer 'feature.4'.*'features.4'"),
        ("zennit:EpsilonPlos", "unknown zennit class 'EpsilonPlos'.*'EpsilonPlus'"),
        ("zennit:EpsilonPlus:canonizer=Merge", "unknown zennit canonizer 'Merge'"),
    ],
)
def test_what_a_library_does_not_have_is_named(picture_net: Net, spec: str, message: str) -> None:
    import_zennit()
    with pytest.raises(HeatproofError, match=message):
        make_explainer(spec)(picture_net.model, picture_net.batch, RNG)


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(HeatproofError, match=r"nothere cannot be imported .*pip install heatproof\[nothere\]"):
        library("nothere", "nothere.attr")

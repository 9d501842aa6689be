"""The sum over pairs that leaves out what ReLUs make zero, against one that leaves out nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import explainers
from heatproof.models.pair_sum import pair_sum
from heatproof.models.relation_network import RelationNetwork, encode
from heatproof.models.vqa import Vqa
from heatproof.seeds import CaseRandom

FEW: dict[str, dict[str, Any]] = {
    "smoothgrad": {"samples": 2}, "vargrad": {"samples": 2}, "integrated_gradients": {"steps": 2},
    "rise": {"masks": 3}, "lime": {"samples": 4, "segmenter": "blocks", "segments": 4}, "sise": {"mu": 0.97},
    "kernel_shap": {"samples": 4, "segmenter": "blocks"}, "occlusion": {"window": 64, "stride": 64},
}  # fmt: skip
"""Few passes each."""


def make_layers(shift: float, seed: int = 0) -> list[nn.Linear]:
    """Two layers whose biases are moved by `shift`: far down, no unit is active; far up, every one."""
    torch.manual_seed(seed)
    layers = [nn.Linear(7, 9), nn.Linear(9, 5)]
    for layer in layers:
        layer.double().requires_grad_(False)
        layer.bias += shift
    return layers


def literal_sum(first: Tensor, second: Tensor, layers: list[nn.Linear]) -> Tensor:
    """Pair by pair."""
    totals = []
    for ones, others in zip(first, second, strict=True):
        total = torch.zeros(layers[-1].out_features, dtype=first.dtype)
        for one in ones:
            for other in others:
                value = torch.relu(one + other)
                for layer in layers:
                    value = torch.relu(layer(value))
                total = total + value
        totals.append(total)
    return torch.stack(totals)


@pytest.mark.parametrize("shift", [-9.0, -0.5, -0.2, 0.0, 0.5, 9.0])
def test_values_and_gradients_equal_the_literal_sum(shift):
    layers = make_layers(shift)
    torch.manual_seed(1)
    inputs = [torch.randn(3, 4, 7, dtype=torch.float64).requires_grad_() for _ in range(2)]
    weights = torch.randn(3, 5, dtype=torch.float64)
    found = pair_sum(*inputs, layers)
    expected = literal_sum(*inputs, layers)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert bool(expected.any()) == (shift > -0.3)
    slopes = [torch.autograd.grad((value * weights).sum(), inputs, retain_graph=True) for value in (found, expected)]
    for mine, other in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_a_number_that_is_none_is_not_swallowed():
    """A ReLU keeps NaN, so the sum must."""
    first = torch.zeros(1, 2, 7, dtype=torch.float64)
    first[0, 1, 3] = torch.nan
    assert pair_sum(first, torch.zeros_like(first), make_layers(0.1)).isnan().any()


def thin_network(dtype: torch.dtype = torch.float64) -> Vqa:
    """A Relation Network with random weights in its three forms, most units of which are inactive."""
    torch.manual_seed(0)
    module = RelationNetwork().to(dtype).eval()
    with torch.no_grad():
        for layer in (module.g.linear2, module.g.linear3, module.g.linear4):
            layer.weight *= 4
            layer.bias -= 2 * torch.rand_like(layer.bias)
    forms = RelationNetwork(factorised=True), RelationNetwork(lean=True)
    for form in forms:
        form.to(dtype).eval().load_state_dict(module.state_dict())
        form.coordinates.copy_(module.coordinates)  # made in single precision, or the other way round
    return Vqa("thin", module, encode, (), relus=forms[0], fast=forms[1])


def make_batch(dtype: torch.dtype = torch.float64) -> Batch:
    torch.manual_seed(2)
    masks = torch.zeros(2, 128, 128, dtype=torch.bool)
    masks[:, 20:60, 30:80] = True
    return Batch(
        torch.rand(2, 3, 128, 128, dtype=dtype),
        torch.tensor([3, 5]),
        ("a", "b"),
        context=(torch.cat([encode("What color is the cube?"), encode("Is there a sphere?")]),),
        masks={"object": masks},
    )


def test_most_units_of_the_network_under_test_are_inactive():
    """Else the tests below would say nothing."""
    network, batch = thin_network(), make_batch()
    shares: list[float] = []
    for name in ("relu2", "relu4"):
        network.module.g.get_submodule(name).register_forward_hook(
            lambda _module, _args, output: shares.append((output > 0).any(2).any(1).double().mean().item())
        )
    with torch.no_grad():
        network.module(batch.inputs, *batch.context)
    assert all(0.02 < share < 0.9 for share in shares)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("score_cam", "sise", "kernel_shap") else name
        for name, cls in explainers.items()
        if cls.looks_at != "layers"
    ],
)
def test_each_method_gives_the_same_in_the_form_it_gets(name):
    """Reference: the plain network. In double precision, because single precision leaves some ReLUs undecided."""
    explainer = explainers[name](**FEW.get(name, {}))
    network, batch = thin_network(), make_batch()[:1]
    random = CaseRandom(0, name)
    expected = explainer(network.module, batch, random)
    found = explainer(network.form(explainer.looks_at), batch, random)
    assert (found - expected).abs().max() <= 1e-9 * expected.abs().max()


@pytest.mark.parametrize("form", ["relus", "fast"])
def test_single_precision_is_right_to_five_digits(form):
    network, batch = thin_network(torch.float32), make_batch(torch.float32)
    with torch.no_grad():
        expected = network.module(batch.inputs, *batch.context)
        found = getattr(network, form)(batch.inputs, *batch.context)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_methods_that_look_at_relus_would_not_survive_the_lean_form():
    """So the distinction is needed: the lean form has no ReLUs of g to change, and that is said."""
    network, batch = thin_network(), make_batch()
    assert network.fast is not None
    with pytest.raises(HeatproofError, match=r"guided_backprop cannot see through the custom .* PairSum"):
        explainers["guided_backprop"]()(network.fast, batch, CaseRandom(0, ""))


def test_training_falls_back_to_what_has_gradients_of_weights():
    network, batch = thin_network(), make_batch()
    found = []
    for form in (network.module, network.fast):
        form = copy.deepcopy(form)
        assert form is not None
        form(batch.inputs, *batch.context).logsumexp(1).sum().backward()
        found.append(form.g.linear3.weight.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)
    assert found[0].abs().max() > 0

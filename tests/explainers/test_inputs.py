"""What models are given, what they do with it, and what is explained of what they return.

References: the same model asked in the plain way, central differences in float64, and formulas written out.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import heatproof
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import ScoreExplainer, explainers
from heatproof.explainers.guards import untouched
from heatproof.models.networks import load_network
from heatproof.seeds import CaseRandom

FEW: dict[str, dict[str, Any]] = {
    "smoothgrad": {"samples": 3}, "vargrad": {"samples": 3}, "integrated_gradients": {"steps": 3},
    "rise": {"masks": 8, "cells": 3}, "lime": {"samples": 12, "segmenter": "blocks", "segments": 4},
    "kernel_shap": {"samples": 12, "segmenter": "blocks", "segments": 4}, "occlusion": {"window": 4, "stride": 4},
}  # fmt: skip
"""Few passes each."""
METHODS = [name for name, cls in explainers.items() if cls.family != "attention"]
methods = pytest.mark.parametrize("name", METHODS)


class Net(nn.Module):
    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3), nn.ReLU()
        )
        self.head = nn.Linear(8, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs).mean((2, 3)))


class InPlace(Net):
    """It normalises its inputs in place, or not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = inputs.sub_(0.5).mul_(2) if self.in_place else (inputs - 0.5) * 2
        return super().forward(inputs)


def some_inputs() -> Tensor:
    return torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def explain(model: nn.Module, inputs: Any, name: str, target: Any = 1, **parameters: Any) -> Tensor:
    truth = {"object": torch.ones(len(inputs), 12, 12, dtype=torch.bool)}
    parameters = {**FEW.get(name, {}), **parameters}
    return heatproof.explain(model.eval(), inputs, name, target=target, ground_truth=truth, **parameters)


# Models that change what they are given


@methods
@pytest.mark.parametrize("target", [1, None])
def test_models_may_change_their_inputs(name: str, target: int | None) -> None:
    """Reference: the same model out of place. The caller's tensor stays as it was."""
    inputs = some_inputs()
    found = explain(InPlace(True), inputs, name, target)
    assert torch.equal(inputs, some_inputs())
    torch.testing.assert_close(found, explain(InPlace(False), some_inputs(), name, target))


def test_models_may_change_their_context() -> None:
    """Reference: the same model out of place."""

    class Asked(Net):
        def forward(self, inputs: Tensor, scale: Tensor) -> Tensor:
            return super().forward(inputs * scale.add_(1).view(-1, 1, 1, 1))

    context, inputs = torch.ones(2), some_inputs()
    found = heatproof.explain(Asked().eval(), inputs, "integrated_gradients", target=1, context=[context], steps=4)
    assert torch.equal(context, torch.ones(2))
    expected = heatproof.explain(Net().eval(), inputs * 2, "integrated_gradients", target=1, steps=4)
    torch.testing.assert_close(found, expected)


def test_what_a_pre_hook_changes_is_a_copy_too() -> None:
    """Some normalise in a hook of the model."""
    model, inputs = Net().eval(), some_inputs()
    model.register_forward_pre_hook(lambda _module, given: (given[0].sub_(0.5).mul_(2),))
    torch.testing.assert_close(explain(model, inputs, "gradient"), explain(InPlace(False), inputs, "gradient"))
    assert torch.equal(inputs, some_inputs())


# One output


def binary(outputs: Tensor, target: int, quantity: str) -> Tensor:
    """The formulas, written out for one output z."""
    logit = outputs[:, 0] if target else -outputs[:, 0]
    probability = 1 / (1 + (-logit).exp())
    return {"logit": logit, "probability": probability, "log_probability": probability.log()}[quantity]


@pytest.mark.parametrize("quantity", ["logit", "probability", "log_probability"])
@pytest.mark.parametrize("target", [0, 1])
def test_one_output_is_a_binary_classifier(quantity: str, target: int) -> None:
    """Reference: autograd through the sigmoid written out; gradients were zero for probabilities."""
    model, inputs = Net(classes=1).double().eval(), some_inputs().double().requires_grad_()
    expected = torch.autograd.grad(binary(model(inputs), target, quantity).sum(), inputs)[0]
    found = explain(model, inputs.detach(), "gradient", target, quantity=quantity)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in METHODS
        if issubclass(explainers[name], ScoreExplainer) and name not in ("randomised", "lrp", "excitation_backprop")
    ],
)
def test_every_method_takes_one_output(name: str) -> None:
    """Reference: two outputs (-z / 2, z / 2), whose softmax is the sigmoid of z; both classes, of the probability.

    Not for LRP, which starts from the logit, nor for random weights, which are others for two outputs.
    """
    one = Net(classes=1)
    two = copy.deepcopy(one)
    two.head = nn.Linear(8, 2)
    with torch.no_grad():
        two.head.weight.copy_(torch.cat([-one.head.weight, one.head.weight]) / 2)
        two.head.bias.copy_(torch.cat([-one.head.bias, one.head.bias]) / 2)
    for target in (0, 1):
        found, expected = (explain(net, some_inputs(), name, target, quantity="probability") for net in (one, two))
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_the_class_of_one_output_is_its_sign() -> None:
    """Reference: the sign of the output; target=None explains that class."""
    model, inputs = Net(classes=1).eval(), some_inputs()
    for shift, expected in ((-9.0, 0), (9.0, 1)):
        with torch.no_grad():
            model.head.bias.fill_(shift)
        assert (model(inputs) > 0).all() == bool(expected)
        assert torch.equal(explain(model, inputs, "gradient", None), explain(model, inputs, "gradient", expected))
    with pytest.raises(HeatproofError, match="between 0 and 1, the model has 1 output, which speaks for class 1"):
        explain(model, inputs, "gradient", 2)


def test_others_see_both_classes_of_one_output() -> None:
    """Reference: our own gradient; Captum and a function get scores (cases, 2)."""

    def yours(model: nn.Module, inputs: Tensor, target: Tensor) -> Tensor:
        inputs = inputs.clone().requires_grad_()
        return torch.autograd.grad(model(inputs).gather(1, target[:, None]).sum(), inputs)[0]

    model, inputs = Net(classes=1).eval(), some_inputs()
    for target in (0, 1):
        for quantity in ("logit", "probability"):
            expected = explain(model, inputs, "gradient", target, quantity=quantity)
            for name in (yours, "captum:Saliency:abs=False"):
                found = heatproof.explain(model, inputs, name, target=target, quantity=quantity)
                torch.testing.assert_close(found, expected)


# Types of numbers


@methods
def test_arrays_in_double_precision_are_taken(name: str) -> None:
    """Reference: the same numbers as a tensor in the model's own precision."""
    expected = explain(Net(), some_inputs(), name)
    array = some_inputs().double().numpy()
    assert torch.equal(explain(Net(), array, name), expected)
    flipped = np.ascontiguousarray(array[:, :, ::-1])[:, :, ::-1]  # a view with a negative stride
    assert torch.equal(explain(Net(), flipped, name), expected)


def test_inputs_get_the_precision_of_the_model() -> None:
    """Reference: inputs in that precision."""
    model = Net().double()
    found = explain(model, some_inputs(), "gradient")
    assert found.dtype == torch.float64
    assert torch.equal(found, explain(model, some_inputs().double(), "gradient"))


@methods
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_works_or_names_the_way_out(name: str, dtype: torch.dtype) -> None:
    """Finite relevance of that type, or a sentence that says how to get it."""
    model = Net().to(dtype)
    try:
        found = explain(model, some_inputs(), name)
    except HeatproofError as problem:
        assert "explain model.float()" in str(problem)  # noqa: PT017
    else:
        assert found.dtype == dtype
        assert found.isfinite().all()


@methods
def test_whole_numbers_are_refused_with_the_way_out(name: str) -> None:
    pictures = (some_inputs() * 255).byte()
    with pytest.raises(HeatproofError, match=r"whole numbers \(uint8\), which model Net does not take; give .* / 255"):
        explain(Net(), pictures, name)


def test_whole_numbers_are_taken_where_the_model_takes_them() -> None:
    """Reference: the same numbers as floats."""

    class Pictures(Net):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs.float() / 255)

    pictures = (some_inputs() * 255).byte()
    expected = explain(Pictures(), pictures.float(), "gradient")
    assert expected.any()
    assert torch.equal(explain(Pictures(), pictures, "gradient"), expected)


@pytest.mark.parametrize("name", ["gradient", "rise", "grad_cam"])
def test_a_single_case_needs_its_axis(name: str) -> None:
    with pytest.raises(HeatproofError, match=r"\(3, 12, 12\) are one case .*give inputs\[None\], of shape \(1, 3, 12"):
        heatproof.explain(Net().eval(), some_inputs()[0], name, target=1)
    signal = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))
    with pytest.raises(HeatproofError, match=r"inputs\[None\], of shape \(1, 1, 8\)"):
        heatproof.explain(signal, torch.zeros(1, 8), name, target=1)


def test_what_is_no_tensor_is_said() -> None:
    with pytest.raises(HeatproofError, match="list cannot be made a tensor"):
        heatproof.explain(Net().eval(), [["a"]], "gradient", target=1)


def test_a_model_that_cuts_its_gradient_is_told_so() -> None:
    class Cut(Net):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs.detach())

    for name in ("gradient", "smoothgrad", "guided_backprop"):
        with pytest.raises(HeatproofError, match="no gradient leads from the model's outputs to its inputs"):
            explain(Cut(), some_inputs(), name)


# Inference mode, and compiled models


@methods
@pytest.mark.parametrize("target", [1, None])
def test_inference_mode_changes_nothing(name: str, target: int | None) -> None:
    """Reference: outside of it; with inputs from outside and from inside."""
    model, expected = Net(), explain(Net(), some_inputs(), name, target)
    with torch.inference_mode():
        for inputs in (some_inputs(), some_inputs().clone()):
            assert torch.equal(explain(model, inputs, name, target), expected)
        assert torch.is_inference_mode_enabled()
        made_inside = Net()
    inside = some_inputs()
    with torch.inference_mode():
        assert torch.equal(explain(model, inside, name, target), expected)
    with pytest.raises(HeatproofError, match=r"made within torch\.inference_mode, .*load it outside"):
        explain(made_inside, some_inputs(), name, target)


@pytest.fixture(scope="module")
def compiled() -> Iterator[nn.Module]:
    """A compiled network. The backend does nothing, but runs a graph in place of the layers."""
    model = torch.compile(Net().eval(), backend="eager")
    assert isinstance(model, nn.Module)
    yield model
    torch._dynamo.reset()


@methods
def test_compiled_models_are_explained_as_they_were(compiled: nn.Module, name: str) -> None:
    """Reference: the model before torch.compile; given to `explain`, and to the explainer itself."""
    inputs = some_inputs()
    expected = explain(Net(), inputs, name)
    assert torch.equal(explain(compiled, inputs, name), expected)
    batch = Batch(inputs, torch.tensor([1, 1]), ("0", "1"), masks={"object": torch.ones(2, 12, 12, dtype=torch.bool)})
    explainer = explainers[name](**FEW.get(name, {}))
    assert torch.equal(explainer(compiled, batch, CaseRandom.of(0, explainer)), expected)


def test_layers_of_compiled_models_keep_their_names(compiled: nn.Module) -> None:
    expected = explain(Net(), some_inputs(), "grad_cam", layer="features.4")
    assert torch.equal(explain(compiled, some_inputs(), "grad_cam", layer="features.4"), expected)
    assert type(load_network(compiled)[1]) is Net


def test_compiled_parts_of_a_model_run_as_they_were() -> None:
    """Reference: the model with nothing compiled. A graph would hide its ReLUs."""
    model = Net().eval()
    model.features = torch.compile(model.features, backend="aot_eager")
    for name in ("guided_backprop", "grad_cam", "lrp"):
        assert torch.equal(explain(model, some_inputs(), name), explain(Net(), some_inputs(), name))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_programs_may_change_their_inputs() -> None:
    """Reference: the module out of place. TorchScript takes no hooks, so it gets a module around it."""
    script = torch.jit.trace(InPlace(True).eval(), some_inputs())
    inputs = some_inputs()
    for name in ("gradient", "rise"):
        torch.testing.assert_close(explain(script, inputs, name), explain(InPlace(False), inputs, name))
    assert torch.equal(inputs, some_inputs())


# Norms


def batch_norm(values: Tensor) -> Tensor:
    mean, variance = torch.linspace(-1, 1, 4).to(values), torch.linspace(0.5, 2, 4).to(values)
    return functional.batch_norm(values, mean, variance)


NORMS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "function of instances": (lambda x: functional.instance_norm(x).permute(0, 2, 3, 1), (1, 2)),
    "layer of instances": (lambda x: nn.InstanceNorm2d(4).eval()(x).permute(0, 2, 3, 1), (1, 2)),
    "function of batches": (lambda x: batch_norm(x).permute(2, 0, 3, 1), (0, 2)),
    "one row of each map": (lambda x: batch_norm(x[:, :, :1].contiguous()).permute(0, 3, 2, 1), (1, 2)),
    "one column of each map": (lambda x: batch_norm(x[..., :1].contiguous()).permute(0, 3, 2, 1), (1, 2)),
}
"""A norm and an order of axes with channels last, which torch's own way back goes wrong on; its axes of space."""


class Normed(nn.Module):
    """A norm as a function, and then an order of axes that torch's own way back goes wrong on."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.dense, self.head = nn.Conv2d(2, 4, 3), nn.Linear(4, 5), nn.Linear(5, 3)
        self.norm, self.space = NORMS[kind]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.dense(self.norm(self.conv(inputs)))).sum(self.space))


@pytest.mark.parametrize("cases", [1, 2])
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("name", ["gradient", "integrated_gradients", "layer_cam"])
def test_norms_are_right_wherever_they_are_called(name: str, kind: str, cases: int) -> None:
    """Reference: central differences in float64, for LayerCAM its formula with these; torch 2.13 itself is wrong."""
    model = Normed(kind).double().eval()
    inputs = torch.randn(cases, 2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def differences(function: Any, at: Tensor) -> Tensor:
        found = torch.zeros_like(at)
        for place in np.ndindex(*at.shape[1:]):
            step = torch.zeros_like(at)
            step[(slice(None), *place)] = 1e-6
            with torch.no_grad():
                found[(slice(None), *place)] = (function(at + step) - function(at - step))[:, 1] / 2e-6
        return found

    if name == "layer_cam":
        maps = model.conv(inputs).detach()
        slopes = differences(lambda m: Normed.forward(with_maps(model, m), inputs), maps)
        expected = (slopes.clamp(min=0) * maps).sum(1, keepdim=True).clamp(min=0)
        expected = functional.interpolate(expected, (7, 6), mode="bilinear")
        found = heatproof.explain(model, inputs, name, target=1, layer="conv")
    elif name == "integrated_gradients":
        expected = inputs * (differences(model, inputs) + differences(model, 0 * inputs)) / 2
        found = heatproof.explain(model, inputs, name, target=1, steps=1, rows=1)
    else:
        expected = differences(model, inputs)
        found = heatproof.explain(model, inputs, name, target=1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def with_maps(model: nn.Module, maps: Tensor) -> nn.Module:
    """The model whose convolution gives these maps whatever it is given."""
    changed = copy.copy(model)
    changed._modules = {**model._modules, "conv": Given(maps)}
    return changed


class Given(nn.Module):
    def __init__(self, maps: Tensor) -> None:
        super().__init__()
        self.maps = maps

    def forward(self, _inputs: Tensor) -> Tensor:
        return self.maps


class Marked(torch.autograd.Function):
    """Its node holds a thing that is gone when the graph is."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, thing: Any) -> Tensor:
        ctx.thing = thing
        return inputs.clone()


class Thing:
    pass


def test_mended_norms_keep_no_graph_alive() -> None:
    """What a pass made is gone with its outputs, without the garbage collector."""
    model, thing = Net().eval(), Thing()
    kept = weakref.ref(thing)
    gc.disable()
    try:
        with untouched(model):
            outputs = model(Marked.apply(some_inputs().requires_grad_(), thing))  # type: ignore[no-untyped-call]
        del thing
        assert kept() is not None
        del outputs
        assert kept() is None
    finally:
        gc.enable()

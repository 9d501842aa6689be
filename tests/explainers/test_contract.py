"""What every registered explainer promises, whatever it computes; a new one is held to it the day it is added."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.engine.passes import counted_passes
from heatproof.errors import HeatproofError
from heatproof.explainers import Explainer, ScoreExplainer, explainers
from heatproof.explainers.adapters import FunctionExplainer, takes_context
from heatproof.explainers.base import Size
from heatproof.explainers.bound import Bound
from heatproof.explainers.layers import last_of_each_extent, spatial_activations
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom
from nets import MAKERS, VisionTransformer
from reference.explainers import Net

REFERENCES = {
    "gradient": "explainers/test_gradients.py::test_gradient_equals_captum",
    "gradient_x_input": "explainers/test_gradients.py::test_gradient_x_input_equals_captum",
    "smoothgrad": "explainers/test_gradients.py::test_smoothgrad_equals_captum_on_each_noisy_copy",
    "integrated_gradients": "explainers/test_gradients.py::test_integrated_gradients_equal_captum",
    "grad_cam": "explainers/test_cam.py::test_grad_cam_equals_captum",
    "grad_cam_pp": "explainers/test_cam.py::test_grad_cam_pp_equals_the_loop",
    "xgrad_cam": "explainers/test_cam.py::test_xgrad_cam_equals_the_loop",
    "score_cam": "explainers/test_cam.py::test_score_cam_equals_the_loop",
    "rise": "explainers/test_perturbation.py::test_rise_equals_the_loop",
    "sise": "explainers/test_perturbation.py::test_sise_equals_the_loop",
    "constant": "explainers/test_baselines.py::test_constant_is_the_same_everywhere",
    "random": "explainers/test_baselines.py::test_random_numbers_come_from_the_seed_of_the_case",
    "centre": "explainers/test_baselines.py::test_centre_is_a_gaussian_of_a_quarter_of_the_extent",
    "input_magnitude": "explainers/test_baselines.py::test_input_magnitude_is_the_absolute_input",
    "oracle": "explainers/test_baselines.py::test_oracle_lies_in_the_mask",
    "randomised": "explainers/test_baselines.py::test_randomised_is_the_other_explainer_on_a_network_set_up_anew",
    "other_question": "explainers/test_baselines.py::test_other_question_is_the_other_explainer_asked_otherwise",
    "edges": "explainers/test_baselines.py::test_edges_equal_scipy",
    "vargrad": "explainers/test_gradients.py::test_vargrad_equals_the_variance_over_noisy_copies",
    "guided_backprop": "explainers/test_gradients.py::test_relu_methods_equal_captum",
    "deconvnet": "explainers/test_gradients.py::test_relu_methods_equal_captum",
    "layer_cam": "explainers/test_cam.py::test_layer_cam_equals_the_loop",
    "guided_grad_cam": "explainers/test_cam.py::test_guided_grad_cam_equals_captum",
    "lime": "explainers/test_lime.py::test_coefficients_equal_the_lime_package",
    "lrp": "explainers/test_propagation.py::test_lrp_equals_zennit",
    "excitation_backprop": "explainers/test_propagation.py::test_excitation_backprop_equals_zennit",
    "deep_lift": "explainers/test_deep_lift.py::test_deep_lift_equals_captum",
    "kernel_shap": "explainers/test_kernel_shap.py::test_values_are_shapley_values",
    "occlusion": "explainers/test_perturbation.py::test_occlusion_equals_captum",
    "attention_rollout": "explainers/test_transformers.py::test_attention_rollout_equals_the_loop",
    "raw_attention": "explainers/test_transformers.py::test_raw_attention_and_rollouts_equal_the_loop",
    "chefer": "explainers/test_transformers.py::test_chefer_equals_the_loop",
    "le_grad": "explainers/test_transformers.py::test_le_grad_equals_the_loop",
    "noised": "explainers/test_noised.py::test_it_is_the_other_explainer_over_noisy_copies",
}
"""For each explainer the test that holds it against an independent implementation."""

SMALL: dict[str, dict[str, Any]] = {
    "smoothgrad": {"samples": 5},
    "vargrad": {"samples": 5},
    "noised": {"samples": 5},
    "lime": {"samples": 30, "segments": 6},
    "kernel_shap": {"samples": 30, "segments": 9, "segmenter": "blocks"},
    "integrated_gradients": {"steps": 5},
    "rise": {"masks": 11, "cells": 3},
}
"""Parameters that keep the tests quick."""

RANDOM = {"kernel_shap", "lime", "noised", "random", "randomised", "rise", "smoothgrad", "vargrad"}
FEWER_PASSES = {"sise", "kernel_shap"}
"""`passes` is an upper bound: how many maps or coalitions there are is known only after a look."""


THROUGH_ATTENTION: dict[str, dict[str, Any]] = {"lrp": {"composite": "attn_lrp"}}
"""What a method takes on the transformer, where its default has no rules for attention."""


def fits(name: str, net: str) -> bool:
    """Attention methods need attention, and the transformer has no ReLUs."""
    cls = explainers[name]
    if cls.family == "attention":
        return net == "transformer"
    if net != "transformer" or name in THROUGH_ATTENTION:
        return True
    return not (cls.family == "propagation" or cls.looks_at == "relus")


every = pytest.mark.parametrize("name", list(explainers))
on_every_net = pytest.mark.parametrize(
    ("net", "name"), [(net, name) for net in MAKERS for name in explainers if fits(name, net)], indirect=["net"]
)
HOUSES = [(house, name) for house in ("picture", "transformer") for name in explainers if fits(name, house)]
in_both_houses = pytest.mark.parametrize(("house", "name"), HOUSES)
"""A convolutional network and a transformer, each with the methods that can explain it."""
SCORES = [name for name, cls in explainers.items() if issubclass(cls, ScoreExplainer)]
every_score = pytest.mark.parametrize("name", SCORES)
every_score_in_both_houses = pytest.mark.parametrize(
    ("house", "name"), [(house, name) for house, name in HOUSES if name in SCORES]
)


@pytest.fixture
def home(nets: dict[str, Net], house: str) -> Net:
    return nets[house]


@pytest.fixture
def own_home(house: str) -> nn.Module:
    """Its model made anew, which a test may change."""
    return MAKERS[house]().model


CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def make(name: str, model: nn.Module | None = None, **parameters: Any) -> Explainer:
    usual = THROUGH_ATTENTION.get(name, {}) if isinstance(model, VisionTransformer) else {}
    return explainers[name](**{**SMALL.get(name, {}), **usual, **parameters})


def explain(name: str, net: Net, batch: Batch | None = None, seed: int = 0, **parameters: Any) -> Tensor:
    return make(name, net.model, **parameters)(net.model, batch or net.batch, CaseRandom(seed, name))


def has_parameter(name: str, parameter: str) -> bool:
    return parameter in [field.name for field in fields(explainers[name])]


def test_every_explainer_has_a_reference_test() -> None:
    """A registered explainer that nothing independent vouches for fails here, and so does a test that is gone."""
    assert sorted(REFERENCES) == sorted(explainers)
    tests = Path(__file__).parent.parent
    for reference in REFERENCES.values():
        file, test = reference.split("::")
        tree = ast.parse((tests / file).read_text(encoding="utf-8"))
        assert test in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], reference


# What comes back


@on_every_net
def test_shape_type_and_values(net: Net, name: str) -> None:
    """The inputs' shape or one channel, the inputs' type, finite, detached; the inputs stay as they were."""
    before = net.batch.inputs.clone()
    for dtype in (torch.float64, torch.float32):
        model = copy.deepcopy(net.model).to(dtype)
        batch = net.batch.to(dtype=dtype)
        relevance = make(name, model)(model, batch, CaseRandom(0, name))
        assert relevance.shape in (batch.inputs.shape, (len(batch), 1, *batch.space))
        assert relevance.dtype == dtype
        assert relevance.isfinite().all()
        assert not relevance.requires_grad
    assert torch.equal(net.batch.inputs, before)
    assert not net.batch.inputs.requires_grad


@pytest.mark.parametrize(
    ("net", "name"),
    [
        (net, name)
        for net in ("picture", "question", "functional", "transformer")
        for name in explainers
        if fits(name, net)
    ],
    indirect=["net"],
)
def test_the_layout_of_weights_does_not_matter(net: Net, name: str) -> None:
    """Reference: the same network with weights in plain order; Focus lays them out for fast convolutions."""
    laid_out = copy.deepcopy(net.model)
    laid_out.to(memory_format=torch.channels_last)
    assert any(not weight.is_contiguous() for weight in laid_out.parameters())
    found = make(name, laid_out)(laid_out, net.batch, CaseRandom(0, name))
    torch.testing.assert_close(found, explain(name, net), rtol=1e-8, atol=1e-10)


@on_every_net
def test_same_seed_same_relevance(net: Net, name: str) -> None:
    """One seed gives one result; another seed gives another exactly where the method is random."""
    first, again, other = (explain(name, net, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name not in RANDOM)


@in_both_houses
def test_global_random_state_is_neither_read_nor_moved(home: Net, name: str) -> None:
    """torch.manual_seed changes nothing, and the global stream goes on as if nothing had been drawn."""
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        results.append(explain(name, home))
        assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(results[0], results[1])


@on_every_net
def test_relevance_does_not_depend_on_the_batch(net: Net, name: str) -> None:
    """Seven cases at once, one by one, in parts of three and four, and in reverse order."""
    batch = net.batch
    together = explain(name, net)
    alone = torch.cat([explain(name, net, batch[i : i + 1]) for i in range(len(batch))])
    parts = torch.cat([explain(name, net, batch[:3]), explain(name, net, batch[3:])])
    backwards = Batch(
        inputs=batch.inputs.flip(0),
        target=batch.target.flip(0),
        ids=batch.ids[::-1],
        context=tuple(tensor.flip(0) for tensor in batch.context),
        masks={key: mask.flip(0) for key, mask in batch.masks.items()},
    )
    torch.testing.assert_close(alone, together, **CLOSE)
    torch.testing.assert_close(parts, together, **CLOSE)
    torch.testing.assert_close(explain(name, net, backwards).flip(0), together, **CLOSE)


@pytest.mark.parametrize("name", [name for name in explainers if has_parameter(name, "rows")])
@pytest.mark.parametrize("rows", [1, 4])
def test_relevance_does_not_depend_on_rows(net: Net, name: str, rows: int) -> None:
    """The memory limit cuts across cases and samples and changes nothing."""
    torch.testing.assert_close(explain(name, net, rows=rows), explain(name, net), **CLOSE)


@pytest.mark.parametrize("name", [name for name in explainers if has_parameter(name, "rows")])
def test_rows_bound_what_the_model_sees(picture_net: Net, name: str) -> None:
    """Beside one pass of the cases themselves, no more than `rows` rows go through the model at once."""
    seen: list[int] = []
    hook = picture_net.model.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    try:
        explain(name, picture_net, rows=4)
    finally:
        hook.remove()
    assert [rows for rows in seen if rows > 4] in ([], [len(picture_net.batch)])


@in_both_houses
def test_model_in_training_mode_explains_the_same(home: Net, own_home: nn.Module, name: str) -> None:
    """Dropout and batch norm are put into evaluation mode for the explanation."""
    expected = explain(name, home)
    own_home.train()
    relevance = make(name, own_home)(own_home, home.batch, CaseRandom(0, name))
    assert torch.equal(relevance, expected)


@every_score_in_both_houses
def test_quantities_differ(home: Net, name: str) -> None:
    """The parameter `quantity` has an effect, but for walks that start from one; LRP refuses a negative score."""
    logit, probability = (explain(name, home, quantity=quantity) for quantity in ("logit", "probability"))
    assert torch.allclose(logit, probability) == (name == "excitation_backprop")
    if name == "lrp":
        with pytest.raises(HeatproofError, match="explains the logit or the probability"):
            explain(name, home, quantity="log_probability")
    elif name != "excitation_backprop":
        assert not torch.allclose(probability, explain(name, home, quantity="log_probability"))


@in_both_houses
def test_target_matters_to_score_explainers_only(home: Net, name: str) -> None:
    """Another class to explain changes the relevance, but for explainers that do not ask the model."""
    other = replace(home.batch, target=(home.batch.target + 1) % 4)
    same = torch.equal(explain(name, home, other), explain(name, home))
    assert same != issubclass(explainers[name], ScoreExplainer)


# What it leaves behind


SEVERAL = ("noised", "guided_grad_cam", "deep_lift", "le_grad", "lrp", "excitation_backprop")
"""Methods with several passes; the last two see with one of their own, once, that they compute the model as it is."""


class Failing(nn.Module):
    """A model that raises in the given forward pass, in the middle, after its first layers have run."""

    def __init__(self, model: nn.Module, fails_at: int) -> None:
        super().__init__()
        self.inner = model
        self.fails_at = fails_at
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.inner.features(inputs)
        self.calls += len(inputs) > 2  # fewer are asked about to see what a row costs, and whether cases are kept apart
        if self.calls == self.fails_at:
            raise RuntimeError("the model failed")
        logits: Tensor = self.inner.head(maps)
        return logits


@contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Compares modes, flags, gradients, parameters, buffers and hooks before and after."""

    def hooks(module: nn.Module) -> list[int]:
        kinds = [name for name in vars(module) if name.endswith("_hooks") or name.endswith("_pre_hooks")]
        assert {"_forward_hooks", "_backward_hooks", "_forward_pre_hooks"} <= set(kinds)
        return [len(getattr(module, kind)) for kind in sorted(kinds)]

    def state() -> dict[str, Any]:
        return {
            "training": [module.training for module in model.modules()],
            "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
            "hooks": [hooks(module) for module in model.modules()],
        }

    def tensors() -> list[Tensor]:
        grads = [torch.zeros(0) if p.grad is None else p.grad for p in model.parameters()]
        return [tensor.clone() for tensor in (*model.state_dict().values(), *grads)]

    state_before, tensors_before = state(), tensors()
    yield
    assert state() == state_before
    for before, after in zip(tensors_before, tensors(), strict=True):
        assert torch.equal(before, after)


def unevenly_set(model: nn.Module) -> nn.Module:
    """Training mode but for one layer, one frozen parameter, one gradient from before."""
    model.train()
    list(model.modules())[2].eval()
    model.requires_grad_(True)
    first, second, *_ = model.parameters()
    first.requires_grad_(False)
    second.grad = torch.ones_like(second)
    return model


@in_both_houses
def test_model_is_left_untouched(home: Net, own_home: nn.Module, name: str) -> None:
    """Modes, flags, gradients, weights, running statistics and hooks are what they were."""
    with left_as_it_was(unevenly_set(own_home)):
        make(name, own_home)(own_home, home.batch, CaseRandom(0, name))


@every_score_in_both_houses
@pytest.mark.parametrize("fails_at", [1, 2])
def test_model_is_left_untouched_when_it_raises(home: Net, own_home: nn.Module, name: str, fails_at: int) -> None:
    """The same when the model raises in its first pass or, for methods with several, in its second."""
    parameters = {"rows": 8} if has_parameter(name, "rows") else {}
    failing = Failing(unevenly_set(own_home), fails_at)
    explainer = make(name, own_home, **parameters)
    with left_as_it_was(failing):
        if fails_at == 1 or has_parameter(name, "rows") or name in SEVERAL:
            with pytest.raises(RuntimeError, match="the model failed"):
                explainer(failing, home.batch, CaseRandom(0, name))
        else:
            explainer(failing, home.batch, CaseRandom(0, name))
            assert failing.calls == (name != "randomised")  # which asks a copy


# What it costs


@on_every_net
def test_declared_passes_are_the_counted_ones(net: Net, name: str) -> None:
    """Reference: rows counted forward through the model and backward from its outputs, per case."""
    layers = last_of_each_extent(spatial_activations(net.model, net.batch)[1])
    channels = tuple(layer.maps().shape[1] for layer in layers)
    assert channels == tuple(layer.width for layer in layers)
    assert channels[-1] == len(net.maps(0))
    explainer = make(name, net.model)
    explainer(net.model, net.batch[:1], CaseRandom(0, name))  # what is looked at once per network is done
    with counted_passes(net.model) as passes:
        explainer(net.model, net.batch, CaseRandom(0, name))
    counted, declared = passes.total / len(net.batch), explainer.passes(Size(net.batch.space, channels))
    if name in FEWER_PASSES:
        assert 2 < counted <= declared
    else:  # to find the tokens that count, Score-CAM takes a gradient
        tokens = name == "score_cam" and isinstance(net.model, VisionTransformer)
        again = 2 if name == "le_grad" else 0  # a pass more there and back for each block but the last
        assert counted == declared + tokens + again


def test_counted_passes_count_rows(picture_net: Net) -> None:
    """Three rows forward and, where a gradient is taken, three backward; the hook is gone afterwards."""
    inputs = picture_net.batch.inputs[:3].clone().requires_grad_()
    with counted_passes(picture_net.model) as passes:
        output = picture_net.model(inputs)
        assert passes.total == 3
        torch.autograd.grad(output.sum(), inputs)
        assert passes.total == 6
        with torch.no_grad():
            picture_net.model(inputs)
        assert passes.total == 9
    picture_net.model(inputs)
    assert passes.total == 9
    assert not picture_net.model._forward_hooks


# What it is


@every
def test_explainers_are_frozen_and_compare_by_value(name: str) -> None:
    """A frozen, hashable dataclass; equal parameters are equal explainers."""
    explainer = make(name)
    assert is_dataclass(explainer)
    assert explainer == make(name)
    assert hash(explainer) == hash(make(name))
    for field in fields(explainer):
        with pytest.raises(FrozenInstanceError):
            setattr(explainer, field.name, None)


@every
def test_default_label_is_the_name(name: str) -> None:
    """Without parameters the label is the public name (but for one named after another), and it finds the class."""
    explainer = explainers[name]()
    assert explainer.name == name
    assert explainer.label == (f"{name}:gradient" if name in ("noised", "other_question", "randomised") else name)
    assert make_explainer(name) == make_explainer(explainer.label) == explainer


@pytest.mark.parametrize(
    ("name", "parameters", "label"),
    [
        ("smoothgrad", {"samples": 50, "sigma": 0.1}, "smoothgrad:samples=50"),
        ("smoothgrad", {"samples": 50, "sigma": 0.01}, "smoothgrad:samples=50,sigma=0.01"),
        ("integrated_gradients", {"steps": 50}, "integrated_gradients"),
        ("rise", {"p": 0.1, "rows": 7}, "rise:p=0.1"),
        ("grad_cam_pp", {"alpha": "normalised"}, "grad_cam_pp:alpha=normalised"),
        ("score_cam", {"layer": "features.2"}, "score_cam:layer=features.2"),
        ("oracle", {"mask": "box"}, "oracle:mask=box"),
    ],
)
def test_label_shows_what_differs_from_the_defaults(name: str, parameters: dict[str, Any], label: str) -> None:
    """Only changed parameters that matter to the result; and the label, read back, is the same explainer."""
    explainer = explainers[name](**parameters)
    assert explainer.label == label
    assert make_explainer(label) == explainer


def test_memory_limit_is_no_part_of_the_identity() -> None:
    """`rows` changes neither equality nor the recorded parameters."""
    assert make("rise", rows=3) == make("rise")
    assert make("rise").parameters == {"quantity": "logit", "masks": 11, "cells": 3, "p": 0.5}


# What it says when it cannot


@pytest.mark.parametrize("name", [name for name in explainers if has_parameter(name, "layer")])
def test_unknown_layer_names_the_nearest(picture_net: Net, name: str) -> None:
    """A misspelt layer is answered with the one that was meant."""
    with pytest.raises(HeatproofError, match=r"unknown layer 'feature\.4'.*Did you mean.*'features\.4'"):
        explain(name, picture_net, layer="feature.4")


@pytest.mark.parametrize("name", [name for name in explainers if has_parameter(name, "layer")])
def test_layer_without_extent_is_refused(picture_net: Net, name: str) -> None:
    """A layer that has no place left, and a model that never had any."""
    with pytest.raises(HeatproofError, match=r"needs a layer with spatial extent, and layer 'head\.3' has none"):
        explain(name, picture_net, layer="head.3")
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 11 * 14, 4)).double()
    with pytest.raises(HeatproofError, match=r"no layer of the model has any\. Name a convolution with layer=NAME"):
        make(name)(flat, picture_net.batch, CaseRandom(0, name))


@pytest.mark.parametrize(
    ("house", "name"),
    [(house, name) for house, name in HOUSES if name in SCORES and name != "other_question"],
)  # which explains another class than the target
@pytest.mark.parametrize("target", [-1, 4])
def test_target_out_of_range_is_refused(home: Net, name: str, target: int) -> None:
    """The message says how many classes there are and what was asked."""
    wrong = home.batch.target.clone()
    wrong[3] = target
    with pytest.raises(HeatproofError, match=rf"between 0 and 3, the model has 4 outputs; got .*{target}"):
        explain(name, home, replace(home.batch, target=wrong))


@pytest.mark.parametrize("name", [name for name in SCORES if fits(name, "picture")])
def test_model_without_logits_is_refused(picture_net: Net, name: str) -> None:
    """Outputs that are not (cases, classes) are named by their shape."""
    model = nn.Conv2d(3, 2, 3, padding=1).double()
    with pytest.raises(HeatproofError, match=r"logits of shape \(cases, classes\), got \(\d+, 2, 11, 14\)"):
        make(name)(model, picture_net.batch, CaseRandom(0, name))


@every_score
def test_unknown_quantity_names_the_nearest(name: str) -> None:
    """A misspelt quantity is answered with the one that was meant."""
    with pytest.raises(HeatproofError, match=rf"unknown {name} quantity 'probabilty'.*'probability'"):
        make(name, quantity="probabilty")


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("smoothgrad", "samples"),
        ("smoothgrad", "sigma"),
        ("smoothgrad", "rows"),
        ("integrated_gradients", "steps"),
        ("rise", "masks"),
        ("rise", "cells"),
        ("score_cam", "rows"),
        ("sise", "rows"),
    ],
)
@pytest.mark.parametrize("value", [0, -1])
def test_counts_must_be_above_zero(name: str, parameter: str, value: int) -> None:
    """The message names explainer, parameter and value."""
    with pytest.raises(HeatproofError, match=f"{name}: {parameter} must be above zero, got {value}"):
        make(name, **{parameter: value})


def test_unknown_alpha_names_the_nearest() -> None:
    """Grad-CAM++ knows two ways with alpha."""
    with pytest.raises(HeatproofError, match=r"unknown grad_cam_pp alpha 'normalized'.*'normalised'"):
        make("grad_cam_pp", alpha="normalized")


@dataclass(frozen=True, kw_only=True)
class FromUser(Explainer):
    """A user's explainer that returns whatever a function makes of the inputs."""

    name = "from_user"
    function: Callable[[Tensor], Any] = lambda inputs: inputs

    def explain(self, model: nn.Module, batch: Batch, rng: CaseRandom) -> Tensor:
        relevance: Tensor = self.function(batch.inputs)
        return relevance


def with_nan(inputs: Tensor) -> Tensor:
    relevance = inputs.clone()
    relevance[2:4, 0, 5, 5] = torch.nan
    return relevance


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda inputs: inputs[:, :2], r"shape \(7, 2, 11, 14\); it must be \(7, 3, 11, 14\).* or \(7, 1, 11, 14\)"),
        (lambda inputs: inputs[1:], r"relevance of shape \(6, 3, 11, 14\)"),
        (lambda inputs: inputs[..., 1:], r"relevance of shape \(7, 3, 11, 13\)"),
        (with_nan, "NaN or infinite relevance for 2 case.*the first is 'case-13-2'"),
        (lambda inputs: inputs / 0, "NaN or infinite relevance for 7 case"),
    ],
    ids=["channels", "cases", "space", "nan", "infinite"],
)
@pytest.mark.parametrize("how", ["class", "function"])
def test_unfit_relevance_of_a_user_is_refused(
    picture_net: Net, how: str, function: Callable[[Tensor], Any], message: str
) -> None:
    """A wrong shape and values that are not finite are named, with the first case that has them."""
    explainer: Explainer = FromUser(function=function)
    if how == "function":
        explainer = FunctionExplainer(function=lambda model, inputs, target: function(inputs))
    with pytest.raises(HeatproofError, match=message):
        explainer(picture_net.model, picture_net.batch, CaseRandom(0, "from_user"))


def test_relevance_that_is_no_tensor_is_refused(picture_net: Net) -> None:
    """The message names the type that came back."""
    with pytest.raises(HeatproofError, match=r"must return a torch\.Tensor, it returned list"):
        FromUser(function=lambda inputs: inputs.tolist())(picture_net.model, picture_net.batch, CaseRandom(0, ""))


def test_user_function_that_calls_backward_leaves_no_gradients(picture_net: Net, own_model: nn.Module) -> None:
    """Reference: the registered gradient; the parameters' own gradients are not filled on the way."""

    def by_backward(model: nn.Module, inputs: Tensor, target: Tensor) -> Tensor:
        inputs = inputs.clone().requires_grad_()
        model(inputs).gather(1, target[:, None]).sum().backward()
        assert inputs.grad is not None
        return inputs.grad

    with left_as_it_was(unevenly_set(own_model)):
        relevance = FunctionExplainer(function=by_backward)(own_model, picture_net.batch, CaseRandom(0, "by_backward"))
    torch.testing.assert_close(relevance, explain("gradient", picture_net), **CLOSE)


def test_user_function_may_leave_out_the_channels(picture_net: Net) -> None:
    """Relevance (cases, *space) becomes relevance with one channel."""
    explainer = FunctionExplainer(function=lambda model, inputs, target: inputs.sum(1))
    relevance = explainer(picture_net.model, picture_net.batch, CaseRandom(0, "summed"))
    assert torch.equal(relevance, picture_net.batch.inputs.sum(1, keepdim=True))


# Functions of users, and models that take a context


def by_hand(model: nn.Module, inputs: Tensor, target: Tensor) -> Tensor:
    """The gradient, of a model that takes inputs alone."""
    inputs = inputs.clone().requires_grad_()
    scores = model(inputs).gather(1, target[:, None])
    return torch.autograd.grad(scores.sum(), inputs)[0]


@pytest.mark.parametrize("quantity", ["logit", "probability"])
def test_a_plain_function_explains_every_net(net: Net, quantity: str) -> None:
    """Reference: the registered gradient, also where the model takes a question of which the function knows nothing."""
    found = make_explainer(by_hand, quantity=quantity)(net.model, net.batch, CaseRandom(0, "by_hand"))
    torch.testing.assert_close(found, explain("gradient", net, quantity=quantity), **CLOSE)


def test_a_plain_function_may_ask_about_many_variants(nets: dict[str, Net]) -> None:
    """Reference: the gradient at the same variants, each with its own case's question."""
    net = nets["question"]
    scales = torch.linspace(0.5, 1.5, 4, dtype=net.batch.inputs.dtype)

    def mean_over_variants(model: nn.Module, inputs: Tensor, target: Tensor) -> Tensor:
        variants = (inputs[:, None] * scales[:, None, None, None]).flatten(0, 1)
        gradients = by_hand(model, variants, target.repeat_interleave(len(scales)))
        return gradients.unflatten(0, (len(inputs), len(scales))).mean(1)

    found = make_explainer(mean_over_variants)(net.model, net.batch, CaseRandom(0, "variants"))
    scaled = [replace(net.batch, inputs=net.batch.inputs * scale) for scale in scales]
    expected = torch.stack([explain("gradient", net, batch) for batch in scaled]).mean(0)
    torch.testing.assert_close(found, expected, **CLOSE)


def with_question(model: nn.Module, inputs: Tensor, target: Tensor, question: Tensor) -> Tensor:
    return by_hand(lambda rows: model(rows, question), inputs, target)  # type: ignore[arg-type]


def with_context(model: nn.Module, inputs: Tensor, target: Tensor, *context: Tensor) -> Tensor:
    return by_hand(lambda rows: model(rows, *context), inputs, target)  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [with_question, with_context])
def test_a_function_that_takes_the_context_gets_it(nets: dict[str, Net], function: Callable[..., Tensor]) -> None:
    """Reference: the registered gradient; all cases come at once."""
    net, sizes = nets["question"], []

    def counted(model: nn.Module, inputs: Tensor, target: Tensor, *context: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return function(model, inputs, target, *context)

    found = make_explainer(counted)(net.model, net.batch, CaseRandom(0, "counted"))
    torch.testing.assert_close(found, explain("gradient", net), **CLOSE)
    assert sizes == [len(net.batch)]


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (by_hand, False),
        (with_question, True),
        (with_context, True),
        (lambda model, inputs, target, question=None: inputs, True),
        (lambda model, inputs, target, steps=50: inputs, False),
        (lambda model, inputs, target, *, question: inputs, False),
        (partial(with_question, question=None), False),
        (partial(with_context), True),
        (max, False),
    ],
)
def test_whether_a_function_takes_context(function: Callable[..., Any], takes: bool) -> None:
    """By the number of its places; a fourth one with a default is a setting, unless that default is None."""
    assert takes_context(function) is takes


def test_rows_that_belong_to_no_case_are_refused(nets: dict[str, Net]) -> None:
    """The context of seven cases fits seven rows, that of one any number; reference: the rows one by one."""
    net = nets["question"]
    inputs, context = net.batch.inputs, net.batch.context
    torch.testing.assert_close(Bound(net.model, "logit", context)(inputs), net.model(inputs, *context), **CLOSE)
    first = tuple(tensor[:1] for tensor in context)
    one_by_one = torch.cat([net.model(inputs[i : i + 1], *first) for i in range(len(inputs))])
    torch.testing.assert_close(Bound(net.model, "logit", first)(inputs), one_by_one, **CLOSE)
    with pytest.raises(HeatproofError, match=r"14 rows.* context of 7 cases.*\(model, inputs, target, \*context\)"):
        Bound(net.model, "logit", context)(torch.cat([inputs, inputs]))

"""Models that are wrapped, cut, frozen, drawn at random or without numbers: the right map, or a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import heatproof
from heatproof.errors import HeatproofError

INPUTS = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
ASKING = ("occlusion:window=6,stride=6", "rise:masks=8", "lime:samples=20", "kernel_shap:samples=20")
LOOKING = (
    "gradient",
    "integrated_gradients:steps=4",
    "smoothgrad:samples=2",
    "guided_backprop",
    "deconvnet",
    "grad_cam",
    "score_cam",
    "guided_grad_cam",
    "sise",
    "lrp",
    "excitation_backprop",
    "deep_lift",
)
METHODS = (*LOOKING, *ASKING)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3)
        self.out = nn.Linear(6, 4)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def front(self, inputs: Tensor) -> Tensor:
        return F.relu(self.norm(self.first(inputs)))

    def back(self, maps: Tensor) -> Tensor:
        logits: Tensor = self.out(F.relu(self.second(maps)).mean((2, 3)))
        return logits

    def forward(self, inputs: Tensor) -> Tensor:
        return self.back(self.front(inputs))


class Around(nn.Module):
    """The network within another forward."""

    def __init__(self, forward: Callable[[Net, Tensor], object]) -> None:
        super().__init__()
        self.net, self.step = Net(), forward

    def forward(self, inputs: Tensor) -> object:
        return self.step(self.net, inputs)


def explained(model: object, method: str, inputs: Tensor = INPUTS) -> Tensor:
    found: Tensor = heatproof.explain(model, inputs, method, target=1)
    return found


# The same network

SAME: dict[str, Callable[[], nn.Module]] = {
    "a dictionary": lambda: Around(lambda net, inputs: {"logits": net(inputs), "loss": None}),
    "a tuple": lambda: Around(lambda net, inputs: (net(inputs), inputs)),
    "double precision at the end": lambda: Around(lambda net, inputs: net(inputs).double()),
    "functional_call": lambda: Around(
        lambda net, inputs: net.back(
            torch.func.functional_call(net.norm, dict(net.norm.named_parameters()), (net.first(inputs),)).relu()
        )
    ),
    "DataParallel": lambda: nn.DataParallel(Net()),
    "an average of weights": lambda: torch.optim.swa_utils.AveragedModel(Net()),
    "a traced graph": lambda: torch.fx.symbolic_trace(Net().eval()),
    "channels last": lambda: Net().to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SAME)
def test_what_stands_around_a_network_changes_nothing(name: str, method: str) -> None:
    """Reference: the network itself."""
    inputs = INPUTS.to(memory_format=torch.channels_last) if name == "channels last" else INPUTS
    found, expected = explained(SAME[name]().eval(), method, inputs), explained(Net().eval(), method)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("method", METHODS)
def test_inputs_need_not_be_contiguous(method: str) -> None:
    strided = INPUTS.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    assert not strided.is_contiguous()
    expected = explained(Net().eval(), method)
    atol = 1e-4 * float(expected.abs().max())
    torch.testing.assert_close(explained(Net().eval(), method, strided), expected, rtol=1e-3, atol=atol)


def test_logits_of_autocast_have_maps_by_masks() -> None:
    """What a model computes in half precision comes back in it; the maps have the inputs'. Reference: without."""

    def forward(net: Net, inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return net(inputs)

    for method in (*ASKING, "score_cam", "sise"):
        found, expected = explained(Around(forward).eval(), method), explained(Net().eval(), method)
        assert found.dtype == torch.float32
        both = torch.stack([found.mean(1).flatten(), expected.mean(1).flatten()])
        assert torch.corrcoef(both)[0, 1] > 0.9


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_programs_that_are_frozen_are_asked() -> None:
    """Frozen TorchScript has no mode to set. Reference: the network itself."""
    frozen = torch.jit.freeze(torch.jit.script(Net().eval()))
    for method in ("gradient", "integrated_gradients:steps=4", *ASKING):
        expected = explained(Net().eval(), method)
        atol = 1e-4 * float(expected.abs().max())
        torch.testing.assert_close(explained(frozen, method), expected, rtol=1e-3, atol=atol)
    with pytest.raises(HeatproofError, match="lrp has to see the layers of the model, and TorchScript hides them"):
        explained(frozen, "lrp")


@pytest.mark.parametrize("method", ["grad_cam", "score_cam"])
def test_a_gradient_within_the_model_is_no_obstacle_for_maps(method: str) -> None:
    """A scalar on the way (an energy whose slope is added) has no places. Reference: autograd with respect to maps."""

    def forward(net: Net, inputs: Tensor) -> Tensor:
        with torch.enable_grad():
            inputs = inputs if inputs.requires_grad else inputs.clone().requires_grad_()
            (push,) = torch.autograd.grad(net(inputs).square().sum(), inputs, create_graph=True)
        return net(inputs + push)

    assert explained(Around(forward).eval(), method).shape == (2, 1, 12, 12)


# Refused


def in_no_grad(net: Net, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return net(inputs)


def frozen_backbone(net: Net, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        maps = net.front(inputs)
    return net.back(maps)


def by_numpy(net: Net, inputs: Tensor) -> Tensor:
    return net(torch.from_numpy(2 * inputs.detach().numpy()))


CUT = {"no_grad": in_no_grad, "a backbone in no_grad": frozen_backbone, "NumPy": by_numpy}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CUT)
def test_models_without_a_gradient_are_asked_only(name: str, method: str) -> None:
    model = Around(CUT[name]).eval()
    if method in ASKING:
        assert explained(model, method).any()
        return
    with pytest.raises(HeatproofError, match=r"no gradient leads|leaves torch's graph"):
        explained(model, method)


def half_in_place(net: Net, inputs: Tensor) -> Tensor:
    first, second = net.front(inputs).chunk(2, 1)
    first.relu_()
    return net.back(torch.cat([first, second], 1))


def step_function(net: Net, inputs: Tensor) -> Tensor:
    maps = net.front(inputs)
    return net.back(torch.heaviside(maps, torch.zeros(())))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("forward", [half_in_place, step_function])
def test_models_that_torch_cannot_follow_are_asked_only(forward: Callable[..., Tensor], method: str) -> None:
    """They run without gradients alone, and torch's own error came through, also of methods that ask for scores."""
    model = Around(forward).eval()
    reads_behind = forward is step_function and method in ("grad_cam", "score_cam", "sise")
    if method in ASKING or reads_behind:
        assert explained(model, method).any()
        return
    with pytest.raises(HeatproofError, match=r"torch cannot follow this model backwards|has no rule|no gradient leads"):
        explained(model, method)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("method", ["gradient", "integrated_gradients:steps=2", "smoothgrad:samples=2"])
def test_reentrant_checkpoints_are_named(method: str) -> None:
    """torch's own error came through."""
    model = Around(lambda net, inputs: net.back(checkpoint(net.front, inputs, use_reentrant=True)))
    with pytest.raises(HeatproofError, match="torch cannot follow this model backwards: When use_reentrant=True"):
        explained(model.eval(), method)


@pytest.mark.parametrize("method", METHODS)
def test_models_within_vmap_are_right_or_refused(method: str) -> None:
    """DeepLIFT raised torch's own error. Reference: the same network without it."""
    model = Around(lambda net, inputs: torch.vmap(lambda one: net(one[None])[0])(inputs)).eval()
    try:
        found = explained(model, method)
    except HeatproofError:
        assert method not in ASKING
    else:
        torch.testing.assert_close(found, explained(Net().eval(), method), rtol=1e-4, atol=1e-6)


class Remembers(Net):
    """Adds what it saw the time before."""

    def forward(self, inputs: Tensor) -> Tensor:
        logits = super().forward(inputs)
        before, self.before = getattr(self, "before", 0.0), logits.detach().mean()
        return logits + before


CHANGING: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: Around(lambda net, inputs: net.back(F.dropout(net.front(inputs)))),
    "add": lambda: Around(lambda net, inputs: net(inputs + torch.randn_like(inputs))),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CHANGING)
def test_models_that_answer_otherwise_each_time_are_refused(name: str, method: str) -> None:
    said = rf"{method}: the model gives other outputs each time .*first in the function '{name}'"
    with pytest.raises(HeatproofError, match=said):
        explained(CHANGING[name]().eval(), method)


def test_a_model_with_a_memory_is_refused() -> None:
    with pytest.raises(HeatproofError, match="other outputs each time"):
        explained(Remembers().eval(), "rise:masks=8")


@pytest.mark.parametrize("method", METHODS)
def test_logits_that_are_no_numbers_make_no_map(method: str) -> None:
    model = Around(lambda net, inputs: net(inputs) * float("nan")).eval()
    with pytest.raises(HeatproofError, match=r"NaN or infinite relevance for 2 case\(s\)"):
        explained(model, method)


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(4))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layers(inputs)
        return logits


def test_weights_that_are_not_there_are_named() -> None:
    with pytest.raises(HeatproofError, match="lazy layers without weights; run it once"):
        explained(Lazy().eval(), "gradient")
    with pytest.raises(HeatproofError, match="on the meta device, where weights have no values"):
        explained(deepcopy(Net()).to("meta").eval(), "gradient")


def test_a_model_that_drops_the_axis_of_one_case() -> None:
    """Two cases are explained as they are; one is refused for what it gives, not for mixing cases."""
    squeezed = Around(lambda net, inputs: net(inputs)[0] if len(inputs) == 1 else net(inputs)).eval()
    torch.testing.assert_close(explained(squeezed, "gradient"), explained(Net().eval(), "gradient"))
    with pytest.raises(HeatproofError, match=r"logits of shape \(cases, classes\), got \(4,\)"):
        explained(squeezed, "gradient", INPUTS[:1])


OUTPUTS: dict[str, tuple[Callable[[Net, Tensor], Tensor], str]] = {
    "a row for each view": (
        lambda net, x: net(torch.stack([x, x.flip(3)], 1).flatten(0, 1)),
        "one row of logits for each",
    ),
    "classes first": (lambda net, x: net(x).T, "one row of logits for each"),
    "complex": (lambda net, x: net(x).to(torch.complex64), "real, dense logits"),
    "sparse": (lambda net, x: net(x).to_sparse(), "real, dense logits"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_that_are_no_logits_of_the_cases_are_named(name: str, method: str) -> None:
    """Row 1 of two views of each case is no score of case 1. Some methods stop before, at what makes such outputs."""
    forward, said = OUTPUTS[name]
    before = "no layer of the model has any" if "view" in name else "to_sparse|Sparse"
    with pytest.raises(HeatproofError, match=f"{said}|{before}"):
        heatproof.explain(Around(forward).eval(), INPUTS.repeat(3, 1, 1, 1)[:5], method, target=1)


@pytest.mark.parametrize("composite", ["epsilon", "attn_lrp", "cp_lrp"])
def test_relevance_does_not_pass_gradients_that_a_model_takes_within(composite: str) -> None:
    def energy(net: Net, x: Tensor) -> Tensor:
        with torch.enable_grad():
            inside = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(net.front(inside).square().sum(), inside, create_graph=True)
        return net(x + slope)

    with pytest.raises(HeatproofError, match="no rule for the torch function 'grad'"):
        heatproof.explain(Around(energy).eval(), INPUTS, "lrp", target=1, composite=composite)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("method", ["gradient", "lrp", "lrp:composite=epsilon", "excitation_backprop", "rise:masks=8"])
def test_sparse_constants_are_what_they_are_when_dense(method: str, layout: torch.layout) -> None:
    """A graph's neighbours. Reference: the same as a dense matrix."""
    draws = torch.Generator().manual_seed(1)
    neighbours = (torch.rand(144, 144, generator=draws) < 0.1).float()

    def of(matrix: Tensor) -> nn.Module:
        return Around(lambda net, x: net(torch.stack([(matrix @ one.flatten(1).T).T.view_as(one) for one in x]))).eval()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sparse CSR is in beta, torch says
        found, expected = (
            heatproof.explain(of(matrix), INPUTS, method, target=1)
            for matrix in (neighbours.to_sparse(layout=layout), neighbours)
        )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


def test_a_scripted_layer_of_a_transformer_is_no_block() -> None:
    """TorchScript takes no hooks."""
    model = nn.Sequential(
        torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())), nn.Flatten(), nn.Linear(400, 4)
    )
    with pytest.raises(HeatproofError, match="le_grad needs a transformer"):
        heatproof.explain(model.eval(), INPUTS, "le_grad", target=1)

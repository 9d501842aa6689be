"""Guided backprop and deconvnet on rectifiers however they are written.

References: the same network with plain `relu` functions and the chain rule for them written out as an autograd.Function
(`Literal`), numbers worked out by hand, and the plain network wherever in-place functions must not change it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import heatproof
from heatproof.errors import HeatproofError
from heatproof.explainers.rectifiers import Noting

METHODS = ("guided_backprop", "deconvnet")
methods = pytest.mark.parametrize("method", METHODS)


def literal(guided: bool, cap: float = torch.inf) -> Callable[[Tensor], Tensor]:
    """max(0, min(x, cap)) with the backward pass of the papers, written out."""

    class Literal(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: Tensor) -> Tensor:
            ctx.save_for_backward(inputs)
            return inputs.clamp(0, cap)

        @staticmethod
        def backward(ctx: Any, signal: Tensor) -> Tensor:
            (inputs,) = ctx.saved_tensors
            passed = torch.where(signal > 0, signal, 0)
            passed = torch.where(inputs < cap, passed, 0)
            return torch.where(inputs > 0, passed, 0) if guided else passed

    return Literal.apply  # type: ignore[no-any-return]


class Two(nn.Module):
    """A convolution and a dense layer, each with the rectifier under test; signals of both signs reach both."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.dense, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 9), nn.Linear(9, 4)
        self.act = act

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.act(4 * self.conv(inputs))
        return self.head(self.act(9 * self.dense(maps.mean((2, 3)))))


def some_inputs() -> Tensor:
    return torch.randn(3, 3, 10, 10, generator=torch.Generator().manual_seed(1))


def plain_gradient(model: nn.Module, inputs: Tensor, target: int) -> Tensor:
    """By autograd, and nothing of ours."""
    inputs = inputs.clone().requires_grad_()
    return torch.autograd.grad(model(inputs.clone())[:, target].sum(), inputs)[0]


def below_zeroed(values: Tensor) -> Tensor:
    values = values.clone()
    values[values < 0] = 0
    return values


def inside_no_grad(values: Tensor) -> Tensor:
    with torch.no_grad():
        gate = (values > 0).to(values.dtype)
    return values * gate


class InPlaceOnAView(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        values = values.clone()
        functional.relu_(values[:, :3])
        return torch.cat([values[:, :3], torch.relu(values[:, 3:])], 1)


class MaskedView(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        values = values.clone()
        view = values[:, 2:]
        view.mul_(view > 0)
        first = values[:, :2]
        first[first < 0] = 0
        return values


RECTIFIERS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "relu by keyword": lambda x: torch.relu(input=x),
    "module": nn.ReLU(),
    "module in place": nn.ReLU(inplace=True),
    "method in place": lambda x: x.relu_(),
    "clamp": lambda x: x.clamp(min=0),
    "clamp by tensor": lambda x: x.clamp(min=torch.zeros(())),
    "clamp in place": lambda x: x.clamp_(min=0),
    "clamp_min": lambda x: x.clamp_min(0.0),
    "clip": lambda x: torch.clip(x, 0),
    "threshold": lambda x: functional.threshold(x, 0.0, 0.0),
    "Threshold": nn.Threshold(0, 0),
    "hardtanh without a cap": lambda x: functional.hardtanh(x, 0.0, torch.inf),
    "leaky without a slope": nn.LeakyReLU(0.0),
    "prelu without a slope": lambda x: functional.prelu(x, torch.zeros(1)),
    "rrelu without a slope": lambda x: functional.rrelu(x, 0.0, 0.0),
    "elu without a depth": lambda x: functional.elu(x, 0.0),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "maximum, zero first": lambda x: torch.maximum(torch.zeros(()), x),
    "max of two": lambda x: torch.max(x, torch.tensor(0.0)),
    "fmax": lambda x: torch.fmax(x, torch.zeros(())),
    "where": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "where, number": lambda x: torch.where(x > 0, x, 0.0),
    "where, other way": lambda x: torch.where(x <= 0, torch.zeros(()), x),
    "where, inverted": lambda x: torch.where(~(x > 0), 0.0, x),
    "product": lambda x: x * (x > 0),
    "product of floats": lambda x: (x >= 0).float() * x,
    "product, zero first": lambda x: x * torch.lt(torch.zeros(()), x).to(x.dtype),
    "product, type_as": lambda x: x * x.gt(0).type_as(x),
    "product, detached": lambda x: x * (x.detach() > torch.zeros_like(x)).float(),
    "product without grad": inside_no_grad,
    "product in place": lambda x: x.mul_(x > 0),
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.0),
    "masked_fill in place": lambda x: x.masked_fill_(x <= 0, 0),
    "assignment": below_zeroed,
    "view in place": InPlaceOnAView(),
    "masked view": MaskedView(),
    "checkpoint": lambda x: checkpoint(torch.relu, x, use_reentrant=False),
    "checkpoint, view": lambda x: checkpoint(InPlaceOnAView(), x, use_reentrant=False),
}


@methods
@pytest.mark.parametrize("kind", RECTIFIERS)
def test_rectifiers_are_found_however_they_are_written(kind: str, method: str) -> None:
    """Reference: the chain rule as an autograd.Function in place of the rectifier, by plain autograd."""
    model, inputs = Two(RECTIFIERS[kind]), some_inputs()
    reference = Two(literal(method == "guided_backprop"))
    torch.testing.assert_close(model(inputs), reference(inputs))
    expected = plain_gradient(reference, inputs, 1)
    assert not torch.allclose(expected, plain_gradient(model, inputs, 1), rtol=0.1)
    torch.testing.assert_close(heatproof.explain(model, inputs, method, target=1), expected)


CAPPED: dict[str, Callable[[Tensor], Tensor]] = {
    "relu6": functional.relu6,
    "ReLU6": nn.ReLU6(),
    "ReLU6 in place": nn.ReLU6(inplace=True),
    "hardtanh": nn.Hardtanh(0, 6),
    "clamp": lambda x: x.clamp(0, 6),
    "clamp by tensors": lambda x: x.clamp(torch.zeros(()), torch.tensor(6.0)),
    "relu, then the cap": lambda x: x.relu().clamp(max=6),
}


@methods
@pytest.mark.parametrize("kind", CAPPED)
def test_caps_pass_nothing_back(kind: str, method: str) -> None:
    """Reference: as above; some values are above the cap. `ReLU6` was taken for no rectifier at all."""
    model, inputs = Two(CAPPED[kind]), some_inputs()
    assert (4 * model.conv(inputs) > 6).any()
    expected = plain_gradient(Two(literal(method == "guided_backprop", cap=6)), inputs, 2)
    torch.testing.assert_close(heatproof.explain(model, inputs, method, target=2), expected)


@methods
@pytest.mark.parametrize("act", [nn.ReLU6(), lambda x: x.clamp(0, 6)])
def test_a_value_above_the_cap_has_no_say(method: str, act: Callable[[Tensor], Tensor]) -> None:
    """Reference: three numbers, by hand: below zero only a deconvnet passes, above the cap nothing does."""

    class Sum(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return act(inputs).flatten(1)

    inputs = torch.tensor([[[-1.0, 2.0, 9.0]]])
    found = [heatproof.explain(Sum(), inputs, method, target=target).sum().item() for target in range(3)]
    assert found == [float(method == "deconvnet"), 1.0, 0.0]


def moved_where_above(values: Tensor) -> Tensor:
    made = torch.zeros_like(values)
    made[values > 0] = values[values > 0]
    return made


@torch.jit.script
def in_a_script(values: Tensor) -> Tensor:
    return (values + values.abs()) / 2


PUT_TOGETHER: dict[str, Callable[[Tensor], Tensor]] = {
    "half of both": lambda x: (x + x.abs()) / 2,
    "half of both, as a product": lambda x: 0.5 * (x + torch.abs(x)),
    "without what is below": lambda x: x - x.clamp(max=0),
    "less of the least": lambda x: -torch.minimum(-x, torch.zeros_like(x)),
    "clamped upside down": lambda x: -((-x).clamp(max=0)),
    "the largest of two": lambda x: torch.stack([x, torch.zeros_like(x)]).amax(0),
    "the largest of two, with places": lambda x: torch.stack([x, torch.zeros_like(x)]).max(0)[0],
    "where it is not below": lambda x: x * (1 - (x < 0).float()),
    "moved where it is above": moved_where_above,
    "the root of the square": lambda x: (x + (x * x).sqrt()) / 2,
    "with another rectifier": lambda x: x + torch.relu(-x),
    "twice as steep": lambda x: x + x.abs(),
    "by operators of torch's own": lambda x: torch.ops.aten.add(x, torch.ops.aten.abs(x)) * 0.5,
    "in a script": in_a_script,
}


class Beside(Two):
    """Behind a plain ReLU."""

    def __init__(self, act: Callable[[Tensor], Tensor], relu: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__(act)
        self.relu = relu

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.relu(inputs + 1))


@methods
@pytest.mark.parametrize("kind", PUT_TOGETHER)
def test_rectifiers_that_are_put_together_are_refused(kind: str, method: str) -> None:
    """They went unseen beside a plain ReLU, and the map was another network's."""
    words = rf"{method} changes how gradients pass ReLUs, and this model makes one of several functions, .*torch.relu"
    with pytest.raises(HeatproofError, match=words):
        heatproof.explain(Beside(PUT_TOGETHER[kind]), some_inputs(), method, target=1)


def first_places_only(values: Tensor) -> Tensor:
    """Attention to some places, the others masked out."""
    masked = torch.arange(values.shape[-1]) > 4
    return values.masked_fill(masked, -torch.inf).softmax(-1) * values


ORDINARY: dict[str, Callable[[Tensor], Tensor]] = {
    "gates that are open or shut": lambda x: functional.hardswish(1e4 * x),
    "hard gates by hand": lambda x: x * functional.hardsigmoid(1e4 * x + 2e3),
    "frequencies": lambda x: torch.fft.ifft(torch.fft.fft(x) * 0.7).real,
    "masked attention": first_places_only,
    "the largest only": lambda x: x * functional.one_hot(x.argmax(-1), x.shape[-1]),
    "a straight-through step": lambda x: x + (x.sign() - x).detach(),
    "what is above the mean": lambda x: x * (x > x.mean(-1, keepdim=True)),
    "dropout that is off": lambda x: functional.dropout(x, 0.5, training=False) + 0,
    "a norm": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-3),
    "a loss within": lambda x: x - 0.1 * (1 - x.tanh()).square(),
}


@methods
@pytest.mark.parametrize("kind", ORDINARY)
def test_what_only_looks_like_a_rectifier_is_none(kind: str, method: str) -> None:
    """Reference: the same network with the literal ReLU, by plain autograd."""
    inputs = some_inputs()
    expected = plain_gradient(Beside(ORDINARY[kind], literal(method == "guided_backprop")), inputs, 1)
    torch.testing.assert_close(heatproof.explain(Beside(ORDINARY[kind]), inputs, method, target=1), expected)


@methods
def test_a_mask_that_happens_to_fit_is_no_rectifier(method: str) -> None:
    """It keeps what is positive in the first case: the others, or that case turned round, tell it from a ReLU."""
    inputs = some_inputs()
    seen: list[Tensor] = []

    def plain(values: Tensor) -> Tensor:
        seen.append(values.detach())
        return values

    Beside(plain)(inputs)
    mask = (seen[-1][:1] > 0).float()

    def masked(values: Tensor) -> Tensor:
        return values * mask if values.ndim == 2 else values

    expected = plain_gradient(Beside(masked, literal(method == "guided_backprop")), inputs, 1)
    torch.testing.assert_close(heatproof.explain(Beside(masked), inputs, method, target=1), expected)


NONE: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "leaky": nn.LeakyReLU(0.1),
    "clamp from elsewhere": lambda x: x.clamp(min=0.1),
    "clamp from above": lambda x: x.clamp(max=0),
    "hardtanh": nn.Hardtanh(),
    "threshold elsewhere": nn.Threshold(0.5, 0),
    "threshold to elsewhere": nn.Threshold(0, 0.5),
    "maximum of two": lambda x: torch.maximum(x, 2 * x),
    "maximum with one": lambda x: torch.maximum(x, torch.ones(())),
    "leaky where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "another's sign": lambda x: x * (x.flip(1) > 0),
    "the sign before": lambda x: (x > 0) * (x + 1),
    "where below": lambda x: x * (x < 0),
    "where above one": lambda x: x * (x > 1),
}


@methods
@pytest.mark.parametrize("kind", NONE)
def test_what_does_not_rectify_is_no_rectifier(kind: str, method: str) -> None:
    """The plain gradient under another name is an error, with words."""
    words = rf"{method} changes how gradients pass ReLUs, and this model has none, .*Take gradient"
    with pytest.raises(HeatproofError, match=words):
        heatproof.explain(Two(NONE[kind]), some_inputs(), method, target=1)


class Turning(nn.Module):
    """Goes another way each time that it is told to; but for the rectifier its graph has no product."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.dense, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 9), nn.Linear(9, 4)
        self.turn(act)

    def turn(self, act: Callable[[Tensor], Tensor]) -> None:
        self.ways = [act]  # in a list, where no module is a layer

    def forward(self, inputs: Tensor) -> Tensor:
        (act,) = self.ways
        return self.head(act(self.dense(act(self.conv(inputs)).mean((2, 3)))))


@methods
@pytest.mark.parametrize("kind", RECTIFIERS)
def test_a_network_that_goes_another_way_is_looked_at_anew(kind: str, method: str) -> None:
    """Where the graph told all, nothing is noted the next time; a rectifier of several functions would be missed."""
    model, inputs = Turning(torch.relu), some_inputs()
    expected = plain_gradient(Turning(literal(method == "guided_backprop")), inputs, 1)
    for act in (torch.relu, torch.relu, RECTIFIERS[kind], torch.relu, RECTIFIERS[kind]):
        model.turn(act)
        torch.testing.assert_close(heatproof.explain(model, inputs, method, target=1), expected)


@methods
@pytest.mark.parametrize("kind", NONE)
def test_a_network_that_loses_its_rectifiers_is_refused(kind: str, method: str) -> None:
    model, inputs = Turning(torch.relu), some_inputs()
    heatproof.explain(model, inputs, method, target=1)
    model.turn(NONE[kind])
    with pytest.raises(HeatproofError, match="this model has none"):
        heatproof.explain(model, inputs, method, target=1)


@methods
def test_what_the_graph_tells_is_not_noted_again(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noting takes as long as a small network does; one with a product is noted each time."""
    noted: list[Noting] = []
    monkeypatch.setattr(Noting, "__enter__", lambda noting: noted.append(noting) or TorchFunctionMode.__enter__(noting))
    for model, times in ((Turning(torch.relu), 0), (Two(torch.relu), 3)):
        heatproof.explain(model, some_inputs(), method, target=1)
        noted.clear()
        for _ in range(3):
            heatproof.explain(model, some_inputs(), method, target=1)
        assert len(noted) == times


def test_a_value_changed_after_it_was_compared_is_no_rectifier() -> None:
    """The comparison was with another value."""

    def act(values: Tensor) -> Tensor:
        gate = values > 0
        values += 1
        return values * gate

    with pytest.raises(HeatproofError, match="this model has none"):
        heatproof.explain(Two(act), some_inputs(), "guided_backprop", target=1)


class Residual(nn.Module):
    """A residual branch whose first ReLU works in place changes what is added: another network than without."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 4)
        self.inplace = inplace

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.first(inputs)
        branch = self.second(functional.relu(maps, inplace=self.inplace))
        return self.head(functional.relu(branch + maps).mean((2, 3)))


class OutOfPlace(Residual):
    """The same values by the literal ReLU, which changes nothing."""

    def __init__(self, inplace: bool, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__(inplace)
        self.act = act

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.first(inputs)
        raised = self.act(maps)
        return self.head(self.act(self.second(raised) + (raised if self.inplace else maps)).mean((2, 3)))


@methods
@pytest.mark.parametrize("inplace", [True, False])
def test_functions_in_place_keep_their_effect(method: str, inplace: bool) -> None:
    """Reference: the same network without in-place functions; with and without are two networks."""
    inputs = some_inputs()
    assert not torch.allclose(Residual(True)(inputs), Residual(False)(inputs))
    reference = OutOfPlace(inplace, literal(method == "guided_backprop"))
    torch.testing.assert_close(reference(inputs), Residual(inplace)(inputs))
    expected = plain_gradient(reference, inputs, 1)
    torch.testing.assert_close(heatproof.explain(Residual(inplace), inputs, method, target=1), expected)


class Recurrent(nn.Module):
    """torch's recurrent layer, or the same by hand."""

    def __init__(self, act: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.RNN(3, 6, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(6, 4)
        self.act = act

    def forward(self, inputs: Tensor) -> Tensor:
        steps = inputs.transpose(1, 2)
        if self.act is None:
            return self.head(self.layer(steps)[0][:, -1])
        w, u, b, c = (getattr(self.layer, name) for name in self.layer._flat_weights_names)
        state = torch.zeros(len(inputs), 6)
        for step in steps.unbind(1):
            state = self.act(step @ w.T + b + state @ u.T + c)
        return self.head(state)


@methods
def test_relus_of_recurrent_layers_count(method: str) -> None:
    """Reference: the recurrence written out step by step."""
    inputs = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0))
    model = Recurrent(None)
    expected = plain_gradient(Recurrent(literal(method == "guided_backprop")), inputs, 3)
    torch.testing.assert_close(heatproof.explain(model, inputs, method, target=3), expected)


@methods
def test_fused_layers_without_rectifiers_are_no_obstacle(method: str) -> None:
    """Reference: the ReLU before an LSTM replaced by the literal one."""

    class Sequence(nn.Module):
        def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.layer, self.head = nn.Conv1d(3, 5, 3), nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 4)
            self.act = act

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.layer(self.act(self.conv(inputs)).transpose(1, 2))[0][:, -1])

    inputs = torch.randn(2, 3, 9, generator=torch.Generator().manual_seed(0))
    expected = plain_gradient(Sequence(literal(method == "guided_backprop")), inputs, 1)
    torch.testing.assert_close(heatproof.explain(Sequence(torch.relu), inputs, method, target=1), expected)


class OwnRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        ctx.save_for_backward(inputs)
        return inputs.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Tensor:
        return signal * (ctx.saved_tensors[0] > 0)


@pytest.mark.parametrize("method", [*METHODS, "guided_grad_cam"])
def test_custom_functions_are_named(method: str) -> None:
    """A ReLU may be hidden in them, so they are refused even beside one that is seen."""

    def act(values: Tensor) -> Tensor:
        return torch.relu(OwnRelu.apply(values) - 0.1)  # type: ignore[no-untyped-call]

    with pytest.raises(HeatproofError, match=r"cannot see through the custom autograd\.Function OwnRelu; write it"):
        heatproof.explain(Two(act), some_inputs(), method, target=1)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_reentrant_checkpoints_are_named() -> None:
    model = Two(lambda x: checkpoint(torch.relu, x, use_reentrant=True))
    with pytest.raises(HeatproofError, match="reentrant checkpoints; give use_reentrant=False"):
        heatproof.explain(model, some_inputs(), "guided_backprop", target=1)


def test_a_users_hooks_change_nothing() -> None:
    """Reference: the same model without the hooks; also where only ReLUs behind convolutions count."""
    for relus in ("all", "convs"):
        model, inputs = Two(nn.ReLU()), some_inputs()
        model.conv.register_full_backward_hook(lambda *_: None)
        model.act.register_full_backward_hook(lambda *_: None)
        expected = heatproof.explain(Two(nn.ReLU()), inputs, "guided_backprop", target=1, relus=relus)
        assert torch.equal(heatproof.explain(model, inputs, "guided_backprop", target=1, relus=relus), expected)


def test_relus_over_tokens_alone_are_refused_where_only_convolutions_count() -> None:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.Tanh(), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))
    with pytest.raises(HeatproofError, match=r"finds no ReLU behind a convolution .*take relus=all"):
        heatproof.explain(model, torch.randn(2, 2, 8), "guided_backprop", target=1, relus="convs")
    assert heatproof.explain(model, torch.randn(2, 2, 8), "guided_backprop", target=1).any()


def test_guided_grad_cam_sees_the_same_rectifiers() -> None:
    """Reference: Grad-CAM times guided backprop, each by itself; on MobileNetV2 it was Grad-CAM times the gradient."""
    model, inputs = Two(nn.ReLU6()), some_inputs()
    parts = [heatproof.explain(model, inputs, name, target=1) for name in ("grad_cam", "guided_backprop")]
    found = heatproof.explain(model, inputs, "guided_grad_cam", target=1)
    assert found.any()
    torch.testing.assert_close(found, parts[0] * parts[1])


def test_exported_programs_have_their_rectifiers() -> None:
    """Reference: the module that the program was exported from, with a product in place of one ReLU."""

    class Net(Two):
        def forward(self, inputs: Tensor) -> Tensor:
            maps = self.conv(inputs)
            maps = maps * (maps > 0).float()
            return self.head(functional.relu6(9 * self.dense(maps.mean((2, 3)))))

    model, inputs = Net(nn.ReLU()).eval(), some_inputs()
    sizes = ({0: torch.export.Dim("cases")},)
    program = torch.export.export(model, (inputs,), dynamic_shapes=sizes).module()
    for method in METHODS:
        expected = heatproof.explain(model, inputs, method, target=1)
        torch.testing.assert_close(heatproof.explain(program, inputs, method, target=1), expected)


def test_nothing_is_left_on_the_graph() -> None:
    """The handles are gone: what the model gives afterwards has its plain gradient, also of a graph kept before."""
    model, inputs = Two(nn.ReLU()), some_inputs().requires_grad_()
    kept = model(inputs)[:, 1].sum()
    before = torch.autograd.grad(kept, inputs, retain_graph=True)[0]
    heatproof.explain(model, inputs.detach(), "guided_backprop", target=1)
    assert torch.equal(torch.autograd.grad(kept, inputs)[0], before)
    assert torch.equal(plain_gradient(model, inputs.detach(), 1), before)

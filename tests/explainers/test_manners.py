"""What a network does beside giving scores is seen once, and borne. Reference: plain autograd on copies."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.errors import HeatproofError
from heatproof.explainers import manners
from heatproof.explainers.manners import WORST

INPUTS = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
ASKING = ("gradient", "integrated_gradients", "guided_backprop", "grad_cam", "sise", "lrp", "deep_lift", "rise", "lime")


class Net(nn.Module):
    """A small network around a norm or something else."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3), inside, nn.ReLU(), nn.Flatten(), nn.Linear(216, 4))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs)


def mixing() -> nn.Module:
    return Net(nn.BatchNorm2d(6, track_running_stats=False)).eval()


@pytest.mark.parametrize("method", ASKING)
def test_a_batch_is_refused(method):
    with pytest.raises(HeatproofError, match=rf"{method}: the cases of a batch influence each other"):
        heatproof.explain(mixing(), INPUTS, method, target=1)


def test_one_case_is_explained_by_what_asks_about_it_alone():
    model, case = mixing(), INPUTS[:1].clone().requires_grad_()
    model(case)[0, 1].backward()
    found = heatproof.explain(model, INPUTS[:1], "gradient", target=1)
    torch.testing.assert_close(found, case.grad)
    for method in ("lrp", "grad_cam", "guided_backprop", "deep_lift"):
        assert heatproof.explain(model, INPUTS[:1], method, target=1).abs().sum() > 0
    with pytest.raises(HeatproofError, match="rise:masks=10: the cases of a batch influence each other"):
        heatproof.explain(model, INPUTS[:1], "rise:masks=10", target=1)


def test_floors_need_no_model():
    assert heatproof.explain(mixing(), INPUTS, "random", target=1).shape == (3, 1, 8, 8)


class Half(nn.Module):
    """Rounds to bfloat16, and so differs between batches by more than single precision does."""

    def forward(self, inputs: Tensor) -> Tensor:
        rows = torch.linspace(0, 1e-3, len(inputs)).flip(0)[:, None, None, None]
        return (inputs.bfloat16() * (1 + rows).bfloat16()).float() if len(inputs) > 1 else inputs.bfloat16().float()


@pytest.mark.parametrize(
    "inside", [nn.BatchNorm2d(6), nn.InstanceNorm2d(6), nn.GroupNorm(2, 6), Half()], ids=lambda m: type(m).__name__
)
def test_others_are_not_disturbed(inside):
    model = Net(inside).eval()
    together = heatproof.explain(model, INPUTS, "gradient", target=1)
    alone = heatproof.explain(model, INPUTS[1:2], "gradient", target=1)
    torch.testing.assert_close(together[1:2], alone, atol=1e-2, rtol=1e-2)


def test_nothing_of_the_check_is_left_behind():
    model = mixing()
    hooks = len(model._forward_pre_hooks)
    with pytest.raises(HeatproofError):
        heatproof.explain(model, INPUTS, "gradient", target=1)
    assert len(model._forward_pre_hooks) == hooks
    assert model(INPUTS).shape == (3, 4)


# What is seen of a network


class Counting(nn.Module):
    """Does to its inputs what it is told, and counts the hooks that it runs with."""

    def __init__(self, inside: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inside = inside or nn.Identity()
        self.head = nn.Linear(192, 4)
        self.shifts = self.functional_norm = False
        self.hooks = [0]

    def forward(self, inputs: Tensor) -> Tensor:
        self.hooks.append(len(self._forward_pre_hooks) + len(self._forward_hooks))
        if self.shifts:
            inputs = inputs.add_(1)
        if self.functional_norm:
            inputs = nn.functional.batch_norm(inputs, torch.zeros(3), torch.ones(3))
        return self.head(self.inside(inputs).flatten(1))


def hooks_of(model: Counting) -> int:
    """The hooks in a second explanation, when the network is known."""
    for _ in range(2):
        heatproof.explain(model.eval(), INPUTS[:1], "gradient", target=1)
    return model.hooks[-1]


def test_a_network_that_does_no_harm_is_left_alone():
    assert hooks_of(Counting()) == 0


def test_harm_is_borne():
    shifting, normed, by_function = Counting(), Counting(nn.BatchNorm2d(3)), Counting()
    shifting.shifts = by_function.functional_norm = True
    assert [hooks_of(model) for model in (shifting, normed, by_function)] == [1, 1, 1]


def test_what_is_written_past_autograd_is_seen():
    class Past(Counting):
        def forward(self, inputs: Tensor) -> Tensor:
            inputs.data.add_(1)
            return super().forward(inputs)

    inputs, model = INPUTS.clone(), Past()
    heatproof.explain(model.eval(), inputs, "gradient", target=1)
    assert model.hooks[-1] == 1
    assert torch.equal(inputs, INPUTS)


def test_a_network_with_other_layers_is_looked_at_again():
    """Reference: the same network, new."""
    model, other = Counting(), Counting(nn.BatchNorm2d(3, track_running_stats=False))
    assert hooks_of(model) == 0
    model.inside = nn.BatchNorm2d(3, track_running_stats=False)
    with pytest.raises(HeatproofError, match="the cases of a batch influence each other"):
        heatproof.explain(model.eval(), INPUTS, "gradient", target=1)
    one = [heatproof.explain(found.eval(), INPUTS[:1], "gradient", target=1) for found in (model, other)]
    torch.testing.assert_close(*one)


def test_a_hook_that_came_later_is_seen():
    """Reference: the same network asked for what the hook makes of the inputs."""
    model, inputs = Counting(), INPUTS.clone()
    before = heatproof.explain(model.eval(), inputs + 1, "gradient_x_input", target=1)
    model.inside.register_forward_pre_hook(lambda _layer, given: given[0].add_(1))
    found = heatproof.explain(model, inputs, "gradient_x_input", target=1)
    assert torch.equal(inputs, INPUTS)
    torch.testing.assert_close(found * (inputs + 1), before * inputs)


@pytest.mark.parametrize("method", ["gradient", "lrp"])
def test_who_writes_only_now_and_then_is_told(method):
    """It cannot be foreseen, but is never passed over; next time copies are handed out."""
    model, inputs = Counting().eval(), INPUTS.clone()
    heatproof.explain(model, inputs, method, target=1)
    model.shifts = True
    with pytest.raises(HeatproofError, match=r"in-place operation|changes the tensors that it is given"):
        heatproof.explain(model, INPUTS.clone(), method, target=1)
    heatproof.explain(model, inputs, method, target=1)
    assert torch.equal(inputs, INPUTS)


def test_methods_within_methods_do_not_make_it_look_again(monkeypatch):
    looks = []
    monkeypatch.setattr(manners, "look", lambda *given: looks.append(1) or WORST)
    model = Counting(nn.BatchNorm2d(3)).eval()
    for _ in range(2):
        heatproof.explain(model, INPUTS[:2], "other_question:gradient", target=1)
    assert len(looks) == 1

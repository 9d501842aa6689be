"""Cases that influence each other have no maps of their own. Reference: plain autograd on the case alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.errors import HeatproofError

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

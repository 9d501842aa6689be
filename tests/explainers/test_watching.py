"""Watching torch functions changes neither values nor gradients. Reference: plain autograd, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from heatproof.explainers.watching import Call, Watching, opened, running_layer


class Noted(Watching):
    """Notes the names of all functions and leaves them as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def replaces(self, name: str) -> bool:
        return name != "__setitem__"

    def watch(self, call: Call) -> object:
        self.names.append(call.name)
        return call.value()


def statement(x: Tensor) -> Tensor:
    functional.relu_(x[:, :2])
    return x


def added(x: Tensor) -> Tensor:
    y = 2 * x
    x += y
    return x * y


def filled(x: Tensor) -> Tensor:
    empty = torch.zeros(3, 4)
    empty.add_(x)
    empty[:, 0] = 0
    return empty


def branch(x: Tensor) -> Tensor:
    return x + functional.relu(x, True)


CASES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "statement on a view": (statement, "relu"),
    "operator": (added, "add"),
    "into a constant": (filled, "add"),
    "read again": (branch, "relu"),
    "positional": (lambda x: functional.leaky_relu(x, 0.2, True), "leaky_relu"),
    "module": (nn.ReLU6(inplace=True), "hardtanh"),
    "underscored": (nn.Threshold(0.1, 0.0, inplace=True), "threshold"),
    "by keyword": (lambda x: torch.relu(input=x), "relu"),
    "reversed": (lambda x: 1 - x, "rsub"),
    "alias": (lambda x: torch.multiply(x, 2).clip(min=0), "clamp"),
}


@pytest.mark.parametrize("case", CASES)
def test_functions_keep_their_meaning(case: str) -> None:
    function, name = CASES[case]
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    expected = function(x.clone())
    with Noted() as noted:
        found = function(x.clone())
    weights = torch.arange(12.0).view(3, 4)
    assert torch.equal(found, expected)
    assert torch.equal(*[torch.autograd.grad((y * weights).sum(), x)[0] for y in (found, expected)])
    assert name in noted.names


def test_constants_are_not_watched() -> None:
    with Noted() as noted:
        torch.ones(3).relu_()
    assert not noted.names


def test_the_layer_that_runs() -> None:
    found: list[str] = []

    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            found.append(running_layer(model))
            return x

    model = nn.Sequential(nn.Identity(), nn.Sequential(Inner()))
    model(torch.ones(1))
    assert found == ["1.0"]
    assert running_layer(model) == ""


def test_functions_in_python_can_be_opened() -> None:
    """What they call is seen then; their values are their own. Reference: the function itself."""
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    inside = opened(functional.normalize)
    assert inside is not None
    with Noted() as noted:
        found = inside(x, dim=1)
    assert torch.equal(found, functional.normalize(x, dim=1))
    assert noted.names == ["norm", "clamp_min", "expand_as", "div"]
    assert opened(torch.relu) is None
    assert opened(len) is None

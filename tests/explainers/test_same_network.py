"""A method that computes another network is found out. Reference: modes that change one known function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.errors import HeatproofError
from heatproof.explainers.same_network import require_same_network
from heatproof.explainers.watching import Call, Watching


class Changed(Watching):
    """Adds a little to what each tanh gives."""

    def __init__(self, little: float) -> None:
        super().__init__()
        self.little = little

    def replaces(self, name: str) -> bool:
        return False

    def watch(self, call: Call) -> object:
        value = call.value()
        return value + self.little if call.name == "tanh" else value


class Random(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.dropout(inputs.relu(), 0.5)


def checked(model: nn.Module, little: float) -> Callable[[], None]:
    inputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)

    def run() -> Tensor:
        outputs: Tensor = model(inputs)
        return outputs

    def check() -> None:
        with Changed(little):
            outputs = run()
        require_same_network(model, "method", outputs, run, lambda: Changed(little))

    return check


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Linear(4, 2)).double()


def test_the_first_function_that_differs_is_named() -> None:
    with pytest.raises(HeatproofError, match=r"part from the model's own in the function 'tanh' of layer '1\.1'"):
        checked(network(), 1e-3)()


def test_rounding_is_no_difference() -> None:
    checked(network(), 1e-13)()


def test_a_network_is_looked_at_once() -> None:
    """Counted by a hook."""
    model, runs = network(), []
    model.register_forward_hook(lambda *_: runs.append(1))
    check = checked(model, 0.0)
    check()
    check()
    assert len(runs) == 3


def test_models_that_draw_at_random_are_said_to() -> None:
    with pytest.raises(HeatproofError, match=r"other outputs each time .* \(first in the function 'dropout'\)"):
        checked(Random(), 0.0)()


@pytest.mark.parametrize(("name", "passes"), [("lrp", 2.0), ("deep_lift", 3.0)])
def test_the_look_does_not_count_as_a_pass(name: str, passes: float, tmp_path: Path) -> None:
    """It is made once per network, so that what is counted would depend on who explained which cases."""
    found = heatproof.run("svea", explainers=name, limit=20, target="logit", out=tmp_path / "r")
    counted = found.leaderboard().filter(explainer=name)["passes_per_case"].unique().to_list()
    assert counted == [passes]

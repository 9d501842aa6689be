"""Corners where explainers and metrics once went wrong, or easily could."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.explainers.baselines import Centre
from heatproof.explainers.gradients import IntegratedGradients
from heatproof.metrics.localisation import mass_accuracy, pointing_game, rank_accuracy
from heatproof.metrics.understandability import window_starts
from heatproof.seeds import CaseRandom

RNG = CaseRandom(0, "test")


class Small(nn.Module):
    """A 1-D network that flattens with view(len, -1), as many do."""

    def __init__(self, inplace: bool = False, sleeping: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 3, 3, padding=1)
        self.relu = nn.ReLU(inplace)
        self.linear = nn.Linear(60, 4)
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)
        if sleeping:
            nn.init.zeros_(self.linear.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.relu(self.conv(inputs))
        return self.linear(maps.view(len(maps), -1))


class Asked(Small):
    """The same with a question, embedded after the convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)

    def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
        return super().forward(inputs) + self.words(question).mean(1)


def batch(**more: object) -> Batch:
    inputs = torch.randn(2, 1, 20, generator=torch.Generator().manual_seed(1))
    return Batch(inputs, torch.tensor([0, 1]), ("a", "b"), **more)


@pytest.mark.parametrize("score", [rank_accuracy, pointing_game])
def test_ratios_of_counts_are_float64(score) -> None:
    heatmap, mask = torch.ones(1, 3), torch.tensor([[True, False, False]])
    assert score(heatmap, mask).dtype == torch.float64
    assert score(heatmap, mask).item() == 1 / 3


@pytest.mark.parametrize("steps", [3, 50])
def test_integrated_gradients_of_a_linear_model_are_exact(steps: int) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 4)).double()
    cases = batch().to(dtype=torch.float64)
    expected = model[1].weight.detach()[cases.target].unsqueeze(1) * cases.inputs
    torch.testing.assert_close(IntegratedGradients(steps=steps)(model, cases, RNG), expected, rtol=1e-10, atol=1e-12)


def test_centre_in_float64() -> None:
    cases = Batch(torch.zeros(1, 1, 40, dtype=torch.float64), torch.tensor([0]), ("a",))
    expected = [math.exp(-(((i - 20) / 10) ** 2) / 2) for i in range(40)]
    np.testing.assert_allclose(Centre()(Small(), cases, RNG)[0, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("name", [n for n, cls in explainers.items() if cls.family != "attention" and n != "oracle"])
def test_works_where_gradients_are_off(name: str) -> None:
    expected = explainers[name]()(Small(), batch(), RNG)
    with torch.no_grad():
        assert torch.equal(explainers[name]()(Small(), batch(), RNG), expected)


def test_sise_without_any_positive_map_is_zero() -> None:
    relevance = explainers["sise"]()(Small(sleeping=True), batch(), RNG)
    assert not relevance.any()


@pytest.mark.parametrize("name", ["grad_cam", "grad_cam_pp", "xgrad_cam", "score_cam", "sise"])
def test_embedded_words_are_no_feature_maps(name: str) -> None:
    cases = batch(context=(torch.tensor([[1, 2, 3], [4, 5, 6]]),))
    model = Asked()
    expected = explainers[name](layer="relu")(model, cases, RNG)
    assert torch.equal(explainers[name]()(model, cases, RNG), expected)


@pytest.mark.parametrize("name", ["grad_cam", "score_cam"])
def test_layer_before_an_in_place_relu(name: str) -> None:
    expected = explainers[name](layer="conv")(Small(inplace=False), batch(), RNG)
    torch.testing.assert_close(explainers[name](layer="conv")(Small(inplace=True), batch(), RNG), expected)


def test_counts_are_whole() -> None:
    with pytest.raises(HeatproofError):
        explainers["smoothgrad"](samples=2.5)


def test_unknown_window_rule_is_refused() -> None:
    with pytest.raises(HeatproofError):
        window_starts(torch.eye(40), rule="cliped")


def test_heatmap_without_space_is_refused() -> None:
    with pytest.raises(HeatproofError):
        mass_accuracy(torch.ones(3), torch.tensor([True, False, True]))

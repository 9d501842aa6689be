"""DeepLIFT against Captum and against its own axiom."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import DeepLift as CaptumDeepLift
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.explainers.base import QUANTITIES, Quantity
from heatproof.explainers.deep_lift import DeepLift
from heatproof.seeds import CaseRandom
from reference.explainers import Net

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("baseline", ["zero", "0.3"])
@pytest.mark.parametrize("name", ["signal", "strided_signal", "picture", "volume", "question"])
def test_deep_lift_equals_captum(nets: dict[str, Net], name: str, baseline: str) -> None:
    """Reference: Captum's DeepLift, on networks whose activations are modules used once, of kinds that it knows."""
    net = nets[name]
    expected = CaptumDeepLift(net.model).attribute(
        net.batch.inputs.clone(),
        baselines=torch.full_like(net.batch.inputs, 0.0 if baseline == "zero" else float(baseline)),
        target=net.batch.target,
        additional_forward_args=net.batch.context or None,
    )
    found = DeepLift(baseline=baseline)(net.model, net.batch, RNG)
    torch.testing.assert_close(found, expected.detach(), **CLOSE)


def literal_pooling(x: np.ndarray, b: np.ndarray, signal: np.ndarray, length: int, stride: int) -> np.ndarray:
    """What each position of a signal is due of the differences of its maxima, over its own difference."""
    due = np.zeros_like(x)
    for window, start in enumerate(range(0, len(x) - length + 1, stride)):
        places = range(start, start + length)
        top, base = max(places, key=lambda i: x[i]), max(places, key=lambda i: b[i])
        greater = max(x[top], b[base])
        due[top] += signal[window] * (greater - b[base])
        due[base] += signal[window] * (x[top] - greater)
    return np.array([d / (p - q) if p != q else 0.0 for d, p, q in zip(due, x, b, strict=True)])


@pytest.mark.parametrize(("length", "stride"), [(2, 2), (3, 2)])
def test_pooling_behind_a_relu_equals_the_loop(length: int, stride: int) -> None:
    """Reference: multipliers position by position. (Captum's do not add up to S(x) - S(b) for a ReLU and a pooling.)"""
    torch.manual_seed(0)
    windows = (13 - length) // stride + 1
    model = nn.Sequential(nn.ReLU(), nn.MaxPool1d(length, stride), nn.Flatten(), nn.Linear(windows, 3)).double()
    inputs = torch.randn(1, 1, 13, dtype=torch.float64)
    found = DeepLift(baseline="0.4")(model, Batch(inputs, torch.tensor([2]), ("a",)), RNG)
    x, b = inputs[0, 0].numpy(), np.full(13, 0.4)
    behind = np.maximum(x, 0), np.maximum(b, 0)
    weights = model[3].weight[2].detach().numpy()
    multipliers = literal_pooling(*behind, weights, length, stride) * (behind[0] - behind[1]) / (x - b)
    np.testing.assert_allclose(found[0, 0], multipliers * (x - b), **CLOSE)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_relevance_adds_up(nets: dict[str, Net], quantity: Quantity) -> None:
    """Axiom: the sum is S(x) - S(b), also with functional and reused ReLUs; a transformer's products break it."""
    for name in ("signal", "picture", "volume", "functional"):
        net = nets[name]
        relevance = DeepLift(quantity=quantity)(net.model, net.batch, RNG)
        for case in range(len(net.batch)):
            inputs = net.inputs(case)
            expected = net.score(case, inputs, quantity) - net.score(case, np.zeros_like(inputs), quantity)
            assert relevance[case].sum().item() == pytest.approx(expected, rel=1e-8, abs=1e-9)


class Overlapping(nn.Module):
    """Max-pooling over windows that overlap, as in AlexNet, once as a module and once as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.dense = nn.Conv2d(2, 4, 3), nn.Linear(16, 3)
        self.pool = nn.MaxPool2d(3, stride=2)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.pool(torch.tanh(self.conv(inputs)))
        maps = nn.functional.max_pool2d(maps, kernel_size=3, stride=2, padding=1)
        return self.dense(maps[:, :, :2, :2].flatten(1).relu_())


def test_overlapping_windows_add_up() -> None:
    """Axiom: the sum is S(x) - S(b) where windows overlap too."""
    torch.manual_seed(0)
    model = Overlapping().double()
    inputs = torch.randn(5, 2, 15, 15, dtype=torch.float64)
    batch = Batch(inputs, torch.tensor([0, 1, 2, 1, 0]), tuple("abcde"))
    with torch.no_grad():
        difference = (model(inputs) - model(torch.zeros_like(inputs))).gather(1, batch.target[:, None])[:, 0]
    torch.testing.assert_close(DeepLift()(model, batch, RNG).flatten(1).sum(1), difference, **CLOSE)

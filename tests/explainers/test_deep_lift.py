"""DeepLIFT against Captum and against its own axiom."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from captum.attr import DeepLift as CaptumDeepLift
from torch import Tensor, nn
from torch.nn import functional as F

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


def literal_product(x: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    """y = sum of w_ij x_i x_j, pair by pair: x_i gets w_ij (x_i - b_i) (x_j + b_j) / 2, and x_j likewise."""
    due = torch.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            due[i] += weight[i, j] * (x[i] - b[i]) * (x[j] + b[j]) / 2
            due[j] += weight[i, j] * (x[j] - b[j]) * (x[i] + b[i]) / 2
    return due


def test_products_have_the_two_point_rule() -> None:
    """Reference: the rule pair by pair."""

    class Products(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            flat = inputs.flatten(1)
            return torch.stack([torch.einsum("bi,ij,bj->b", flat, weight, flat), (flat @ weight * flat).sum(1)], 1)

    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    inputs = torch.randn(1, 1, 5, generator=generator, dtype=torch.float64)
    expected = literal_product(inputs[0, 0], torch.full((5,), 0.3, dtype=torch.float64), weight)
    for target in (0, 1):
        found = DeepLift(baseline="0.3")(Products(), Batch(inputs, torch.tensor([target]), ("a",)), RNG)
        torch.testing.assert_close(found[0, 0], expected, **CLOSE)


@pytest.mark.parametrize("norm", [lambda x: F.rms_norm(x, (6,), eps=1e-2), lambda x: F.normalize(x, eps=1e-30)])
def test_norms_near_zero_equal_the_integral(norm: Callable[[Tensor], Tensor]) -> None:
    """Reference: the mean gradient on the straight way, many steps, on a way that leads away from zero."""

    class Normed(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return norm(inputs.flatten(1)) @ torch.arange(1, 7, dtype=torch.float64)[:, None].cos()

    inputs = torch.randn(1, 6, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    start = 1e-4 * inputs
    steps = torch.linspace(0, 1, 40001, dtype=torch.float64)[:, None, None] ** 2  # most of them near the start
    points = (start + (inputs - start) * steps).requires_grad_()
    gradients = torch.autograd.grad(Normed()(points).sum(), points)[0]
    expected = ((gradients[1:] + gradients[:-1]) / 2 * points.detach().diff(dim=0)).sum(0)
    baseline = "/".join(repr(value) for value in start.flatten().tolist())
    found = DeepLift(baseline=baseline)(Normed(), Batch(inputs, torch.tensor([1]), ("a",)), RNG)  # the output itself
    torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_relevance_adds_up(nets: dict[str, Net], quantity: Quantity) -> None:
    """Axiom: the sum is S(x) - S(b), also with functional and reused ReLUs, and in a transformer."""
    for name in ("signal", "picture", "volume", "functional", "transformer"):
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

"""Gradient methods against Captum, and against derivatives written out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, Saliency
from captum.attr import IntegratedGradients as CaptumIntegratedGradients
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.explainers.base import QUANTITIES, Quantity
from heatproof.explainers.gradients import Gradient, GradientXInput, IntegratedGradients, SmoothGrad
from heatproof.seeds import CaseRandom
from reference import explainers as reference
from reference.explainers import Net

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
quantities = pytest.mark.parametrize("quantity", QUANTITIES)
pytestmark = pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already require gradients")


def scored(model: nn.Module, quantity: str) -> Callable[..., Tensor]:
    """The model's outputs turned into the explained quantity of every class."""
    turn = {"logit": lambda z: z, "probability": lambda z: z.softmax(1), "log_probability": lambda z: z.log_softmax(1)}
    return lambda *args: turn[quantity](model(*args))


def further(net: Net) -> dict[str, object]:
    """What Captum's attribute() takes besides the inputs."""
    return {"target": net.batch.target, "additional_forward_args": net.batch.context or None}


@quantities
def test_gradient_equals_captum(net: Net, quantity: Quantity) -> None:
    """Reference: Captum's Saliency(abs=False)."""
    expected = Saliency(scored(net.model, quantity)).attribute(net.batch.inputs.clone(), abs=False, **further(net))
    torch.testing.assert_close(Gradient(quantity=quantity)(net.model, net.batch, RNG), expected, **CLOSE)


@quantities
def test_gradient_equals_the_derivative_of_the_softmax(net: Net, quantity: Quantity) -> None:
    """Reference: the Jacobian of the logits, and the softmax derivative written out."""
    relevance = Gradient(quantity=quantity)(net.model, net.batch, RNG)
    for case in range(3):
        expected = net.input_gradient(case, net.inputs(case), quantity)
        np.testing.assert_allclose(relevance[case], expected, **CLOSE)


@quantities
def test_gradient_x_input_equals_captum(net: Net, quantity: Quantity) -> None:
    """Reference: Captum's InputXGradient."""
    expected = InputXGradient(scored(net.model, quantity)).attribute(net.batch.inputs.clone(), **further(net))
    torch.testing.assert_close(GradientXInput(quantity=quantity)(net.model, net.batch, RNG), expected.detach(), **CLOSE)


@quantities
def test_integrated_gradients_equal_captum(net: Net, quantity: Quantity) -> None:
    """Reference: Captum's riemann_trapezoid of n = steps + 1 points, times n / (n - 1).

    Captum's weights add up to (n - 1) / n, and are single precision: hence the tolerance.
    """
    steps = 16
    captum = CaptumIntegratedGradients(scored(net.model, quantity), multiply_by_inputs=True)
    expected = captum.attribute(net.batch.inputs.clone(), n_steps=steps + 1, method="riemann_trapezoid", **further(net))
    relevance = IntegratedGradients(steps=steps, quantity=quantity)(net.model, net.batch, RNG)
    torch.testing.assert_close(relevance, expected * (steps + 1) / steps, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_integrated_gradients_equal_the_loop(net: Net, steps: int) -> None:
    """Reference: the trapezoid sum, point by point, of derivatives written out."""
    relevance = IntegratedGradients(steps=steps, quantity="probability")(net.model, net.batch, RNG)
    for case in range(2):
        expected = reference.integrated_gradients(net, case, steps, "probability")
        np.testing.assert_allclose(relevance[case], expected, **CLOSE)


class Quadratic(nn.Module):
    """Logit k is sum_i w_ki x_i^2 + v_ki x_i; its gradient is linear, so the trapezoid rule is exact."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.w = nn.Parameter(torch.randn(3, 12, generator=generator, dtype=torch.float64))
        self.v = nn.Parameter(torch.randn(3, 12, generator=generator, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        return flat.square() @ self.w.T + flat @ self.v.T


@pytest.mark.parametrize("steps", [1, 4, 64])
def test_integrated_gradients_of_a_quadratic_are_known(steps: int) -> None:
    """Reference: the integral solved by hand: w x^2 + v x, whatever the number of steps."""
    model = Quadratic()
    inputs = torch.randn(4, 2, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    batch = Batch(inputs, torch.tensor([0, 1, 2, 0]), ("a", "b", "c", "d"))
    w, v = (p.detach()[batch.target].view(4, 2, 6) for p in (model.w, model.v))
    relevance = IntegratedGradients(steps=steps)(model, batch, RNG)
    torch.testing.assert_close(relevance, w * inputs**2 + v * inputs, **CLOSE)


@quantities
def test_integrated_gradients_are_complete(net: Net, quantity: Quantity) -> None:
    """Completeness: with many steps the relevance adds up to S(x) - S(0), but for the kinks of the ReLUs."""
    for case in range(2):
        inputs = net.inputs(case)
        expected = net.score(case, inputs, quantity) - net.score(case, np.zeros_like(inputs), quantity)
        relevance = IntegratedGradients(steps=1024, quantity=quantity)(net.model, net.batch[case : case + 1], RNG)
        assert abs(relevance.sum().item() - expected) < 4e-4 * relevance.abs().sum().item()


@quantities
def test_smoothgrad_equals_captum_on_each_noisy_copy(net: Net, quantity: Quantity) -> None:
    """Reference: Captum's Saliency(abs=False) on every noisy copy, averaged in a loop."""
    explainer = SmoothGrad(samples=4, sigma=0.2, quantity=quantity)
    noise = explainer.noise(net.batch, RNG)
    captum = Saliency(scored(net.model, quantity))
    expected = torch.zeros_like(net.batch.inputs)
    for sample in range(4):
        noisy = (net.batch.inputs + noise[:, sample]).clone()
        expected += captum.attribute(noisy, abs=False, **further(net)) / 4
    torch.testing.assert_close(explainer(net.model, net.batch, RNG), expected, **CLOSE)


def test_smoothgrad_noise_is_scaled_by_each_case_own_range(net: Net) -> None:
    """Reference: the case's own normal numbers times sigma times (max - min) of that case, in a loop."""
    noise = SmoothGrad(samples=3, sigma=0.2).noise(net.batch, RNG)
    assert noise.shape == (len(net.batch), 3, *net.batch.inputs.shape[1:])
    for case, name in enumerate(net.batch.ids):
        inputs = net.inputs(case)
        normal = torch.randn(3, *inputs.shape, generator=RNG.generator(name)).double().numpy()
        np.testing.assert_allclose(noise[case], normal * (0.2 * (inputs.max() - inputs.min())), rtol=1e-12)


def test_smoothgrad_noise_is_normal() -> None:
    """Over many draws the noise has mean 0 and standard deviation sigma * (max - min), within four standard errors."""
    inputs = torch.linspace(-1, 3, 10, dtype=torch.float64).view(1, 1, 10)
    noise = SmoothGrad(samples=4000, sigma=0.1).noise(Batch(inputs, torch.tensor([0]), ("a",)), RNG)
    count, deviation = noise.numel(), 0.1 * 4
    assert abs(noise.mean().item()) < 4 * deviation / count**0.5
    assert abs(noise.std().item() - deviation) < 4 * deviation / (2 * count) ** 0.5

"""Gradient methods against Captum, and against derivatives written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import Deconvolution, InputXGradient, Saliency
from captum.attr import GuidedBackprop as CaptumGuidedBackprop
from captum.attr import IntegratedGradients as CaptumIntegratedGradients
from scipy.ndimage import uniform_filter1d
from torch import Tensor, nn
from torch.nn import functional

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.exact import normal
from heatproof.explainers.base import QUANTITIES, Quantity
from heatproof.explainers.gradients import (
    Deconvnet,
    Gradient,
    GradientXInput,
    GuidedBackprop,
    IntegratedGradients,
    SmoothGrad,
    VarGrad,
)
from heatproof.explainers.spec import make_explainer
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


def literal_noise(net: Net, samples: int, sigma: float) -> Tensor:
    """The case's own normal numbers times sigma times (max - min) of that case, in a loop: (B, samples, C, *space)."""
    noise = []
    for case, name in enumerate(net.batch.ids):
        inputs = net.inputs(case)
        numbers = normal((samples, *inputs.shape), RNG.generator(name)).double()
        noise.append(numbers * (sigma * (inputs.max() - inputs.min())))
    return torch.stack(noise)


@quantities
def test_smoothgrad_equals_captum_on_each_noisy_copy(net: Net, quantity: Quantity) -> None:
    """Reference: Captum's Saliency(abs=False) on every noisy copy, averaged in a loop."""
    explainer = SmoothGrad(samples=4, sigma=0.2, quantity=quantity)
    noise = literal_noise(net, 4, 0.2)
    captum = Saliency(scored(net.model, quantity))
    expected = torch.zeros_like(net.batch.inputs)
    for sample in range(4):
        noisy = (net.batch.inputs + noise[:, sample]).clone()
        expected += captum.attribute(noisy, abs=False, **further(net)) / 4
    torch.testing.assert_close(explainer(net.model, net.batch, RNG), expected, **CLOSE)


def test_noise_does_not_depend_on_how_it_is_asked_for() -> None:
    """Groups are made whole: the same numbers in one block, and in uneven ones that cut groups and cases."""
    explainer = SmoothGrad(samples=5)
    inputs = torch.zeros(3, 1, 2**17)  # two samples fill a group
    batch = Batch(inputs, torch.zeros(3, dtype=torch.long), ("a", "b", "c"))
    rows = torch.arange(15) // 5
    whole = explainer.noise(batch, RNG).rows(rows)
    draws = explainer.noise(batch, RNG)
    parts = torch.cat([draws.rows(rows[a:b]) for a, b in ((0, 1), (1, 7), (7, 8), (8, 15))])
    assert torch.equal(whole, parts)
    assert abs(whole.mean().item()) < 4 / whole.numel() ** 0.5
    assert abs(whole.std().item() - 1) < 4 / (2 * whole.numel()) ** 0.5
    assert len({row.sum().item() for row in whole}) == 15


def test_vargrad_equals_the_variance_over_noisy_copies(net: Net) -> None:
    """Reference: NumPy's variance of Captum's Saliency over the same noisy copies."""
    explainer = VarGrad(samples=6, rows=4)
    noise = literal_noise(net, 6, 0.1)
    saliency = Saliency(net.model)
    copies = [saliency.attribute(net.batch.inputs + noise[:, sample], abs=False, **further(net)) for sample in range(6)]
    expected = np.var(torch.stack(copies).numpy(), axis=0)
    np.testing.assert_allclose(explainer(net.model, net.batch, RNG), expected, rtol=1e-7, atol=1e-14)


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")
@pytest.mark.parametrize(
    ("explainer", "captum"), [(GuidedBackprop(), CaptumGuidedBackprop), (Deconvnet(), Deconvolution)]
)
def test_relu_methods_equal_captum(module_net: Net, explainer: Gradient, captum: type) -> None:
    """Reference: Captum's GuidedBackprop and Deconvolution, on networks whose ReLUs are modules used once."""
    net = module_net
    expected = captum(net.model).attribute(net.batch.inputs.clone(), **further(net)).detach()
    torch.testing.assert_close(explainer(net.model, net.batch, RNG), expected, **CLOSE)


class OneRelu(nn.Module):
    """Functions, a reused ReLU module, in place: what Captum's hooks cannot see."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, stride=2), nn.Conv2d(4, 5, 3)
        self.third, self.fourth = nn.Linear(5, 6), nn.Linear(6, 4)
        self.relu = nn.ReLU(inplace=True)
        self.relu2, self.relu3 = nn.ReLU(), nn.ReLU()

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.relu(functional.conv2d(inputs, self.first.weight, self.first.bias, stride=2))
        maps = self.relu(self.second(maps)).mean((2, 3))
        return self.fourth(functional.relu(self.third(maps)))


class ThreeRelus(OneRelu):
    """The same with a module for each."""

    def forward(self, inputs: Tensor) -> Tensor:
        self.relu.inplace = False
        maps = self.relu2(self.second(self.relu(self.first(inputs)))).mean((2, 3))
        return self.fourth(self.relu3(self.third(maps)))


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")
@pytest.mark.parametrize(
    ("explainer", "captum"), [(GuidedBackprop(), CaptumGuidedBackprop), (Deconvnet(), Deconvolution)]
)
def test_relu_methods_see_every_relu(explainer: Gradient, captum: type) -> None:
    """Reference: Captum on the same network written with one module per ReLU."""
    torch.manual_seed(0)
    one, three = OneRelu().double().eval(), ThreeRelus().double().eval()
    three.load_state_dict(one.state_dict())
    inputs = torch.randn(3, 3, 11, 11, dtype=torch.float64)
    batch = Batch(inputs, torch.tensor([0, 1, 3]), ("a", "b", "c"))
    expected = captum(three).attribute(inputs.clone(), target=batch.target).detach()
    torch.testing.assert_close(explainer(one, batch, RNG), expected, **CLOSE)


class OverCells(nn.Module):
    """Convolution, a small network over cells (B, cells, features), a head on vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.cell, self.head = nn.Conv2d(1, 4, 3, stride=3), nn.Linear(4, 6), nn.Linear(6, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        cells = functional.relu(self.conv(inputs)).flatten(2).transpose(1, 2)
        return self.last(functional.relu(self.head(functional.relu(self.cell(cells)).sum(1))))


@pytest.mark.parametrize("explainer", [GuidedBackprop(relus="convs"), Deconvnet(relus="convs")])
def test_relus_over_cells_can_stay_ordinary(explainer: GuidedBackprop | Deconvnet) -> None:
    """Reference: the chain rule by hand, ReLU by ReLU; the one over cells is a plain derivative."""
    torch.manual_seed(0)
    model = OverCells().double()
    batch = Batch(torch.randn(2, 1, 9, 9, dtype=torch.float64), torch.tensor([2, 0]), ("a", "b"))
    with torch.no_grad():
        conv = model.conv(batch.inputs)
        cells = conv.clamp(min=0).flatten(2).transpose(1, 2)
        cell = model.cell(cells)
        head = model.head(cell.clamp(min=0).sum(1))

        def through(relu_input: Tensor, signal: Tensor) -> Tensor:
            signal = signal.clamp(min=0)
            return signal * (relu_input > 0) if explainer.guided else signal

        signal = through(head, model.last.weight[batch.target]) @ model.head.weight
        signal = (signal[:, None] * (cell > 0)) @ model.cell.weight
        signal = through(conv, signal.transpose(1, 2).reshape(conv.shape))
        expected = functional.conv_transpose2d(signal, model.conv.weight, stride=3)
    torch.testing.assert_close(explainer(model, batch, RNG), expected, **CLOSE)


def test_guided_backprop_is_right_behind_batch_norm_for_one_case() -> None:
    """Reference: the chain rule with batch norm as the affine map that it is, for a batch of one."""
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)
    norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    model = nn.Sequential(conv, norm, nn.ReLU(), nn.Flatten(), nn.Linear(75, 4)).double().eval()
    batch = Batch(torch.randn(1, 2, 5, 5, dtype=torch.float64), torch.tensor([1]), ("a",))
    with torch.no_grad():
        active = norm(conv(batch.inputs)) > 0
        signal = model[4].weight[1].view(1, 3, 5, 5).clamp(min=0) * active
        signal = signal * (norm.weight / (norm.running_var + norm.eps).sqrt())[:, None, None]
        expected = functional.conv_transpose2d(signal, conv.weight, padding=1)
    torch.testing.assert_close(GuidedBackprop()(model, batch, RNG), expected, **CLOSE)


@pytest.mark.parametrize("baseline", ["zero", "black", "minimum", "mean", "blurred", "0.3"])
def test_integrated_gradients_with_gauss_legendre_and_baselines_equal_captum(net: Net, baseline: str) -> None:
    """Reference: Captum's Gauss-Legendre rule (its weights are float32) from baselines computed in NumPy loops."""
    batch = replace(net.batch, black=tuple(-2 + 0.1 * channel for channel in range(net.batch.inputs.shape[1])))
    inputs = batch.inputs.numpy()
    expected_baseline = np.zeros_like(inputs)
    for case, channel in np.ndindex(*inputs.shape[:2]):
        signal = inputs[case, channel]
        if baseline == "black":
            expected_baseline[case, channel] = -2 + 0.1 * channel
        elif baseline == "minimum":
            expected_baseline[case, channel] = inputs[case].min()
        elif baseline == "mean":
            expected_baseline[case, channel] = signal.mean()
        elif baseline == "blurred":
            for axis, extent in enumerate(signal.shape):
                signal = uniform_filter1d(signal, 2 * (extent // 8) + 1, axis=axis, mode="nearest")
            expected_baseline[case, channel] = signal
        elif baseline == "0.3":
            expected_baseline[case, channel] = 0.3
    expected = CaptumIntegratedGradients(net.model).attribute(
        net.batch.inputs.clone(),
        baselines=torch.as_tensor(expected_baseline),
        n_steps=7,
        method="gausslegendre",
        **further(net),
    )
    explainer = IntegratedGradients(steps=7, rule="gauss_legendre", baseline=baseline)
    torch.testing.assert_close(explainer(net.model, batch, RNG), expected.detach(), rtol=1e-5, atol=1e-7)


def test_a_tolerance_makes_the_relevance_add_up(net: Net) -> None:
    """Reference: the completeness axiom, with the model's own scores; one case alone gives the same."""
    rough = IntegratedGradients(steps=2)
    careful = IntegratedGradients(steps=8, tolerance=0.02)
    baseline = torch.zeros_like(net.batch.inputs)
    before = rough.completeness_error(net.model, net.batch, baseline, rough(net.model, net.batch, RNG))
    relevance = careful(net.model, net.batch, RNG)
    after = careful.completeness_error(net.model, net.batch, baseline, relevance)
    assert (after <= 0.02).all()
    assert (before > 0.02).any()
    torch.testing.assert_close(careful(net.model, net.batch[2:3], RNG), relevance[2:3], **CLOSE)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"baseline": "zeros"}, "Did you mean 'zero'"),
        ({"rule": "simpson"}, "unknown integrated_gradients rule"),
        ({"tolerance": 0.0}, "tolerance must be above zero"),
    ],
)
def test_integrated_gradients_says_what_it_cannot_do(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(HeatproofError, match=words):
        IntegratedGradients(**parameters)


@pytest.mark.parametrize("method", ["integrated_gradients", "deep_lift", "occlusion:window=2"])
def test_black_is_not_guessed(picture_net: Net, method: str) -> None:
    """Inputs may lie between 0 and 1 without being pictures, so nothing is concluded from them."""
    name, _, more = method.partition(":")
    explainer = make_explainer(f"{name}:baseline=black" + f",{more}" * bool(more))
    batch = replace(picture_net.batch, inputs=picture_net.batch.inputs.sigmoid())
    with pytest.raises(HeatproofError, match=rf"{name}: baseline=black .* Give its value, baseline=0 .*minimum"):
        explainer(picture_net.model, batch, RNG)
    zero = replace(explainer, baseline="zero")(picture_net.model, batch, RNG)
    known = explainer(picture_net.model, replace(batch, black=(0.0, 0.0, 0.0)), RNG)
    torch.testing.assert_close(known, zero, rtol=0, atol=0)


def test_black_has_a_value_per_channel(picture_net: Net) -> None:
    with pytest.raises(HeatproofError, match="black has 1 values for 3 channels"):
        replace(picture_net.batch, black=(0.0,))


def test_a_baseline_of_the_wrong_length_is_refused(picture_net: Net) -> None:
    with pytest.raises(HeatproofError, match="2 numbers for 3 channels"):
        IntegratedGradients(baseline="0.1/0.2")(picture_net.model, picture_net.batch, RNG)

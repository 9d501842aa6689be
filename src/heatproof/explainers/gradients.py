"""Methods that read the model's gradient.

Captum has them too; ours draw noise by case, bound their memory, take context inputs and any explained quantity,
and need no further dependency. The tests hold them equal to Captum's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from heatproof.cases import Batch
from heatproof.explainers.base import (
    SampledExplainer,
    ScoreExplainer,
    register_explainer,
    require_one_of,
    require_positive,
)
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@register_explainer("gradient")
@dataclass(frozen=True, kw_only=True)
class Gradient(ScoreExplainer):
    """The gradient of the score, signed: d S / d x."""

    family = "gradient"
    paper = "Simonyan et al. 2014"
    cost = "2"

    def passes(self, channels: int) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return self.gradient(model, batch.inputs, batch.context, batch.target)


@register_explainer("gradient_x_input")
@dataclass(frozen=True, kw_only=True)
class GradientXInput(Gradient):
    """The gradient times the input: x * d S / d x."""

    paper = "Shrikumar et al. 2016"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return batch.inputs * super().explain(model, batch, rng)


@register_explainer("smoothgrad")
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(SampledExplainer):
    """Mean gradient over noisy copies: mean_i d S / d x at x + e_i, e_i ~ N(0, (sigma * (max x - min x))^2)."""

    family = "gradient"
    paper = "Smilkov et al. 2017"
    cost = "2 x samples"

    samples: int = 25
    sigma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "samples", "sigma")

    def passes(self, channels: int) -> int:
        return 2 * self.samples

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return self.mean_gradient(model, batch, self.noise(batch, rng))

    def noise(self, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        """Noise (B, samples, C, *space), scaled by each case's own range of values."""
        shape = (self.samples, *batch.inputs.shape[1:])
        noise = rng.draw(batch.ids, lambda generator: torch.randn(shape, generator=generator)).to(batch.inputs)
        values = batch.inputs.flatten(1)
        spread = self.sigma * (values.amax(1) - values.amin(1))
        return noise * spread.view(-1, *[1] * (noise.ndim - 1))

    def mean_gradient(self, model: torch.nn.Module, batch: Batch, noise: torch.Tensor) -> torch.Tensor:
        """The mean gradient over the given noise (B, samples, C, *space)."""
        total = torch.zeros_like(batch.inputs)
        for case, sample in self.blocks(batch, noise.shape[1]):
            gradient = self.gradient_rows(model, batch.inputs[case] + noise[case, sample], batch, case)
            total.index_add_(0, case, gradient)
        return total / noise.shape[1]


@register_explainer("vargrad")
@dataclass(frozen=True, kw_only=True)
class VarGrad(SmoothGrad):
    """Variance of the gradient over the noisy copies of SmoothGrad: mean g^2 - (mean g)^2."""

    paper = "Adebayo et al. 2018"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        noise = self.noise(batch, rng)
        # In float64: the difference of two nearly equal numbers.
        total, squares = (torch.zeros_like(batch.inputs, dtype=torch.float64) for _ in range(2))
        for case, sample in self.blocks(batch, self.samples):
            gradient = self.gradient_rows(model, batch.inputs[case] + noise[case, sample], batch, case).double()
            total.index_add_(0, case, gradient)
            squares.index_add_(0, case, gradient.square())
        variance = squares / self.samples - (total / self.samples).square()
        return variance.clamp(min=0).to(batch.inputs)


@register_explainer("integrated_gradients")
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(SampledExplainer):
    """(x - b) * integral_0^1 of d S / d x at b + a (x - b) over a; baseline b = 0, trapezoid rule.

    `steps` intervals have `steps` + 1 points, the two ends at half weight, so that the weights add up to one
    (Captum's `riemann_trapezoid` of n points adds up to (n - 1) / n).
    """

    family = "gradient"
    paper = "Sundararajan et al. 2017"
    cost = "2 x (steps + 1)"

    steps: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "steps")

    def passes(self, channels: int) -> int:
        return 2 * (self.steps + 1)

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        points = self.steps + 1
        column = (-1, *[1] * (batch.inputs.ndim - 1))
        share = torch.linspace(0, 1, points, dtype=torch.float64).to(batch.inputs).view(column)
        weight = torch.full((points,), 1 / self.steps, dtype=torch.float64)
        weight[[0, -1]] /= 2
        weight = weight.to(batch.inputs).view(column)
        total = torch.zeros_like(batch.inputs)
        for case, point in self.blocks(batch, points):
            gradient = self.gradient_rows(model, share[point] * batch.inputs[case], batch, case)
            total.index_add_(0, case, weight[point] * gradient)
        return batch.inputs * total


@dataclass(frozen=True, kw_only=True)
class ReluGradient(Gradient):
    """The gradient with another backward pass of ReLUs.

    `relus` says of which: all, or "convs", those behind convolutions and on plain vectors. In a Relation Network the
    map of a deconvnet does not depend on the picture at all unless the ReLUs over pairs stay ordinary.
    """

    relus: Literal["all", "convs"] = "all"
    guided: ClassVar[bool]

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "relus", ("all", "convs"))

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.relu_backward import ReluBackward

        with ReluBackward(self.guided, self.relus == "convs"):
            return super().explain(model, batch, rng)


@register_explainer("guided_backprop")
@dataclass(frozen=True, kw_only=True)
class GuidedBackprop(ReluGradient):
    """The gradient, ReLUs passing back positive signals only, and only where they were active."""

    paper = "Springenberg et al. 2015"
    guided = True


@register_explainer("deconvnet")
@dataclass(frozen=True, kw_only=True)
class Deconvnet(ReluGradient):
    """The gradient, ReLUs passing back positive signals wherever they come, active or not."""

    paper = "Zeiler and Fergus 2014"
    guided = False

"""Methods that read the model's gradient.

Captum has them too; ours draw noise by case, bound their memory, take context inputs and any explained quantity,
and need no further dependency. The tests hold them equal to Captum's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from heatproof.cases import Batch
from heatproof.exact import normal
from heatproof.explainers.base import (
    LooksAt,
    SampledExplainer,
    ScoreExplainer,
    Size,
    register_explainer,
    require_one_of,
    require_positive,
)
from heatproof.explainers.baseline_inputs import baseline_of, require_baseline
from heatproof.lazy import np, torch
from heatproof.seeds import CaseRandom, SampleDraws


@register_explainer("gradient")
@dataclass(frozen=True, kw_only=True)
class Gradient(ScoreExplainer):
    """The gradient of the score, signed: d S / d x."""

    family = "gradient"
    looks_at: ClassVar[LooksAt] = "values"
    paper = "Simonyan et al. 2014"
    cost = "2"

    def passes(self, size: Size) -> int:
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
    looks_at = "values"
    paper = "Smilkov et al. 2017"
    cost = "2 x samples"
    gradients = True

    samples: int = 25
    sigma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "samples", "sigma")

    def passes(self, size: Size) -> int:
        return 2 * self.samples

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        total = torch.zeros_like(batch.inputs)

        def add(case: torch.Tensor, gradient: torch.Tensor) -> None:
            total.index_add_(0, case, gradient)

        self.over_noisy_copies(model, batch, rng, add)
        return total / self.samples

    def over_noisy_copies(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, use: Callable[[torch.Tensor, torch.Tensor], None]
    ) -> None:
        """Call `use(case, gradient)` for blocks of rows that together are all noisy copies of all cases."""
        values = batch.inputs.flatten(1)
        spread = self.sigma * (values.amax(1) - values.amin(1)).view(-1, *[1] * (batch.inputs.ndim - 1))

        def work(case: torch.Tensor, _sample: torch.Tensor, noise: torch.Tensor) -> None:
            noisy = batch.inputs[case] + spread[case] * noise.to(batch.inputs)
            use(case, self.gradient_rows(model, noisy, batch, case))

        self.sweep(model, batch, self.samples, work, self.noise(batch, rng))

    def noise(self, batch: Batch, rng: CaseRandom) -> SampleDraws:
        """Standard normal noise of each case's shape."""
        shape = batch.inputs.shape[1:]
        return rng.samples(
            batch.ids,
            self.samples,
            shape.numel(),
            lambda generator, count: normal((count, *shape), generator),
        )


@register_explainer("vargrad")
@dataclass(frozen=True, kw_only=True)
class VarGrad(SmoothGrad):
    """Variance of the gradient over the noisy copies of SmoothGrad: mean g^2 - (mean g)^2."""

    paper = "Adebayo et al. 2018"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        # In float64: the difference of two nearly equal numbers.
        total, squares = (torch.zeros_like(batch.inputs, dtype=torch.float64) for _ in range(2))

        def add(case: torch.Tensor, gradient: torch.Tensor) -> None:
            square = gradient.double().square()
            total.index_add_(0, case, gradient.double())
            squares.index_add_(0, case, square)

        self.over_noisy_copies(model, batch, rng, add)
        variance = squares / self.samples - (total / self.samples).square()
        return variance.clamp(min=0).to(batch.inputs)


@register_explainer("integrated_gradients")
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(SampledExplainer):
    """(x - b) * integral_0^1 of d S / d x at b + a (x - b) over a, for a baseline b.

    steps      intervals of the trapezoid rule (steps + 1 points), or points of the Gauss-Legendre rule
    rule       trapezoid (its weights add up to one; Captum's `riemann_trapezoid` of n points to (n - 1) / n),
               or gauss_legendre
    baseline   zero; black, each case's least value; mean, each case's mean colour; blurred, each case smoothed over
               a quarter of its extent; or numbers: 0.5, or one per channel: 0.46/0.46/0.45
    tolerance  double the steps until the relevance adds up to S(x) - S(b) within this share of it, at most 7 times
    """

    family = "gradient"
    looks_at = "values"
    paper = "Sundararajan et al. 2017"
    cost = "2 x (steps + 1)"
    gradients = True

    steps: int = 50
    rule: Literal["trapezoid", "gauss_legendre"] = "trapezoid"
    baseline: str = "zero"
    tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "steps", *["tolerance"] * (self.tolerance is not None))
        require_one_of(self, "rule", ("trapezoid", "gauss_legendre"))
        require_baseline(self, self.baseline)

    def passes(self, size: Size) -> int:
        """Without the doublings that a tolerance may ask for."""
        return 2 * (self.steps + (self.rule == "trapezoid"))

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        baseline = baseline_of(self, self.baseline, batch.inputs)
        relevance = self.integrate(model, batch, baseline, self.steps)
        if self.tolerance is None:
            return relevance
        steps = self.steps
        for _ in range(DOUBLINGS):
            open_cases = (self.completeness_error(model, batch, baseline, relevance) > self.tolerance).nonzero()[:, 0]
            if not len(open_cases):
                break
            steps *= 2
            # Case by case, so that what one case needs does not change another's relevance.
            for case in open_cases.tolist():
                one = slice(case, case + 1)
                relevance[one] = self.integrate(model, batch[one], baseline[one], steps)
        return relevance

    def integrate(self, model: torch.nn.Module, batch: Batch, baseline: torch.Tensor, steps: int) -> torch.Tensor:
        """The integral by the rule with this many steps."""
        column = (-1, *[1] * (batch.inputs.ndim - 1))
        share, weight = (values.to(batch.inputs).view(column) for values in self.nodes(steps))
        difference = batch.inputs - baseline
        total = torch.zeros_like(batch.inputs)

        def work(case: torch.Tensor, point: torch.Tensor) -> None:
            inputs = baseline[case] + share[point] * difference[case]
            total.index_add_(0, case, weight[point] * self.gradient_rows(model, inputs, batch, case))

        self.sweep(model, batch, len(share), work)
        return difference * total

    def nodes(self, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Points of [0, 1] and their weights, in float64."""
        if self.rule == "gauss_legendre":
            points, weights = np.polynomial.legendre.leggauss(steps)
            return torch.as_tensor((points + 1) / 2), torch.as_tensor(weights / 2)
        weight = torch.full((steps + 1,), 1 / steps, dtype=torch.float64)
        weight[[0, -1]] /= 2
        return torch.linspace(0, 1, steps + 1, dtype=torch.float64), weight

    def completeness_error(
        self, model: torch.nn.Module, batch: Batch, baseline: torch.Tensor, relevance: torch.Tensor
    ) -> torch.Tensor:
        """|sum of relevance - (S(x) - S(b))| / |S(x) - S(b)| of each case: zero for an exact integral."""
        every = torch.arange(len(batch), device=batch.inputs.device)
        reached = self.score_rows(model, batch.inputs, batch, every) - self.score_rows(model, baseline, batch, every)
        return (relevance.flatten(1).sum(1) - reached).abs() / reached.abs().clamp(min=torch.finfo(reached.dtype).eps)


DOUBLINGS = 7


@dataclass(frozen=True, kw_only=True)
class ReluGradient(Gradient):
    """The gradient with another backward pass of ReLUs.

    `relus` says of which: all, or "convs", those behind convolutions and on plain vectors. In a Relation Network the
    map of a deconvnet does not depend on the picture at all unless the ReLUs over pairs stay ordinary.
    """

    looks_at = "relus"
    guided: ClassVar[bool]

    relus: Literal["all", "convs"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "relus", ("all", "convs"))

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.compiled import require_functions
        from heatproof.explainers.relu_backward import ReluBackward

        require_functions(model, self.name)
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

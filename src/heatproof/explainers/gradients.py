"""Methods that read the model's gradient.

Captum has them too; ours draw noise by case, bound their memory, take context inputs and any explained quantity,
and need no further dependency. The tests hold them equal to Captum's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from heatproof.cases import Batch
from heatproof.devices import in_double
from heatproof.exact import normal
from heatproof.explainers.base import (
    LooksAt,
    Quantity,
    ScoreExplainer,
    Size,
    register_explainer,
    require_gradient,
    require_one_of,
    require_positive,
    slope,
)
from heatproof.explainers.baseline_inputs import baseline_of, require_baseline
from heatproof.explainers.sharing import SharingExplainer
from heatproof.lazy import np, torch
from heatproof.progress import part, part_by_part
from heatproof.seeds import CaseRandom, SampleDraws

if TYPE_CHECKING:
    from torch.autograd.graph import Node

    from heatproof.explainers.rectifiers import Rectifier


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
class SmoothGrad(SharingExplainer):
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

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        totals = [torch.zeros_like(batch.inputs) for _ in quantities]

        def add(case: torch.Tensor, gradients: list[torch.Tensor]) -> None:
            for total, gradient in zip(totals, gradients, strict=True):
                total.index_add_(0, case, gradient)

        self.over_noisy_copies(model, batch, rng, quantities, add)
        return [total / self.samples for total in totals]

    def over_noisy_copies(
        self,
        model: torch.nn.Module,
        batch: Batch,
        rng: CaseRandom,
        quantities: Sequence[Quantity],
        use: Callable[[torch.Tensor, list[torch.Tensor]], None],
    ) -> None:
        """Call `use(case, gradients)` for blocks of rows that together are all noisy copies of all cases."""
        values = batch.inputs.flatten(1)
        spread = self.sigma * (values.amax(1) - values.amin(1)).view(-1, *[1] * (batch.inputs.ndim - 1))

        def work(case: torch.Tensor, _sample: torch.Tensor, noise: torch.Tensor) -> None:
            noisy = batch.inputs[case] + spread[case] * noise.to(batch.inputs)
            use(case, self.gradients_at(model, noisy, batch, case, quantities))

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

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        # In float64: the difference of two nearly equal numbers.
        totals, squares = ([in_double(torch.zeros_like(batch.inputs)) for _ in quantities] for _ in range(2))

        def add(case: torch.Tensor, gradients: list[torch.Tensor]) -> None:
            doubles = [in_double(gradient) for gradient in gradients]
            more = [*doubles, *[double.square() for double in doubles]]
            case = case.to(more[0].device)
            for total, values in zip([*totals, *squares], more, strict=True):
                total.index_add_(0, case, values)

        self.over_noisy_copies(model, batch, rng, quantities, add)
        pairs = zip(totals, squares, strict=True)
        variances = [square / self.samples - (total / self.samples).square() for total, square in pairs]
        return [variance.clamp(min=0).to(batch.inputs) for variance in variances]


@register_explainer("integrated_gradients")
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(SharingExplainer):
    """(x - b) * integral_0^1 of d S / d x at b + a (x - b) over a, for a baseline b.

    steps      intervals of the trapezoid rule (steps + 1 points), or points of the Gauss-Legendre rule
    rule       trapezoid (its weights add up to one; Captum's `riemann_trapezoid` of n points to (n - 1) / n),
               or gauss_legendre
    baseline   zero; black, a pixel of value 0 under the model's normalisation, where a benchmark knows it; minimum,
               each case's least value; mean, each case's mean colour; blurred, each case smoothed over a quarter of
               its extent; or numbers: 0.5, or one per channel: 0.46/0.46/0.45
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

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        baseline, tolerance = baseline_of(self, self.baseline, batch), self.tolerance
        if tolerance is None:
            return self.integrate(model, batch, baseline, self.steps, quantities)
        with part(0, 2):
            found = self.integrate(model, batch, baseline, self.steps, quantities)
        pairs = [(replace(self, quantity=one), relevance) for one, relevance in zip(quantities, found, strict=True)]
        with part(1, 2):
            return part_by_part(pairs, lambda pair: pair[0].refined(model, batch, baseline, pair[1], tolerance))

    def refined(
        self,
        model: torch.nn.Module,
        batch: Batch,
        baseline: torch.Tensor,
        relevance: torch.Tensor,
        tolerance: float,
    ) -> torch.Tensor:
        """The relevance with twice the steps, and twice again, for cases that are not within the tolerance."""
        steps = self.steps
        for doubling in range(DOUBLINGS):
            error = self.completeness_error(model, batch, baseline, relevance)
            left = (error > tolerance).nonzero()[:, 0].tolist()
            if not left:
                break
            steps *= 2
            with part(doubling, DOUBLINGS):
                relevance[left] = self.one_by_one(model, batch, baseline, steps, left)
        return relevance

    def one_by_one(
        self, model: torch.nn.Module, batch: Batch, baseline: torch.Tensor, steps: int, cases: list[int]
    ) -> torch.Tensor:
        """The integrals of some cases, so that what one case needs does not change another's relevance."""

        def integral(case: int) -> torch.Tensor:
            one = slice(case, case + 1)
            return self.integrate(model, batch[one], baseline[one], steps, (self.quantity,))[0]

        return torch.cat(part_by_part(cases, integral))

    def integrate(
        self,
        model: torch.nn.Module,
        batch: Batch,
        baseline: torch.Tensor,
        steps: int,
        quantities: Sequence[Quantity],
    ) -> list[torch.Tensor]:
        """The integrals by the rule with this many steps."""
        column = (-1, *[1] * (batch.inputs.ndim - 1))
        share, weight = (values.to(batch.inputs).view(column) for values in self.nodes(steps))
        difference = batch.inputs - baseline
        totals = [torch.zeros_like(batch.inputs) for _ in quantities]

        def work(case: torch.Tensor, point: torch.Tensor) -> None:
            inputs = baseline[case] + share[point] * difference[case]
            gradients = self.gradients_at(model, inputs, batch, case, quantities)
            weighted = [weight[point] * gradient for gradient in gradients]
            for total, values in zip(totals, weighted, strict=True):
                total.index_add_(0, case, values)

        self.sweep(model, batch, len(share), work)
        return [difference * total for total in totals]

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


@dataclass(frozen=True, eq=False)
class Pass:
    """Inputs, the sum of their scores, and the nodes of autograd's graph between them."""

    inputs: torch.Tensor
    total: torch.Tensor
    nodes: list[Node]


@dataclass(frozen=True, kw_only=True)
class ReluGradient(Gradient):
    """The gradient with another backward pass of ReLUs, and of all that does what they do (relu6, clamp from 0 ...).

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
        from heatproof.explainers.compiled import require_layers
        from heatproof.explainers.hidden_rectifiers import require_none_hidden
        from heatproof.explainers.rectifiers import TOLD_BY_GRAPH, Noting, are_told, remember_whether_told

        require_layers(model, self.name)
        require_none_hidden(model, self.name, batch, self.score)
        if model in TOLD_BY_GRAPH:
            passed = self.passed(model, batch)
            if are_told(passed.nodes):
                return self.way_back(passed, {})
        with Noting() as noted:  # also on the way back, where checkpoints run parts of the model again
            passed = self.passed(model, batch)
            remember_whether_told(model, passed.nodes, noted)
            return self.way_back(passed, noted.found)

    def passed(self, model: torch.nn.Module, batch: Batch) -> Pass:
        """A pass forward, and its graph."""
        from heatproof.explainers.autograd_graph import behind

        with torch.enable_grad():
            inputs = batch.inputs.detach().requires_grad_()
            total = self.score(model, inputs, batch.context, batch.target).sum()
        require_gradient(total)
        return Pass(inputs, total, behind([total]))

    def way_back(self, passed: Pass, noted: Mapping[Node, Rectifier | None]) -> torch.Tensor:
        """What arrives at the inputs when rectifiers, of which these were noted, pass back what this method lets by."""
        from heatproof.explainers.rectifiers import find_rectifiers, positive_backward

        found = find_rectifiers(passed.nodes, noted, self.relus == "convs", self.name)
        with positive_backward(found, self.guided):
            return slope(passed.total, passed.inputs)


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

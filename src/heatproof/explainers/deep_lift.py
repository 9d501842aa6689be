"""DeepLIFT: differences from a baseline, attributed layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.accounts import report
from heatproof.explainers.base import ScoreExplainer, Size, quantity_of, register_explainer, require_gradient
from heatproof.explainers.baseline_inputs import baseline_of, require_baseline
from heatproof.lazy import np, torch
from heatproof.seeds import CaseRandom

if TYPE_CHECKING:
    from heatproof.explainers.rescale import Rescale

NODES = 20
"""Points of the integral over the softmax: plenty for a function as smooth as that."""
LEFT_OVER = 0.01
"""Up to this share of S(x) - S(b) may be left over, beside what rounding may take."""


@register_explainer("deep_lift")
@dataclass(frozen=True, kw_only=True)
class DeepLift(ScoreExplainer):
    """DeepLIFT, rescale rule: (x - b) times multipliers that follow S(x) - S(b) back through the network.

    The relevance adds up to S(x) - S(b): activations by quotients of differences, products by their two-point rule,
    norms, softmax, attention and recurrent cells by the rules of what they are made of. What is left over is reported
    per case (`accounts`, `left_over`), and an error above one per cent. A probability is followed back to the logits
    by the integral of its gradient.

    baseline  b: see integrated_gradients
    """

    family = "gradient"
    paper = "Shrikumar et al. 2017"
    cost = "3"

    baseline: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_baseline(self, self.baseline)

    def passes(self, size: Size) -> int:
        return 3

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.autograd_graph import pulled_back, require_known
        from heatproof.explainers.compiled import require_functions
        from heatproof.explainers.recording import Recording
        from heatproof.explainers.rescale import CHECKPOINTS, Rescale
        from heatproof.explainers.rescale_rules import OURS
        from heatproof.explainers.same_network import require_same_network

        require_functions(model, self.name)
        baseline = baseline_of(self, self.baseline, batch)

        def run(inputs: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = model(inputs, *batch.context)
            return outputs

        def recorded(checkpoints: bool = False) -> tuple[torch.Tensor, Rescale]:
            with Recording() as recording:
                reference = run(baseline.detach().requires_grad_())
            return reference, Rescale(model, recording.records, checkpoints)

        inputs = batch.inputs.detach().requires_grad_()
        with torch.enable_grad():
            reference, rescale = recorded()
            require_gradient(quantity_of(reference, batch.target, self.quantity))
            reference = reference.detach()  # its graph is not needed any more
            try:
                with rescale, torch.autograd.graph.disable_saved_tensors_hooks(CHECKPOINTS):
                    outputs = run(inputs)
            except RuntimeError as error:
                if CHECKPOINTS not in str(error):
                    raise
                rescale = recorded(checkpoints=True)[1]
                with rescale:
                    outputs = run(inputs)
            require_gradient(outputs)
            rescale.finish()
            require_known(outputs, explainer=self.name, ours=OURS)
            require_same_network(model, self.name, outputs, lambda: run(inputs), lambda: recorded()[1])
        multipliers = self.logit_multipliers(outputs.detach(), reference, batch.target)
        gradient = pulled_back(outputs, inputs, multipliers)
        relevance = gradient * (batch.inputs - baseline)
        with torch.no_grad():
            scores = [quantity_of(values, batch.target, self.quantity) for values in (outputs, reference)]
        left_over = what_is_left(batch, relevance, scores[0], scores[1], rescale)
        report("left_over", lambda: left_over)
        return relevance

    def logit_multipliers(self, logits: torch.Tensor, reference: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean of d S / d logits on the straight way from the reference to the logits."""
        points, weights = np.polynomial.legendre.leggauss(1 if self.quantity == "logit" else NODES)
        total = torch.zeros_like(logits)
        for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
            with torch.enable_grad():
                between = torch.lerp(reference, logits, float(point)).requires_grad_()
                score = quantity_of(between, target, self.quantity).sum()
            total += float(weight) * torch.autograd.grad(score, between)[0]
        return total


def what_is_left(
    batch: Batch, relevance: torch.Tensor, scores: torch.Tensor, base: torch.Tensor, rescale: Rescale
) -> torch.Tensor:
    """By how much each sum misses S(x) - S(b); an error, with the functions that may be why, if it is much."""
    wide = torch.promote_types(relevance.dtype, torch.float32)
    values, scores, base = relevance.flatten(1).to(wide), scores.to(wide), base.to(wide)
    differences = scores - base
    left_over = values.sum(1) - differences
    eps = max(torch.finfo(dtype).eps for dtype in (relevance.dtype, *rescale.types))
    rounding = sqrt(eps) * values.abs().sum(1) + min(100 * eps, sqrt(eps)) * (scores.abs() + base.abs())
    allowed = LEFT_OVER * differences.abs() + rounding
    missed = left_over.abs() > allowed
    if not missed.any():
        return left_over
    worst = int((left_over.abs() * missed).argmax())
    doubtful = ", ".join(list(rescale.doubtful)[:5]) or "none that could be watched"
    raise HeatproofError(
        f"deep_lift does not add up on this model: of the difference {float(differences[worst]):.4g} between input and"
        f" baseline {float(left_over[worst]):.4g} is left over for case {batch.ids[worst]!r}; functions without an"
        f" exact rule: {doubtful}. Take integrated_gradients for it."
    )

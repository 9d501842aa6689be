"""DeepLIFT: differences from a baseline, attributed layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from heatproof.cases import Batch
from heatproof.explainers.base import ScoreExplainer, Size, quantity_of, register_explainer
from heatproof.explainers.baseline_inputs import baseline_of, require_baseline
from heatproof.lazy import np, torch
from heatproof.seeds import CaseRandom

NODES = 20
"""Points of the integral over the softmax: plenty for a function as smooth as that."""


@register_explainer("deep_lift")
@dataclass(frozen=True, kw_only=True)
class DeepLift(ScoreExplainer):
    """DeepLIFT, rescale rule: (x - b) times multipliers that follow S(x) - S(b) back through the network.

    The relevance adds up to S(x) - S(b) in networks of linear layers, activations and pooling; products (attention)
    count with their gradients. A probability is followed back to the logits by the integral of its gradient.

    baseline  b: see integrated_gradients
    """

    family = "gradient"
    paper = "Shrikumar et al. 2017"
    cost = "4"

    baseline: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_baseline(self, self.baseline)

    def passes(self, size: Size) -> int:
        return 4

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.compiled import require_functions
        from heatproof.explainers.rescale import Rescale

        require_functions(model, self.name)
        baseline = baseline_of(self, self.baseline, batch.inputs)
        with torch.enable_grad():
            inputs = torch.cat([batch.inputs, baseline]).detach().requires_grad_()
            with Rescale():
                outputs = model(inputs, *[torch.cat([tensor, tensor]) for tensor in batch.context])
        quantity_of(outputs, torch.cat([batch.target, batch.target]), self.quantity)  # refuses what has no such score
        logits, reference = outputs.detach().chunk(2)
        multipliers = torch.zeros_like(outputs)
        multipliers[: len(batch)] = self.logit_multipliers(logits, reference, batch.target)
        gradient = torch.autograd.grad(outputs, inputs, multipliers)[0]
        return gradient[: len(batch)] * (batch.inputs - baseline)

    def logit_multipliers(self, logits: torch.Tensor, reference: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The mean of d S / d logits on the straight way from the reference to the logits."""
        points, weights = np.polynomial.legendre.leggauss(NODES)
        total = torch.zeros_like(logits)
        for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
            with torch.enable_grad():
                between = torch.lerp(reference, logits, float(point)).requires_grad_()
                score = quantity_of(between, target, self.quantity).sum()
            total += float(weight) * torch.autograd.grad(score, between)[0]
        return total

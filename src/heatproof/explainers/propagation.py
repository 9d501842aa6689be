"""Layer-wise relevance propagation: the score goes back through the network, layer by layer, by rules.

Our own engine: zennit needs torchvision at run time and refuses functional ReLUs, residual additions and sums over
object pairs, which real networks have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import ScoreExplainer, Size, quantity_of, register_explainer, require_one_of
from heatproof.explainers.rules import Box, Epsilon, Flat, Gamma, RelativeEpsilon, Rule, SameSignBias, WSquare, ZPlus
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom

COMPOSITES: dict[str, tuple[str, str, str]] = {
    "epsilon": ("epsilon", "epsilon", "same"),
    "z_plus": ("z_plus", "z_plus", "same"),
    "alpha1_beta0": ("z_plus", "z_plus", "same"),
    "gamma": ("gamma", "gamma", "same"),
    "gamma_plus": ("gamma", "z_plus", "same"),
    "epsilon_plus": ("epsilon", "z_plus", "same"),
    "epsilon_plus_flat": ("epsilon", "z_plus", "flat"),
    "relation_network": ("z_plus", "z_plus", "box"),
    "relation_network_gamma": ("gamma", "z_plus", "box"),
    "focus": ("relative_epsilon", "z_plus", "box"),
}
"""The rules of dense layers, of convolutions, and of the first layer."""

INPUT_RULES = ("same", "box", "flat", "w_square")


@register_explainer("lrp")
@dataclass(frozen=True, kw_only=True)
class Lrp(ScoreExplainer):
    """Layer-wise relevance propagation of the target's score; batch norm is merged into its neighbour.

    composite   which rule where (dense / convolution): epsilon, z_plus (= alpha1_beta0) and gamma everywhere;
                gamma_plus: gamma / z_plus; epsilon_plus: epsilon / z_plus; epsilon_plus_flat: flat at the input;
                relation_network: z_plus, box at the input; relation_network_gamma: gamma / z_plus, box at the input;
                focus: as in the Focus paper (relative epsilon / z_plus without biases, box at the input)
    input_rule  another rule for the first layer: box (between `low` and `high`, or each case's own), flat, w_square
    biases      whether biases take their share
    """

    family = "propagation"
    paper = "Bach et al. 2015"
    cost = "2"

    composite: str = "epsilon_plus"
    epsilon: float = 1e-6
    gamma: float = 0.25
    biases: bool = True
    input_rule: str = "same"
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "composite", tuple(COMPOSITES))
        require_one_of(self, "input_rule", INPUT_RULES)
        if self.quantity == "log_probability":
            raise HeatproofError(f"{self.name} explains the logit or the probability; a log-probability is negative.")

    def passes(self, size: Size) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        def explained(outputs: torch.Tensor) -> torch.Tensor:
            return quantity_of(outputs, batch.target, self.quantity)

        return propagate(self.name, model, batch, self.rule, explained, merge_norms=self.composite != "focus")

    def rule(self, number: int, kind: str) -> Rule:
        """The rule of the n-th linear map from the inputs, which is of this kind."""
        dense, conv, first = COMPOSITES[self.composite]
        first = first if self.input_rule == "same" else self.input_rule
        if number == 0 and first != "same":
            return self.make(first)
        if kind == "norm":  # not merged into a neighbour
            return SameSignBias() if self.composite == "focus" else Epsilon(biases=self.biases)
        return self.make(dense if kind == "dense" else conv)

    def make(self, rule: str) -> Rule:
        """The rule of that name with this explainer's parameters."""
        biases = self.biases and self.composite != "focus"
        rules: dict[str, Rule] = {
            "epsilon": Epsilon(biases=biases, epsilon=self.epsilon),
            "relative_epsilon": RelativeEpsilon(biases=biases),
            "z_plus": ZPlus(biases=biases),
            "gamma": Gamma(biases=biases, gamma=self.gamma),
            "box": Box(low=self.low, high=self.high),
            "flat": Flat(),
            "w_square": WSquare(),
        }
        return rules[rule]


@register_explainer("excitation_backprop")
@dataclass(frozen=True, kw_only=True)
class ExcitationBackprop(ScoreExplainer):
    """Excitation backprop: the chance that a top-down walk along positive contributions ends at each input.

    The same as z_plus everywhere, starting from one.
    """

    family = "propagation"
    paper = "Zhang et al. 2018"
    cost = "2"

    biases: bool = True

    def passes(self, size: Size) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return propagate(self.name, model, batch, self.rule, lambda outputs: torch.ones_like(outputs[:, 0]))

    def rule(self, number: int, kind: str) -> Rule:
        return Epsilon(biases=self.biases) if kind == "norm" else ZPlus(biases=self.biases)


def propagate(
    name: str,
    model: torch.nn.Module,
    batch: Batch,
    rule: Callable[[int, str], Rule],
    start: Callable[[torch.Tensor], torch.Tensor],
    merge_norms: bool = True,
) -> torch.Tensor:
    """Relevance of the inputs when the target's logit has `start(outputs)` (B,) and all others none."""
    from heatproof.explainers.compiled import require_functions
    from heatproof.explainers.relevance_graph import RelevanceGraph

    require_functions(model, name)
    with torch.enable_grad():
        inputs = batch.inputs.detach().requires_grad_()
        with RelevanceGraph(rule, merge_norms):
            outputs = model(inputs, *batch.context)
        logit = quantity_of(outputs, batch.target, "logit")
    return torch.autograd.grad(logit, inputs, start(outputs.detach()))[0]

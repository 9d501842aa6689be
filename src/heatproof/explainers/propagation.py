"""Layer-wise relevance propagation: the score goes back through the network, layer by layer, by rules.

Our own engine: zennit needs torchvision at run time and refuses functional ReLUs, residual additions and sums over
object pairs, which real networks have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import ScoreExplainer, quantity_of, register_explainer, require_one_of
from heatproof.explainers.rules import Box, Epsilon, Flat, Gamma, RelativeEpsilon, Rule, SameSignBias, WSquare, ZPlus
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom

Composite = Literal[
    "epsilon", "z_plus", "alpha1_beta0", "gamma", "gamma_plus", "epsilon_plus", "epsilon_plus_flat", "focus"
]
InputRule = Literal["same", "box", "flat", "w_square"]


@register_explainer("lrp")
@dataclass(frozen=True, kw_only=True)
class Lrp(ScoreExplainer):
    """Layer-wise relevance propagation of the target's score; batch norm is merged into its neighbour.

    composite   which rule where (dense / convolution): epsilon, z_plus (= alpha1_beta0) and gamma everywhere;
                gamma_plus: gamma / z_plus; epsilon_plus: epsilon / z_plus; epsilon_plus_flat: flat at the input;
                focus: as in the Focus paper (relative epsilon / z_plus without biases, box at the input)
    input_rule  another rule for the first layer: box (between `low` and `high`, or each case's own), flat, w_square
    biases      whether biases take their share
    """

    family = "propagation"
    paper = "Bach et al. 2015"
    cost = "2"

    composite: Composite = "epsilon_plus"
    epsilon: float = 1e-6
    gamma: float = 0.25
    biases: bool = True
    input_rule: InputRule = "same"
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "composite", get_args(Composite))
        require_one_of(self, "input_rule", get_args(InputRule))
        if self.quantity == "log_probability":
            raise HeatproofError(f"{self.name} explains the logit or the probability; a log-probability is negative.")

    def passes(self, channels: int) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        def explained(outputs: torch.Tensor) -> torch.Tensor:
            return quantity_of(outputs, batch.target, self.quantity)

        return propagate(model, batch, self.rule, explained, merge_norms=self.composite != "focus")

    def rule(self, number: int, kind: str) -> Rule:
        """The rule of the n-th linear map from the inputs, which is of this kind."""
        if number == 0 and (first := self.first_rule()) is not None:
            return first
        return {"dense": self.dense_rule, "conv": self.conv_rule, "norm": self.norm_rule}[kind]()

    def norm_rule(self) -> Rule:
        """For a batch norm that is not merged into a neighbour."""
        return SameSignBias() if self.composite == "focus" else Epsilon(biases=self.biases)

    def first_rule(self) -> Rule | None:
        if self.input_rule == "box" or (self.composite == "focus" and self.input_rule == "same"):
            return Box(low=self.low, high=self.high)
        if self.input_rule == "flat" or (self.composite == "epsilon_plus_flat" and self.input_rule == "same"):
            return Flat()
        return WSquare() if self.input_rule == "w_square" else None

    def dense_rule(self) -> Rule:
        if self.composite in ("epsilon", "epsilon_plus", "epsilon_plus_flat"):
            return Epsilon(biases=self.biases, epsilon=self.epsilon)
        if self.composite == "focus":
            return RelativeEpsilon(biases=False)
        return Gamma(biases=self.biases, gamma=self.gamma) if "gamma" in self.composite else ZPlus(biases=self.biases)

    def conv_rule(self) -> Rule:
        if self.composite == "epsilon":
            return Epsilon(biases=self.biases, epsilon=self.epsilon)
        if self.composite == "gamma":
            return Gamma(biases=self.biases, gamma=self.gamma)
        return ZPlus(biases=self.biases and self.composite != "focus")


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

    def passes(self, channels: int) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return propagate(model, batch, self.rule, lambda outputs: torch.ones_like(outputs[:, 0]))

    def rule(self, number: int, kind: str) -> Rule:
        return Epsilon(biases=self.biases) if kind == "norm" else ZPlus(biases=self.biases)


def propagate(
    model: torch.nn.Module,
    batch: Batch,
    rule: Callable[[int, str], Rule],
    start: Callable[[torch.Tensor], torch.Tensor],
    merge_norms: bool = True,
) -> torch.Tensor:
    """Relevance of the inputs when the target's logit has `start(outputs)` (B,) and all others none."""
    from heatproof.explainers.relevance_graph import RelevanceGraph

    with torch.enable_grad():
        inputs = batch.inputs.detach().requires_grad_()
        with RelevanceGraph(rule, merge_norms):
            outputs = model(inputs, *batch.context)
        logit = quantity_of(outputs, batch.target, "logit")
    return torch.autograd.grad(logit, inputs, start(outputs.detach()))[0]

"""Layer-wise relevance propagation: the score goes back through the network, layer by layer, by rules.

Our own engine: zennit needs torchvision at run time and refuses functional ReLUs, residual additions and sums over
object pairs, which real networks have.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import (
    ScoreExplainer,
    Size,
    class_scores,
    picked,
    quantity_of,
    register_explainer,
    require_one_of,
)
from heatproof.explainers.guards import no_backward_hooks
from heatproof.explainers.rules import (
    STABILISER,
    Box,
    Epsilon,
    Flat,
    Gamma,
    RelativeEpsilon,
    Rule,
    SameSignBias,
    WSquare,
    ZPlus,
)
from heatproof.lazy import torch
from heatproof.registry import Registry
from heatproof.seeds import CaseRandom

if TYPE_CHECKING:
    from heatproof.explainers.losses import Losses
    from heatproof.explainers.relevance_graph import RelevanceGraph


@dataclass(frozen=True, kw_only=True)
class Composite:
    """Which rule where.

    dense, conv    the rules of dense layers and of convolutions
    first          the rule of the first linear map from the inputs; None: the same as elsewhere
    norm           the rule of norms that are not merged into a neighbour
    merge_norms    whether batch norms are, where there is a neighbour
    positive_sums  whether sums and averages share relevance among positive parts only
    stabiliser     what keeps the denominators of sums and averages from zero
    attention      how products of two things that depend on the inputs share it: uniform, half to each factor;
                   constant, none to attention and gates; None: such a product has no rule
    """

    dense: Rule
    conv: Rule
    first: Rule | None = None
    norm: Rule = field(default_factory=Epsilon)
    merge_norms: bool = True
    positive_sums: bool = False
    stabiliser: float = STABILISER
    attention: Literal["uniform", "constant"] | None = None

    def rule(self, number: int, kind: str) -> Rule:
        """The rule of the n-th linear map from the inputs, which is of this kind."""
        if number == 0 and self.first is not None:
            return self.first
        return {"dense": self.dense, "conv": self.conv, "norm": self.norm}[kind]


composites: Registry[Callable[[Lrp], Composite]] = Registry("lrp composite")
"""Functions that make a composite with the parameters of the LRP that asks for it."""

C = TypeVar("C", bound="Callable[[Lrp], Composite]")


def register_composite(name: str) -> Callable[[C], C]:
    """Function decorator: what it makes is known as `lrp:composite=name`."""

    def file_under_name(make: C) -> C:
        composites.register(name)(make)
        return make

    return file_under_name


@register_explainer("lrp")
@dataclass(frozen=True, kw_only=True)
class Lrp(ScoreExplainer):
    """Layer-wise relevance propagation of the target's score; batch norm is merged into its neighbour.

    composite   which rule where (dense / convolution): epsilon, z_plus (= alpha1_beta0) and gamma everywhere;
                gamma_plus: gamma / z_plus; epsilon_plus: epsilon / z_plus; epsilon_plus_flat: flat at the input;
                relation_network: z_plus, box at the input; relation_network_gamma: gamma / z_plus, box at the input;
                focus: as in the Focus paper (relative epsilon / z_plus without biases, box at the input);
                attn_lrp: epsilon, with rules for attention, gates and the norms of transformers; attn_lrp_gamma: the
                same with gamma (a fifth of it in dense layers); cp_lrp: the same with attention and gates as constants;
                or one of your own, see `register_composite`
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
        if self.composite not in composites:
            raise unknown_name(composites.kind, self.composite, composites)
        require_one_of(self, "input_rule", ("same", *INPUT_RULES))
        if self.quantity == "log_probability":
            raise HeatproofError(f"{self.name} explains the logit or the probability; a log-probability is negative.")

    def passes(self, size: Size) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        def explained(outputs: torch.Tensor, cases: Batch) -> torch.Tensor:
            return quantity_of(outputs, cases.target, self.quantity)

        return propagate(self.name, model, batch, self.made_composite(), explained)

    def made_composite(self) -> Composite:
        """The named composite with this explainer's parameters and its rule for the first layer."""
        composite = composites[self.composite](self)
        if not isinstance(composite, Composite):
            raise HeatproofError(f"lrp composite {self.composite!r} must be a Composite, got {composite!r}.")
        return composite if self.input_rule == "same" else replace(composite, first=INPUT_RULES[self.input_rule](self))


def box(lrp: Lrp) -> Rule:
    return Box(low=lrp.low, high=lrp.high)


INPUT_RULES: dict[str, Callable[[Lrp], Rule]] = {
    "box": box,
    "flat": lambda lrp: Flat(),
    "w_square": lambda lrp: WSquare(),
}


def stabiliser(lrp: Lrp) -> float:
    """What z_plus and gamma add to their denominators: `epsilon`, but no more than usual."""
    return min(lrp.epsilon, STABILISER)


def everywhere(lrp: Lrp, rule: Rule) -> Composite:
    """One rule for dense layers and convolutions; the epsilon rule for norms, sums and averages."""
    norm = Epsilon(lrp.biases, lrp.epsilon)
    return Composite(dense=rule, conv=rule, norm=norm, stabiliser=lrp.epsilon)


def positive_parts(biases: bool, stabiliser: float = STABILISER) -> Composite:
    """z_plus for whatever adds: layers, norms, sums and averages. No relevance is negative unless all is."""
    rule = ZPlus(biases, stabiliser)
    return Composite(dense=rule, conv=rule, norm=rule, positive_sums=True, stabiliser=stabiliser)


@register_composite("epsilon")
def epsilon(lrp: Lrp) -> Composite:
    return everywhere(lrp, Epsilon(lrp.biases, lrp.epsilon))


@register_composite("alpha1_beta0")
@register_composite("z_plus")
def z_plus(lrp: Lrp) -> Composite:
    return positive_parts(lrp.biases, stabiliser(lrp))


@register_composite("gamma")
def gamma(lrp: Lrp) -> Composite:
    return everywhere(lrp, Gamma(lrp.biases, lrp.gamma, stabiliser(lrp)))


@register_composite("gamma_plus")
def gamma_plus(lrp: Lrp) -> Composite:
    return replace(gamma(lrp), conv=ZPlus(lrp.biases, stabiliser(lrp)))


@register_composite("epsilon_plus")
def epsilon_plus(lrp: Lrp) -> Composite:
    return replace(epsilon(lrp), conv=ZPlus(lrp.biases, stabiliser(lrp)))


@register_composite("epsilon_plus_flat")
def epsilon_plus_flat(lrp: Lrp) -> Composite:
    return replace(epsilon_plus(lrp), first=Flat())


@register_composite("relation_network")
def relation_network(lrp: Lrp) -> Composite:
    return replace(everywhere(lrp, ZPlus(lrp.biases, stabiliser(lrp))), first=box(lrp))


@register_composite("relation_network_gamma")
def relation_network_gamma(lrp: Lrp) -> Composite:
    return replace(gamma_plus(lrp), first=box(lrp))


@register_composite("focus")
def focus(lrp: Lrp) -> Composite:
    """As in the Focus paper, whose biases take no share but in batch norms, which stay where they are."""
    dense, conv = RelativeEpsilon(biases=False), ZPlus(biases=False)
    return Composite(
        dense=dense, conv=conv, first=box(lrp), norm=SameSignBias(), merge_norms=False, stabiliser=stabiliser(lrp)
    )


@register_composite("attn_lrp")
def attn_lrp(lrp: Lrp) -> Composite:
    return replace(epsilon(lrp), attention="uniform")


@register_composite("attn_lrp_gamma")
def attn_lrp_gamma(lrp: Lrp) -> Composite:
    """As published for vision transformers: gamma .25 in convolutions, .05 in dense layers."""
    dense, conv = (Gamma(lrp.biases, size, stabiliser(lrp)) for size in (lrp.gamma / 5, lrp.gamma))
    return replace(attn_lrp(lrp), dense=dense, conv=conv)


@register_composite("cp_lrp")
def cp_lrp(lrp: Lrp) -> Composite:
    return replace(attn_lrp_gamma(lrp), attention="constant")


@register_explainer("excitation_backprop")
@dataclass(frozen=True, kw_only=True)
class ExcitationBackprop(ScoreExplainer):
    """Excitation backprop: the chance that a top-down walk along positive contributions ends at each input.

    The same as z_plus everywhere, sums and averages included, starting from one. `epsilon` stabilises.
    """

    family = "propagation"
    paper = "Zhang et al. 2018"
    cost = "2"

    biases: bool = True
    epsilon: float = STABILISER

    def passes(self, size: Size) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        composite = positive_parts(self.biases, self.epsilon)

        def one(outputs: torch.Tensor, cases: Batch) -> torch.Tensor:
            """A walk begins at a score; where that is no number, neither is the chance."""
            return 1 + 0 * quantity_of(outputs, cases.target, "logit")

        return propagate(self.name, model, batch, composite, one)


def whole_precision(device: str) -> AbstractContextManager[Any]:
    """No autocast: rules divide by small numbers."""
    return torch.autocast(device, enabled=False) if device in ("cpu", "cuda") else nullcontext()


def propagate(
    name: str,
    model: torch.nn.Module,
    batch: Batch,
    composite: Composite,
    start: Callable[[torch.Tensor, Batch], torch.Tensor],
) -> torch.Tensor:
    """Relevance of the inputs when the target's logit has `start(outputs, batch)` (B,) and all others none."""
    from heatproof.explainers.accounts import listening, report
    from heatproof.explainers.compiled import require_functions
    from heatproof.explainers.losses import Losses

    require_functions(model, name)
    begun, relevance = go_back(name, model, batch, composite, start)
    report("lost", lambda: begun - relevance.flatten(1).sum(1))
    if listening():  # in a pass for each case alone: nodes do not know whose relevance they lose
        each = [Losses() for _ in batch.ids]
        for place, losses in enumerate(each):
            go_back(name, model, batch[place : place + 1], composite, start, losses)
        report("biases", lambda: begun.new_tensor([losses.biases for losses in each]))
        report("stabilisers", lambda: begun.new_tensor([losses.in_all - losses.biases for losses in each]))
    return relevance


def go_back(
    name: str,
    model: torch.nn.Module,
    batch: Batch,
    composite: Composite,
    start: Callable[[torch.Tensor, Batch], torch.Tensor],
    losses: Losses | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where relevance begins (B,), and what of it arrives at the inputs."""
    from torch.utils.checkpoint import CheckpointError

    from heatproof.explainers.autograd_graph import UnreachedError, pulled_back

    followed = follow(name, model, batch, composite, losses)
    begun = start(followed.outputs.detach(), batch)
    try:
        with whole_precision(followed.inputs.device.type):
            return begun, pulled_back(followed.logit, followed.inputs, begun)
    except CheckpointError as error:
        raise HeatproofError(f"{name} cannot see into checkpoints that run again; switch them off.") from error
    except UnreachedError as error:
        raise HeatproofError(
            f"{name}: no relevance reaches the inputs, because all of it ends in what the composite takes for constant;"
            " take another composite, or explain logits instead of probabilities."
        ) from error


@dataclass(frozen=True, eq=False)
class Followed:
    """A pass of the model whose way back carries relevance from the target's logit (B,)."""

    inputs: torch.Tensor
    outputs: torch.Tensor
    logit: torch.Tensor
    graph: RelevanceGraph


def follow(
    name: str, model: torch.nn.Module, batch: Batch, composite: Composite, losses: Losses | None = None
) -> Followed:
    """Run the model so that relevance can go back through it; an error where it could not."""
    from heatproof.explainers.relevance_graph import RelevanceGraph
    from heatproof.explainers.same_network import require_same_network

    def run() -> torch.Tensor:
        outputs: torch.Tensor = model(inputs, *batch.context)
        return outputs

    def graph(copies: bool = False) -> RelevanceGraph:
        return RelevanceGraph(name, model, composite, inputs, copies, losses)

    with torch.enable_grad():
        inputs = batch.inputs.detach().requires_grad_()
        for copies in (False, True):
            with graph(copies) as watched, no_backward_hooks(model):
                outputs = run()
                logits = class_scores(outputs, "logit")
            if not watched.changed:
                break
        logit = picked(logits, batch.target, outputs.shape[1])
        watched.require_followed(logit)
        require_same_network(model, name, outputs, run, graph, form=repr(composite))
    watched.let_go()
    return Followed(inputs, outputs, logit, watched)

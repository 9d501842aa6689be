"""A backward pass that carries relevance instead of gradients.

While the model runs, every torch function that touches relevance (a tensor that depends on the inputs) is looked at:
a linear map is tied to its rule, an activation passes relevance on, sums and averages share it in proportion, and
what only moves values about is left to autograd, whose backward moves relevance just so. What does not depend on the
inputs (a question through an LSTM) is a constant. Because functions are watched and not modules, it does not matter
whether a ReLU is a module, used twice, in place or a plain function call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from heatproof.errors import HeatproofError
from heatproof.explainers.attention_rules import constants, made_of_constants, note_gate, through_attention, unfolded
from heatproof.explainers.autograd_graph import (
    behind,
    function_name,
    hidden_step,
    is_hidden,
    made_by,
    nodes_of,
    shape_of,
    taken_shape,
)
from heatproof.explainers.linear_maps import Found, along, linear_map, named, patch_adjoint, plain
from heatproof.explainers.losses import Back, Losses
from heatproof.explainers.norms import centred, norm_of
from heatproof.explainers.relevance_kinds import (
    ACTIVATIONS,
    ADDITIONS,
    ASKED,
    AVERAGES,
    COPIES,
    DROPOUTS,
    LAYERS,
    MOVED_ALONE,
    MOVEMENTS,
    MOVING_NODES,
    NORMS,
    PRODUCTS,
    RAISED,
    RESHAPED,
    SCALINGS,
    SHIFTED_PRODUCTS,
)
from heatproof.explainers.relevance_nodes import PassOn, Redistribute, own_tensor, pass_on, passed_on, redistributed
from heatproof.explainers.rules import LinearMap, Rule
from heatproof.explainers.sums import Sharing, share_addition, share_average, share_centring, terms
from heatproof.explainers.watching import Call, Watching, plain_name, running_layer, tensors_in

if TYPE_CHECKING:
    from heatproof.explainers.propagation import Composite

PASSED_ON = ACTIVATIONS | SCALINGS
REPLACED = PASSED_ON | ADDITIONS | AVERAGES | LAYERS | NORMS | PRODUCTS | SHIFTED_PRODUCTS.keys()


@dataclass(frozen=True, eq=False)
class Tied:
    """A linear map in the graph, its rule, and whom its relevance goes to."""

    linear: LinearMap
    rule: Rule
    source: Tensor


class RelevanceGraph(Watching):
    """Inside this context, backward passes carry relevance.

    Inputs of maps and sums are kept as they are, without a copy. Where the model changes one of them in place later,
    `changed` says so, and it has to run again with `copies`. Whoever gives `losses` finds there what a pass back lost.
    """

    def __init__(
        self,
        explainer: str,
        model: nn.Module,
        composite: Composite,
        inputs: Tensor,
        copies: bool = False,
        losses: Losses | None = None,
    ) -> None:
        super().__init__()
        self.explainer = explainer
        self.model = model
        self.composite = composite
        self.inputs = inputs
        self.copies = copies
        self.losses = losses
        self.moving = {"__get__"} if composite.attention == "constant" else MOVED_ALONE
        self.sharing = Sharing(composite.positive_sums, composite.stabiliser)
        self.maps = 0
        self.has_begun = False
        """Whether there was a layer or an activation, so that the inputs are behind."""
        self.tied: dict[Node | None, Tied] = {}
        """Linear maps by the nodes of their outputs; norms that were not merged into a map before them too."""
        self.kept: list[tuple[Tensor, int]] = []
        self.constant: set[Node | None] = set()
        """Nodes of attention and gates, where these count as constants."""
        self.gates: set[Node] = set()
        """Those of gates among them."""
        self.weights: list[Tensor] = []
        """The attention of every block, where it takes relevance."""
        self.handed_on: set[Node | None] = set()
        """Nodes that pass relevance on as it is."""
        self.without_rule: dict[Node | None, HeatproofError] = {}
        """Nodes of functions that matter only if relevance reaches them."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = plain_name(func)  # these are so many that they take a way of their own
        if name in ASKED or (name in self.moving and args and not args[0].is_leaf):
            return func(*args, **(kwargs or {}))
        if name in DROPOUTS and len(args) > 2 and args[2] is False:
            return args[0]
        return super().__torch_function__(func, types, args, kwargs)

    def replaces(self, name: str) -> bool:
        return name in REPLACED

    def watch(self, call: Call) -> Any:
        if any(carrier.is_leaf and carrier is not self.inputs for carrier in call.carriers):
            # Parameters that the model does not list are constants too.
            call = call.with_tensors(lambda tensor: tensor.detach() if tensor.is_leaf else tensor)
        if call.name in ("grad", "backward"):
            raise self.refusal(call)  # relevance takes the place of gradients here
        if call.name == "register_hook":
            tensor, hook = named(call, ("input", "hook")).values()
            return tensor.register_hook(lambda relevance: only_told(hook, relevance))
        carriers = call.carriers
        if self.composite.attention == "constant" and torch.is_grad_enabled() and made_of_constants(self, call):
            return constants(self, call)
        if call.name in MOVEMENTS or not carriers or not torch.is_grad_enabled():
            return call.value()
        if call.name in NORMS and len(carriers) == 1:
            return self.norm(call)
        if call.name in ADDITIONS and len(carriers) == 1:
            return self.shifted(call, carriers[0])
        if call.name == "neg":
            return self.negated(carriers[0], plain(call))
        if call.name in PASSED_ON and len(carriers) == 1 and not divides(call):
            return self.activated(call, carriers[0])
        if call.name in ADDITIONS and not multiplies(call):
            return self.added(call)
        if call.name in AVERAGES or (call.name == "einsum" and len(call.tensors) == 1):
            return self.averaged(call, carriers[0])
        if found := linear_map(call, self.keep):
            return self.linear(found)
        if self.composite.attention is not None:
            return self.attention(call)
        if call.name not in REPLACED:
            result = call.value()
            if not any(tensor.requires_grad for tensor in tensors_in([result])):
                return result  # sizes, comparisons and the like
        raise self.refusal(call)

    def watch_in_place(self, call: Call, place: Tensor) -> Tensor:
        simple = call.name in PASSED_ON and call.name != "neg" and not place.is_leaf
        alone = len(call.carriers) == 1 and call.args and call.carriers[0] is place and "out" not in call.kwargs
        if simple and alone and torch.is_grad_enabled():
            off = place.detach() == 0 if call.name in RAISED and self.has_begun else None
            result: Tensor = PassOn.apply(place, call, off)  # type: ignore[no-untyped-call]
            self.note_activation(call.name, result)
            return result
        return super().watch_in_place(call, place)

    def keep(self, tensor: Tensor) -> Tensor:
        """What the tensor holds now; the model may change it later.

        Always another tensor: a node that held its own output would never be freed.
        """
        if self.copies:
            return tensor.detach().clone()
        if not tensor.is_inference():
            self.kept.append((tensor, tensor._version))
        return tensor.detach()

    @property
    def changed(self) -> bool:
        """Whether something that was kept has been changed in place since."""
        return any(tensor._version != version for tensor, version in self.kept)

    def let_go(self) -> None:
        """Hold no longer what was kept, so that each node of the way back frees its own as soon as it is done."""
        self.tied.clear()
        self.kept.clear()

    def linear(self, found: Found) -> Tensor:
        """Tie a dense layer, a convolution or a product by constants to its rule."""
        linear, value, source = found.linear, found.value, found.source
        norm = self.tied.get(maker(source))
        if norm is not None and norm.linear.kind == "norm" and linear.channels_in is not None:
            # Batch norm in front of the map: scale the weights; all else that reaches the output is bias.
            weight = along(linear.weight, linear.channels_in, norm.linear.weight.flatten())
            bias = value - linear.apply(norm.linear.x, weight)
            linear, source = replace(linear, x=norm.linear.x, weight=weight, bias=bias), norm.source
        elif self.composite.attention is not None and linear.kind == "dense":
            value = own_tensor(value, [source])  # what the model gets, and may change in place
            linear = replace(linear, outputs=self.keep(value))
        elif self.composite.attention is not None and found.side_by_side():
            linear = replace(linear, outputs=self.keep(value), adjoint=patch_adjoint)
        rule = self.composite.rule(self.maps, linear.kind)
        if not rule.by_rows and len(linear.x) % len(self.inputs):
            raise HeatproofError(
                f"{self.explainer}: the rule {type(rule).__name__} works case by case, and what this model hands to"
                f" layer {running_layer(self.model)!r} does not have its cases on the first axis; take another"
                " composite or input_rule."
            )
        self.maps += 1
        self.has_begun = True
        return self.tie(value, linear, rule, source)

    def tie(self, value: Tensor, linear: LinearMap, rule: Rule, source: Tensor) -> Tensor:
        output = self.node(
            value, lambda relevance: (redistribute_rows(rule, linear, relevance),), source, rule=rule, linear=linear
        )
        self.tied[output.grad_fn] = Tied(linear, rule, source)
        return output

    def node(
        self, value: Tensor, back: Back, *inputs: Tensor, rule: Rule | None = None, linear: LinearMap | None = None
    ) -> Tensor:
        """`value` as a node of the graph, which may lose relevance on its way back."""
        way = back if self.losses is None else self.losses.noted(back, rule, linear)
        return redistributed(value, way, *inputs)

    def map_behind(self, tensor: Tensor) -> Tied | None:
        """The dense layer or convolution that made this tensor, if one did."""
        tied = self.tied.get(maker(tensor))
        return None if tied is None or tied.linear.kind == "norm" else tied

    def norm(self, call: Call) -> Tensor:
        """Merge a batch norm into the map before it or behind it; alone, it is a linear map of its own."""
        norm, value = norm_of(call), plain(call)
        source = norm.source
        if not source.requires_grad:
            raise self.refusal(call)
        if norm.groups is not None:
            x = centred(source.detach(), norm.groups)
            source = self.node(x, share_centring(self.keep(source), norm.groups, self.sharing), source)
        elif self.composite.merge_norms and (tied := self.map_behind(source)):
            linear = tied.linear
            if linear.channels_out is not None:
                weight = along(linear.weight, linear.channels_out, norm.scale.flatten())
                bias = norm.shift if linear.bias is None else linear.bias * norm.scale + norm.shift
                return self.tie(value, replace(linear, weight=weight, bias=bias, outputs=None), tied.rule, tied.source)
        alone = LinearMap(self.keep(source), norm.scale, norm.shift, torch.mul, "norm")
        rule = self.composite.rule(-1, "norm")
        output = self.node(
            value, lambda relevance: (rule.redistribute(alone, relevance),), source, rule=rule, linear=alone
        )
        if self.composite.merge_norms and norm.groups is None:
            self.tied[output.grad_fn] = Tied(alone, rule, source)
        return output

    def shifted(self, call: Call, carrier: Tensor) -> Tensor:
        """A constant added to a linear map is its bias; added to anything else, it takes no share.

        With rules for attention it does, like a bias: positions that are added to tokens are no part of the inputs.
        """
        tied, shares = self.map_behind(carrier), self.composite.attention is not None and self.composite.dense.biases
        if tied is None and shares:
            return self.added(call)
        factor = terms(call)[0][1]
        if tied is not None and not isinstance(factor, Tensor) and shape_of_sum(call) == carrier.shape:
            constant = call.with_tensors(lambda tensor: tensor.new_zeros(()) if tensor is carrier else tensor.detach())
            shift = self.keep(getattr(torch, call.name)(*constant.args, **constant.kwargs).to(carrier))
            return self.tie(plain(call), scaled(tied.linear, factor, shift), tied.rule, tied.source)
        return self.added(call) if shares else self.passed_by_values(call, carrier)

    def passed_by_values(self, call: Call, carrier: Tensor) -> Tensor:
        """A value that is not zero where the carrier is; relevance goes to the carrier as it is, but not to its zeros.

        What a ReLU has switched off gave nothing. In the inputs a zero is a value like any other: black.
        """
        zeros = carrier.detach() == 0  # before the value, which may be written to its place
        value = plain(call)
        if not self.has_begun or not bool(zeros.any()):
            return pass_on(value, carrier)
        return self.node(value, lambda coming: (coming.sum_to_size(zeros.shape).masked_fill(zeros, 0),), carrier)

    def negated(self, carrier: Tensor, value: Tensor) -> Tensor:
        """A linear map with its sign turned is one with other weights: what speaks against it speaks for it now."""
        tied = self.map_behind(carrier)
        if tied is None:
            return pass_on(value, carrier)
        return self.tie(value, scaled(tied.linear, -1), tied.rule, tied.source)

    def activated(self, call: Call, carrier: Tensor) -> Tensor:
        """An activation passes relevance on; a gate may count as a constant."""
        result = self.passed_by_values(call, carrier) if call.name in RAISED else passed_on(call, carrier)
        if result is not carrier:
            self.note_activation(call.name, result)
        return result

    def note_activation(self, name: str, result: Tensor) -> None:
        """Remember that it passes relevance on, and whether it is a gate; behind it the inputs are no more."""
        self.has_begun |= name in ACTIVATIONS
        if self.composite.attention is not None:
            self.handed_on.add(result.grad_fn)
            note_gate(self, name, result.grad_fn)

    def passed(self, value: Tensor, carrier: Tensor) -> Tensor:
        """A value whose relevance goes to `carrier` as it is."""
        result = pass_on(value, carrier)
        self.handed_on.add(result.grad_fn)
        return result

    def attention(self, call: Call) -> Any:
        """A step of attention, functions made of such steps, and what may turn out not to matter."""
        found = through_attention(self, call)
        if found is not None:
            return found
        if (steps := unfolded(call)) is not None:
            with self:
                return steps(*call.args, **call.kwargs)
        result = call.value()
        for tensor in tensors_in([result]):
            if tensor.requires_grad:
                self.without_rule[tensor.grad_fn] = self.refusal(call)
        return result

    def added(self, call: Call) -> Tensor:
        """Parts of a sum get relevance by what they give to it."""
        added = [self.turned(part, factor) for part, factor in terms(call)]
        kept = [(self.keep(part), factor) for part, factor in added]
        addition = replace(call, func=getattr(torch, call.name))  # never in place, which would change what is kept
        value = plain(addition)
        whole = self.keep(value) if len(added) == 1 else None
        return self.node(value, share_addition(kept, self.sharing, whole), *[part for part, _ in added])

    def turned(self, part: Tensor, factor: Any) -> tuple[Tensor, Any]:
        """A linear map that is subtracted, as its negative that is added."""
        if isinstance(factor, Tensor) or factor >= 0 or self.map_behind(part) is None:
            return part, factor
        return self.negated(part, -part.detach()), -factor

    def averaged(self, call: Call, carrier: Tensor) -> Tensor:
        """So do the values that a mean, a sum or a pool is made of."""
        if self.sharing.positive and "cubic" in str(call.kwargs.get("mode")):
            raise self.refusal(call)  # its weights have both signs

        def average(inputs: Tensor) -> Tensor:
            result: Tensor = call.with_tensors(lambda tensor: inputs if tensor is carrier else tensor).value()
            return result

        return self.node(plain(call), share_average(self.keep(carrier), average, self.sharing), carrier)

    def require_followed(self, outputs: Tensor) -> None:
        """An error that names a step of the pass that was not seen, and so has no rule."""
        if not outputs.requires_grad:
            raise HeatproofError(
                f"{self.explainer} cannot follow this model's outputs back to its inputs: on the way it leaves torch's"
                " graph (detach, no_grad, NumPy)."
            )
        if all(self.knows(node) for node in behind([outputs])):
            return
        node = next(node for node in nodes_of(outputs) if not self.knows(node))
        if node in self.without_rule:
            raise self.without_rule[node]
        name = function_name(node)
        step = hidden_step(node) if is_hidden(node) else f"the step {name} of the model, which it did not see."
        raise HeatproofError(f"{self.explainer} cannot see through {step}")

    def knows(self, node: Node) -> bool:
        """Whether relevance goes back through this node as it should."""
        known = function_name(node) in MOVING_NODES or made_by(node, (Redistribute, PassOn))
        return known and node not in self.without_rule

    def refusal(self, call: Call) -> HeatproofError:
        """The error for a function without a rule."""
        layer = running_layer(self.model)
        where = f", in layer {layer!r}" if layer else ""
        twice = " of two things that both depend on the inputs (a gate, attention)" if len(call.carriers) > 1 else ""
        rules = ", or lrp:composite=attn_lrp, which has rules for attention and gates"
        further = rules if self.composite.attention is None and self.explainer == "lrp" else ""
        return HeatproofError(
            f"{self.explainer} has no rule for the torch function {call.name!r}{twice} that this model uses{where};"
            f" take a gradient or perturbation method for it (heatproof list explainers){further}."
        )


def only_told(hook: Callable[[Tensor], object], relevance: Tensor) -> None:
    """Call a hook that was made for gradients: what it would put in their place is no relevance."""
    hook(relevance)


def shape_of_sum(call: Call) -> torch.Size:
    """The shape of what an addition gives."""
    found: torch.Size = torch.broadcast_shapes(*[tensor.shape for tensor in call.tensors])
    return found


def scaled(linear: LinearMap, factor: float, shift: Tensor | None = None) -> LinearMap:
    """The map times a number, with a constant added."""
    weight, bias = linear.weight, linear.bias
    if factor != 1:
        weight, bias = weight * factor, None if bias is None else bias * factor
    if shift is not None:
        bias = shift if bias is None else bias + shift
    return replace(linear, weight=weight, bias=bias, outputs=None)


def redistribute_rows(rule: Rule, linear: LinearMap, relevance: Tensor) -> Tensor:
    """What the rule gives, worked out only for those rows of a dense layer (pairs, tokens) that have any relevance."""
    whole = linear.kind != "dense" or not linear.rows or relevance.ndim == 2 or not rule.by_rows
    if whole or (linear.bias is not None and linear.bias.ndim > 1):
        return rule.redistribute(linear, relevance)
    if are_most(relevance[..., 0]) or are_most(rows := relevance.any(-1)):  # the first look is quicker
        return rule.redistribute(linear, relevance)
    result = torch.zeros_like(linear.x)
    outputs = None if linear.outputs is None else linear.outputs[rows]
    result[rows] = rule.redistribute(replace(linear, x=linear.x[rows], outputs=outputs), relevance[rows])
    return result


def are_most(rows: Tensor) -> bool:
    """Whether more than half are true, or not zero."""
    return 2 * int(rows.count_nonzero()) > rows.numel()


def maker(tensor: Tensor) -> Node | None:
    """The node that made this tensor, or the tensor that it is a copy of."""
    found = tensor.grad_fn
    while found is not None and hands_on(found):
        found = found.next_functions[0][0]
    return found


def hands_on(node: Node) -> bool:
    """Whether the node hands a tensor on as it is, in shape too."""
    name = function_name(node)
    return name in COPIES or (name in RESHAPED and taken_shape(node) == shape_of(node))


def divides(call: Call) -> bool:
    """Whether it divides by what depends on the inputs."""
    return call.name == "div" and not (isinstance(call.args[0], Tensor) and call.args[0].requires_grad)


def multiplies(call: Call) -> bool:
    """Whether an addition adds a product of two things that depend on the inputs."""
    factors = named(call, ("input", "tensor1", "tensor2"))
    return call.name == "addcmul" and factors["tensor1"].requires_grad and factors["tensor2"].requires_grad

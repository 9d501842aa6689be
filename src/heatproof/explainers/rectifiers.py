"""Rectifiers of a pass, whatever they are called, and backward passes in which they let only positive signals through.

The model runs as it is. Its rectifiers are then found on autograd's graph by what they do: f(x) = max(0, x), perhaps
with a cap, as `relu`, `relu6`, `clamp(min=0)` and the like have it; so functional, reused and in-place ones and those
within a recurrent layer count too. Two kinds leave too little on the graph and are noted while the model runs: products
with a comparison, `x * (x > 0)`, and functions that work in place on a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from heatproof.errors import HeatproofError
from heatproof.explainers.autograd_graph import (
    function_name,
    require_nodes_known,
    shape_of,
    taken_shape,
)
from heatproof.explainers.watching import Call, elsewhere, plain_name, works_in_place


@dataclass(frozen=True, eq=False)
class Rectifier:
    """A node that rectifies one of the arguments of its function."""

    node: Node
    argument: int = 0
    open: Callable[[], Tensor] | None = None
    """Where the argument is below the cap, if there is one; above, nothing passes back."""


def rectifier(node: Node) -> Rectifier | None:
    """The node as a rectifier, if it is one by itself."""
    find = KINDS.get(function_name(node))
    return None if find is None else find(node)


def relu(node: Any) -> Rectifier | None:
    return Rectifier(node)


def leaky(node: Any) -> Rectifier | None:
    return Rectifier(node) if node._saved_negative_slope == 0 else None


def prelu(node: Any) -> Rectifier | None:
    return Rectifier(node) if is_zero(node._saved_weight) else None


def rrelu(node: Any) -> Rectifier | None:
    """In evaluation mode its slope is the middle of both ends."""
    return Rectifier(node) if node._saved_lower + node._saved_upper == 0 else None


def elu(node: Any) -> Rectifier | None:
    return Rectifier(node) if node._saved_alpha == 0 and node._saved_scale == 1 else None


def threshold(node: Any) -> Rectifier | None:
    """What replaces values below the threshold does not stand on the graph; `Noting` sees it."""
    return Rectifier(node) if node._saved_threshold == 0 else None


def hardtanh(node: Any) -> Rectifier | None:
    cap = node._saved_max_val
    return Rectifier(node, open=lambda: node._saved_self < cap) if node._saved_min_val == 0 < cap else None


def clamp(node: Any) -> Rectifier | None:
    cap = getattr(node, "_saved_max", None)
    if not is_zero(node._saved_min):
        return None
    return Rectifier(node) if cap is None else Rectifier(node, open=lambda: node._saved_self <= cap)


def maximum(node: Any) -> Rectifier | None:
    """max(x, 0) with either order of arguments; the other one is a constant."""
    (one, _), (other, _) = node.next_functions
    if one is not None and other is not None:
        return None
    argument = 0 if one is not None else 1
    same = taken_shape(node, argument) == shape_of(node)
    return Rectifier(node, argument) if same and is_zero(node._saved_self if argument else node._saved_other) else None


KINDS: dict[str, Callable[[Any], Rectifier | None]] = {
    "Relu": relu, "LeakyRelu": leaky, "Threshold": threshold, "Hardtanh": hardtanh, "Clamp": clamp, "ClampMin": clamp,
    "Maximum": maximum, "Fmax": maximum, "PreluKernel": prelu, "RreluWithNoise": rrelu, "Elu": elu,
}  # fmt: skip


def is_zero(value: Any) -> bool:
    return not bool(value.any()) if isinstance(value, Tensor) else isinstance(value, (int, float)) and value == 0


@dataclass(frozen=True, eq=False)
class Comparison:
    """The outcome of comparing a tensor with zero: where it is above, or (not `above`) where it is below."""

    outcome: Tensor
    source: Tensor
    version: int
    above: bool

    def is_of(self, tensor: Any) -> bool:
        """Whether it says where this tensor is above zero, as it is now."""
        return (
            isinstance(tensor, Tensor)
            and tensor.data_ptr() == self.source.data_ptr()
            and tensor.shape == self.source.shape
            and tensor.stride() == self.source.stride()
            and tensor._version == self.version
        )


ABOVE = {"gt": True, "greater": True, "ge": True, "greater_equal": True}
BELOW = {"lt": False, "less": False, "le": False, "less_equal": False}
COMPARISONS = {**ABOVE, **BELOW}
INVERSIONS = {"logical_not", "bitwise_not", "invert"}
CONVERSIONS = {"float", "double", "half", "bfloat16", "int", "long", "bool", "to", "type", "type_as", "detach", "clone"}
CHOICES = {"mul", "where", "masked_fill", "__setitem__"}
PLAIN = {"relu", "relu6", "hardtanh", "clamp", "clamp_min", "threshold", "leaky_relu"}
UNTOLD = {"Mul", "Where", "MaskedFill", "IndexPut", "Threshold", "CopySlices"}
"""Nodes of functions that may rectify or hide one that does: the graph alone does not tell, `Noting` does."""
TOLD_BY_GRAPH: WeakSet[nn.Module] = WeakSet()
"""Networks whose last graph had no such node. They run without `Noting`, which takes time, while that stays so."""
NOTED = {*COMPARISONS, *INVERSIONS, *CONVERSIONS, *CHOICES, *PLAIN}


class Noting(TorchFunctionMode):
    """Inside this context, rectifiers that the graph alone does not show are noted.

    Functions in place on a view get a node of their own: on the graph, they are hidden in that of the whole tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.comparisons: dict[int, Comparison] = {}
        self.found: dict[Node, Rectifier | None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = plain_name(func)
        if name not in NOTED:
            return func(*args, **(kwargs or {}))
        call = Call(name, func, tuple(args), dict(kwargs or {})).with_input_first()
        place = call.args[0] if call.args and (name == "__setitem__" or works_in_place(call)) else None
        chosen = self.choice(call) if name in CHOICES else None
        if place is not None and place._is_view() and (chosen is not None or name in PLAIN):
            call = elsewhere(call)
            value = call.value()
            self.note(call, call.args[0] if value is None else value, chosen)
            place.copy_(call.args[0] if value is None else value)
            return None if value is None else place
        value = call.value()
        self.note(call, place if value is None else value, chosen)
        return value

    def note(self, call: Call, value: Any, chosen: int | None) -> None:
        """Remember what a comparison was made of, and which node is a rectifier, or only looks like one."""
        if not isinstance(value, Tensor):
            return
        if call.name in COMPARISONS:
            self.compare(call, value)
        elif call.name in INVERSIONS or call.name in CONVERSIONS:
            known = self.comparisons.get(id(call.args[0]))
            if known is not None:
                above = known.above != (call.name in INVERSIONS)
                self.comparisons[id(value)] = Comparison(value, known.source, known.version, above)
        elif chosen is not None and value.grad_fn is not None:
            self.found[value.grad_fn] = Rectifier(value.grad_fn, chosen)
        elif call.name == "threshold" and value.grad_fn is not None and not is_zero(replacement(call)):
            self.found[value.grad_fn] = None

    def compare(self, call: Call, outcome: Tensor) -> None:
        one, other = call.args[0], call.args[1] if len(call.args) > 1 else call.kwargs.get("other")
        above = COMPARISONS[call.name]
        if not is_zero(other):
            one, other, above = other, one, not above
        if isinstance(one, Tensor) and is_zero(other):
            self.comparisons[id(outcome)] = Comparison(outcome, one, one._version, above)

    def choice(self, call: Call) -> int | None:
        """Which tensor with a gradient is rectified by a product with, or a choice by, where it is above zero."""
        args = call.args + tuple(call.kwargs[name] for name in ("other", "mask", "value") if name in call.kwargs)
        if len(args) < 2 + (call.name != "mul"):
            return None
        if call.name == "mul":
            kept = {0: args[0], 1: args[1]}
            return next((i for i, tensor in kept.items() if self.says(args[1 - i], tensor, above=True)), None)
        if call.name == "where":
            condition, one, other = args[:3]
            if self.says(condition, one, above=True) and is_zero(other):
                return 0
            return 1 if self.says(condition, other, above=False) and is_zero(one) else None
        return 0 if self.says(args[1], args[0], above=False) and is_zero(args[2]) else None

    def says(self, outcome: Any, tensor: Any, above: bool) -> bool:
        known = self.comparisons.get(id(outcome))
        return known is not None and known.above == above and known.is_of(tensor)


def replacement(call: Call) -> Any:
    """What `threshold` puts where values are not above the threshold."""
    return call.args[2] if len(call.args) > 2 else call.kwargs.get("value", 0)


def are_told(nodes: Iterable[Node]) -> bool:
    """Whether these nodes tell by themselves which of them are rectifiers."""
    return UNTOLD.isdisjoint(map(function_name, nodes))


def remember_whether_told(model: nn.Module, nodes: Iterable[Node], noted: Noting) -> None:
    """The next pass of this model need not be noted if noting this one had nothing to add."""
    told = not noted.found and are_told(nodes)
    (TOLD_BY_GRAPH.add if told else TOLD_BY_GRAPH.discard)(model)


def find_rectifiers(
    nodes: Sequence[Node], noted: Mapping[Node, Rectifier | None], convs_only: bool, explainer: str
) -> list[Rectifier]:
    """The rectifiers among the nodes between inputs and outputs; where there are none, or some may be hidden, an error.

    `convs_only` leaves out those that run over pairs or tokens: all but those behind convolutions and those on plain
    vectors (B, n).
    """
    require_nodes_known(nodes, explainer, known=has_no_rectifier)
    every = [noted[node] if node in noted else rectifier(node) for node in nodes]
    found = [one for one in every if one is not None]
    chosen = [one for one in found if on_vectors(one) or behind_convolution(one)] if convs_only else found
    if chosen:
        return chosen
    if found:
        raise HeatproofError(
            f"{explainer} with relus=convs finds no ReLU behind a convolution or on vectors in this model;"
            " take relus=all."
        )
    raise HeatproofError(
        f"{explainer} changes how gradients pass ReLUs, and this model has none, nor any other rectifier: it would be"
        " the plain gradient. Take gradient, or another method."
    )


def has_no_rectifier(node: Any) -> bool:
    """Of fused kernels, only those of recurrent networks with ReLUs (mode 0) hold rectifiers."""
    return "Rnn" in function_name(node) and getattr(node, "_saved_mode", None) != 0


def on_vectors(one: Rectifier) -> bool:
    return len(shape_of(one.node)) == 2


def behind_convolution(one: Rectifier) -> bool:
    """Whether it rectifies what a convolution or a batch norm made, directly."""
    maker = one.node.next_functions[one.argument][0]
    while maker is not None and function_name(maker) == "BackwardHookFunction":  # around layers with a user's hooks
        maker = maker.next_functions[0][0]
    return maker is not None and any(word in function_name(maker) for word in ("Convolution", "BatchNorm"))


@contextmanager
def positive_backward(found: Sequence[Rectifier], guided: bool) -> Iterator[None]:
    """Inside this context, the way back through these rectifiers is that of guided backprop, or of a deconvnet."""
    handles = [
        one.node.register_prehook(positive) if guided else one.node.register_hook(deconvolution(one)) for one in found
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def positive(signals: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """What arrives at a rectifier, without what is negative; its own way back drops what the forward pass did."""
    return tuple(None if signal is None else signal.clamp(min=0) for signal in signals)


def deconvolution(one: Rectifier) -> Callable[..., tuple[Tensor | None, ...]]:
    """What leaves a rectifier is what arrived, without what is negative, wherever the forward pass was not capped."""

    def leaving(given: Sequence[Tensor | None], signals: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        was, signal = given[one.argument], signals[0]
        if was is None or signal is None:
            return tuple(given)
        passed = signal.clamp(min=0)
        if one.open is not None:
            passed = passed.where(one.open(), 0)
        return *given[: one.argument], passed.to(was.dtype), *given[one.argument + 1 :]

    return leaving

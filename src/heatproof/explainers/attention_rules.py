"""Relevance through attention: softmax, products of two things that depend on the inputs, norms over tokens.

Achtibat et al. 2024 (AttnLRP): a softmax is taken by its Taylor expansion at the point, a product gives half of its
relevance to each factor, and what a norm divides by is a constant. Ali et al. 2022 (conservative propagation): so are
attention and gates, and all relevance goes to what they weigh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from heatproof.explainers.attention_maps import are_looks, attended
from heatproof.explainers.autograd_graph import function_name
from heatproof.explainers.linear_maps import named, plain
from heatproof.explainers.losses import Back
from heatproof.explainers.relevance_kinds import (
    ADDITIONS,
    MOVING_NODES,
    PRODUCTS,
    SCALINGS,
    SHIFTED_PRODUCTS,
    WRITTEN,
)
from heatproof.explainers.relevance_nodes import own_tensor
from heatproof.explainers.rules import LinearMap, over, times
from heatproof.explainers.sums import share_centring
from heatproof.explainers.watching import Call, changed, opened

if TYPE_CHECKING:
    from heatproof.explainers.relevance_graph import RelevanceGraph

DIVISORS = {"Rsqrt", "Reciprocal"}
"""Nodes of what is one over a length: a norm written out multiplies by it."""
GATES = {"softmax", "sigmoid", "hardsigmoid"}
"""What conservative propagation takes for a constant that weighs something else."""
RECKONING = SCALINGS | ADDITIONS | {"interpolate"}
"""What makes a gate of gates, such as one less a gate."""
FOLLOWED = 32
"""Nodes to look at for what made a factor."""


def shifted_product(name: str, shift: Tensor, first: Tensor, second: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * shift + alpha * first second"""
    product: Tensor = getattr(torch, SHIFTED_PRODUCTS[name])(first, second)
    shifted: Tensor = beta * shift + alpha * product
    return shifted


def gated(inputs: Tensor, dim: int = -1) -> Tensor:
    """One half, weighed by a gate that is made of the other."""
    weighed, gate = inputs.chunk(2, dim)
    result: Tensor = weighed * gate.sigmoid()
    return result


UNFOLDED: dict[str, Callable[..., Tensor]] = {"scaled_dot_product_attention": attended, "glu": gated}


def unfolded(call: Call) -> Callable[..., Any] | None:
    """What stands for a function of several steps, each of which has a rule."""
    if call.name in SHIFTED_PRODUCTS:
        return lambda *args, **kwargs: shifted_product(call.name, *args, **kwargs)
    return UNFOLDED.get(call.name) or opened(call.func)


def through_attention(graph: RelevanceGraph, call: Call) -> Tensor | None:
    """The value of a step of attention with its way back; None where it is no such step."""
    if call.name == "softmax" and len(call.carriers) == 1:
        return softmax(graph, call)
    if call.name == "layer_norm" and len(call.carriers) == 1:
        return layer_norm(graph, call)
    if call.name in ("rms_norm", "normalize") and len(call.carriers) == 1:
        return graph.passed(plain(call), call.carriers[0])
    if call.name in PRODUCTS and len(call.tensors) == len(call.carriers) == 2:
        return product(graph, call)
    if call.name == "mul" and len(call.carriers) == 2:
        return scaled(graph, call)
    if call.name == "div" and isinstance(call.args[0], Tensor) and call.args[0].requires_grad:
        return graph.passed(plain(call), call.args[0])
    return None


def softmax(graph: RelevanceGraph, call: Call) -> Tensor:
    """x_i (R_i - s_i sum_j R_j); nothing where attention is a constant."""
    given = named(call, ("input", "dim"))
    source, value = call.carriers[0], plain(call)
    if graph.composite.attention == "constant":
        return constant(graph, value)
    x, axis = graph.keep(source), given["dim"]
    held = graph.keep(value)

    def back(relevance: Tensor) -> tuple[Tensor]:
        taken = held * relevance.sum(axis, keepdim=True)
        shares = torch.sub(relevance, taken, out=taken)
        if bool(x.amin() == -torch.inf):  # what a mask hides has no part in it
            return ((x.masked_fill(x == -torch.inf, 0) * shares).to(x),)
        return (times(shares, x).to(x),)

    result = graph.node(value, back, source)
    if are_looks(value, axis):
        graph.weights.append(result)
    return result


def layer_norm(graph: RelevanceGraph, call: Call) -> Tensor:
    """A token less its mean, over its deviation, which is a constant: the rule of norms, then each value's share."""
    given = named(call, ("input", "normalized_shape", "weight", "bias", "eps"))
    source, weight, bias = call.carriers[0], given.get("weight"), given.get("bias")
    if source is not given["input"]:
        raise graph.refusal(call)
    x, shape = graph.keep(source), given["normalized_shape"]
    value, mean, deviation = torch.native_layer_norm(x, shape, weight, bias, given.get("eps", 1e-5))
    scale, outputs = torch.ones_like(x[:1]) if weight is None else weight, graph.keep(value)
    rule = graph.composite.rule(-1, "norm")
    rows = (-1, torch.Size(shape).numel())
    share = share_centring(x.reshape(rows), 1, graph.sharing)

    def norm() -> LinearMap:
        normed = (x - mean).mul_(deviation).to(x)
        return LinearMap(normed, scale, bias, torch.mul, "norm", adjoint=scaled_back, outputs=outputs)

    def back(relevance: Tensor) -> list[Tensor]:
        return [found.view(x.shape) for found in share(rule.redistribute(norm(), relevance).reshape(rows))]

    return graph.node(value, back, source, rule=rule, linear=None if graph.losses is None else norm())


def scaled_back(s: Tensor, weight: Tensor, _: torch.Size) -> Tensor:
    return s * weight


def constant(graph: RelevanceGraph, value: Tensor) -> Tensor:
    """A value that weighs others and takes no relevance, so that what it came from need not be followed."""
    nowhere = value.new_zeros(1, requires_grad=True)
    result = graph.node(value, lambda relevance: (torch.zeros_like(nowhere),), nowhere)
    graph.constant.add(result.grad_fn)
    return result


def made_of_constants(graph: RelevanceGraph, call: Call) -> bool:
    """Whether a function only takes what counts as constant, and writes nowhere.

    What gates made is so while it is only reckoned with: in layers, a sigmoid is an activation like any other.
    """
    if call.name in WRITTEN or not call.carriers:
        return False
    found = [grounds(graph, carrier) for carrier in call.carriers]
    return all(found) and (call.name in RECKONING or graph.gates.isdisjoint(set().union(*found)))


def constants(graph: RelevanceGraph, call: Call) -> Any:
    """What a function makes of constants: constants again."""
    return changed([plain(call)], lambda made: constant(graph, made) if made.is_floating_point() else made)[0]


def product(graph: RelevanceGraph, call: Call) -> Tensor:
    """a_i b_j / z of R to both, half of it each; to one, all of it, where the other is a constant."""
    sources = call.tensors
    takes = takers(graph, sources)
    kept = [graph.keep(source) for source in sources]
    chosen = [source for source, taker in zip(sources, takes, strict=True) if taker]
    value = own_tensor(plain(call), kept)
    if is_by_cases(call, kept):
        way = share_matrices(kept, graph.keep(value), takes, graph.composite.stabiliser)
    else:
        way = share_product(call, kept, takes, graph.composite.stabiliser)
    return graph.node(value, way, *chosen)


def is_by_cases(call: Call, factors: Sequence[Tensor]) -> bool:
    """Whether it multiplies as many matrices by as many others: what attention does."""
    first, second = factors
    return call.name in ("matmul", "bmm") and first.ndim > 2 and first.shape[:-2] == second.shape[:-2]


def share_matrices(kept: Sequence[Tensor], z: Tensor, takes: Sequence[bool], stabiliser: float) -> Back:
    """The way back of z = a b, matrix by matrix: a (s b^T) and b (a^T s), each element by element."""

    def back(relevance: Tensor) -> list[Tensor]:
        first, second = kept
        count = sum(takes)
        s = over(relevance, z, stabiliser / count)
        s = s if count == 1 else s.div_(count)  # in place, where 2 z would be new memory
        shares = []
        if takes[0]:
            shares.append(times(s @ second.mT, first))
        if takes[1]:
            shares.append(times(first.mT @ s, second))
        return shares

    return back


def share_product(call: Call, kept: Sequence[Tensor], takes: Sequence[bool], stabiliser: float) -> Back:
    """The way back of a function that is linear in each of its two tensors."""

    def back(relevance: Tensor) -> list[Tensor]:
        with torch.enable_grad():
            factors = [tensor.detach().requires_grad_(wanted) for tensor, wanted in zip(kept, takes, strict=True)]
            queue = iter(factors)
            z = call.with_tensors(lambda _: next(queue)).value()
        s = over(relevance, sum(takes) * z.detach(), stabiliser)
        wanted = [factor for factor in factors if factor.requires_grad]
        return [
            factor.detach() * found for factor, found in zip(wanted, torch.autograd.grad(z, wanted, s), strict=True)
        ]

    return back


def scaled(graph: RelevanceGraph, call: Call) -> Tensor:
    """A gate or any other product element by element: half of R to each factor, or all to the one that counts."""
    chosen = [source for source, taker in zip(call.carriers, takers(graph, call.carriers), strict=True) if taker]
    if len(chosen) == 1:
        return graph.passed(plain(call), chosen[0])
    shapes = [source.shape for source in chosen]

    def back(relevance: Tensor) -> list[Tensor]:
        return [(relevance / len(shapes)).sum_to_size(shape) for shape in shapes]

    return graph.node(plain(call), back, *chosen)


def takers(graph: RelevanceGraph, factors: Sequence[Tensor]) -> list[bool]:
    """Which factors of a product get relevance: those that are no constant; if all are, all."""
    takes = [not is_constant(graph, factor) for factor in factors]
    return takes if any(takes) else [True] * len(takes)


def is_constant(graph: RelevanceGraph, factor: Tensor) -> bool:
    """Whether a factor counts as one: one over a length, or a weight where these are constants, or made of such."""
    return bool(grounds(graph, factor))


def grounds(graph: RelevanceGraph, factor: Tensor) -> set[Node]:
    """The constants that a factor is made of; none if it is made of anything else."""
    waiting, found, looked = [factor.grad_fn], set[Node](), 0
    while waiting:
        node, looked = waiting.pop(), looked + 1
        if node is None or looked > FOLLOWED:
            return set()
        if node in graph.constant or function_name(node) in DIVISORS:
            found.add(node)
            continue
        before = [parent for parent, _ in node.next_functions if parent is not None]
        if not before or not (function_name(node) in MOVING_NODES or node in graph.handed_on):
            return set()
        waiting += before
    return found


def note_gate(graph: RelevanceGraph, name: str, node: Node | None) -> None:
    """Remember what gates made, where they count as constants."""
    if graph.composite.attention == "constant" and name in GATES and node is not None:
        graph.constant.add(node)
        if name != "softmax":
            graph.gates.add(node)

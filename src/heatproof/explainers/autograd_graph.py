"""The graph that autograd keeps of a pass: what was computed, whoever computed it and however it was written.

A module hook misses functions, a watched function misses what runs inside of others. Every step that a gradient passes
is a node here, also those in place, in C++ and on views. What a node is can be told from its name; what cannot be seen
through (a custom autograd.Function, a reentrant checkpoint, a compiled graph, a fused kernel) has one too, so a method
that would be wrong there can say so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from heatproof.errors import HeatproofError

NAMELESS = "CppFunction"
"""The Python class of nodes that have none of their own."""
PASSING = {"BackwardHookFunction", "Broadcast", "Gather", "Scatter"}
"""Functions of torch's own that hand values on as they are: around layers with hooks, and between devices."""
FUSED = ("CudnnRnn", "MiopenRnn", "MkldnnRnn")
"""How the names of nodes begin that hold a whole recurrent network."""
GRAPHS = ("DifferentiableGraph", "CompiledFunction", "CompiledAutograd")
"""Parts of the names of nodes that hold a compiled graph."""


def behind(outputs: Iterable[Tensor]) -> list[Node]:
    """All nodes behind these outputs, each once."""
    found = list(dict.fromkeys(output.grad_fn for output in outputs if output.grad_fn is not None))
    seen = set(found)
    for node in found:  # which grows meanwhile
        for maker, _ in node.next_functions:
            if maker is not None and maker not in seen:
                seen.add(maker)
                found.append(maker)
    return found


def nodes_of(*outputs: Tensor) -> list[Node]:
    """All nodes behind these outputs, each once; a node comes before those that it hands gradients to."""
    made_of = {node: makers(node) for node in behind(outputs)}
    readers = dict.fromkeys(made_of, 0)
    for maker in chain.from_iterable(made_of.values()):
        readers[maker] += 1
    ordered, ready = [], [node for node in made_of if not readers[node]]
    while ready:
        ordered.append(node := ready.pop())
        for maker in made_of[node]:
            readers[maker] -= 1
            if not readers[maker]:
                ready.append(maker)
    return ordered


def makers(node: Node) -> list[Node]:
    """The nodes that made what this one took, one for each argument with a gradient."""
    return [maker for maker, _ in node.next_functions if maker is not None]


def shape_of(node: Node, output: int = 0) -> tuple[int, ...]:
    """The shape of what the node made in the forward pass."""
    return tuple(node._input_metadata[output].shape)


def taken_shape(node: Node, argument: int = 0) -> tuple[int, ...] | None:
    """The shape of one of the arguments that the node took, if that has a gradient."""
    maker, output = node.next_functions[argument]
    return None if maker is None else shape_of(maker, output)


def is_custom(node: Node) -> bool:
    """Whether it is the way back of a `torch.autograd.Function`, a user's or one of torch's own."""
    return isinstance(node, BackwardCFunction)


def function_name(node: Node) -> str:
    """What was called: `Swish` for the node of `Swish.apply`, `Relu` for ReluBackward0."""
    name = type(node).__name__
    return without_ending(node.name() if name == NAMELESS else name)  # which takes longer


@cache
def without_ending(name: str) -> str:
    return name.rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")


def is_hidden(node: Node) -> bool:
    """Whether it holds steps that cannot be seen: those of custom functions, fused kernels and compiled graphs."""
    name = function_name(node)
    return name not in PASSING if is_custom(node) else holds_many_steps(name)


@cache
def holds_many_steps(name: str) -> bool:
    return name.startswith(FUSED) or any(word in name for word in GRAPHS)


def require_known(
    *outputs: Tensor,
    explainer: str,
    ours: Collection[type] = (),
    known: Callable[[Node], bool] = lambda node: False,
) -> None:
    """An error that names what lies between inputs and outputs and cannot be seen through.

    `ours` are the explainer's own autograd.Functions; `known` says of further nodes that the explainer knows them.
    """
    require_nodes_known(nodes_of(*outputs), explainer, ours, known)


def require_nodes_known(
    nodes: Iterable[Node],
    explainer: str,
    ours: Collection[type] = (),
    known: Callable[[Node], bool] = lambda node: False,
) -> None:
    """`require_known` for a graph that has been walked already."""
    for node in nodes:
        if is_hidden(node) and not made_by(node, ours) and not known(node):
            raise HeatproofError(f"{explainer} cannot see through {hidden_step(node)}")


def made_by(node: Node, functions: Collection[type]) -> bool:
    """Whether it is the way back of one of these autograd.Functions."""
    return getattr(node, "_forward_cls", None) in functions


def hidden_step(node: Node) -> str:
    """What the node hides, and the way out."""
    name = function_name(node)
    if name == "CheckpointFunction":
        return "reentrant checkpoints; give use_reentrant=False to torch.utils.checkpoint."
    if any(word in name for word in GRAPHS):
        return "a compiled graph in the model; give the model as it is before torch.compile or torch.jit."
    if name.startswith(FUSED):
        return (
            f"the fused kernel {name}; take a method that asks for scores and gradients only (gradient,"
            " integrated_gradients, rise ...), or write the recurrent layer as a loop over its cell."
        )
    return (
        f"the custom autograd.Function {name}; write it with torch's own functions, or take a method that asks for"
        " scores and gradients only (gradient, integrated_gradients, rise ...)."
    )


def pulled_back(outputs: Tensor, inputs: Tensor, signal: Tensor) -> Tensor:
    """What arrives at the inputs when `signal` goes back from the outputs: autograd.grad(outputs, inputs, signal).

    Given a signal, torch first imports sympy, half a second that a small worker does not have. Started from a scalar
    it does not.
    """
    if "torch.fx.experimental.symbolic_shapes" in sys.modules:
        (arrived,) = torch.autograd.grad(outputs, inputs, signal, allow_unused=True)
    else:
        with torch.enable_grad():
            scalar: Tensor = Started.apply((signal,), outputs)  # type: ignore[no-untyped-call]
        (arrived,) = torch.autograd.grad(scalar, inputs, allow_unused=True)
    if arrived is None:
        raise UnreachedError("nothing goes back from the outputs to the inputs.")
    return arrived


class UnreachedError(HeatproofError):
    """No way leads back to the inputs."""


class Started(torch.autograd.Function):
    """A scalar from which a given signal goes back."""

    @staticmethod
    def forward(ctx: Any, signal: tuple[Tensor], outputs: Tensor) -> Tensor:
        (ctx.signal,) = signal
        return outputs.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, Tensor]:
        return None, ctx.signal

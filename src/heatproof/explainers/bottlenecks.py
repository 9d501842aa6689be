"""The tensors that everything passes on its way from a model's inputs to its outputs, by autograd's graph."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

from torch import Tensor

Key: TypeAlias = "tuple[Any, int]"
"""A tensor in autograd's graph: a node, and which of its outputs."""


def key_of(tensor: Tensor) -> Key | None:
    """What the tensor is in the graph now: after a function in place it is another."""
    node = tensor.grad_fn
    return None if node is None else (node, tensor.output_nr)


def bottlenecks(outputs: Tensor, start: Any) -> tuple[set[Key], set[Any]]:
    """The tensors through which all ways from node `start` to the outputs lead, and all nodes on such ways.

    The graph is swept from the outputs on, each node after all that read it. Where the edges that are still open all
    lead to one output of one node, nothing goes past it.
    """
    end = key_of(outputs)
    order = [] if end is None else nodes_between(end[0], start)
    found: set[Key] = set()
    waiting: dict[Any, list[int]] = defaultdict(list)
    if end is not None:
        waiting[end[0]].append(end[1])
    on_the_way, unread = set(order), 1
    for node in order:
        read = waiting.pop(node)
        unread -= len(read)
        if not unread and len(set(read)) == 1:
            found.add((node, read[0]))
        for earlier, output in node.next_functions:
            if earlier in on_the_way:
                waiting[earlier].append(output)
                unread += 1
    return found, on_the_way


def nodes_between(end: Any, start: Any) -> list[Any]:
    """The nodes on ways from `end` back to `start`, each after all that read it."""
    leads: dict[Any, bool] = {}
    order: list[Any] = []
    stack = [(end, False)]
    while stack:
        node, done = stack.pop()
        if done:
            leads[node] = node is start or any(leads.get(earlier, False) for earlier, _ in node.next_functions)
            if leads[node]:
                order.append(node)
        elif node not in leads:
            leads[node] = False
            stack.append((node, True))
            stack += [(earlier, False) for earlier, _ in node.next_functions if earlier is not None]
    return order[::-1]

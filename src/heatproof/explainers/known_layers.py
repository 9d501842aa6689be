"""Layers that were found before, read again by one plain pass: watching every function takes longer than a hook.

A network may have changed since, or go other ways with other inputs. So what the outputs came from is compared with
what it was, node by node back to the layer; where it differs, the layer is looked for anew. Which tokens of a
transformer count is told by gradients, so those that came later and had none are handed back too, to be asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary

import torch
from torch import Tensor, nn

from heatproof.explainers.bottlenecks import Key, key_of
from heatproof.explainers.guards import modules_of, uncompiled

if TYPE_CHECKING:
    from heatproof.cases import Batch
    from heatproof.explainers.layers import Activation

Question = tuple[Any, ...]
"""What was asked: the layer's name or None, whether weights have gradients too, which makes the graph another, and the
inputs' shape without the cases."""


@dataclass(frozen=True, eq=False)
class KnownLayer:
    """A module whose output was read, the output as it was, without its values, and the way from the outputs to it.

    later  what was passed over on the way, each with its place there
    """

    module: ReferenceType[nn.Module]
    found: Activation
    way: tuple[str, ...]
    later: tuple[tuple[int, Activation], ...]


known_layers: WeakKeyDictionary[nn.Module, dict[Question, KnownLayer]] = WeakKeyDictionary()


def question(model: nn.Module, batch: Batch, layer: str | None) -> Question:
    tables = [module._parameters.values() for module in modules_of(model)]
    learns = any(weight is not None and weight.requires_grad for table in tables for weight in table)
    return (layer, learns, *batch.inputs.shape[1:])


def is_known(model: nn.Module, batch: Batch, layer: str | None) -> bool:
    return question(model, batch, layer) in known_layers.get(model, {})


def forget(model: nn.Module, batch: Batch, layer: str | None) -> None:
    known_layers[model].pop(question(model, batch, layer))


def remember(
    model: nn.Module,
    batch: Batch,
    layer: str | None,
    outputs: Tensor,
    found: Activation,
    later: Sequence[Activation] = (),
) -> None:
    """Keep where this activation is, if a module returned it, and which later ones were passed over."""
    if found.returned_by is not None and isinstance(outputs, Tensor):
        way = way_to(outputs, found.key)
        places = {node: place for place, node in enumerate(way)}
        passed = tuple((places[activation.key[0]], bare(activation)) for activation in later)
        known = KnownLayer(found.returned_by, bare(found), tuple(node.name() for node in way), passed)
        known_layers.setdefault(model, {})[question(model, batch, layer)] = known


def bare(found: Activation) -> Activation:
    """An activation without what holds memory: its values and its node."""
    nowhere = found.tensor.new_empty(0)
    return replace(found, tensor=nowhere, key=(None, found.key[1]), kept=None, is_kept=found.kept is not None)


def read_again(model: nn.Module, batch: Batch, layer: str | None) -> tuple[Tensor, list[Activation]] | None:
    """The model's outputs, the activation that was read before and those passed over; None if it is not known, or no
    longer there."""
    known = known_layers.get(model, {}).get(question(model, batch, layer))
    module = known.module() if known is not None else None
    if known is None or module is None:
        return None
    seen: list[Activation] = []

    def hook(_module: nn.Module, _args: Any, output: Any) -> None:
        key = key_of(output) if isinstance(output, Tensor) else None
        again = found_at(known.found, key, batch, output) if key is not None else None
        if again is not None and tuple(output.shape) == again.places.shape:
            seen.append(again)
            if known.found.is_kept:
                seen[-1].keep()

    handle = module.register_forward_hook(hook)
    try:
        with torch.enable_grad(), uncompiled():
            # A clone, as when the layer was looked for: where a path goes round it, the way ends at the inputs.
            outputs = model(batch.inputs.detach().requires_grad_().clone(), *batch.context)
    finally:
        handle.remove()
    if seen and isinstance(outputs, Tensor):
        way = way_to(outputs, seen[-1].key)
        if tuple(node.name() for node in way) == known.way:
            later = [
                found_at(passed, (way[place], passed.key[1]), batch, passed.tensor) for place, passed in known.later
            ]
            return outputs, [seen[-1], *later]
    forget(model, batch, layer)
    return None


def found_at(known: Activation, key: Key, batch: Batch, tensor: Tensor) -> Activation:
    """What was known, there, with as many cases as the batch has."""
    places = known.places
    if places.shape[places.batch] != len(batch):
        shape = tuple(len(batch) if axis == places.batch else length for axis, length in enumerate(places.shape))
        places = replace(places, shape=shape)
    return replace(known, tensor=tensor, key=key, places=places)


def way_to(outputs: Tensor, key: Key) -> list[Any]:
    """All nodes that the outputs come from without passing this tensor, in a fixed order."""
    nodes: list[Any] = []
    seen = {key[0], None}
    waiting: list[Any] = [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            nodes.append(node)
            waiting += [earlier for earlier, _ in node.next_functions]
    return nodes

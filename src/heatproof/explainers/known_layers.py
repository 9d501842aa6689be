"""Layers that were found before, read again by one plain pass: watching every function takes longer than a hook.

A network may have changed since, or go other ways with other inputs. So what the outputs came from is compared with
what it was, node by node back to the layer; where it differs, the layer is looked for anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary

import torch
from torch import Tensor, nn

from heatproof.explainers.bottlenecks import Key, key_of
from heatproof.explainers.guards import uncompiled

if TYPE_CHECKING:
    from heatproof.cases import Batch
    from heatproof.explainers.layers import Activation

Question = tuple[Any, ...]
"""What was asked: the layer's name or None, whether weights have gradients too, which makes the graph another, and the
inputs' shape without the cases."""


@dataclass(frozen=True, eq=False)
class KnownLayer:
    """A module whose output was read, the output as it was, without its values, and the way from the outputs to it."""

    module: ReferenceType[nn.Module]
    found: Activation
    way: tuple[str, ...]


known_layers: WeakKeyDictionary[nn.Module, dict[Question, KnownLayer]] = WeakKeyDictionary()


def question(model: nn.Module, batch: Batch, layer: str | None) -> Question:
    learns = any(parameter.requires_grad for parameter in model.parameters())
    return (layer, learns, *batch.inputs.shape[1:])


def remember(model: nn.Module, batch: Batch, layer: str | None, outputs: Tensor, found: Activation) -> None:
    """Keep where this activation is, if a module returned it."""
    if found.returned_by is not None and isinstance(outputs, Tensor):
        bare = replace(
            found, tensor=found.tensor.new_empty(0), key=(None, 0), kept=None, is_kept=found.kept is not None
        )
        known = KnownLayer(found.returned_by, bare, way_to(outputs, found.key))
        known_layers.setdefault(model, {})[question(model, batch, layer)] = known


def read_again(model: nn.Module, batch: Batch, layer: str | None) -> tuple[Tensor, Activation] | None:
    """The model's outputs and the activation that was read before; None if it is not known, or no longer there."""
    if model not in known_layers:
        return None
    asked = question(model, batch, layer)
    known = known_layers[model].get(asked)
    module = known.module() if known is not None else None
    if known is None or module is None:
        return None
    places = known.found.places
    shape = tuple(len(batch) if axis == places.batch else length for axis, length in enumerate(places.shape))
    seen: list[Activation] = []

    def hook(_module: nn.Module, _args: Any, output: Any) -> None:
        key = key_of(output) if isinstance(output, Tensor) else None
        if key is not None and tuple(output.shape) == shape:
            seen.append(replace(known.found, tensor=output, key=key, places=replace(places, shape=shape)))
            if known.found.is_kept:
                seen[-1].keep()

    handle = module.register_forward_hook(hook)
    try:
        with torch.enable_grad(), uncompiled():
            outputs = model(batch.inputs.detach().requires_grad_().clone(), *batch.context)
    finally:
        handle.remove()
    if seen and isinstance(outputs, Tensor) and way_to(outputs, seen[-1].key) == known.way:
        return outputs, seen[-1]
    known_layers[model].pop(asked)
    return None


def way_to(outputs: Tensor, key: Key) -> tuple[str, ...]:
    """The names of all nodes that the outputs come from without passing this tensor, in a fixed order."""
    names: list[str] = []
    seen = {key[0], None}
    waiting: list[Any] = [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            names.append(node.name())
            waiting += [earlier for earlier, _ in node.next_functions]
    return tuple(names)

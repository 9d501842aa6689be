"""What a network does beside giving scores: seen once, so that later passes take no care that it does not need.

It may change the tensors that it is given, as some do to normalise their inputs; its batch norms may get gradients
wrong; or the cases of a batch may influence each other, so that none has a map of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.batchnorm import _NormBase

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers import same_network
from heatproof.explainers.autograd_graph import behind, function_name
from heatproof.explainers.same_network import being_checked, drawn_at_random, first_difference, same
from heatproof.explainers.watching import tensors_in


@dataclass(frozen=True)
class Manners:
    """What is to be expected of a network.

    writes  it changes tensors that it is given
    norms   it has batch norms
    mixes   the cases of a batch influence each other
    """

    writes: bool
    norms: bool
    mixes: bool = False


WORST = Manners(writes=True, norms=True)
"""Of a network that nobody has looked at: what can be borne without knowing."""
Layers = list[tuple[int, int]]
"""The identities of the modules within a network, and how many hooks each has: with others it is another network."""
SEEN: WeakKeyDictionary[nn.Module, tuple[Layers, Manners]] = WeakKeyDictionary()


@contextmanager
def looked_after(
    model: nn.Module, layers: Sequence[nn.Module], batch: Batch | None = None, method: str = "", ours: bool = True
) -> Iterator[None]:
    """In here the model may do what it does: nobody's tensors change, gradients of norms are right, and one whose cases
    influence each other takes a single row only; more are an error.

    A network that nobody has looked at is looked at on this batch; without one the worst is expected of it. Others'
    methods may write to the batch themselves: then nobody can tell who did, and the model gets copies.
    """
    manners = manners_of(model, layers, batch, method)
    writes = manners.writes or not ours or bool(model._forward_pre_hooks)  # these may, and come and go
    handles = []
    if manners.mixes:
        handles.append(model.register_forward_pre_hook(OneRow(method)))
    if writes:
        handles.append(model.register_forward_pre_hook(hand_out_copies, prepend=True))
    if manners.norms:
        handles.append(model.register_forward_hook(mend_norms))
    kept = [] if writes or batch is None else [batch.inputs, *batch.context]
    versions = [tensor._version for tensor in kept]
    try:
        yield
    except RuntimeError:  # that it wrote to its inputs, perhaps: next time it is looked at again
        SEEN.pop(model, None)
        raise
    finally:
        for handle in handles:
            handle.remove()
    if [tensor._version for tensor in kept] != versions:
        del SEEN[model]
        raise HeatproofError(
            f"{method}: the model changes the tensors that it is given, though for the first case it did not; let its"
            " forward begin with `inputs = inputs.clone()`."
        )


def manners_of(model: nn.Module, layers: Sequence[nn.Module], batch: Batch | None, method: str) -> Manners:
    """What was seen of a network with these layers, or is seen now."""
    found = [(id(layer), len(layer._forward_pre_hooks)) for layer in layers[1:]]
    known, manners = SEEN.get(model, (None, WORST))
    if known == found:
        return manners
    if batch is None:
        return WORST
    same_network.SEEN.pop(model, None)
    manners = look(model, layers, batch, method)
    SEEN[model] = found, manners
    return manners


@being_checked()
def look(model: nn.Module, layers: Sequence[nn.Module], batch: Batch, method: str) -> Manners:
    """The manners of a network, seen on the first case and another. An error if its outputs change by themselves."""
    first = batch[:1]
    other = batch[1:2].inputs if len(batch) > 1 else 1 - first.inputs
    both = torch.cat([first.inputs, other])
    context = tuple(torch.cat([tensor, tensor]) for tensor in first.context)
    try:
        manners = seen_in_pass(model, layers, first)
        alone, beside = ask(model, first.inputs, first.context), ask(model, both, context)
        again = ask(model, first.inputs, first.context)  # after something else, which a model may remember
        if alone.shape != beside.shape or (same(beside, alone, alone.dtype) and same(again, alone, alone.dtype)):
            return manners
        with torch.enable_grad():
            inputs = first.inputs.detach().requires_grad_()
            place, coarsest = first_difference(model, lambda: ask(model, inputs, first.context), nullcontext)
    except Exception:
        return WORST  # it takes no other rows, or gives no logits: the method itself finds out, and says so
    # What draws random numbers differs from itself; half precision inside is coarser than the outputs' type says.
    if not same(again, alone, coarsest):
        raise drawn_at_random(method, place)
    return replace(manners, mixes=not same(beside, alone, coarsest))


def seen_in_pass(model: nn.Module, layers: Sequence[nn.Module], first: Batch) -> Manners:
    """What a pass with gradients does to a case, and has in its graph; where there are none, not much is seen."""
    given = own_copies((first.inputs.detach().requires_grad_(), *first.context))
    try:
        with torch.enable_grad():
            outputs = model.forward(*given)  # hooks need not know
    except RuntimeError:
        return WORST
    norms = any(isinstance(layer, _NormBase) for layer in layers) or bool(batch_norms([outputs]))
    pairs = zip(given, (first.inputs, *first.context), strict=True)
    writes = any(copy._version or not torch.equal(copy, original) for copy, original in pairs)
    return Manners(writes, norms)


def ask(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...]) -> Tensor:
    """The outputs of the first row."""
    outputs: Tensor = model.forward(*own_copies((inputs, *context)))
    return outputs.detach()[:1]


class OneRow:
    """Forward pre-hook: an error where there are more."""

    def __init__(self, method: str) -> None:
        self.method = method

    def __call__(self, _model: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(given[0], Tensor) and len(given[0]) > 1:
            raise HeatproofError(
                f"{self.method}: the cases of a batch influence each other in this model (a batch norm without running"
                " statistics?), so that no case has a map of its own. Explain one case at a time (--batch-size 1) by a"
                " method that asks about nothing else in the same pass (gradient, lrp, grad_cam ...), or give the"
                " norms statistics."
            )


def own_copies(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies that a model may change in place; gradients go through."""
    return tuple(given.clone() if isinstance(given, Tensor) else given for given in tensors)


def hand_out_copies(_model: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Forward pre-hook: the tensors of whoever asks stay as they are."""
    return own_copies(given)


def mend_norms(_model: nn.Module, _given: Any, outputs: Any) -> None:
    """Forward hook: gradients reach batch norms in the layout that these have, whoever called them.

    torch 2.13 makes wrong gradients from some others on the CPU: of a single case, or along a side of length one.
    `instance_norm` is a batch norm inside.
    """
    if torch.is_grad_enabled():
        for node in batch_norms(outputs.values() if isinstance(outputs, dict) else [outputs]):
            node.register_prehook(InLayout(layout_of(node._raw_saved_input.data)))  # type: ignore[attr-defined]


def batch_norms(outputs: Iterable[Any]) -> list[Node]:
    """The batch norms behind these outputs."""
    return [node for node in behind(tensors_in(outputs)) if function_name(node) == "NativeBatchNorm"]


def layout_of(kept: Any) -> torch.memory_format:
    """The layout of what a norm took. The plain one is always right; a checkpoint keeps something else meanwhile."""
    if not isinstance(kept, Tensor) or kept.ndim != 4 or kept.is_contiguous():
        return torch.contiguous_format
    return torch.channels_last if kept.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format


class InLayout:
    """Pre-hook of a node: what arrives is laid out so. It must not hold the node, or none of the graph would go."""

    def __init__(self, layout: torch.memory_format) -> None:
        self.layout = layout

    def __call__(self, signals: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(None if signal is None else signal.contiguous(memory_format=self.layout) for signal in signals)

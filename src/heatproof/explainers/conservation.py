"""How much relevance there is at each layer on its way back, and where the rest has gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer, quantity_of
from heatproof.explainers.bottlenecks import Key, bottlenecks, key_of
from heatproof.explainers.compiled import require_functions
from heatproof.explainers.guards import untouched
from heatproof.explainers.losses import Losses
from heatproof.explainers.propagation import Lrp, follow, whole_precision
from heatproof.explainers.watching import layer_names, tensors_in

TOP, BOTTOM = "(score)", "(inputs)"


@dataclass(frozen=True)
class Level:
    """A layer that all relevance passes, from the score down.

    relevance  the sum of what there is at its output
    biases     what biases have taken between the score and there
    elsewhere  what else was lost, or gained, on the way: to what is added or joined and does not depend on the inputs
               (positions, a class token), to stabilisers, and at each softmax
    """

    layer: str
    relevance: float
    biases: float
    elsewhere: float


def conservation(explainer: Explainer, model: nn.Module, case: Batch) -> list[Level]:
    """The relevance of one case at every layer that all of it passes, score first and inputs last."""
    if not isinstance(explainer, Lrp):
        raise HeatproofError(f"conservation is a property of lrp, and {explainer.label} is another method.")
    if len(case) != 1:
        raise HeatproofError(f"conservation is looked at case by case, got {len(case)} cases.")
    require_functions(model, explainer.name)
    losses = Losses()
    with untouched(model):
        with noted(model) as returned:
            followed = follow(explainer.name, model, case, explainer.made_composite(), losses)
        begun = quantity_of(followed.outputs.detach(), case.target, explainer.quantity)
        passed, _ = bottlenecks(followed.logit, get_gradient_edge(followed.inputs).node)
        found: list[Level] = []
        hooks = [
            key[0].register_prehook(watching(name, key[1], found, float(begun), losses))
            for key, name in returned.items()
            if key in passed
        ]
        try:
            with whole_precision(followed.inputs.device.type):
                (arrived,) = torch.autograd.grad(followed.logit, followed.inputs, begun)
        finally:
            for hook in hooks:
                hook.remove()
    score = float(begun)
    return [Level(TOP, score, 0.0, 0.0), *found, level(BOTTOM, float(arrived.sum()), score, losses)]


def level(name: str, relevance: float, score: float, losses: Losses) -> Level:
    return Level(name, relevance, losses.biases, score - relevance - losses.biases)


def watching(name: str, output: int, found: list[Level], score: float, losses: Losses) -> Any:
    """A hook before a node: all of the way back above it is done, because nothing goes past it."""

    def note(relevance: tuple[Tensor | None, ...]) -> None:
        given = relevance[output]
        found.append(level(name, 0.0 if given is None else float(given.sum()), score, losses))

    return note


@contextmanager
def noted(model: nn.Module) -> Iterator[dict[Key, str]]:
    """The layers by what they returned; of several that returned the same, the innermost, which made it."""
    returned: dict[Key, str] = {}
    names = layer_names(model)

    def note(layer: nn.Module, _: Any, output: Any) -> None:
        tensors = [output] if isinstance(output, Tensor) else tensors_in([output])
        with torch._C.DisableTorchFunction():
            for tensor in tensors[:1]:
                key = key_of(tensor)
                if key is not None and names.get(id(layer)):
                    returned.setdefault(key, names[id(layer)])

    hooks = [layer.register_forward_hook(note) for layer in model.modules()]
    try:
        yield returned
    finally:
        for hook in hooks:
            hook.remove()

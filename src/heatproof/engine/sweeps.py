"""`layer=sweep`: a class activation map of every layer that it may read, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from heatproof.benchmarks.base import Opened
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer
from heatproof.lazy import torch

SWEEP = "sweep"


def swept(explainers: Sequence[Explainer], opened: Opened) -> list[Explainer]:
    """The explainers, those with layer=sweep once for each layer of the benchmark's first network."""
    if not any(sweeps(explainer) for explainer in explainers):
        return list(explainers)
    layers = layers_to_sweep(opened)
    found: list[Explainer] = []
    for explainer in explainers:
        found += [with_layer(explainer, layer) for layer in layers] if sweeps(explainer) else [explainer]
    return list(dict.fromkeys(found))


def sweeps(explainer: Explainer) -> bool:
    return getattr(explainer, "layer", None) == SWEEP


def with_layer(explainer: Any, layer: str) -> Explainer:
    changed: Explainer = replace(explainer, layer=layer)
    return changed


def layers_to_sweep(opened: Opened) -> list[str]:
    """The names of the layers, in the order of the pass."""
    from heatproof.explainers.guards import untouched
    from heatproof.explainers.layers import spatial_activations

    chunk = next(iter(opened.chunks(1)))
    model, case = opened.model(chunk.model), opened.load(chunk)[:1]
    with untouched(model):
        candidates = dict.fromkeys(activation.name for activation in spatial_activations(model, case)[1])
        # What single functions made within a layer (`blocks.0/add`) is left out where layers are there to be named.
        layers = [name for name in candidates if "/" not in name] or list(candidates)
        return [name for name in layers if counts(model, case, name)]


def counts(model: torch.nn.Module, case: Batch, layer: str) -> bool:
    """Whether the score depends on places of the layer; behind the last attention only the class token matters."""
    from heatproof.explainers.cam import maps_and_gradient

    try:
        return bool(maps_and_gradient(model, case, layer, "logit")[1].any())
    except HeatproofError:
        return False

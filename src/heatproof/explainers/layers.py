"""Which layers of a model have places, found by watching a forward pass.

Convolutional networks keep maps (B, C, *any); transformers tokens (B, T, D), one for each cell of the grid that the
patch embedding made, behind a class token and perhaps a few more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import Size, untouched
from heatproof.explainers.compiled import makes_maps, require_layers

FURTHER_TOKENS = 8
"""The most tokens beside the grid: class, distillation, registers."""

MAP_MAKERS = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._LPPoolNd,
    nn.Upsample,
)


@dataclass(frozen=True, eq=False)
class Activation:
    """The output of a layer, with its graph, and where its places are."""

    output: Tensor
    extent: tuple[int, ...]
    tokens: bool

    def maps(self, values: Tensor) -> Tensor:
        """Values of the output's shape (its gradient, say) as maps (B, C, *extent); tokens beside the grid fall out."""
        if not self.tokens:
            return values
        grid = values[:, values.shape[1] - prod(self.extent) :]
        return grid.transpose(1, 2).reshape(len(values), -1, *self.extent)


def spatial_activations(model: nn.Module, batch: Batch, layer: str | None = None) -> tuple[Tensor, list[Activation]]:
    """The model's outputs, and all activations with spatial extent in the order of the pass, or that of `layer`.

    All keep their graph. Pooling to a fixed size does not count, because what it returns is no longer where it was;
    nor does anything that does not depend on the inputs (the words of a question).
    """
    require_layers(model, "a class activation map")
    modules = dict(model.named_modules())
    if layer is not None and layer not in modules:
        raise unknown_name("layer", layer, (name for name in modules if name))
    watch = Watch(batch.inputs.detach().requires_grad_(), only=modules[layer] if layer is not None else None)
    leaves = [m for m in modules.values() if not any(m.children()) and "Adaptive" not in type(m).__name__]
    hooks = [module.register_forward_hook(watch) for module in {*leaves, *[watch.only] * (layer is not None)}]
    try:
        with torch.enable_grad():
            outputs = model(watch.inputs, *batch.context)
    finally:
        for hook in hooks:
            hook.remove()
    if not watch.seen:
        found = f"layer {layer!r} has none" if layer is not None else "no layer of the model has any"
        raise HeatproofError(
            f"a class activation map needs a layer with spatial extent, and {found}."
            " Name a convolution with layer=NAME, or take a method that reads the input only (gradient, rise ...)."
        )
    return outputs, watch.seen


class Watch:
    """A forward hook that collects activations: maps, what keeps the shape of maps, and normalised tokens."""

    def __init__(self, inputs: Tensor, only: nn.Module | None) -> None:
        self.inputs = inputs
        self.only = only
        self.shapes: set[torch.Size] = set()
        self.extent: tuple[int, ...] = ()
        self.seen: list[Activation] = []

    def __call__(self, module: nn.Module, _args: Any, output: Any) -> Tensor | None:
        if not isinstance(output, Tensor) or not output.requires_grad or len(output) != len(self.inputs):
            return None
        if isinstance(module, MAP_MAKERS) or makes_maps(module) or output.shape in self.shapes:
            activation = self.as_maps(output)
        elif module is self.only:
            activation = self.as_tokens(output) or self.as_maps(output)
        else:  # within attention, parts of tokens (queries, values) have the shape of tokens too
            activation = self.as_tokens(output) if "Norm" in type(module).__name__ else None
        if activation is None:
            return None
        if not activation.tokens:
            self.shapes.add(output.shape)
            self.extent = activation.extent
        if self.only in (None, module):
            self.seen.append(activation)
        return output.clone() if module is self.only else None  # what follows may change it in place

    def as_maps(self, output: Tensor) -> Activation | None:
        extent = tuple(output.shape[2:])
        if output.ndim != self.inputs.ndim or max(extent) <= 1:
            return None
        return Activation(output, extent, tokens=False)

    def as_tokens(self, output: Tensor) -> Activation | None:
        """As the cells of the last maps, a token each, behind a few further ones."""
        if output.ndim != 3 or not self.extent or not 0 <= output.shape[1] - prod(self.extent) <= FURTHER_TOKENS:
            return None
        return Activation(output, self.extent, tokens=True)


def last_of_each_extent(activations: list[Activation]) -> list[Activation]:
    """The last activation of each extent, largest extents first."""
    last = {activation.extent: activation for activation in activations}
    return sorted(last.values(), key=lambda activation: -prod(activation.extent))


def model_size(model: nn.Module, batch: Batch) -> Size:
    """What the number of passes of an explainer depends on, seen in one pass of the batch."""
    try:
        with untouched(model):
            layers = last_of_each_extent(spatial_activations(model, batch)[1])
        channels = tuple(layer.maps(layer.output).shape[1] for layer in layers)
    except HeatproofError:  # no layer has places: class activation maps will say so
        channels = (0,)
    return Size(batch.space, channels)

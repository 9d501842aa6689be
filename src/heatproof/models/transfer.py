"""Networks that are to learn new classes: what a file of weights knows goes into them, and the rest is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from heatproof.devices import seeded
from heatproof.errors import HeatproofError
from heatproof.models.classifiers import Classifier, recipe_of
from heatproof.models.image_classifiers import IMAGE_CLASSIFIERS
from heatproof.models.libraries import LIBRARIES
from heatproof.models.linear_head import LINEAR_CLASSIFIERS
from heatproof.models.weights import fitted, name_misfit, plain_names, read_arrays
from heatproof.seeds import derive_seed

CONVOLUTIONS = "features."
COUNTER = "num_batches_tracked"
"""Of batch norms; old files do not have it, and nothing depends on it."""


def pretrained(model: str, weights: Path | None, classes: int, seed: int) -> tuple[Classifier, list[str]]:
    """The network of that name with so many outputs, and the names of its weights that no file has filled.

    The file may be of the whole network, with any number of outputs, or of the convolutions of AlexNet or VGG16 alone.
    """
    recipe = recipe_of(model)
    if recipe is None:
        known = ", ".join([*IMAGE_CLASSIFIERS, *LINEAR_CLASSIFIERS, *(f"{library}:NAME" for library in LIBRARIES)])
        raise HeatproofError(f"{model!r} cannot be made for other classes; give one of {known}.")
    if model in LINEAR_CLASSIFIERS and weights is None:
        raise HeatproofError(f"{model} is what heatproof train focus-head makes; give its file with --weights.")
    with seeded(derive_seed(seed, "weights")):
        module = recipe.make(classes)
    drawn = sorted(module.state_dict()) if weights is None else transfer(module, weights)
    return Classifier(recipe.name, module.eval(), **recipe.settings(module)), drawn


def transfer(module: nn.Module, path: Path) -> list[str]:
    """Fill the module with what the file holds of it; the names of what it does not hold.

    That is the last linear layer where the file has another number of outputs, or all that is no convolution where it
    holds convolutions alone. A file of another network is an error.
    """
    arrays, expected = plain_names(read_arrays(path)), module.state_dict()
    inner = {name for name in expected if name.startswith(CONVOLUTIONS)}
    wanted = set(expected)
    if inner and set(arrays) == inner:
        wanted = inner
    elif misfit := name_misfit(without_counters(expected), without_counters(arrays)):
        raise HeatproofError(
            f"{path} is of another network than {type(module).__name__}: it {misfit}. Give a file of this one, whole"
            + " or its convolutions (features.*) alone." * bool(inner)
        )
    last = f"{last_layer(module)}."
    known: dict[str, Tensor] = {}
    for name in sorted(wanted & set(arrays)):
        if name.startswith(last) and arrays[name].shape != expected[name].shape:
            continue
        known[name] = fitted(path, name, arrays[name], expected[name], f"{type(module).__name__} needs")
    module.load_state_dict(known, strict=False)
    return sorted(without_counters(set(expected) - set(known)))


def without_counters(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.endswith(COUNTER)]


def last_layer(module: nn.Module) -> str:
    """The name of the last linear layer."""
    linear: list[str] = [name for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise HeatproofError(
            f"{type(module).__name__} does not end with a linear layer, which could be replaced for other classes;"
            " choose another network."
        )
    return linear[-1]


def head_of(module: nn.Module) -> str:
    """The part of the module that holds its last linear layer: `classifier` of AlexNet and VGG16, `fc` of ResNets."""
    return last_layer(module).partition(".")[0]


def what_reaches(module: nn.Module, layer: str, inputs: Tensor) -> Tensor:
    """What the layer of that name is given for these inputs of the module, without gradients."""
    seen: list[Tensor] = []
    handle = module.get_submodule(layer).register_forward_pre_hook(lambda _layer, args: seen.append(args[0]))
    try:
        with torch.no_grad():
            module(inputs)
    finally:
        handle.remove()
    return seen[-1]

"""The model's weights drawn anew, layer by layer from the top: what is left of a heatmap without what was learnt."""

from __future__ import annotations

import copy

from heatproof.lazy import torch


def layers_from_the_top(model: torch.nn.Module) -> list[str]:
    """The names of the modules that hold weights of their own, the last first."""
    named = [name for name, module in model.named_modules() if any(True for _ in module.parameters(recurse=False))]
    return named[::-1]


def cascade(model: torch.nn.Module, seed: int) -> dict[str, torch.nn.Module]:
    """Copies of the model: the top layer randomised, the top two, and so on down to the first."""
    from heatproof.explainers.baselines import randomised

    fresh = dict(randomised(model, seed).named_modules())
    current = model
    found = {}
    for number, name in enumerate(layers_from_the_top(model), 1):
        current = copy.deepcopy(current)
        dict(current.named_modules())[name].load_state_dict(fresh[name].state_dict())
        found[f"cascade-{number:02d}-{name}"] = current
    return found

"""Versions of a model without what it learnt: all weights drawn anew, or layer by layer from the top.

A version is made when it is asked for, so that a cascade of a large network needs memory for two copies, not for one
per layer.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Literal

from heatproof.explainers.baselines import randomised
from heatproof.lazy import torch
from heatproof.seeds import derive_seed

Randomise = Literal["none", "all", "cascade"]
EVERYTHING = "random"


def layers_from_the_top(model: torch.nn.Module) -> list[str]:
    """The names of the modules that hold weights of their own, the last first."""
    named = [name for name, module in model.named_modules() if any(True for _ in module.parameters(recurse=False))]
    return named[::-1]


@dataclass
class Versions:
    """The trained model under its own name, and its randomised versions under names that say what was drawn anew.

    `random` has all weights drawn anew; `cascade-02-conv4` the two uppermost layers, of which conv4 is the lower. With
    several draws, the later ones have a number behind: `random, draw 2`.
    """

    name: str
    model: torch.nn.Module
    way: Randomise = "none"
    draws: int = 1
    seed: int = 0
    last: tuple[str, torch.nn.Module] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        layers = layers_from_the_top(self.model)
        kinds: dict[str, list[str]] = {}
        if self.way == "all":
            kinds[EVERYTHING] = layers
        elif self.way == "cascade":
            kinds = {f"cascade-{number:02d}-{name}": layers[:number] for number, name in enumerate(layers, 1)}
        self.changed = {
            kind + (f", draw {draw}" if draw > 1 else ""): (layers, draw)
            for kind, layers in kinds.items()
            for draw in range(1, self.draws + 1)
        }

    @property
    def names(self) -> list[str]:
        return [self.name, *self.changed]

    def __getitem__(self, name: str) -> torch.nn.Module:
        if name == self.name:
            return self.model
        if self.last is None or self.last[0] != name:
            layers, draw = self.changed[name]
            fresh = dict(randomised(self.model, derive_seed(self.seed, "weights", draw)).named_modules())
            made = copy.deepcopy(self.model)
            for layer in layers:
                made.get_submodule(layer).load_state_dict(fresh[layer].state_dict())
            self.last = (name, made)
        return self.last[1]


def without_draw(name: str) -> str:
    """The name of a version whatever its draw."""
    return name.partition(", draw ")[0]

"""Versions of a model without what it learnt: all weights drawn anew, or block by block from the top.

A version is made when it is asked for, so that a cascade of a large network needs memory for two copies, not for one
per block.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import InitVar, dataclass, field
from typing import Literal

from heatproof.explainers.baselines import randomised
from heatproof.explainers.guards import untouched
from heatproof.lazy import torch
from heatproof.seeds import derive_seed

Randomise = Literal["none", "all", "cascade"]
EVERYTHING = "random"


def layers_from_the_top(model: torch.nn.Module) -> list[str]:
    """The names of the modules that hold weights of their own, the last first."""
    named = [name for name, module in model.named_modules() if any(True for _ in module.parameters(recurse=False))]
    return named[::-1]


def blocks_from_the_top(model: torch.nn.Module, sample: torch.Tensor | None = None) -> dict[str, list[str]]:
    """What a cascade draws anew at a time, by its name: a layer, with the norm of its output if it has one.

    Layers that the outputs for `sample` do not depend on, such as a second head for training alone, are in none.
    """
    blocks: dict[str, list[str]] = {}
    counted = layers_that_count(model, sample)
    for name in reversed(layers_from_the_top(model)):
        before = next(reversed(blocks), "")
        if name in counted and blocks.get(before) == [before] and normalises(model, name, before):
            blocks[before].append(name)
        elif name in counted:
            blocks[name] = [name]
    return dict(reversed(blocks.items()))


def normalises(model: torch.nn.Module, name: str, before: str) -> bool:
    """Whether a layer is the norm of what the layer before it makes: it stands beside it, and is as wide."""
    norm, layer = model.get_submodule(name), model.get_submodule(before)
    if name.rpartition(".")[0] != before.rpartition(".")[0]:
        return False
    if isinstance(norm, torch.nn.GroupNorm):
        width = norm.num_channels
    elif isinstance(norm, torch.nn.modules.batchnorm._NormBase):
        width = norm.num_features
    else:
        return False
    return width in (getattr(layer, "out_channels", None), getattr(layer, "out_features", None))


def layers_that_count(model: torch.nn.Module, sample: torch.Tensor | None) -> Collection[str]:
    """The layers with weights that the outputs for `sample` depend on; all of them where that cannot be told."""
    named = layers_from_the_top(model)
    if sample is None:
        return named
    copied = copy.deepcopy(model)
    try:
        copied.requires_grad_(True)
        weights = {name: list(copied.get_submodule(name).parameters(recurse=False)) for name in named}
        every = [weight for own in weights.values() for weight in own]
        with torch.enable_grad(), untouched(copied, freeze=False):
            gradients = torch.autograd.grad(copied(sample).sum(), every, allow_unused=True)
    except RuntimeError:  # a network without a way back, such as a quantised one
        return named
    reached = {id(weight) for weight, gradient in zip(every, gradients, strict=True) if gradient is not None}
    return [name for name, own in weights.items() if any(id(weight) in reached for weight in own)]


@dataclass
class Versions:
    """The trained model under its own name, and its randomised versions under names that say what was drawn anew.

    `random` has all weights drawn anew; `cascade-02-conv4` the two uppermost blocks, of which conv4 is the lower. With
    several draws, the later ones have a number behind: `random, draw 2`. `sample` is an input that tells which layers
    the outputs depend on.
    """

    name: str
    model: torch.nn.Module
    way: Randomise = "none"
    draws: int = 1
    seed: int = 0
    sample: InitVar[torch.Tensor | None] = None
    last: tuple[str, torch.nn.Module] | None = field(default=None, repr=False)

    def __post_init__(self, sample: torch.Tensor | None) -> None:
        kinds: dict[str, list[str]] = {}
        if self.way == "all":
            kinds[EVERYTHING] = layers_from_the_top(self.model)
        elif self.way == "cascade":
            drawn: list[str] = []
            for number, (name, block) in enumerate(blocks_from_the_top(self.model, sample).items(), 1):
                drawn = [*drawn, *block]
                kinds[f"cascade-{number:02d}-{name}"] = drawn
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

"""Rectifiers that a model puts together from other functions, such as (x + |x|) / 2: looked for by what they give.

No single function does it, so its way back cannot be changed in one place; guided methods refuse such a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.rectifiers import PLAIN, Noting, rectifier
from heatproof.explainers.same_network import SEEN, being_checked
from heatproof.explainers.watching import Call, Watching, running_layer, tensors_in, works_in_place

STEPS = 4
"""Functions that a rectifier may be put together from, one after the other."""
JOINS = {"cat", "stack", "hstack", "vstack", "dstack"}
FORM = ("", "no hidden rectifiers")


@dataclass(frozen=True, eq=False)
class Made:
    """A tensor of a pass, the values that it had as its `version`, and what it was made of.

    The tensor is held on to, so that its identity stays its own.
    """

    tensor: Tensor
    version: int
    values: Tensor
    sources: Sequence[Made] = ()
    alone: bool = False
    """That one function rectified it, or a part of it."""


class Following(Watching):
    """Inside this context every value is held against what it was made of, and the first that rectifies is named."""

    def __init__(self, model: nn.Module, noted: Noting) -> None:
        super().__init__()
        self.model = model
        self.noted = noted
        self.made: dict[int, Made] = {}
        self.found = ""

    def replaces(self, name: str) -> bool:
        return False

    def watch(self, call: Call) -> Any:
        sources = [self.made_of(tensor) for tensor in call.carriers]
        known = len(self.noted.found)
        value = call.value()
        changed = call.args[0] if call.name == "__setitem__" or works_in_place(call) else value
        for tensor in tensors_in([changed]):
            if tensor.is_floating_point():
                values = tensor.detach().clone()
                alone = len(self.noted.found) > known or rectifies_alone(call, tensor, values, sources)
                self.follow(call, Made(tensor, tensor._version, values, () if alone else sources, alone))
        return value

    def follow(self, call: Call, made: Made) -> None:
        self.made[id(made.tensor)] = made
        if not self.found and any(rectifies(made.values, before.values) for before in ancestors(made)):
            layer = running_layer(self.model)
            self.found = repr(call.name) + (f" in layer {layer!r}" if layer else "")

    def made_of(self, tensor: Tensor) -> Made:
        """What is known of a tensor; nothing, if it was changed through a view since."""
        known = self.made.get(id(tensor))
        if known is None or known.version != tensor._version:
            known = self.made[id(tensor)] = Made(tensor, tensor._version, tensor.detach().clone())
        return known


def rectifies_alone(call: Call, tensor: Tensor, values: Tensor, sources: Sequence[Made]) -> bool:
    """Whether the one function rectifies, or joins parts that were: then what is behind it is not put together."""
    if tensor.grad_fn is not None and rectifier(tensor.grad_fn) is not None:
        return True
    if call.name in JOINS and any(source.alone for source in sources):
        return True
    return call.name in PLAIN and any(rectifies(values, source.values) for source in sources)


def ancestors(made: Made) -> list[Made]:
    """What a value was made of, up to some functions before it."""
    found: dict[int, Made] = {}
    level: Sequence[Made] = [made]
    for _ in range(STEPS):
        level = [source for one in level for source in one.sources if id(source) not in found]
        found |= {id(source): source for source in level}
    return list(found.values())


def rectifies(values: Tensor, before: Tensor) -> bool:
    """Whether these values are those before without what is negative, of which there is some, up to rounding."""
    if values.shape != before.shape or before.is_complex() or not bool((before < 0).any() and (before > 0).any()):
        return False
    return bool(torch.isclose(values, before.clamp(min=0).to(values.dtype), rtol=1e-5, atol=1e-12).all())


@being_checked()
def require_none_hidden(model: nn.Module, method: str, run: Callable[[], Any]) -> None:
    """An error if the model rectifies by several functions together; `run()` runs it. Looked at once per network."""
    if FORM in SEEN.get(model, ()):
        return
    with Noting() as noted, Following(model, noted) as following, torch.enable_grad():
        run()
    if following.found:
        raise HeatproofError(
            f"{method} changes how gradients pass ReLUs, and this model makes one of several functions, of which the"
            f" last is {following.found}; write torch.relu there, or take another method."
        )
    SEEN.setdefault(model, set()).add(FORM)

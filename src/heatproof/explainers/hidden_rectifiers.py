"""Rectifiers that a model puts together from other functions, such as (x + |x|) / 2: looked for by what they give.

No single function does it, so its way back cannot be changed in one place; guided methods refuse such a model. It runs
on a few inputs for that: what rectifies does so on all of them, and what only happens to (a gate that is all open or
shut, a mask over few values) does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.rectifiers import Noting, rectifier
from heatproof.explainers.same_network import SEEN, being_checked
from heatproof.explainers.watching import layer_names, running_layer, tensors_in

STEPS = 4
"""Functions that a rectifier may be put together from, one after the other."""
JOINS = {"cat", "stack"}
FORM = ("", "no hidden rectifiers")
ROUNDING = 1e-6
"""Of the largest value."""

Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Where a tensor lies in memory, its shape and strides: what has the same values at the time."""
Pair = tuple[int, str, int]
"""A step of the pass, its name, and an earlier step."""


@dataclass(eq=False)
class Made:
    """What a step of a pass made, and what of. The tensor is held on to, so that its memory stays its own."""

    number: int
    tensor: Tensor
    values: Tensor
    name: str = ""
    layer: str = ""
    sources: Sequence[Made] = ()
    alone: bool = False
    """That one function rectified it, or a part of it: what is made of it further on is not put together."""
    is_settled: bool = False

    @cached_property
    def lowest(self) -> float:
        return float(self.values.min()) if self.values.numel() else 0.0

    @cached_property
    def highest(self) -> float:
        return float(self.values.max()) if self.values.numel() else 0.0

    def rectifies(self, before: Made) -> bool:
        """Whether these values are those before without what is negative, times some factor."""
        limit = ROUNDING * self.highest
        if self.lowest < -limit or (before.highest > 0) != (self.highest > 0):
            return False
        factor = self.highest / before.highest if self.highest > 0 else 1.0
        return bool(((self.values - before.values.clamp(min=0) * factor).abs() <= limit).all())


class Following(TorchDispatchMode):
    """Inside this context every value is held against what it was made of, a few steps before, by whatever code."""

    def __init__(self, model: nn.Module, noted: Noting) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = layer_names(model)
        self.noted = noted
        self.made: dict[Key, Made] = {}
        self.steps: list[Made] = []
        self.seen: dict[Pair, str] = {}
        """The pairs of which the later one rectifies the earlier one, which has both signs, and words for it."""
        self.contradicted: set[Pair] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler for that, which takes a second and makes every later pass slower."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        given = [tensor for tensor in tensors_in((*args, *(kwargs or {}).values())) if is_plain(tensor)]
        if name == "copy_":  # of what it writes over, nothing is left
            given = given[1:]
        sources = [self.made_of(tensor) for tensor in given]
        value = func(*args, **(kwargs or {}))
        for tensor in filter(is_plain, tensors_in([value])):
            self.note(tensor, name, sources)
        return value

    def note(self, tensor: Tensor, name: str = "", sources: Sequence[Made] = ()) -> Made:
        layer = running_layer(self.names) if sources else ""
        made = Made(len(self.steps), tensor, tensor.detach().clone(), name, layer, sources)
        self.steps.append(made)
        self.made[key_of(tensor)] = made
        return made

    def made_of(self, tensor: Tensor) -> Made:
        """What is known of a tensor; nothing, if nobody saw how it got its values."""
        known = self.made.get(key_of(tensor))
        if known is None or not torch.equal(known.values, tensor.detach()):
            known = self.note(tensor)
        if tensor.requires_grad and not known.is_settled:
            self.settle(known, tensor)
        return known

    def settle(self, made: Made, tensor: Tensor) -> None:
        """Hold it against what it came from, now that autograd has seen it too."""
        made.is_settled = True
        made.alone = rectifies_alone(made, tensor, self.noted)
        if made.alone or is_shut(made):
            made.sources = ()
        for before in ancestors(made):
            if not pairs(made, before):
                continue
            pair = made.number, made.name, before.number
            if not made.rectifies(before):
                self.contradicted.add(pair)
            elif before.lowest < 0 < before.highest:
                self.seen[pair] = repr(made.name.strip("_")) + (f" in layer {made.layer!r}" if made.layer else "")

    def finish(self) -> None:
        """What nothing was made of."""
        for made in self.steps:
            if made.tensor.requires_grad and not made.is_settled:
                self.settle(made, made.tensor)


def is_plain(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.layout is torch.strided


def key_of(tensor: Tensor) -> Key:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def pairs(made: Made, before: Made) -> bool:
    return made.values.shape == before.values.shape and bool(made.values.numel())


def is_shut(made: Made) -> bool:
    """Whether one function that is no rectifier gave the same: a gate that is open or shut everywhere."""
    if len(made.sources) != 1:
        return False
    (before,) = made.sources
    return pairs(made, before) and before.lowest < 0 and made.rectifies(before)


def rectifies_alone(made: Made, tensor: Tensor, noted: Noting) -> bool:
    """Whether the one function rectifies, or joins parts that were."""
    if made.name in JOINS and any(source.alone for source in made.sources):
        return True
    node = tensor.grad_fn
    return node is not None and (noted.found.get(node) is not None or rectifier(node) is not None)


def ancestors(made: Made) -> list[Made]:
    """What a value was made of, up to some steps before it."""
    found: dict[int, Made] = {}
    level: Sequence[Made] = [made]
    for _ in range(STEPS):
        level = [source for one in level for source in one.sources if source.number not in found]
        found |= {source.number: source for source in level}
    return list(found.values())


def hidden(model: nn.Module, inputs: Tensor, run: Callable[[Tensor], Any]) -> list[str]:
    """What rectifies together with steps before it, on the inputs, on their negatives and on smaller ones."""
    seen: dict[Pair, str] = {}
    contradicted: set[Pair] = set()
    for factor in (1, -1, 0.05):
        given = (factor * inputs.detach()).requires_grad_()
        try:
            with torch.enable_grad(), Noting() as noted, Following(model, noted) as following:
                run(given)
        except Exception:
            if factor == 1:
                raise
            continue  # it takes no such inputs
        following.finish()
        seen = following.seen | seen
        contradicted |= following.contradicted
    return [words for pair, words in seen.items() if pair not in contradicted]


def require_none_hidden(model: nn.Module, method: str, batch: Batch, score: Callable[..., Tensor]) -> None:
    """An error if the model rectifies by several functions together. Looked at once per network, on the first case."""
    if FORM in SEEN.get(model, ()) or not len(batch):
        return
    one = batch[:1]
    with being_checked():
        found = hidden(model, one.inputs, lambda inputs: score(model, inputs, one.context, one.target))
    if found:
        raise HeatproofError(
            f"{method} changes how gradients pass ReLUs, and this model makes one of several functions, of which the"
            f" last is {found[0]}; write torch.relu there, or take another method."
        )
    SEEN.setdefault(model, set()).add(FORM)

"""The first of DeepLIFT's two passes: the baselines go through the model, and what torch functions saw is recorded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional

from heatproof.explainers.composed import composed
from heatproof.explainers.function_kinds import (
    ELEMENTWISE,
    LINEAR,
    MAX_POOLS,
    MIXED_BY_CONSTANTS,
    PRODUCTS,
    QUADRATIC,
    SILENT,
)
from heatproof.explainers.watching import (
    Call,
    Watching,
    elsewhere,
    opened,
    place_of,
    tensors_in,
    without,
    works_in_place,
)

KNOWN = (
    LINEAR | PRODUCTS | ELEMENTWISE | set(MAX_POOLS) | QUADRATIC | {"max", "logsumexp", "grid_sample", "over_length"}
)


class Kept:
    """A tensor as it was, also if the model changes it later."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()


@dataclass(frozen=True, eq=False)
class Record:
    """What one call saw of the baselines: its arguments in order, tensors as they were or, if no rule asks, shapes."""

    name: str
    arguments: list[Any]
    values: list[Kept] = field(default_factory=list)
    places: Tensor | None = None
    """Where maxima were found."""
    passes: bool = True
    """Whether anything passes back through it, unlike through a comparison."""

    @property
    def tensors(self) -> list[Tensor]:
        return [argument.tensor for argument in self.arguments if isinstance(argument, Kept)]


class Paired(Watching):
    """What both passes have in common: functions that are made of others are taken apart, and what is detached counts.

    A difference from the baseline does not end where the model cuts a gradient off, as where it subtracts a detached
    maximum before it takes a softmax: such a tensor stands for the one that it was cut from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cut: dict[int, tuple[Tensor, Tensor, int]] = {}
        """Detached tensors by their identity: each with what it was cut from, and its version then."""

    def replaces(self, name: str) -> bool:
        return False

    def watch(self, call: Call) -> Any:
        if call.name in SILENT or not torch.is_grad_enabled():
            value = call.value()
            if call.name == "detach" and value is not call.args[0]:
                self.cut[id(value)] = value, call.args[0], value._version
            return value
        if self.cut:
            call = self.uncut(call)
        inside = composed(call)
        if inside is not None:
            place = place_of(call)
            call = call if place is None else elsewhere(call)
            with self:
                value = inside(*call.args, **call.kwargs)
                return value if place is None else place.copy_(value)
        inside = None if call.name in KNOWN else opened(call.func)
        if inside is not None:
            with self:
                return inside(*call.args, **call.kwargs)
        return self.pair(call)

    def uncut(self, call: Call) -> Call:
        """The same call with what detached tensors were cut from, but for one that it changes."""
        changed = call.args[0] if changes(call) else None

        def whole(tensor: Tensor) -> Tensor:
            _, source, version = self.cut.get(id(tensor), (tensor, tensor, -1))
            return source if tensor is not changed and tensor._version == version else tensor

        return call.with_tensors(whole)

    @abstractmethod
    def pair(self, call: Call) -> Any:
        """The value of a function that has its partner in the other pass."""


class Recording(Paired):
    """Inside this context, what functions see is recorded; everything is computed as ever."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []
        self.kept: dict[int, list[Kept]] = {}
        """What is kept as it was, by the storage that it lies in: copied once that is about to change."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if args and isinstance(args[0], Tensor):
            call = Call("", func, tuple(args), dict(kwargs or {}))
            if changes(call):
                for kept in self.kept.pop(args[0].untyped_storage().data_ptr(), ()):
                    kept.tensor = kept.tensor.clone()
        return super().__torch_function__(func, types, args, kwargs)

    def keep(self, tensor: Tensor) -> Kept:
        kept = Kept(tensor)
        self.kept.setdefault(tensor.untyped_storage().data_ptr(), []).append(kept)
        return kept

    def pair(self, call: Call) -> Any:
        values, in_place = needs_values(call), changes(call)
        arguments = []
        for leaf in leaves((call.args, call.kwargs)):
            if not isinstance(leaf, Tensor):
                arguments.append(leaf)
            elif leaf.requires_grad and not values:
                arguments.append(leaf.shape)
            else:
                arguments.append(Kept(leaf.clone()) if in_place and leaf is call.args[0] else self.keep(leaf))
        if is_maximum(call):
            found = maxima(call)
            self.records.append(Record(call.name, arguments, [self.keep(found.value)], found.place))
            return found.result(found.value)
        value = call.value()
        made = tensors_in([value])
        passes = any(tensor.requires_grad for tensor in made)
        kept = [self.keep(tensor) for tensor in made] if passes and values and not is_linear(call) else []
        self.records.append(Record(call.name, arguments, kept, passes=passes))
        return value


def changes(call: Call) -> bool:
    """Whether it changes its first argument."""
    return works_in_place(call) or getattr(call.func, "__name__", "") == "__setitem__"


def leaves(value: Any) -> list[Any]:
    """All arguments of a call in order, out of lists, tuples and dictionaries."""
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in leaves(part)]
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    return [value]


def is_linear(call: Call) -> bool:
    """Whether the function is linear in what depends on the inputs, all else being equal."""
    if call.name in LINEAR:
        return True
    if call.name == "grid_sample":
        return len(call.carriers) == 1 and bool(call.args[0].requires_grad)
    return call.name in PRODUCTS and len(call.carriers) == 1


def needs_values(call: Call) -> bool:
    """Whether a rule may ask for what depends on the inputs: of a linear function only if its constants may differ."""
    if not is_linear(call):
        return True
    return call.name in MIXED_BY_CONSTANTS and any(
        isinstance(leaf, float) or (isinstance(leaf, Tensor) and not leaf.requires_grad and type(leaf) is not Parameter)
        for leaf in leaves((call.args, call.kwargs))
    )


@dataclass(frozen=True, eq=False)
class Maxima:
    """Maxima over places of the last axis of `flat`."""

    call: Call
    axis: int | None
    pooled: int
    value: Tensor
    index: Tensor

    def flat(self, x: Tensor) -> Tensor:
        """A tensor of the arguments' shape with all places that are looked at on the last axis."""
        return x.flatten(-self.pooled) if self.axis is None else x.movedim(self.axis, -1)

    def lined_up(self, made: Tensor) -> Tensor:
        """A tensor of the values' shape, so that it goes with `flat`."""
        if self.axis is None:
            return made.flatten(-self.pooled)
        return made.movedim(self.axis, -1) if made.ndim == self.call.args[0].ndim else made.unsqueeze(-1)

    @property
    def place(self) -> Tensor:
        return self.lined_up(self.index)

    def result(self, value: Tensor) -> Any:
        """What the call gives back, with this as its value."""
        if self.axis is not None:
            return torch.return_types.max((value, self.index))
        asked = self.call.name.endswith("_with_indices") or self.call.kwargs.get("return_indices", False)
        return (value, self.index) if asked else value


def is_maximum(call: Call) -> bool:
    return call.name in MAX_POOLS or call.name == "max"


def maxima(call: Call) -> Maxima:
    """The maxima of a max-pooling, or of `max` over one axis."""
    if call.name == "max":
        value, index = call.value()
        axis = call.args[1] if len(call.args) > 1 else call.kwargs["dim"]
        return Maxima(call, axis, 0, value, index)
    pool = getattr(functional, call.name.removesuffix("_with_indices") + "_with_indices")
    value, index = pool(*call.args, **without(call.kwargs, "return_indices"))
    return Maxima(call, None, MAX_POOLS[call.name], value, index)

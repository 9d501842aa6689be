"""Torch functions, watched and perhaps replaced while a model runs.

Functions and not modules are watched, so it does not matter whether an activation is a module, used twice, in place or
a plain function call. What works in place keeps its meaning: the value is made on a copy and then copied into the
tensor by autograd's own `copy_`, which knows about views, slices and whatever else reads that tensor afterwards.
"""

from __future__ import annotations

import inspect
import sys
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import FunctionType
from typing import Any, Generic, TypeVar

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

ALIASES = {
    "_threshold": "threshold", "absolute": "abs", "clip": "clamp", "concat": "cat", "concatenate": "cat",
    "divide": "div", "floordiv": "floor_divide", "moveaxis": "movedim", "multiply": "mul", "negative": "neg",
    "radd": "add", "rmul": "mul", "subtract": "sub", "swapaxes": "transpose", "swapdims": "transpose",
    "true_divide": "div", "truediv": "div",
}  # fmt: skip
"""Names by which torch and Python's operators call the same function with the same order of arguments."""

WRAPPERS = {"wrapped_network", "_orig_mod"}
IN_PLACE_OPERATORS = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}

Owner = TypeVar("Owner")
T = TypeVar("T")


class once(Generic[Owner, T]):  # noqa: N801 - a decorator
    """A property that is worked out once: functools' takes a lock up to Python 3.11, and longer than the work."""

    def __init__(self, work: Callable[[Owner], T]) -> None:
        self.work = work

    def __set_name__(self, owner: type[Owner], name: str) -> None:
        self.name = name

    def __get__(self, thing: Owner, owner: type[Owner]) -> T:
        value = thing.__dict__[self.name] = self.work(thing)
        return value


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a torch function: `name` is the plain one, `add` for `add_`, `__add__` and `__iadd__`."""

    name: str
    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @once
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments, also inside lists and tuples."""
        return tensors_in((*self.args, *self.kwargs.values()))

    @once
    def carriers(self) -> list[Tensor]:
        """The arguments that depend on the model's inputs."""
        return [tensor for tensor in self.tensors if tensor.requires_grad]

    def value(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def with_input_first(self) -> Call:
        """The same call with its first argument in its place, if it is given by name: `torch.relu(input=x)`."""
        if self.args or "input" not in self.kwargs:
            return self
        return replace(self, args=(self.kwargs["input"],), kwargs=without(self.kwargs, "input"))

    def with_tensors(self, change: Callable[[Tensor], Tensor]) -> Call:
        """The same call with each tensor among its arguments changed."""
        return Call(self.name, self.func, changed(self.args, change), changed(self.kwargs, change))


class Watching(TorchFunctionMode):
    """Inside this context every torch function that a carrier takes part in goes through `watch`."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        call = Call(plain_name(func), func, tuple(args), dict(kwargs or {})).with_input_first()
        if not call.carriers:
            return call.value()
        place = place_of(call) if self.replaces(call.name) else None
        return self.watch(call) if place is None else self.watch_in_place(call, place)

    def watch_in_place(self, call: Call, place: Tensor) -> Tensor:
        """`place` with the value of a function that writes there."""
        value = self.watch(elsewhere(call))
        place.copy_(value)
        return place

    @abstractmethod
    def replaces(self, name: str) -> bool:
        """Whether `watch` may give this function another way back than autograd's own."""

    @abstractmethod
    def watch(self, call: Call) -> Any:
        """The value of a function, with the way back that it is to have. It never changes the call's arguments."""


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among these values, also inside lists and tuples."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


def changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same value with `change` applied to each tensor in it."""
    if isinstance(value, Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)([changed(given, change) for given in value])
    if isinstance(value, dict):
        return {name: changed(given, change) for name, given in value.items()}
    return value


def without(named: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name not in names}


@cache
def own_name(func: Any) -> str:
    """The name of a function; that of an exported program's `relu_.default` is `relu_`."""
    return str(getattr(func, "__name__", func)).partition(".")[0]


@cache
def plain_name(func: Any) -> str:
    """The name of a function without what says that it is an operator or works in place."""
    name = own_name(func)
    if name in IN_PLACE_OPERATORS:
        name = name[3:-2]
    elif name.startswith("__") and name not in ("__get__", "__set__", "__getitem__", "__setitem__"):
        name = name[2:-2]
    elif name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    return ALIASES.get(name, name)


@cache
def is_named_in_place(func: Any) -> bool:
    """Whether its name says that it changes its first argument: `relu_`, `__iadd__`."""
    name = own_name(func)
    return name in IN_PLACE_OPERATORS or (name.endswith("_") and not name.endswith("__"))


@cache
def inplace_position(func: Any) -> int | None:
    """Where `inplace` stands among the arguments of a function in Python, if it has that argument."""
    try:
        names = list(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # a function in C++
        return None
    return names.index("inplace") if "inplace" in names else None


def works_in_place(call: Call) -> bool:
    """Whether it changes its first argument: `relu_(x)`, `x += y`, `F.relu(x, inplace=True)`."""
    if is_named_in_place(call.func):
        return True
    position = inplace_position(call.func)
    if position is None:
        return False
    return bool(call.args[position] if position < len(call.args) else call.kwargs.get("inplace", False))


def place_of(call: Call) -> Tensor | None:
    """The tensor that the function writes its value to, if it does so."""
    if isinstance(call.kwargs.get("out"), Tensor):
        return call.kwargs["out"]  # type: ignore[no-any-return]
    return call.args[0] if call.args and works_in_place(call) else None


def elsewhere(call: Call) -> Call:
    """The same function on a copy of the tensor that it changes."""
    if "out" in call.kwargs:
        return replace(call, kwargs=without(call.kwargs, "out"))
    return replace(call, args=(call.args[0].clone(), *call.args[1:]))


ASKING = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
"""How torch's own functions in Python ask whether somebody watches them, before they begin."""


def packed_projections(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    """What torch's attention makes of its tokens: the same values as its own function, by a shorter way back."""
    if query is key and key is value:
        return [part.contiguous() for part in functional.linear(query, weight, bias).chunk(3, -1)]
    weights, biases = weight.chunk(3), (None,) * 3 if bias is None else bias.chunk(3)
    return [functional.linear(*given) for given in zip((query, key, value), weights, biases, strict=True)]


QUICKER = {"_in_projection_packed": packed_projections}
"""Functions of torch's that others call and that stand for its own."""


@cache
def opened(func: Any) -> Callable[..., Any] | None:
    """The same function of torch's in Python, which asks nobody and begins, so that what it calls can be watched.

    None for functions in C++, which are all of one piece.
    """
    if not isinstance(func, FunctionType) or not set(ASKING) & set(func.__code__.co_names):
        return None
    names = func.__globals__ | {name: lambda *_: False for name in ASKING} | QUICKER
    inside = FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    inside.__kwdefaults__ = func.__kwdefaults__
    return inside


def layer_names(model: nn.Module) -> dict[int, str]:
    """The names of a model's layers by their identity, as its author wrote them."""
    return {id(module): written_name(name) for name, module in model.named_modules()}


def written_name(name: str) -> str:
    """A layer's name without the parts that stand for a wrapper around the network, ours or torch.compile's."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def running(layers: Container[int]) -> Iterator[nn.Module]:
    """Those of these layers, by their identity, whose `forward` is running now, the innermost first."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and id(owner) in layers:
            yield owner


def running_layers(layers: Container[int]) -> list[nn.Module]:
    """The same, the outermost first and each once."""
    return list({id(layer): layer for layer in running(layers)}.values())[::-1]


def running_layer(model: nn.Module | Mapping[int, str]) -> str:
    """The name of the innermost layer whose `forward` is running now: for errors, which say where they came from.

    Whoever asks often gives `layer_names(model)`.
    """
    names = layer_names(model) if isinstance(model, nn.Module) else model
    return next((names[id(layer)] for layer in running(names)), "")

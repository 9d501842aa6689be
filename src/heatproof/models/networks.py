"""A user's network: where it comes from, and that it gives logits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.base import untouched
from heatproof.loading import load_object

WRAPPER = """
    class Net(torch.nn.Module):
        def __init__(self): super().__init__(); self.net = make_my_network()
        def forward(self, *inputs): return self.net(*inputs)["the logits"]"""


def load_network(model: Any) -> tuple[str, nn.Module]:
    """A user's network with a name: a module, or `file.py:factory` or `package.module:factory` that makes one."""
    name, made = make_from(model) if isinstance(model, str) else (name_of(model), model)
    return name, require_module(name, made)


def make_from(reference: str) -> tuple[str, Any]:
    """The name of a factory and what it makes; what is no function or class stands for itself, as a module does."""
    found = load_object(reference)
    if isinstance(found, nn.Module) or not callable(found):
        return reference.rpartition(":")[2], found
    try:
        return reference.rpartition(":")[2], found()
    except Exception as problem:
        raise HeatproofError(f"{reference} fails to make a network: {type(problem).__name__}: {problem}") from problem


def name_of(model: object) -> str:
    """What a network that comes without a name is called: its class, or itself if it is a function or a class."""
    return str(getattr(model, "__name__", type(model).__name__))


def require_module(name: str, made: Any, otherwise: str = "") -> nn.Module:
    """What was made, if it is a module; `otherwise` names what else could have been given."""
    if isinstance(made, nn.Module):
        return made
    if isinstance(made, type):
        found = f"the class {made.__name__} itself, so call it"
    else:
        found = type(made).__name__
    raise HeatproofError(f"model {name} must be a torch.nn.Module{otherwise}; got {found}.")


def ask(name: str, module: nn.Module, inputs: Tensor, *context: Tensor, what: str = "inputs") -> Any:
    """What the module returns; an error of its own is one about `what` it was given."""
    try:
        with torch.no_grad(), untouched(module):
            return module(inputs, *context)
    except Exception as problem:
        raise HeatproofError(
            f"model {name} fails on {what} of shape {tuple(inputs.shape)}: {type(problem).__name__}: {problem}"
        ) from problem


def logits_of(outputs: Any, name: str) -> Tensor:
    """The logits among what a model returns: itself, its `logits` (entry or attribute), or the first of several."""
    found = outputs
    if isinstance(found, Mapping) and "logits" in found:
        found = found["logits"]
    elif hasattr(found, "logits"):
        found = found.logits
    elif isinstance(found, (tuple, list)) and found:
        found = found[0]
    if isinstance(found, Tensor):
        return found
    raise HeatproofError(
        f"model {name} must return logits, as a tensor, first in a tuple, or by the name logits; got"
        f" {kind_of(outputs)}. Wrap it in a module that returns the logits alone:{WRAPPER}"
    )


def kind_of(outputs: Any) -> str:
    if isinstance(outputs, Tensor):
        return f"{str(outputs.dtype).removeprefix('torch.')} {tuple(outputs.shape)}"
    if isinstance(outputs, Mapping):
        return f"{type(outputs).__name__} of {', '.join(map(str, outputs)) or 'nothing'}"
    return type(outputs).__name__


class Logits(nn.Module):
    """The logits alone of a network that returns more; its layers keep the names that they have in the network."""

    def __init__(self, network: nn.Module, name: str) -> None:
        super().__init__()
        self.wrapped_network = network
        self.name = name
        self.train(network.training)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("wrapped_network"), name)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """As of the network, so that `layer="features.28"` finds it; the network itself has our name for it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        network = self.wrapped_network
        for name, module in network.named_modules(memo, prefix, remove_duplicate):
            yield (f"{prefix}.wrapped_network".lstrip("."), module) if module is network else (name, module)

    def forward(self, *inputs: Tensor) -> Tensor:
        return logits_of(self.wrapped_network(*inputs), self.name)


def returning_logits(
    module: nn.Module, inputs: Tensor, *context: Tensor, name: str | None = None, what: str = "inputs"
) -> nn.Module:
    """The module if it returns a tensor for this sample, or Logits of it if what it returns has them."""
    name = name or name_of(module)
    outputs = ask(name, module, inputs, *context, what=what)
    if isinstance(outputs, Tensor):
        return module
    logits_of(outputs, name)
    return Logits(module, name)


def check_logits(name: str, logits: Any, cases: int, classes: int | None = None) -> Tensor:
    """Finite float logits (cases, classes), or an error."""
    if (
        not isinstance(logits, Tensor)
        or not logits.is_floating_point()
        or logits.ndim != 2
        or len(logits) != cases
        or classes not in (None, logits.shape[1])
    ):
        wanted = "classes" if classes is None else classes
        raise HeatproofError(
            f"model {name} must return float logits (cases, {wanted}), one row for each of {cases} cases; got"
            f" {kind_of(logits)}."
        )
    if not bool(logits.isfinite().all()):
        raise HeatproofError(f"model {name} returns NaN or infinite logits for inputs of this data set.")
    return logits

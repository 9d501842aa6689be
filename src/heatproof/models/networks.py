"""A user's network: where it comes from, and that it gives logits."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heatproof.devices import placed
from heatproof.errors import HeatproofError, words_of
from heatproof.explainers.guards import hookable, untouched
from heatproof.explainers.wrapped import Wrapped
from heatproof.loading import load_object
from heatproof.models.black_box import black_box, is_black_box

FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
WRAPPER = """
    class Net(torch.nn.Module):
        def __init__(self): super().__init__(); self.net = make_my_network()
        def forward(self, *inputs): return self.net(*inputs)["the logits"]"""


def load_network(model: Any) -> tuple[str, nn.Module]:
    """A user's network with a name: a module, `file.py:factory`, `package.module:factory`, `net.onnx`, `http://...`."""
    name, made = make_from(model) if isinstance(model, str) else (name_of(model), model)
    return name, at_rest(require_module(name, made))


def make_from(reference: str) -> tuple[str, Any]:
    """The name of a factory and what it makes; what is no function or class stands for itself, as a module does.

    A file of ONNX and an address are models that are only asked.
    """
    if is_black_box(reference):
        box = black_box(reference)
        return box.name, box
    found = load_object(reference)
    if isinstance(found, nn.Module) or not callable(found):
        return reference.rpartition(":")[2], found
    try:
        return reference.rpartition(":")[2], found()
    except (Exception, SystemExit) as problem:
        raise HeatproofError(f"{reference} fails to make a network: {words_of(problem)}") from problem


def name_of(model: object) -> str:
    """What a network that comes without a name is called: its class, or itself if it is a function or a class."""
    return str(getattr(model, "__name__", type(model).__name__))


def require_module(name: str, made: Any, otherwise: str = "") -> nn.Module:
    """What was made, if it is a module, as it can be watched; `otherwise` names what else could have been given."""
    if isinstance(made, nn.Module):
        return hookable(made)
    if isinstance(made, type):
        found = f"the class {made.__name__} itself, so call it"
    else:
        found = type(made).__name__
    asked = "; a function on arrays goes in as heatproof.black_box(function)" if inspect.isroutine(made) else ""
    raise HeatproofError(f"model {name} must be a torch.nn.Module{otherwise}; got {found}{asked}.")


def at_rest(module: nn.Module) -> nn.Module:
    """The module on the CPU, where networks rest; a user's own may be on a GPU, and stays there."""
    return placed(module, torch.device("cpu"))


def ask(name: str, module: nn.Module, inputs: Tensor, *context: Tensor, what: str = "inputs") -> Any:
    """What the module returns; an error of its own is one about `what` it was given."""
    try:
        with torch.no_grad(), untouched(module):
            return module(inputs, *context)
    except HeatproofError:
        raise
    except Exception as problem:
        raise HeatproofError(
            f"model {name} fails on {what} of shape {tuple(inputs.shape)}: {type(problem).__name__}: {problem}"
        ) from problem


def as_tensor(values: Any) -> Tensor:
    """A tensor, an array, or whatever torch makes a tensor of; arrays may be views in any direction."""
    if isinstance(values, np.ndarray):
        values = np.ascontiguousarray(values)
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise HeatproofError(f"{type(values).__name__} cannot be made a tensor: {problem}.") from problem


def numbers_of(module: nn.Module) -> torch.dtype | None:
    """The type of the module's weights, if all have one that inputs can have."""
    found = {parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()}
    return next(iter(found)) if len(found) == 1 and found <= FLOATS else None


def fitted(module: nn.Module, values: Tensor) -> Tensor:
    """The values in the type of the module's weights, which a NumPy array is in seldom; whole numbers as they are."""
    kind = numbers_of(module)
    return values.to(kind) if kind is not None and values.is_floating_point() else values


def explainable(name: str, module: nn.Module, inputs: Tensor, *context: Tensor) -> tuple[nn.Module, Tensor]:
    """The module as it gives logits, and the inputs in numbers that have gradients, once it has taken one case.

    What it does not take is an error that says the way out.
    """
    first = [tensor[:1] for tensor in (inputs, *context)]
    try:
        outputs = ask(name, module, *first)
    except HeatproofError as problem:
        if is_one_case(name, module, inputs, *context):
            raise HeatproofError(one_case(inputs)) from problem
        if not inputs.is_floating_point():
            kind = str(inputs.dtype).removeprefix("torch.")
            raise HeatproofError(
                f"the inputs are whole numbers ({kind}), which model {name} does not take; give them as it was trained"
                " on, for instance inputs.float() / 255."
            ) from problem
        raise
    if isinstance(outputs, Tensor) and outputs.ndim != 2 and is_one_case(name, module, inputs, *context):
        raise HeatproofError(one_case(inputs))
    if not inputs.is_floating_point():
        inputs = inputs.to(numbers_of(module) or torch.float32)
        outputs = ask(name, module, inputs[:1], *first[1:], what=f"inputs in {inputs.dtype}")
    return giving_logits(module, outputs, name), inputs


def is_one_case(name: str, module: nn.Module, *tensors: Tensor) -> bool:
    """Whether the module takes these as a single case without the axis of cases."""
    try:
        outputs = ask(name, module, *(tensor[None] for tensor in tensors))
    except HeatproofError:
        return False
    return not isinstance(outputs, Tensor) or outputs.ndim == 2


def one_case(inputs: Tensor) -> str:
    shape = tuple(inputs.shape)
    return f"inputs of shape {shape} are one case without the axis of cases; give inputs[None], of shape {(1, *shape)}."


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


class Logits(Wrapped):
    """The logits alone of a network that returns more."""

    def __init__(self, network: nn.Module, name: str) -> None:
        super().__init__(network)
        self.name = name

    def forward(self, *inputs: Tensor) -> Tensor:
        return logits_of(self.wrapped_network(*inputs), self.name)


def returning_logits(
    module: nn.Module, inputs: Tensor, *context: Tensor, name: str | None = None, what: str = "inputs"
) -> nn.Module:
    """The module if it returns a tensor for this sample, or Logits of it if what it returns has them."""
    name = name or name_of(module)
    return giving_logits(module, ask(name, module, inputs, *context, what=what), name)


def giving_logits(module: nn.Module, outputs: Any, name: str) -> nn.Module:
    """The module if these outputs of it are a tensor, or Logits of it if they hold one."""
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

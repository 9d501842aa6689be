"""Models that run as compiled graphs (TorchScript, torch.export) or on whole numbers: what can be seen of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.export.unflatten import InterpreterModule

from heatproof.errors import HeatproofError
from heatproof.explainers.guards import modules_of


def is_script(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule)


PROGRAMS = (InterpreterModule, torch.fx.GraphModule)


def operations(module: nn.Module) -> list[str]:
    """The names of torch's operations in a module of an exported program; none for other modules."""
    graph = module.graph if isinstance(module, PROGRAMS) else None
    targets = [] if graph is None else [node.target for node in graph.nodes if node.op == "call_function"]
    return [target.__name__ for target in targets if isinstance(target, torch._ops.OpOverload)]


def require_functions(model: nn.Module, explainer: str) -> None:
    """An error for a model whose functions this explainer cannot watch, where it would be wrong without a word."""
    kinds = kinds_of(model)
    require_read(model, kinds, explainer)
    if any(issubclass(kind, PROGRAMS) for kind in kinds) and any(operations(module) for module in modules_of(model)):
        raise_hidden("torch.export", explainer)


def kinds_of(model: nn.Module) -> set[type[nn.Module]]:
    """The classes of a model's layers."""
    return {type(module) for module in modules_of(model)}


def require_gradients(model: nn.Module, explainer: str) -> None:
    """An error for a quantised model: its layers have no gradients, and what goes around them would be half of it."""
    require_unquantised(model, kinds_of(model), explainer)


def require_unquantised(model: nn.Module, kinds: set[type[nn.Module]], explainer: str) -> None:
    """The same, for a model whose layers are known to be of these classes."""
    if any(map(is_quantised, kinds)):
        found = next(name for name, module in model.named_modules() if is_quantised(type(module)))
        raise HeatproofError(
            f"{explainer} needs gradients, and layer {found!r} of the model is quantised, which has none. Give the"
            " network as it was before, or take a method that asks for scores only (rise, lime, occlusion ...)."
        )


def is_quantised(kind: type[nn.Module]) -> bool:
    """Whether it is one of torch's own layers of whole numbers."""
    return ".quantized" in kind.__module__ and kind.__module__.startswith("torch.")


def require_layers(model: nn.Module, explainer: str) -> None:
    """An error for a model whose layers cannot be read."""
    require_read(model, kinds_of(model), explainer)


def require_read(model: nn.Module, kinds: set[type[nn.Module]], explainer: str) -> None:
    """The same, for a model whose layers are known to be of these classes."""
    require_unquantised(model, kinds, explainer)
    if any(issubclass(kind, torch.jit.ScriptModule) for kind in kinds):
        raise_hidden("TorchScript", explainer)


def raise_hidden(kind: str, explainer: str) -> None:
    raise HeatproofError(
        f"{explainer} has to see the layers of the model, and {kind} hides them. Give the network as file.py:factory"
        " with its weights, or take a method that asks for scores and gradients only (gradient, integrated_gradients,"
        " rise, lime ...)."
    )

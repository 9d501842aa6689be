"""Models that run as compiled graphs, TorchScript and torch.export: what can be seen of them, and what cannot."""

from __future__ import annotations

import torch
from torch import nn
from torch.export.unflatten import InterpreterModule

from heatproof.errors import HeatproofError


def is_script(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule)


def operations(module: nn.Module) -> list[str]:
    """The names of torch's operations in a module of an exported program; none for other modules."""
    graph = module.graph if isinstance(module, (InterpreterModule, torch.fx.GraphModule)) else None
    targets = [] if graph is None else [node.target for node in graph.nodes if node.op == "call_function"]
    return [target.__name__ for target in targets if isinstance(target, torch._ops.OpOverload)]


def require_functions(model: nn.Module, explainer: str) -> None:
    """An error for a model whose functions this explainer cannot watch, where it would be wrong without a word."""
    require_layers(model, explainer)
    if any(operations(module) for module in model.modules()):
        raise_hidden("torch.export", explainer)


def require_layers(model: nn.Module, explainer: str) -> None:
    """An error for a model whose layers cannot be read."""
    if any(is_script(module) for module in model.modules()):
        raise_hidden("TorchScript", explainer)


def raise_hidden(kind: str, explainer: str) -> None:
    raise HeatproofError(
        f"{explainer} has to see the layers of the model, and {kind} hides them. Give the network as file.py:factory"
        " with its weights, or take a method that asks for scores and gradients only (gradient, integrated_gradients,"
        " rise, lime ...)."
    )

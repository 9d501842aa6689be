"""That a method leaves the model, its hooks, modes and gradients, and the caller's tensors as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def state(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that a method could leave changed; tensors by their versions and numbers."""
    return {
        "modes": [module.training for module in model.modules()],
        "hooks": [len(getattr(module, name)) for module in model.modules() for name in HOOKS],
        "forwards": ["forward" in vars(module) for module in model.modules()],
        "flags": [parameter.requires_grad for parameter in model.parameters()],
        "gradients": [parameter.grad for parameter in model.parameters()],
        "weights": [(name, id(values), values._version) for name, values in model.state_dict(keep_vars=True).items()],
    }


@contextmanager
def unchanged(model: nn.Module, *tensors: Tensor) -> Iterator[None]:
    """The model is in training mode meanwhile, with a gradient left over: both must be there afterwards."""
    first = next(iter(model.parameters()))
    first.grad = torch.ones_like(first)
    model.train()
    before, copies = state(model), [tensor.clone() for tensor in tensors]
    try:
        yield
        after = state(model)
        for what, value in before.items():
            assert len(value) == len(after[what]), f"the model's {what} are changed"
            if what == "gradients":
                assert all(a is b for a, b in zip(value, after[what], strict=True)), f"the model's {what} are changed"
            else:
                assert value == after[what], f"the model's {what} are changed"
        for tensor, kept in zip(tensors, copies, strict=True):
            assert torch.equal(tensor, kept), "the caller's tensor is changed"
            assert not tensor.requires_grad
    finally:
        model.eval()
        first.grad = None

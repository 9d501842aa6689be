"""Backward passes in which ReLUs let only positive signals through.

Like the relevance graph, it watches functions and not modules, so functional, reused and in-place ReLUs count too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

RELUS = {"relu", "relu_", "relu6"}
LINEAR = {"conv1d", "conv2d", "conv3d", "batch_norm"}


class PositiveBackward(torch.autograd.Function):
    """ReLU whose backward drops negative signals and nothing else."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return inputs.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Tensor:
        return signal.clamp(min=0)


def positive(signal: Tensor) -> Tensor:
    return signal.clamp(min=0)


class ReluBackward(TorchFunctionMode):
    """Inside this context, ReLUs have the backward pass of guided backprop, or of a deconvnet.

    `convs_only` leaves ReLUs ordinary that run over pairs or tokens: all but those behind convolutions and those on
    plain vectors (B, n).
    """

    def __init__(self, guided: bool, convs_only: bool) -> None:
        super().__init__()
        self.guided = guided
        self.convs_only = convs_only
        self.maps: Tensor | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in RELUS and self.overrides(args[0]):
            if not self.guided:
                return PositiveBackward.apply(args[0])  # type: ignore[no-untyped-call]
            outputs = torch.relu(args[0])  # whose own backward drops what the forward pass did
            outputs.register_hook(positive)
            return outputs
        result = func(*args, **(kwargs or {}))
        if name in LINEAR:
            self.maps = result
        return result

    def overrides(self, inputs: Tensor) -> bool:
        return inputs.requires_grad and (not self.convs_only or inputs is self.maps or inputs.ndim == 2)

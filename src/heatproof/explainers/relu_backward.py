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
    """ReLU whose backward drops negative signals; a guided one also drops what the forward pass did."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, guided: bool) -> Tensor:
        outputs = inputs.clamp(min=0)
        ctx.guided = guided
        ctx.save_for_backward(outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Any:
        (outputs,) = ctx.saved_tensors
        signal = signal.clamp(min=0)
        # Contiguous: backward of batch norm in evaluation mode is wrong for some other strides (torch 2.13, CPU).
        return (torch.where(outputs > 0, signal, 0) if ctx.guided else signal).contiguous(), None


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
            return PositiveBackward.apply(args[0], self.guided)  # type: ignore[no-untyped-call]
        result = func(*args, **(kwargs or {}))
        if name in LINEAR:
            self.maps = result
        return result

    def overrides(self, inputs: Tensor) -> bool:
        return inputs.requires_grad and (not self.convs_only or inputs is self.maps or inputs.ndim == 2)

"""Toys: one network for each activation and each way of working in place, with the plain form of the same function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.own import CLASSES, conv

Step = Callable[[Tensor], Tensor]


class Apply(nn.Module):
    """A function as a module, so that a hook can read what it makes."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    def forward(self, inputs: Tensor) -> Tensor:
        return self.step(inputs)


class Between(nn.Module):
    """Two convolutions, an activation after each, the mean over space, a dense layer."""

    def __init__(self, activation: Step) -> None:
        super().__init__()
        self.first, self.second, self.out = conv(3, 8), conv(8, 8), nn.Linear(8, CLASSES)
        self.activation = Apply(activation)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.activation(self.second(self.activation(self.first(inputs))))
        logits: Tensor = self.out(maps.mean((2, 3)))
        return logits


def with_activation(make: Callable[[], Step]) -> nn.Module:
    return Between(make())


class MemorySavingSwish(torch.autograd.Function):
    """An activation with its backward pass written by hand, as memory-saving code has it."""

    @staticmethod
    def forward(ctx, inputs):
        ctx.save_for_backward(inputs)
        return inputs * torch.sigmoid(inputs)

    @staticmethod
    def backward(ctx, gradient):
        (inputs,) = ctx.saved_tensors
        slope = torch.sigmoid(inputs)
        return gradient * slope * (1 + inputs * (1 - slope))


class HandRelu(torch.autograd.Function):
    """A ReLU with its backward pass written by hand."""

    @staticmethod
    def forward(ctx, inputs):
        ctx.save_for_backward(inputs)
        return inputs.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (inputs,) = ctx.saved_tensors
        return gradient * (inputs > 0)


RECTIFIERS: dict[str, tuple[Callable[[], Step], Callable[[], Step]]] = {
    "F.relu": (lambda: F.relu, nn.ReLU),
    "nn.ReLU6": (nn.ReLU6, lambda: F.relu6),
    "F.relu6": (lambda: F.relu6, nn.ReLU6),
    "nn.Hardtanh(0, 1)": (partial(nn.Hardtanh, 0.0, 1.0), lambda: partial(torch.clamp, min=0.0, max=1.0)),
    "clamp(min=0)": (lambda: partial(torch.clamp, min=0), nn.ReLU),
    "clamp_min": (lambda: lambda x: x.clamp_min(0), nn.ReLU),
    "nn.Threshold(0, 0)": (partial(nn.Threshold, 0.0, 0.0), nn.ReLU),
    "x * (x > 0)": (lambda: lambda x: x * (x > 0), nn.ReLU),
    "maximum(x, 0)": (lambda: lambda x: torch.maximum(x, torch.zeros_like(x)), nn.ReLU),
    "where(x > 0, x, 0)": (lambda: lambda x: torch.where(x > 0, x, torch.zeros_like(x)), nn.ReLU),
    "masked_fill": (lambda: lambda x: x.masked_fill(x < 0, 0.0), nn.ReLU),
    "relu(input=x)": (lambda: lambda x: torch.relu(input=x), nn.ReLU),
    "relu(relu(x))": (lambda: lambda x: F.relu(F.relu(x)), nn.ReLU),
}
"""What rectifies, by other names, and the plain form."""

CURVES: dict[str, Callable[[], Step]] = {
    "leaky_relu": partial(nn.LeakyReLU, 0.1),
    "prelu": partial(nn.PReLU, 8),
    "rrelu": nn.RReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "celu": nn.CELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "tanh": nn.Tanh,
    "hardtanh": nn.Hardtanh,
    "sigmoid": nn.Sigmoid,
    "log_sigmoid": nn.LogSigmoid,
    "abs": lambda: torch.abs,
    "square": lambda: lambda x: x * x,
}
"""Activations that do not rectify."""


class InPlace(nn.Module):
    """A toy whose middle does something in place, or the same out of place."""

    def __init__(self, middle: Callable[[nn.Module, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.branch = conv(3, 8), conv(3, 8), conv(8, 8)
        self.last, self.out = nn.ReLU(), nn.Linear(8, CLASSES)
        self.middle = middle

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.middle(self, self.first(inputs), self.second(inputs))
        logits: Tensor = self.out(self.last(maps).mean((2, 3)))
        return logits


def branch_rectified(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(F.relu(y, inplace=True)) + y + z


def branch_rectified_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    rectified = F.relu(y)
    return net.branch(rectified) + rectified + z


def statement(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    F.relu_(y)
    return net.branch(y) + z


def statement_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(F.relu(y)) + z


def of_a_slice(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    F.relu_(y[:, :4])
    return net.branch(y) + z


def of_a_slice_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(torch.cat([F.relu(y[:, :4]), y[:, 4:]], 1)) + z


def added(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    y.add_(z)
    return net.branch(y) + y


def added_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    total = y + z
    return net.branch(total) + total


def scaled(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    y.mul_(0.5)
    return net.branch(y) + y + z


def scaled_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    half = 0.5 * y
    return net.branch(half) + half + z


def pooled_then_added(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    y = F.max_pool2d(y, 3, 1, 1)
    y += z
    return net.branch(F.relu(y))


def pooled_then_added_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(F.relu(F.max_pool2d(y, 3, 1, 1) + z))


def curved_then_added(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    curved = F.silu(y)
    curved += y
    return net.branch(curved) + z


def curved_then_added_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(F.silu(y) + y) + z


def slice_set(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    y[:, 0] = 0
    return net.branch(y) + z


def slice_set_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(torch.cat([torch.zeros_like(y[:, :1]), y[:, 1:]], 1)) + z


def slice_added(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    y[:, :4] += z[:, 4:]
    return net.branch(F.relu(y)) + z


def slice_added_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(F.relu(torch.cat([y[:, :4] + z[:, 4:], y[:, 4:]], 1))) + z


def slice_filled(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    joined = y.new_zeros(len(y), 8, *y.shape[2:])
    joined[:, :4] = y[:, :4]
    joined[:, 4:] = F.relu(z[:, 4:])
    return net.branch(joined)


def slice_filled_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    return net.branch(torch.cat([y[:, :4], F.relu(z[:, 4:])], 1))


def bounded(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    y.clamp_(min=-0.5).div_(2)
    return net.branch(y) + y + z


def bounded_plain(net: InPlace, y: Tensor, z: Tensor) -> Tensor:
    half = y.clamp(min=-0.5) / 2
    return net.branch(half) + half + z


IN_PLACE: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "relu(inplace) in a branch": (branch_rectified, branch_rectified_plain),
    "relu_ as a statement": (statement, statement_plain),
    "relu_ of a slice": (of_a_slice, of_a_slice_plain),
    "add_": (added, added_plain),
    "mul_": (scaled, scaled_plain),
    "max pool, then +=": (pooled_then_added, pooled_then_added_plain),
    "silu, then +=": (curved_then_added, curved_then_added_plain),
    "y[:, 0] = 0": (slice_set, slice_set_plain),
    "y[:, :4] += z": (slice_added, slice_added_plain),
    "y[:, :4] = z": (slice_filled, slice_filled_plain),
    "clamp_, then div_": (bounded, bounded_plain),
}
"""Each way to work in place, and the same out of place."""


class InputsChanged(nn.Module):
    """A network that normalises its own input, in place or not."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.net = Between(F.relu)
        self.inplace = inplace

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = inputs.sub_(0.5).div_(2) if self.inplace else (inputs - 0.5) / 2
        logits: Tensor = self.net(inputs)
        return logits


class Normed(nn.Module):
    """A norm in the middle, then channels last: torch's own gradients of a single case are wrong here."""

    def __init__(self, norm: Step) -> None:
        super().__init__()
        self.conv, self.norm = conv(3, 8), norm
        self.dense, self.out = nn.Linear(8, 4), nn.Linear(4 * 256, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.norm(self.conv(inputs)).permute(0, 2, 3, 1)
        logits: Tensor = self.out(F.relu(self.dense(maps)).flatten(1))
        return logits


def batch_norm(maps: Tensor) -> Tensor:
    """Called as a function, with statistics that are no buffers."""
    variance = torch.linspace(0.5, 1.5, maps.shape[1]).to(maps)
    return F.batch_norm(maps, torch.zeros_like(variance), variance)

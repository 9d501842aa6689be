"""Literal references: plain autograd, hooks on its own nodes, a hook at a layer. Nothing here is Heatproof's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from zoo.kinds import Layer

MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def score(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor) -> Tensor:
    """The target's logit of each case."""
    return of_target(model(inputs.clone(), *context), target)


def of_target(logits: Tensor, target: Tensor) -> Tensor:
    """The target's logit; a single output is that of class 1, and speaks against class 0."""
    if logits.shape[1] == 1:
        return logits[:, 0] * (2 * target - 1)
    return logits.gather(1, target[:, None])[:, 0]


def gradient(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor) -> Tensor:
    """Plain autograd, both cases in one batch: torch's norms have wrong gradients for one case alone."""
    inputs = inputs.clone().requires_grad_()
    return torch.autograd.grad(score(model, inputs, context, target).sum(), inputs)[0]


def integrated(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor, steps: int) -> Tensor:
    """Gauss and Legendre's points between zero and the inputs, one by one.

    Zero itself is none of them: there all places of a map tie, and which of them a maximum takes is up to rounding.
    """
    total = torch.zeros_like(inputs)
    for point, weight in zip(*np.polynomial.legendre.leggauss(steps), strict=True):
        total += weight / 2 * gradient(model, inputs * (point + 1) / 2, context, target)
    return total * inputs


# Rectifiers in the autograd graph


def nodes(start: Any) -> list[Any]:
    """All nodes of the graph behind one."""
    found, waiting, seen = [], [start], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found.append(node)
        waiting += [following for following, _ in node.next_functions]
    return found


def rectifies(node: Any) -> bool:
    """Whether the node is that of a function that is zero for negative values and grows from there."""
    name = node.name()
    if name == "ReluBackward0":
        return True
    if name == "HardtanhBackward0":
        return bool(node._saved_min_val == 0)
    if name == "ClampBackward1":
        return bool(node._saved_min == 0)
    if name == "ClampMinBackward0":
        return bool(node._saved_min == 0)
    return name == "ThresholdBackward0" and bool(node._saved_threshold == 0)


def cap(node: Any) -> float:
    """Where the rectifier stops to grow."""
    top = getattr(node, "_saved_max_val", getattr(node, "_saved_max", None))
    return float("inf") if top is None else float(top)


def rectified(
    model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor, guided: bool
) -> tuple[Tensor, int]:
    """Guided backprop or deconvnet by hooks on the rectifiers' nodes, and how many nodes there were.

    Guided: what comes back is cut at zero, then the node does what it does. Deconvnet: what comes back is cut at zero,
    and passes everywhere but above the cap.
    """
    inputs = inputs.clone().requires_grad_()
    total = score(model, inputs, context, target).sum()
    found = [node for node in nodes(total.grad_fn) if rectifies(node)]

    def positive(signals: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(signal.clamp(min=0) for signal in signals)

    def everywhere(node: Any) -> Callable[..., Any]:
        top = cap(node)
        below = None if top == float("inf") else node._saved_self < top

        def passed(_into: Any, signals: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            signal = signals[0].clamp(min=0)
            return (signal if below is None else signal * below,)

        return passed

    for node in found:
        if guided:
            node.register_prehook(positive)
        else:
            node.register_hook(everywhere(node))
    return torch.autograd.grad(total, inputs)[0], len(found)


# Class activation maps


def maps_at(
    model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor, layer: Layer
) -> tuple[Tensor, Tensor]:
    """The layer's maps and the gradient of the score there, by a forward hook; the layer's last call counts."""
    kept: list[Tensor] = []

    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        kept.append(output.clone())
        return kept[-1].clone()  # what follows may work in place

    handle = model.get_submodule(layer.name).register_forward_hook(hook)
    try:
        logits = model(inputs.clone().requires_grad_(), *context)
    finally:
        handle.remove()
    maps = kept[-1]
    if layer.then is not None:
        assert layer.head is not None
        maps = layer.then(maps.detach()).requires_grad_()
        torch.testing.assert_close(layer.head(model, maps), logits)
        logits = layer.head(model, maps)
    slopes = torch.autograd.grad(of_target(logits, target).sum(), maps)[0]
    return layer.maps(maps.detach()), layer.maps(slopes)


def cam(name: str, maps: Tensor, slopes: Tensor, space: tuple[int, ...]) -> Tensor:
    """max(0, sum_k w_k A_k), up-sampled, each method with its own w."""
    places = tuple(range(2, maps.ndim))
    if name == "grad_cam":
        weights = slopes.mean(places, keepdim=True)
    elif name == "layer_cam":
        weights = slopes.clamp(min=0)
    elif name == "xgrad_cam":
        weights = (maps * slopes).sum(places, keepdim=True) / maps.sum(places, keepdim=True)
        weights = weights.nan_to_num(0.0, 0.0, 0.0)
    else:
        assert name == "grad_cam_pp"
        alpha = slopes**2 / (2 * slopes**2 + maps.sum(places, keepdim=True) * slopes**3)
        weights = (alpha.nan_to_num(0.0, 0.0, 0.0) * slopes.clamp(min=0)).sum(places, keepdim=True)
    return stretched((weights * maps).sum(1, keepdim=True).clamp(min=0), space)


def stretched(maps: Tensor, space: tuple[int, ...]) -> Tensor:
    return F.interpolate(maps, size=space, mode=MODES[len(space)], align_corners=False)


def score_cam(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor, maps: Tensor) -> Tensor:
    """Score-CAM by a loop over the maps; a map that is constant makes an empty mask."""
    space, scores = tuple(inputs.shape[2:]), []
    with torch.no_grad():
        for channel in range(maps.shape[1]):
            large = stretched(maps[:, channel : channel + 1], space)
            flat = large.flatten(1)
            low, high = (v.view(-1, *[1] * (inputs.ndim - 1)) for v in (flat.amin(1), flat.amax(1)))
            own = maps[:, channel].flatten(1)
            same = (own == own[:, :1]).all(1).view(-1, *[1] * (inputs.ndim - 1))
            mask = torch.where(same, 0.0, (large - low) / (high - low))
            scores.append(score(model, inputs * mask, context, target))
    weights = torch.stack(scores, 1).softmax(1).view(*maps.shape[:2], *[1] * (maps.ndim - 2))
    return stretched((weights * maps).sum(1, keepdim=True), space).clamp(min=0)


# Relevance as a gradient

PASSED_ON = {
    "relu", "relu_", "relu6", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "prelu", "rrelu", "elu", "selu",
    "celu", "gelu", "silu", "mish", "hardswish", "hardsigmoid", "softplus", "softsign", "tanh", "sigmoid", "logsigmoid",
    "log_sigmoid", "threshold", "_threshold", "clamp", "clamp_", "clamp_min", "clamp_max", "softshrink", "hardshrink",
    "tanhshrink",
}  # fmt: skip


CONSTANT_ADDED = {"add", "add_", "__add__", "__radd__", "__iadd__", "sub", "__sub__", "__rsub__"}
OWN_STATISTICS = {"group_norm", "instance_norm"}


class SlopesOfSecants(TorchFunctionMode):
    """Inside, an activation f has the slope f(z) / z: by this, x times the gradient is LRP-epsilon without stabiliser.

    R_i = x_i sum_j w_ij R_j / z_j, with m = R / z at each tensor, is m_i = sum_j w_ij m_j: the gradient's own rule, for
    sums, averages, convolutions and norms with stored statistics alike; an activation a = f(z) passes R on, so that
    its m is m_a f(z) / z (Ancona et al. 2018). So does the addition of a constant, but to a linear map, where it is a
    bias. A norm by a case's own statistics
    subtracts a mean and divides by a constant.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        carriers = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.requires_grad]
        if name in CONSTANT_ADDED and len(carriers) == 1 and is_linear_map(carriers[0]):
            return func(*args, **kwargs)
        if len(carriers) == 1 and name in PASSED_ON | CONSTANT_ADDED:
            return passed_on(func, args, kwargs, carriers[0])
        if carriers and name in OWN_STATISTICS and not (args[1:2] and isinstance(args[1], Tensor)):
            return by_constant_deviation(func, args, kwargs, carriers[0])
        return func(*args, **kwargs)


def is_linear_map(carrier: Tensor) -> bool:
    """Whether a dense layer or a convolution made this tensor, perhaps with constants added since."""
    node = carrier.grad_fn
    while node is not None and node.name() in ("AddBackward0", "SubBackward0", "RsubBackward1", "NegBackward0"):
        node = next(before for before, _ in node.next_functions if before is not None)
    return node is not None and node.name().startswith(("Convolution", "Addmm", "Mm", "UnsafeView", "Mkldnn"))


def passed_on(func: Any, args: Any, kwargs: Any, carrier: Tensor) -> Tensor:
    """The function's value as the carrier times a constant."""
    copy = carrier.detach().clone()
    with torch.no_grad():
        values = func(
            *[copy.clone() if value is carrier else value for value in args],
            **{key: copy.clone() if value is carrier else value for key, value in kwargs.items()},
        )
    return carrier * torch.where(copy == 0, 0.0, values / copy) + torch.where(copy == 0, values, 0.0)


def by_constant_deviation(func: Any, args: Any, kwargs: Any, carrier: Tensor) -> Tensor:
    """A norm over groups of channels: (x - mean) w / deviation + b, whose deviation is a constant."""
    groups = args[1] if func.__name__ == "group_norm" else carrier.shape[1]
    inside = carrier.reshape(len(carrier), groups, -1)
    centred = (inside - inside.mean(2, keepdim=True)).reshape(carrier.shape)
    with torch.no_grad():
        values = func(*[value.detach() if value is carrier else value for value in args], **kwargs)
        shift = func(*[torch.zeros_like(carrier) if value is carrier else value for value in args], **kwargs)
    return centred * ((values - shift) / centred).detach() + shift


def relevance(model: nn.Module, inputs: Tensor, context: tuple[Tensor, ...], target: Tensor) -> Tensor:
    """LRP-epsilon without a stabiliser, as x times the gradient with slopes of secants."""
    inputs = inputs.clone().requires_grad_()
    with SlopesOfSecants():
        total = score(model, inputs, context, target).sum()
    return inputs.detach() * torch.autograd.grad(total, inputs)[0]

"""Torch functions written with simpler ones, whose rules DeepLIFT knows: norms, softmax, attention, quotients.

Each has the arguments of the function that it stands for and gives the same values up to rounding. Numbers of half
precision are computed in single precision inside, as torch's own kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_unary

from heatproof.explainers import recurrent
from heatproof.explainers.attention_maps import attended
from heatproof.explainers.watching import Call


def wide(x: Tensor) -> Tensor:
    """At least single precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def softmax(x: Tensor, dim: int | None = None, *more: Any, **named: Any) -> Tensor:
    """exp(z - log sum exp z)"""
    return log_softmax(x, dim, *more, **named).exp()


def log_softmax(x: Tensor, dim: int | None = None, *more: Any, **named: Any) -> Tensor:
    """z - log sum exp z; further arguments are the type of the result, and how deep a warning points."""
    wanted = next((value for value in (*more, *named.values()) if isinstance(value, torch.dtype)), x.dtype)
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1  # as torch guesses, with a warning
    z = wide(x.to(wanted))
    return (z - z.logsumexp(dim, keepdim=True)).to(wanted)


def softmin(x: Tensor, dim: int | None = None, *more: Any, **named: Any) -> Tensor:
    return softmax(-x, dim, *more, **named)


def length(x: Tensor, axes: list[int], eps: float, mean: bool) -> Tensor:
    """The root of the mean square plus eps; or of the sum, and at least eps."""
    if mean:
        return (x.square().mean(axes, keepdim=True) + eps).sqrt()
    return x.square().sum(axes, keepdim=True).sqrt().clamp_min(eps)


def over_length(x: Tensor, axes: list[int], eps: float, mean: bool) -> Tensor:
    """x over its length: the heart of all norms, which has a rule of its own."""
    if has_torch_function_unary(x):
        result: Tensor = handle_torch_function(over_length, (x,), x, axes, eps, mean)
        return result
    return x / length(x, axes, eps, mean)


def standardised(x: Tensor, axes: list[int], eps: float, centred: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over these axes."""
    values = wide(x)
    if centred:
        values = values - values.mean(axes, keepdim=True)
    return over_length(values, axes, eps, True).to(x.dtype)


def normalize(x: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, **_: Any) -> Tensor:
    """x / max(|x|, eps)"""
    if p == 2:
        return over_length(x, list(dim) if isinstance(dim, tuple) else [dim], eps, False)
    return x / vector_norm(x, p, dim, keepdim=True).clamp_min(eps)


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    """x weight + bias, both seen with this shape."""
    if weight is not None:
        x = x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    axes = list(range(-len(normalized_shape), 0))
    return scaled(standardised(x, axes, eps), weight, bias, list(normalized_shape))


def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    axes = list(range(-len(normalized_shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return scaled(standardised(x, axes, eps, centred=False), weight, None, list(normalized_shape))


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    groups = standardised(x.reshape(x.shape[0], num_groups, -1), [-1], eps)
    return scaled(groups.reshape(x.shape), weight, bias, column(x))


def batch_norm(
    x: Tensor,
    _running_mean: Tensor | None,
    _running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    _training: bool = True,
    _momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """With the statistics of the batch itself."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    return scaled(standardised(x, axes, eps), weight, bias, column(x))


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if use_input_stats:
        return scaled(standardised(x, list(range(2, x.ndim)), eps), weight, bias, column(x))
    return functional.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)


def column(x: Tensor) -> list[int]:
    """The shape of one value per channel."""
    return [1, -1, *[1] * (x.ndim - 2)]


def div(x: Any, y: Tensor) -> Tensor:
    """x (1 / y)"""
    quotient: Tensor = x * y.reciprocal()
    return quotient


def maximum_over(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The maximum over one axis, several or all, by `max` over one."""
    axes = sorted(axis % x.ndim for axis in ((dim,) if isinstance(dim, int) else dim or range(x.ndim)))
    best = x.movedim(axes, list(range(-len(axes), 0))).flatten(-len(axes)).max(-1).values
    if keepdim:
        for axis in axes:
            best = best.unsqueeze(axis)
    return best


def minimum_over(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return -maximum_over(-x, dim, keepdim)


def greatest(x: Tensor, other: Tensor | None = None) -> Tensor:
    """`max` without an axis: of one tensor, or of two."""
    return maximum_over(x) if other is None else torch.maximum(x, other)


def least(x: Tensor, *given: Any, **named: Any) -> Any:
    """`min` in its three forms."""
    other = named.get("other", given[0] if given else None)
    if isinstance(other, Tensor):
        return torch.minimum(x, other)
    if not given and not named:
        return minimum_over(x)
    values, indices = (-x).max(*given, **named)
    return torch.return_types.min((-values, indices))


def std(x: Tensor, *given: Any, **named: Any) -> Tensor:
    return torch.var(x, *given, **named).sqrt()


def std_mean(x: Tensor, *given: Any, **named: Any) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(x, *given, **named)
    return variance.sqrt(), mean


def complex_abs(x: Tensor) -> Tensor:
    return torch.view_as_real(x).square().sum(-1).sqrt()


def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """(sum of |x|^p)^(1/p)"""
    x = x if dtype is None else x.to(dtype)
    axes = list(range(x.ndim)) if dim is None else dim
    if ord == torch.inf:
        return maximum_over(x.abs(), dim, keepdim)
    if ord == 2:
        return x.square().sum(axes, keepdim=keepdim).sqrt()
    return x.abs().pow(ord).sum(axes, keepdim=keepdim).pow(1 / ord)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    lengths = [x.square().sum(dim).sqrt().clamp_min(eps) for x in (x1, x2)]
    return (x1 * x2).sum(dim) / (lengths[0] * lengths[1])


def glu(x: Tensor, dim: int = -1) -> Tensor:
    first, second = x.chunk(2, dim)
    return first * second.sigmoid()


def masked_write(x: Tensor, mask: Tensor, value: Any) -> None:
    """`x[mask] = number`"""
    mask = mask.view(*mask.shape, *[1] * (x.ndim - mask.ndim))
    x.copy_(torch.where(mask, value, x.clone()))


COMPOSED: dict[str, Callable[..., Any]] = {
    "softmax": softmax, "log_softmax": log_softmax, "softmin": softmin, "layer_norm": layer_norm, "rms_norm": rms_norm,
    "group_norm": group_norm, "batch_norm": batch_norm, "instance_norm": instance_norm, "div": div,
    "scaled_dot_product_attention": attended, "amax": maximum_over, "amin": minimum_over,
    "max": greatest, "min": least, "std": std, "linalg_vector_norm": vector_norm, "glu": glu, "normalize": normalize,
    "std_mean": std_mean, "abs": complex_abs,
    "cosine_similarity": cosine_similarity, "__setitem__": masked_write,
    "lstm": recurrent.lstm, "gru": recurrent.gru, "rnn_tanh": recurrent.rnn_tanh, "rnn_relu": recurrent.rnn_relu,
    "lstm_cell": recurrent.lstm_cell, "gru_cell": recurrent.gru_cell, "rnn_tanh_cell": recurrent.rnn_tanh_cell,
    "rnn_relu_cell": recurrent.rnn_relu_cell,
}  # fmt: skip


def given_to(call: Call, position: int, name: str, otherwise: Any = None) -> Any:
    """An argument by its place or its name."""
    return call.args[position] if position < len(call.args) else call.kwargs.get(name, otherwise)


def composed(call: Call) -> Callable[..., Any] | None:
    """What stands for a call, if it is made of simpler functions."""
    made = COMPOSED.get(call.name)
    if made is None:
        return None
    if call.name == "div":
        divisor = given_to(call, 1, "other")
        stays = not isinstance(divisor, Tensor) or not divisor.requires_grad or call.kwargs.get("rounding_mode")
        return None if stays else made
    if call.name == "abs":
        return made if call.args[0].is_complex() else None
    if call.name == "max":
        over_axis = "dim" in call.kwargs or (len(call.args) > 1 and not isinstance(call.args[1], Tensor))
        return None if over_axis else made
    if call.name == "__setitem__":
        x, index, value = call.args
        masked = isinstance(index, Tensor) and index.dtype == torch.bool and index.shape == x.shape[: index.ndim]
        return made if masked and not (isinstance(value, Tensor) and value.ndim) else None
    if call.name == "batch_norm" and not given_to(call, 5, "training", False):
        return None
    if call.name in ("batch_norm", "instance_norm"):
        return in_order(made, call.func)
    return made


def in_order(norm: Callable[..., Tensor], func: Any) -> Callable[..., Tensor]:
    """A norm called by position, whose function in C++ has its arguments in another order."""
    names = ("x", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    if not isinstance(func, FunctionType):
        names = ("x", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")

    def called(*given: Any, **named: Any) -> Tensor:
        found = dict(zip(names, given, strict=False)) | named
        found["training"] = found.pop("use_input_stats", found.get("training", True))
        order = ("x", "running_mean", "running_var", "weight", "bias", "training")
        return norm(*[found.get(name) for name in order], found.get("momentum", 0.1), found.get("eps", 1e-5))

    return called

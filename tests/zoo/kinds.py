"""What a row of the table of networks is, and how a network gets random weights and statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod

import torch
from torch import Tensor, nn

CASES = 2


@dataclass(frozen=True)
class Layer:
    """The layer that a person would name for a class activation map, and how its output is to be read.

    layout  maps (B, C, *extent); last (B, *extent, C); first (T, B, C); tokens (B, T, D), the last prod(grid) a grid
    then    the function that makes the maps of the layer's output, where the last step is no layer
    head    what the model goes on to do with them, written once more, because no hook can read a function
    class_token  whether the first token answers, and not the mean of the grid
    """

    name: str
    layout: str = "maps"
    grid: tuple[int, ...] = ()
    then: Callable[[Tensor], Tensor] | None = None
    head: Callable[[nn.Module, Tensor], Tensor] | None = None
    class_token: bool = False

    def maps(self, output: Tensor) -> Tensor:
        """The output as maps (B, C, *extent)."""
        if self.layout == "last":
            return output.movedim(-1, 1)
        if self.layout == "first":
            return output.permute(1, 2, 0)
        if self.layout == "tokens":
            return output[:, -prod(self.grid) :].transpose(1, 2).unflatten(2, self.grid)
        return output


@dataclass(frozen=True)
class Network:
    """One architecture.

    layer    what a class activation map reads; None: it has no maps, and they refuse
    twin     the same function written without what makes this network hard: all methods must give the same maps
    refuses  what must refuse it, and why: a method family, or an identity of it
    not_run  what is not tried on it, and why
    quick    whether it is in the cross-section that `make test` runs
    words    the number of words of a question that it takes beside its inputs
    attends  whether its tokens look at each other, one for each place of the layer's grid, block by block
    """

    name: str
    family: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...] = (3, 32, 32)
    layer: Layer | None = None
    twin: Callable[[], nn.Module] | None = None
    refuses: Mapping[str, str] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False
    words: int = 0
    attends: bool = False
    spread: float = 1.0

    def build(self) -> nn.Module:
        return self.built(self.make)

    def build_twin(self) -> nn.Module:
        assert self.twin is not None
        return self.built(self.twin)

    def built(self, make: Callable[[], nn.Module]) -> nn.Module:
        model = randomised(make)
        with_statistics(model, self.inputs(), *self.context())
        return model

    def inputs(self) -> Tensor:
        """Random inputs of mean zero."""
        drawn = torch.randn(CASES, *self.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        return self.spread * drawn

    def context(self) -> tuple[Tensor, ...]:
        if not self.words:
            return ()
        return (torch.randint(1, 5, (CASES, self.words), generator=torch.Generator().manual_seed(6)),)


def randomised(make: Callable[[], nn.Module]) -> nn.Module:
    """The network in float64 and evaluation mode, as if it had been trained: no scale is zero, no bias, no statistic.

    A residual branch that begins with a scale of zero, or of 1e-6, would hide whatever is wrong in it.
    """
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = make().double().eval()
    draw = partial(torch.rand, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    with torch.no_grad():
        for name, values in (*model.named_parameters(), *model.named_buffers()):
            if values.ndim <= 1 and name.endswith(SCALES):
                values.copy_(0.5 + draw(values.shape))
            elif values.ndim == 1 and name.endswith("bias"):
                values.copy_(0.4 * (draw(values.shape) - 0.5))
            elif values.ndim > 1 and not values.any() and name.endswith("weight"):
                values.copy_((draw(values.shape) - 0.5) / values[0].numel() ** 0.5)
            elif values.ndim > 1 and name.endswith(SCALES[1:]):  # layer scales of every form
                values.copy_(0.5 + draw(values.shape))
    return model


def with_statistics(model: nn.Module, *inputs: Tensor) -> None:
    """Stored statistics near those of the inputs, and not equal to them.

    With others signals vanish or explode on the way through deep networks: logits that hardly depend on the inputs
    would say nothing about a method.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    kept = [norm for norm in norms if norm.track_running_stats]
    momenta = [norm.momentum for norm in kept]
    for norm in kept:
        norm.training, norm.momentum = True, 1.0
    with torch.no_grad():
        model(inputs[0].clone(), *inputs[1:])
    draw = partial(torch.rand, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for norm, momentum in zip(kept, momenta, strict=True):
        norm.training, norm.momentum = False, momentum
        mean, variance = norm.running_mean, norm.running_var
        assert mean is not None
        assert variance is not None
        mean += (draw(mean.shape) - 0.5) * variance.sqrt()
        variance.copy_((variance + 1e-3) * (0.5 + draw(variance.shape)))


SCALES = ("weight", "gamma", "gamma1", "gamma2", "gamma_1", "gamma_2", "layer_scale", "scale", "ls1", "ls2")
"""How names of scales end; weights of one axis are those of norms."""

"""Small networks in less usual styles: shared layers, hand-made activations, gates, loops, norms and weights.

They came after the rules of the methods were written.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from zoo.own import CLASSES, Cut, conv, pooled

Step = Callable[[Tensor], Tensor]


class Middle(nn.Module):
    """A stem, something in the middle, a ReLU at the end, the mean over space, a dense layer."""

    def __init__(self, middle: nn.Module, width: int = 8) -> None:
        super().__init__()
        self.stem, self.middle, self.last = conv(3, 8), middle, nn.ReLU()
        self.out = nn.Linear(width, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.last(self.middle(F.relu(self.stem(inputs))))
        logits: Tensor = self.out(maps.mean((2, 3)))
        return logits


# Activations made by hand


class Doubled(nn.Module):
    """CReLU: what is positive and what is negative, side by side."""

    def __init__(self, plain: bool = False) -> None:
        super().__init__()
        self.conv, self.next, self.plain = conv(8, 8), conv(16, 8), plain

    def forward(self, maps: Tensor) -> Tensor:
        made = self.conv(maps)
        both = torch.cat([made, -made], 1) if self.plain else torch.stack((made, made.neg()), 1).flatten(1, 2)
        joined: Tensor = self.next(F.relu(both))
        return joined


class Maxout(nn.Module):
    """The largest of each two maps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.next = conv(8, 16), conv(8, 8)

    def forward(self, maps: Tensor) -> Tensor:
        made: Tensor = self.next(self.conv(maps).unflatten(1, (8, 2)).max(2).values)
        return made


class GatedUnit(nn.Module):
    """F.glu: one half of the maps, gated by the other."""

    def __init__(self, plain: bool = False) -> None:
        super().__init__()
        self.conv, self.plain = conv(8, 16), plain

    def forward(self, maps: Tensor) -> Tensor:
        made = self.conv(maps)
        half, gate = made.chunk(2, 1)
        gated: Tensor = half * gate.sigmoid() if self.plain else F.glu(made, 1)
        return gated


def hand_hard_swish(x: Tensor) -> Tensor:
    """As MobileNet code has it that is older than F.hardswish."""
    return x * F.relu6(x + 3) / 6


def squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


def snake(x: Tensor) -> Tensor:
    return x + torch.sin(x) ** 2


def hand_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def hand_softplus(x: Tensor) -> Tensor:
    return torch.log1p(torch.exp(x))


# Weights that are made anew


class Standardised(nn.Conv2d):
    """Weights of mean zero and variance one, made in each pass."""

    def forward(self, inputs: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        weight = weight / weight.flatten(1).std(1).view(-1, 1, 1, 1)
        return F.conv2d(inputs, weight, self.bias, self.stride, self.padding)


class Plus(nn.Module):
    """A parametrisation: a low-rank term beside the weight, as adapters have it."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(2, layer.weight[0].numel()) / 5)
        self.up = nn.Parameter(torch.randn(len(layer.weight), 2))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + (self.up @ self.down).view_as(weight)


def adapted() -> nn.Module:
    layer = conv(8, 8)
    parametrize.register_parametrization(layer, "weight", Plus(layer))
    return layer


def spectral() -> nn.Module:
    return parametrizations.spectral_norm(conv(8, 8))


def orthogonal() -> nn.Module:
    return nn.Sequential(nn.Flatten(2), parametrizations.orthogonal(nn.Linear(256, 256)), nn.Unflatten(2, (16, 16)))


def pruned() -> nn.Module:
    return prune.l1_unstructured(conv(8, 8), "weight", 0.5)


class Unfolded(nn.Module):
    """A convolution as a product of matrices: patches as columns."""

    def __init__(self, plain: bool = False) -> None:
        super().__init__()
        self.conv, self.plain = conv(8, 8), plain

    def forward(self, maps: Tensor) -> Tensor:
        if self.plain:
            made: Tensor = self.conv(maps)
            return made
        columns = F.unfold(maps, 3, padding=1)
        return (self.conv.weight.flatten(1) @ columns + self.conv.bias[:, None]).view(len(maps), 8, *maps.shape[2:])


class ByCases(nn.Module):
    """A kernel for each case, made of the case itself; the cases of a batch are groups of one convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels, self.chosen = nn.Parameter(torch.randn(2, 8, 8, 3, 3) / 8), nn.Linear(8, 2)

    def forward(self, maps: Tensor) -> Tensor:
        share = self.chosen(maps.mean((2, 3))).softmax(1)
        kernels = torch.einsum("bk,koihw->boihw", share, self.kernels).flatten(0, 1)
        made = F.conv2d(maps.reshape(1, -1, *maps.shape[2:]), kernels, padding=1, groups=len(maps))
        return made.view(maps.shape)


# Layers that are shared, loops, ways that depend on the case


class Shared(nn.Module):
    """One convolution, norm and ReLU, three times; the norm follows another layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.other, self.norm, self.relu = conv(8, 8), conv(8, 8), nn.BatchNorm2d(8), nn.ReLU(True)

    def forward(self, maps: Tensor) -> Tensor:
        for _ in range(2):
            maps = self.relu(self.norm(self.conv(maps)))
        return self.norm(self.other(maps))


class Experts(nn.Module):
    """Each case goes through the layer that its mean chooses, by index."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(8, 2), nn.ModuleList(conv(8, 8) for _ in range(2))

    def forward(self, maps: Tensor) -> Tensor:
        chosen = self.router(maps.mean((2, 3))).argmax(1)
        made = torch.zeros_like(maps)
        for number, expert in enumerate(self.experts):
            (cases,) = torch.where(chosen == number)
            if len(cases):
                made = made.index_add(0, cases, expert(maps[cases]))
        return made


class UntilSettled(nn.Module):
    """A loop whose length depends on what comes out: a fixed point of one layer, which is a contraction."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(8, 8)

    def forward(self, maps: Tensor) -> Tensor:
        state, steps = maps, 0
        while steps < 3 or (steps < 6 and state.abs().max() > 1e3):
            state, steps = torch.tanh(self.conv(state)) / 2 + maps, steps + 1
        return state


class CaseByCase(nn.Module):
    """A loop over the cases of a batch, as code has it that was written for one picture."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(8, 8)

    def forward(self, maps: Tensor) -> Tensor:
        return torch.stack([F.relu(self.conv(one)) for one in maps])


# Norms


class ResponseNorm(nn.Module):
    """Root mean square over channels, as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.weight = conv(8, 8), nn.Parameter(torch.ones(8))

    def forward(self, maps: Tensor) -> Tensor:
        made = self.conv(maps)
        scale = torch.rsqrt(made.pow(2).mean(1, keepdim=True) + 1e-6)
        return made * scale * self.weight[:, None, None]


class GlobalResponse(nn.Module):
    """ConvNeXt-v2's: each map by its norm, over the mean of all."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gamma, self.beta = conv(8, 8), nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, maps: Tensor) -> Tensor:
        made = self.conv(maps)
        size = made.norm(p=2, dim=(2, 3), keepdim=True)
        return made + self.gamma * made * (size / (size.mean(1, keepdim=True) + 1e-6)) + self.beta


class Whitened(nn.Module):
    """A norm by hand, with buffers, as old code has it: less a constant, over a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(8, 8)
        self.register_buffer("running_mean", torch.linspace(-0.2, 0.2, 8))
        self.register_buffer("deviation", torch.linspace(0.5, 1.5, 8))

    def forward(self, maps: Tensor) -> Tensor:
        made: Tensor = self.conv(maps)
        return (made - self.running_mean[None, :, None, None]) / self.deviation[None, :, None, None]


# Ends


class End(nn.Module):
    """Convolutions, and an end that is not a mean and a dense layer."""

    def __init__(self, end: Callable[[Tensor], Tensor], width: int = 16) -> None:
        super().__init__()
        self.convs = nn.Sequential(conv(3, 8), nn.ReLU(), conv(8, 16, stride=2), nn.ReLU())
        self.end, self.out = end, nn.Linear(width, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.end(self.convs(inputs)))
        return logits


def raised(maps: Tensor) -> Tensor:
    return maps.clamp(min=1e-6).pow(3)


def generalised_head(model: nn.Module, maps: Tensor) -> Tensor:
    """What follows in the generalised mean once its maps are raised to their power."""
    logits: Tensor = model.out(F.avg_pool2d(maps, maps.shape[2:]).pow(1 / 3).flatten(1))
    return logits


def first_few(maps: Tensor) -> Tensor:
    return maps[:, :4]


def paired_head(model: nn.Module, maps: Tensor) -> Tensor:
    """What follows in bilinear pooling once its maps are picked."""
    few = maps.flatten(2)
    logits: Tensor = model.out(torch.einsum("bip,bjp->bij", few, few).flatten(1) / few.shape[2])
    return logits


def soft_maximum(maps: Tensor) -> Tensor:
    return torch.logsumexp(maps.flatten(2), 2)


def generalised_mean(maps: Tensor) -> Tensor:
    return F.avg_pool2d(raised(maps), maps.shape[2:]).pow(1 / 3).flatten(1)


def largest_few(maps: Tensor) -> Tensor:
    return maps.flatten(2).topk(4, 2).values.mean(2)


def spread(maps: Tensor) -> Tensor:
    return maps.flatten(2).std(2)


def attended(maps: Tensor) -> Tensor:
    flat = maps.flatten(2)
    return (flat * flat.mean(1, keepdim=True).softmax(2)).sum(2)


def in_pairs(maps: Tensor) -> Tensor:
    """Bilinear pooling of the first four maps."""
    few = first_few(maps).flatten(2)
    return torch.einsum("bip,bjp->bij", few, few).flatten(1) / few.shape[2]


def unit_length(maps: Tensor) -> Tensor:
    return F.normalize(maps.mean((2, 3)), dim=1)


class Prototypes(nn.Module):
    """Minus the distance to a point for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(conv(3, 8), nn.ReLU(), conv(8, 16, stride=2), nn.ReLU())
        self.points = nn.Parameter(torch.randn(CLASSES, 16))

    def forward(self, inputs: Tensor) -> Tensor:
        return -torch.cdist(self.convs(inputs).mean((2, 3)), self.points)


class Transformed(nn.Module):
    """A spatial transformer: the picture, turned as a small network says, then read."""

    def __init__(self) -> None:
        super().__init__()
        self.where, self.net = nn.Linear(3, 6), Cut(nn.Sequential(conv(3, 8), nn.ReLU()), pooled(8))

    def forward(self, inputs: Tensor) -> Tensor:
        turn = torch.tanh(self.where(inputs.mean((2, 3)))).view(-1, 2, 3) / 4 + torch.eye(2, 3).to(inputs)
        grid = F.affine_grid(turn, list(inputs.shape), align_corners=False)
        logits: Tensor = self.net(F.grid_sample(inputs, grid, align_corners=False))
        return logits

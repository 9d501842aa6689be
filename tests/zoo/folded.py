"""Small networks whose cases are not what axis 0 counts, with several ways side by side, or with rarer layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.own import CLASSES, Cut, conv, pooled


class Patches(nn.Module):
    """Patches of a picture as cases of their own, as BagNets and multiple-instance code have it."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.out = nn.Sequential(conv(3, 8), nn.ReLU()), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        cut = inputs.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 1, 4, 5)
        seen = self.net(cut.reshape(-1, 3, 8, 8)).mean((2, 3))
        logits: Tensor = self.out(seen.view(len(inputs), -1, 8).amax(1))
        return logits


class Frames(nn.Module):
    """The pictures of a film as cases of a picture network, then a mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(conv(2, 8), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(2), conv(8, 8), nn.ReLU())
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.net(inputs.transpose(1, 2).flatten(0, 1)).mean((2, 3))
        logits: Tensor = self.out(seen.unflatten(0, (len(inputs), -1)).mean(1))
        return logits


class Mirrored(nn.Module):
    """The picture and its mirror image in one batch; the mean of both answers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Cut(nn.Sequential(conv(3, 8), nn.ReLU(), conv(8, 8), nn.ReLU()), pooled(8))

    def forward(self, inputs: Tensor) -> Tensor:
        one, other = self.net(torch.cat([inputs, inputs.flip(-1)])).chunk(2)
        return (one + other) / 2


class Ensemble(nn.Module):
    """The mean of several networks."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            Cut(nn.Sequential(conv(3, 8), nn.ReLU(), conv(8, 8, stride=2), nn.ReLU()), pooled(8)) for _ in range(3)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([net(inputs) for net in self.nets]).mean(0)


class Pyramid(nn.Module):
    """Maps of three sizes, each up-sampled and added to the next, read by one layer each."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(conv(3 if k == 0 else 8, 8, stride=2), nn.ReLU()) for k in range(3))
        self.side = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(3))
        self.last, self.out = nn.Sequential(conv(8, 8), nn.ReLU()), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        sizes = []
        for layer in self.down:
            inputs = layer(inputs)
            sizes.append(inputs)
        maps = self.side[2](sizes[2])
        for k in (1, 0):
            maps = F.interpolate(maps, scale_factor=2, mode="nearest") + self.side[k](sizes[k])
        logits: Tensor = self.out(self.last(maps).mean((2, 3)))
        return logits


class Weighted(nn.Module):
    """Gated attention of Ilse et al.: each cell times its share."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.weigh = nn.Linear(8, 6), nn.Linear(8, 6), nn.Linear(6, 1)

    def forward(self, cells: Tensor) -> Tensor:
        share = self.weigh(torch.tanh(self.one(cells)) * torch.sigmoid(self.two(cells))).softmax(1)
        return share * cells


class Instances(nn.Module):
    """Multiple-instance learning over the cells of a map."""

    def __init__(self) -> None:
        super().__init__()
        self.convs, self.weighted = nn.Sequential(conv(3, 8, stride=2), nn.ReLU()), Weighted()
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.weighted(self.convs(inputs).flatten(2).mT).sum(1))
        return logits


class Normalises(nn.Module):
    """Mean and deviation of the colours taken out within the network, and probabilities at the end."""

    def __init__(self, end: nn.Module | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.2, 0.3, 0.4]).view(3, 1, 1))
        self.net, self.end = Cut(nn.Sequential(conv(3, 8), nn.ReLU()), pooled(8)), end or nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.end(self.net((inputs - self.mean) / self.deviation))
        return logits


class Encoder(nn.Module):
    """torch's own stack of encoder layers, cases first, norms first or behind, which has a way of its own without
    gradients."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.layers(self.patches(inputs).flatten(2).transpose(1, 2)).mean(1))
        return logits


def rare_pools() -> nn.Module:
    """Rounded up, without what is padded, with indices and back."""

    class Back(nn.Module):
        def forward(self, maps: Tensor) -> Tensor:
            small, where = F.max_pool2d(maps, 2, return_indices=True)
            return F.max_unpool2d(small, where, 2)

    layers = [
        nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect"),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        Back(),
        nn.Conv2d(8, 8, 3, padding="same"),
        nn.ReLU(),
    ]
    return Cut(nn.Sequential(*layers), pooled(8))


def rare_norms() -> nn.Module:
    """Norms without weights, one group, kept statistics of instances."""
    layers = [
        conv(3, 8),
        nn.BatchNorm2d(8, affine=False),
        nn.ReLU(),
        conv(8, 8),
        nn.GroupNorm(1, 8),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 8, 2, stride=2, groups=2),
        nn.BatchNorm2d(8, momentum=None),
        nn.ReLU(),
    ]
    return Cut(nn.Sequential(*layers), pooled(8))


def shrunk() -> nn.Module:
    """Activations that are flat around zero."""
    layers = [conv(3, 8), nn.Softshrink(0.1), conv(8, 8), nn.Hardshrink(0.1), conv(8, 8), nn.Tanhshrink()]
    return Cut(nn.Sequential(*layers), pooled(8))

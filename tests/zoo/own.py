"""Small networks of our own: forms of code that people write, each as short as it can be."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nets import Cut

CLASSES = 10


def conv(inputs: int, outputs: int, size: int = 3, **options: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, **options)


def pooled(width: int) -> nn.Sequential:
    """The usual end of a network: the mean over space, and a dense layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def plain_cnn() -> nn.Module:
    features = nn.Sequential(conv(3, 8), nn.ReLU(), nn.MaxPool2d(2), conv(8, 16), nn.ReLU())
    return Cut(features, pooled(16))


def normed_cnn() -> nn.Module:
    layers = [conv(3, 8), nn.BatchNorm2d(8), nn.ReLU(True), conv(8, 16, stride=2), nn.BatchNorm2d(16), nn.ReLU(True)]
    return Cut(nn.Sequential(*layers), pooled(16))


def lenet() -> nn.Module:
    """Tangents and averages, as in 1998."""
    layers = [nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)]
    head = [nn.Flatten(), nn.Linear(400, 32), nn.Tanh(), nn.Linear(32, CLASSES)]
    return Cut(nn.Sequential(*layers), nn.Sequential(*head))


def all_convolutional() -> nn.Module:
    """The logits are means of maps."""
    layers = [conv(3, 8), nn.ReLU(), conv(8, 16, stride=2), nn.ReLU(), conv(16, CLASSES, 1)]
    return Cut(nn.Sequential(*layers), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))


def max_pooled() -> nn.Module:
    """Adaptive and dilated maxima."""
    features = nn.Sequential(conv(3, 8), nn.ReLU(), nn.MaxPool2d(3, 2, dilation=2), conv(8, 8), nn.AdaptiveMaxPool2d(4))
    return Cut(features, nn.Sequential(nn.Flatten(), nn.Linear(128, CLASSES)))


def max_pooled_by_windows() -> nn.Module:
    features = nn.Sequential(conv(3, 8), nn.ReLU(), nn.MaxPool2d(3, 2, dilation=2), conv(8, 8), nn.MaxPool2d(3, 3))
    return Cut(features, nn.Sequential(nn.Flatten(), nn.Linear(128, CLASSES)))


def one_output() -> nn.Module:
    return Cut(
        nn.Sequential(conv(3, 8), nn.ReLU()), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1))
    )


class FunctionalCnn(nn.Module):
    """Functions only, by keyword too; one convolution is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice, self.out = conv(3, 8), conv(8, 8), nn.Linear(8, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        once = torch.relu(input=self.first(inputs))
        pooled = F.max_pool2d(input=self.twice(once), kernel_size=2)
        return F.relu(input=self.twice(F.relu(pooled)), inplace=False)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.features(inputs).mean(dim=(2, 3)))
        return logits


class AddedUp(nn.Module):
    """A score that is a sum over places: what perturbation must recover exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, 3, 16, 16))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.einsum("bchw,kchw->bk", inputs, self.weight)


class CifarBlock(nn.Module):
    """A residual block as in the best-known CIFAR code: functional ReLUs, an empty shortcut, `+=`."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, stride=stride, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(inputs)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(inputs)
        return F.relu(out)


class CifarResnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(3, 8, bias=False), nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(CifarBlock(8, 8, 1), CifarBlock(8, 8, 1))
        self.layer2 = nn.Sequential(CifarBlock(8, 16, 2), CifarBlock(16, 16, 1))
        self.linear = nn.Linear(16, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        out = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(inputs)))))
        out = F.avg_pool2d(out, out.shape[-1])
        logits: Tensor = self.linear(out.view(out.size(0), -1))
        return logits


class PreActivation(nn.Module):
    """Norm and ReLU before each convolution, and once more at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))
        self.convs = nn.ModuleList(conv(8, 8, bias=False) for _ in range(4))
        self.last, self.out = nn.BatchNorm2d(8), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.stem(inputs)
        for i in (0, 2):
            y = self.convs[i](F.relu(self.norms[i](x)))
            x = x + self.convs[i + 1](F.relu(self.norms[i + 1](y)))
        logits: Tensor = self.out(F.relu(self.last(x)).mean((2, 3)))
        return logits


class Gate(nn.Module):
    """Squeeze and excite: maps times a number that depends on all of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Linear(width, 4), nn.Linear(4, width)

    def forward(self, maps: Tensor) -> Tensor:
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(maps.mean((2, 3))))))
        return maps * gate[:, :, None, None]


class PlaceGate(nn.Module):
    """Attention over places from the mean and the maximum over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(2, 1, 7)

    def forward(self, maps: Tensor) -> Tensor:
        both = torch.cat([maps.mean(1, keepdim=True), maps.max(1, keepdim=True)[0]], 1)
        return maps * torch.sigmoid(self.conv(both))


def gated(*gates: nn.Module) -> nn.Module:
    return Cut(nn.Sequential(conv(3, 8), nn.ReLU(), *gates, conv(8, 8), nn.ReLU()), pooled(8))


class Inception(nn.Module):
    """Branches side by side, joined by a function."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(8, 8, 1), conv(8, 8)
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(8, 4, 1))

    def forward(self, maps: Tensor) -> Tensor:
        return F.relu(torch.cat([self.one(maps), self.three(maps), self.pool(maps)], 1))


def inception() -> nn.Module:
    return Cut(nn.Sequential(conv(3, 8), nn.ReLU(), nn.MaxPool2d(2), Inception()), pooled(20))


class DenseBlock(nn.Module):
    """Each layer reads all maps before it; the norms see joined maps."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * i) for i in range(3))
        self.convs = nn.ModuleList(conv(8 + 4 * i, 4) for i in range(3))

    def forward(self, maps: Tensor) -> Tensor:
        for norm, layer in zip(self.norms, self.convs, strict=True):
            maps = torch.cat([maps, layer(F.relu(norm(maps)))], 1)
        return maps


def dense() -> nn.Module:
    return Cut(nn.Sequential(conv(3, 8), DenseBlock(), nn.BatchNorm2d(20), nn.ReLU(True)), pooled(20))


class Shuffle(nn.Module):
    def forward(self, maps: Tensor) -> Tensor:
        return F.channel_shuffle(maps, 4)


def grouped() -> nn.Module:
    """Grouped and depthwise convolutions, and a shuffle between them."""
    layers = [
        conv(3, 8),
        nn.ReLU6(),
        nn.Conv2d(8, 16, 3, padding=1, groups=8),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        Shuffle(),
    ]
    return Cut(nn.Sequential(*layers, nn.Conv2d(16, 16, 1, groups=4), nn.ReLU6()), pooled(16))


class LastNorm(nn.Module):
    """Layer norm over channels that are moved to the end for it, and back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, maps: Tensor) -> Tensor:
        return self.norm(maps.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ModernBlock(nn.Module):
    """As in ConvNeXt: depthwise, layer norm, dense layers over the last axis, layer scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 5, padding=2, groups=width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, maps: Tensor) -> Tensor:
        last = self.norm(self.depthwise(maps).permute(0, 2, 3, 1))
        return maps + (self.gamma * self.narrow(F.gelu(self.wide(last)))).permute(0, 3, 1, 2)


def modern() -> nn.Module:
    return Cut(nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), LastNorm(8), ModernBlock(8), ModernBlock(8)), pooled(8))


def group_normed() -> nn.Module:
    """Group norms and standard ReLUs: statistics of each case's own."""
    return Cut(
        nn.Sequential(conv(3, 8), nn.GroupNorm(2, 8), nn.ReLU(), conv(8, 8), nn.InstanceNorm2d(8), nn.ReLU()), pooled(8)
    )


class Mixer(nn.Module):
    """Dense layers over tokens and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, stride=8)
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.tokens = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
        self.channels = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.patches(inputs).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norms[1](x))
        logits: Tensor = self.out(self.norms[2](x).mean(1))
        return logits


class Unet(nn.Module):
    """Down and up again with skips, then a mean; `up` is a transposed convolution or an interpolation."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.down1, self.down2, self.down3 = conv(3, 8), conv(8, 12), conv(12, 12)
        self.up = nn.ConvTranspose2d(12, 8, 2, stride=2) if transposed else None
        self.smooth = None if transposed else conv(12, 8)
        self.last = nn.Sequential(conv(16, 8), nn.ReLU(True))
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        fine = F.relu(self.down1(inputs))
        coarse = F.relu(self.down3(F.relu(self.down2(F.max_pool2d(fine, 2)))))
        if self.up is not None:
            up = self.up(coarse)
        else:
            assert self.smooth is not None
            up = self.smooth(F.interpolate(coarse, scale_factor=2.0, mode="bilinear"))
        logits: Tensor = self.out(self.last(torch.cat([up, fine], 1)).mean((2, 3)))
        return logits


class VqResidual(nn.Module):
    """VQ-VAE's residual stack: each branch begins with a ReLU in place, so the sum reads the rectified tensor."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.inplace = inplace
        self.stem, self.out = conv(3, 8), nn.Linear(8, CLASSES)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(8, 8, bias=False), nn.ReLU(inplace), nn.Conv2d(8, 8, 1)) for _ in range(2)
        )
        self.first, self.last = nn.ReLU(inplace), nn.ReLU()

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.stem(inputs)
        for block in self.blocks:
            if self.inplace:
                x = x + block(self.first(x))
            else:
                x = F.relu(x)
                x = x + block(x)
        logits: Tensor = self.out(self.last(x).mean((2, 3)))
        return logits


class PixSkip(nn.Module):
    """pix2pix's skip: the inner part begins with a leaky ReLU in place on the tensor that is joined afterwards."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.inplace = inplace
        self.stem, self.last, self.out = conv(3, 8), conv(16, 8), nn.Linear(8, CLASSES)
        self.inner = nn.Sequential(conv(8, 8, stride=2), nn.ReLU(inplace), nn.ConvTranspose2d(8, 8, 2, stride=2))
        self.leaky = nn.LeakyReLU(0.2, inplace)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.stem(inputs)
        if self.inplace:
            joined = torch.cat([x, self.inner(self.leaky(x))][::-1], 1)
        else:
            rectified = self.leaky(x)
            joined = torch.cat([self.inner(rectified), rectified], 1)
        logits: Tensor = self.out(F.relu(self.last(joined)).mean((2, 3)))
        return logits

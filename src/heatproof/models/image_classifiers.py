"""AlexNet, VGG16 and ResNet-18: the picture classifiers of Focus, with torchvision's layer names.

Their state dicts go both ways between here and torchvision, which need not be installed. Pictures (B, 3, H, W) to
logits (B, classes); the adaptive pooling takes any size from about 64 pixels, mosaics of 448 included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from heatproof.errors import unknown_name
from heatproof.models.weights import fill, plain_names, read_arrays


class AlexNet(nn.Module):
    """Five convolutions and three linear layers, in the one-tower form (Krizhevsky 2014, arXiv 1404.5997)."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.avgpool(self.features(pictures)).flatten(1))
        return logits


class Vgg16(nn.Module):
    """Thirteen 3x3 convolutions in five stages and three linear layers (Simonyan and Zisserman 2015)."""

    STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))  # convolutions, channels

    def __init__(self, num_classes: int = 1000, batch_norm: bool = False) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for depth, channels in self.STAGES:
            for _ in range(depth):
                layers.append(nn.Conv2d(width, channels, 3, padding=1))
                if batch_norm:
                    layers.append(nn.BatchNorm2d(channels))
                layers.append(nn.ReLU(inplace=True))
                width = channels
            layers.append(nn.MaxPool2d(2, stride=2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(width * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, num_classes),
        )
        initialise(self)

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.avgpool(self.features(pictures)).flatten(1))
        return logits


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut.

    torchvision uses one `relu` module twice; here the inner one is `relu1`, so that each module is called once and
    hooks can tell the two apart. `relu` makes the block's output, as it does last in torchvision.
    """

    def __init__(self, width: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or width != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(width, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
            )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, features: Tensor) -> Tensor:
        shortcut = features if self.downsample is None else self.downsample(features)
        change = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(features)))))
        output: Tensor = self.relu(change + shortcut)  # not +=, which would change what hooks on bn2 have kept
        return output


class ResNet18(nn.Module):
    """A stem, four stages of two residual blocks, and one linear layer (He et al. 2016)."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(ResidualBlock(64, 64, 1), ResidualBlock(64, 64, 1))
        self.layer2 = nn.Sequential(ResidualBlock(64, 128, 2), ResidualBlock(128, 128, 1))
        self.layer3 = nn.Sequential(ResidualBlock(128, 256, 2), ResidualBlock(256, 256, 1))
        self.layer4 = nn.Sequential(ResidualBlock(256, 512, 2), ResidualBlock(512, 512, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, num_classes)
        initialise(self)

    def forward(self, pictures: Tensor) -> Tensor:
        features = self.maxpool(self.relu(self.bn1(self.conv1(pictures))))
        features = self.layer4(self.layer3(self.layer2(self.layer1(features))))
        logits: Tensor = self.fc(self.avgpool(features).flatten(1))
        return logits


def initialise(model: nn.Module) -> None:
    """Convolutions He-normal over their outputs: PyTorch's default fades in networks this deep."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


IMAGE_CLASSIFIERS: dict[str, Callable[[int], nn.Module]] = {
    "alexnet": AlexNet,
    "vgg16": Vgg16,
    "vgg16_bn": partial(Vgg16, batch_norm=True),
    "resnet18": ResNet18,
}


def make_classifier(name: str, num_classes: int = 1000) -> nn.Module:
    """The classifier of that name, with random weights and in training mode, as PyTorch makes modules."""
    if name not in IMAGE_CLASSIFIERS:
        raise unknown_name("image classifier", name, IMAGE_CLASSIFIERS)
    return IMAGE_CLASSIFIERS[name](num_classes)


class Convolutions(nn.Module):
    """The convolution part of AlexNet or VGG16: what files without a classifier hold."""

    def __init__(self, model: AlexNet | Vgg16) -> None:
        super().__init__()
        self.features = model.features


def load_convolutions(model: AlexNet | Vgg16, path: Path) -> None:
    """Fill `model.features` from a file of these layers or of the whole network; half precision becomes the model's."""
    arrays = plain_names(read_arrays(path))
    inner = {name: array for name, array in arrays.items() if name.startswith("features.")}
    fill(Convolutions(model), inner or arrays, path)

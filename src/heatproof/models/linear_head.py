"""Convolution layers that are there already, and one linear layer on top: classifiers that train in minutes.

The convolutions stay as they are, so every picture goes through them once, and the head is fitted to what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from heatproof.errors import unknown_name
from heatproof.models.image_classifiers import AlexNet, Vgg16, load_convolutions


class LinearHead(nn.Module):
    """Convolutions, their output averaged over all places, and a linear layer.

    Without a bias, so that a logit is wholly a sum over places. Where features are all positive a bias is large, and
    methods that leave biases out (LRP as in the Focus paper) would explain a score of another sign.
    """

    def __init__(self, features: nn.Sequential, num_classes: int) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        width = [module.out_channels for module in features if isinstance(module, nn.Conv2d)][-1]
        self.classifier = nn.Linear(width, num_classes, bias=False)

    def pooled(self, pictures: Tensor) -> Tensor:
        """What the linear layer sees of pictures (B, 3, H, W): (B, width)."""
        features: Tensor = self.avgpool(self.features(pictures)).flatten(1)
        return features

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.pooled(pictures))
        return logits


CONVOLUTIONS: dict[str, Callable[[int], AlexNet | Vgg16]] = {"alexnet": AlexNet, "vgg16": Vgg16}
LINEAR_CLASSIFIERS = {f"{name}_linear": name for name in CONVOLUTIONS}
"""What a network with a linear head is called, and whose convolutions it has."""


def make_linear(name: str, num_classes: int) -> LinearHead:
    """The network of that name of LINEAR_CLASSIFIERS; its convolutions are for a file to fill."""
    return LinearHead(empty_network(LINEAR_CLASSIFIERS[name]).features, num_classes).eval()


def with_convolutions(name: str, path: Path, num_classes: int) -> LinearHead:
    """A linear head of zeros on the convolutions of alexnet or vgg16, from a file that holds nothing else."""
    network = empty_network(name)
    load_convolutions(network, path)
    made = LinearHead(network.features, num_classes).eval()
    nn.init.zeros_(made.classifier.weight)
    return made


def empty_network(name: str) -> AlexNet | Vgg16:
    """The network with room for its convolutions only: its large linear layers are not wanted."""
    if name not in CONVOLUTIONS:
        raise unknown_name("network with convolution layers", name, CONVOLUTIONS)
    with torch.device("meta"):
        network = CONVOLUTIONS[name](1)
    network.features.to_empty(device="cpu")
    return network


def fit_head(features: Tensor, labels: Tensor, classes: int, decay: float) -> Tensor:
    """The weight of the linear layer: the least mean cross-entropy + decay / 2 |weight|^2.

    Features are measured by their root mean square, so that `decay` means the same for every network. The problem is
    convex and starts from zero: nothing is drawn.
    """
    scale = features.double().square().mean().sqrt()
    scaled = features.double() / scale
    weight = torch.zeros(classes, features.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight], max_iter=500, tolerance_grad=1e-9, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = nn.functional.cross_entropy(scaled @ weight.T, labels) + decay / 2 * weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return (weight.detach() / scale).float()

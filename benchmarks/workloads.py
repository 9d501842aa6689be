"""What is measured on: networks, inputs, and a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from heatproof import mnist1d
from heatproof.cases import Batch
from heatproof.explainers.spec import make_explainer
from heatproof.models.image_classifiers import AlexNet, make_classifier
from heatproof.models.mnist1d_cnn import trained_network
from heatproof.seeds import CaseRandom


def signals(count: int) -> tuple[nn.Module, Batch]:
    """SVEA's network and `count` of its training signals."""
    model = trained_network(1)
    for parameter in model.parameters():
        parameter.requires_grad_(False)  # for everybody: nobody here needs gradients of weights
    train, test = mnist1d.make()
    inputs = torch.cat([torch.as_tensor(part.x, dtype=torch.float32) for part in (train, test)])[:count].unsqueeze(1)
    with torch.no_grad():
        target = model(inputs).argmax(1)
    return model, Batch(inputs, target, tuple(str(i) for i in range(count)))


def pictures(count: int) -> tuple[nn.Module, Batch]:
    """A plain 2-D network of four strided convolutions and random pictures of 96 x 96."""
    torch.manual_seed(0)
    widths = (3, 32, 64, 64, 128)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    inputs = nn.functional.interpolate(torch.randn(count, 3, 12, 12), (96, 96), mode="bilinear")
    return model, Batch(inputs, torch.arange(count) % 10, tuple(str(i) for i in range(count)))


def alexnet(count: int) -> tuple[nn.Module, Batch]:
    """AlexNet with random weights and smooth random pictures of 224 x 224, as LIME's superpixels need."""
    torch.manual_seed(0)
    model = make_classifier("alexnet", 10).eval().requires_grad_(False)
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False  # for everybody: Captum's hooks cannot have it
    inputs = nn.functional.interpolate(torch.rand(count, 3, 14, 14), (224, 224), mode="bilinear")
    return model, Batch(inputs, torch.arange(count) % 10, tuple(str(i) for i in range(count)))


def works() -> tuple[tuple[str, tuple[nn.Module, Batch]], ...]:
    """What every comparison of single methods runs on, with a title each."""
    return (
        ("1 signal of 40 points", signals(1)),
        ("200 signals of 40 points", signals(200)),
        ("1 picture of 3 x 96 x 96", pictures(1)),
        ("8 pictures of 3 x 96 x 96", pictures(8)),
        ("1 picture of 224, AlexNet", alexnet(1)),
    )


def last_spatial_layer(model: nn.Module) -> nn.Module:
    """The layer that class activation maps read."""
    if isinstance(model, AlexNet):
        return model.features[12]
    return [module for module in model.modules() if isinstance(module, nn.ReLU)][-1]


def ours(spec: str, model: nn.Module, batch: Batch) -> Callable[[], object]:
    """Our explainer of the batch as a piece of work."""
    explainer = make_explainer(spec)
    return lambda: explainer(model, batch, CaseRandom(0, explainer.name))


def show(method: str, work: str, mine: float | str, other: float | str, ratio: float | str) -> None:
    """A line of a table of ratios, or its head."""
    if isinstance(mine, str):
        print(f"{method:<22} {work:<30} {mine:>8} {other:>8} {ratio:>6}")
    else:
        print(f"{method:<22} {work:<30} {mine:>8.4f} {other:>8.4f} {ratio:>6.2f}", flush=True)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def interleaved(works: Sequence[Callable[[], object]]) -> list[float]:
    """Least CPU seconds of each piece of work, tried in turns so that a slow moment hits all alike."""
    first = sum(cpu_seconds(work) for work in works)
    times: list[list[float]] = [[] for _ in works]
    for _ in range(max(3, min(500, round(3 / first)))):
        for place, work in enumerate(works):
            times[place].append(cpu_seconds(work))
    return [min(found) for found in times]

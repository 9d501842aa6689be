"""Small networks without biases, and how they are explained, for the tests of relevance propagation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from heatproof.cases import Batch
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom

CLASSES = 4
Body = Callable[["Net", Tensor], Tensor]


def weights(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Net(nn.Module):
    """A convolution, the body that is looked at, and a dense layer, all without biases."""

    def __init__(self, body: Body, axes: int = 2, shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.body = body
        conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[axes]
        self.shape = shape or (3, *{1: (12,), 2: (6, 8), 3: (4, 5, 4)}[axes])
        torch.manual_seed(1)
        self.first = conv(3, 8, 3, padding=1, bias=False).double()
        self.layers = nn.ModuleList([conv(8, 8, 3, padding=1, bias=False).double() for _ in range(2)])
        self.eval()
        with torch.no_grad():
            features = self.features(torch.zeros(1, *self.shape, dtype=torch.float64)).shape[1]
        self.head = nn.Linear(features, CLASSES, bias=False).double()

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(self, self.first(inputs)).flatten(1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))

    def inputs(self, cases: int = 3) -> Tensor:
        return weights(cases, *self.shape, seed=7)


def explained(net: nn.Module, inputs: Tensor, method: str = "lrp", **options: object) -> Tensor:
    explainer = make_explainer(method, **options)
    target = torch.ones(len(inputs), dtype=torch.long)
    batch = Batch(inputs=inputs, target=target, ids=tuple(map(str, range(len(inputs)))))
    return explainer(net, batch, CaseRandom(0, "relevance"))


def residual(net: Net, x: Tensor) -> Tensor:
    for layer in net.layers:
        x = functional.relu(x + layer(functional.relu(x)))
    return x

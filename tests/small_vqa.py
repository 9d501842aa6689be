"""A small network that answers questions about pictures, for tests of CLEVR-XAI."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from heatproof.models.vqa import Vqa

ANSWERS = ("red", "cube", "sphere", "metal", "rubber", "small", "large")


class Net(nn.Module):
    """The question shifts its answers, by as much as `sureness` says of the question's token."""

    def __init__(self, sureness: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU())
        self.head = nn.Linear(6, len(ANSWERS))
        self.sureness = sureness or (lambda token: torch.full_like(token, 5))

    def forward(self, pictures: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        shift = self.sureness(tokens[:, :1]) * nn.functional.one_hot(tokens[:, 0] % len(ANSWERS), len(ANSWERS))
        logits: torch.Tensor = self.head(self.features(pictures).mean((2, 3))) + shift
        return logits


def make_vqa(size: int = 32, sureness: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Vqa:
    """Its answers follow from the letters of the question alone, so that a few happen to be right."""
    return Vqa("net", Net(sureness).eval(), lambda text: torch.tensor([[sum(map(ord, text))]]), ANSWERS, size=size)

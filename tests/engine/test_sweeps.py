"""`layer=sweep`: one row for each layer, and each row what the layer by its name gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.engine.sweeps import swept
from heatproof.errors import HeatproofError
from heatproof.explainers.spec import make_explainers
from heatproof.models.object_vit import ObjectVit

OPTIONS = {"per_class": 1, "limit": 2, "tile": 16}


class Branches(nn.Module):
    """Two convolutions side by side, which meet where no places are left."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 4, 3, stride=2), nn.Conv2d(3, 4, 3, stride=2)
        self.linear = nn.Linear(8, 6)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        seen = [part(pictures).relu().mean((2, 3)) for part in (self.left, self.right)]
        logits: torch.Tensor = self.linear(torch.cat(seen, 1))
        return logits


def test_a_row_for_each_layer(tmp_path):
    torch.manual_seed(0)
    network = ObjectVit(width=16, depth=2, heads=2).eval()
    run = heatproof.run("focus", model=network, explainers="grad_cam:layer=sweep, random", out=tmp_path, **OPTIONS)
    rows = run.leaderboard().filter(metric="focus", pooling="paper")
    names = [name for name in rows["explainer"] if name != "random"]
    layers = [name.removeprefix("grad_cam:layer=") for name in names]
    convolutions = ["patches.0", "patches.1", "patches.2", "patches.3", "patches"]
    assert sorted(layers) == sorted([*convolutions, "blocks.0.norm1", "blocks.0.norm2", "blocks.0", "blocks.1.norm1"])
    alone = heatproof.run("focus", model=network, explainers="grad_cam:layer=blocks.0", out=tmp_path / "one", **OPTIONS)
    one = alone.leaderboard().filter(metric="focus", pooling="paper")["mean_all"].item()
    assert rows.filter(explainer="grad_cam:layer=blocks.0")["mean_all"].item() == one


def test_others_stay_as_they_are_and_no_layer_is_an_error():
    opened = Focus(model=Branches(), **OPTIONS).rehearse(0)
    others = make_explainers("grad_cam:layer=left, gradient")
    assert swept(others, opened) == others
    with pytest.raises(
        HeatproofError, match="reads the last layer that all of the score's gradient passes, and this model has none"
    ):
        swept(make_explainers("grad_cam:layer=sweep"), opened)

"""Metrics and poolings where the heatmaps are. Reference: the same on the processor, to the last bit."""

from __future__ import annotations

import pytest
import torch
from test_metric_contract import OF_EFFECTS, OF_SCENES, OF_TWINS, SIGNED, Scores, make

from elsewhere import Elsewhere, elsewhere
from heatproof.metrics import metrics
from heatproof.metrics.localisation import grid_mask
from heatproof.metrics.scoring import call_metric
from heatproof.metrics.understandability import window_mask, window_starts
from heatproof.pooling import pool, poolings

OF_TENSORS = {
    "drop": lambda heatmap: (heatmap[:, 0], heatmap[:, 1]),
    "increase": lambda heatmap: (heatmap[:, 0], heatmap[:, 1]),
    "focus_best": lambda heatmap: (heatmap,),
}
"""What a metric that only one benchmark can call is called with here."""
OF_ARRAYS = {"roe_accuracy", *OF_SCENES, *OF_EFFECTS, *OF_TWINS, *SIGNED}
"""Called with what was brought to the CPU before."""


def test_every_metric_is_tested() -> None:
    assert {name for name, metric in metrics.items() if not metric.generic} == set(OF_TENSORS) | OF_ARRAYS


@pytest.mark.parametrize("name", [name for name in metrics if name not in OF_ARRAYS])
def test_scored_there_as_here(name: str) -> None:
    heatmap, batch = make(6, (5, 7))
    metric = metrics[name]
    found = {}
    with elsewhere() as device:
        for place in (torch.device("cpu"), device):
            maps, cases = heatmap.to(place), batch.to(place)
            if metric.generic:
                found[place] = call_metric(metric, maps, cases.masks["truth"], Scores(), cases)
            else:
                found[place] = metric.function(*OF_TENSORS[name](maps.flatten(1)))
        here, there = found.values()
        assert isinstance(there, Elsewhere)
        assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("name", poolings)
def test_pooled_there_as_here(name: str) -> None:
    relevance = torch.randn(4, 3, 5, 7, generator=torch.Generator().manual_seed(1))
    with elsewhere() as device:
        there = pool(relevance.to(device), name)
        assert isinstance(there, Elsewhere)
    assert torch.equal(there.held, pool(relevance, name))


def test_masks_are_made_where_they_are_asked_for() -> None:
    tiles, relevance = torch.eye(4, dtype=torch.bool), torch.randn(4, 40, generator=torch.Generator().manual_seed(1))
    with elsewhere() as device:
        mosaic = grid_mask((9, 6), 2, tiles.to(device))
        window = window_mask(window_starts(relevance.to(device)), 40)
    assert isinstance(mosaic, Elsewhere)
    assert torch.equal(mosaic.held, grid_mask((9, 6), 2, tiles))
    assert isinstance(window, Elsewhere)
    assert torch.equal(window.held, window_mask(window_starts(relevance), 40))

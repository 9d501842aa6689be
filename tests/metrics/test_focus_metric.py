"""Focus against a literal version of the original's code, and where its value is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heatproof.metrics import metrics
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.metrics.localisation import best_column, focus, focus_best, grid_mask, mass_accuracy
from reference import metrics as reference

LAYOUTS = [(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)]


def chosen(*rows: tuple[int, ...], grid: int = 2) -> torch.Tensor:
    picked = torch.zeros(len(rows), grid * grid, dtype=torch.bool)
    for row, tiles in enumerate(rows):
        picked[row, list(tiles)] = True
    return picked


@given(seed=st.integers(0, 2**20), height=st.integers(2, 9), width=st.integers(2, 9), targets=st.sampled_from(LAYOUTS))
def test_equals_the_original_formula(seed, height, width, targets):
    """Reference: the original's quadrant sums, in plain loops."""
    heatmap = np.random.default_rng(seed).normal(size=(height, width))
    labels = [1 if quadrant in targets else 0 for quadrant in range(4)]
    mask = grid_mask(heatmap.shape, 2, chosen(targets))
    score = focus(torch.tensor(heatmap)[None], mask)
    assert score.item() == pytest.approx(reference.focus(heatmap, labels, 1), nan_ok=True)


@pytest.mark.parametrize("targets", LAYOUTS)
def test_quadrants_are_counted_row_by_row_from_the_top_left(targets):
    """An asymmetric map: the quadrants hold 1, 2, 4 and 8 parts of 15."""
    parts = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    heatmap = parts.repeat_interleave(3, 0).repeat_interleave(5, 1)[None]
    expected = sum(2.0**quadrant for quadrant in targets) / 15
    assert focus(heatmap, grid_mask((6, 10), 2, chosen(targets))).item() == pytest.approx(expected)


def test_tiles_of_a_larger_grid():
    mask = grid_mask((6, 9), 3, chosen((0, 5, 7), grid=3))[0].int()
    assert mask[::2, ::3].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert mask.sum() == 3 * 2 * 3


def test_what_must_hold_of_focus():
    """Constant 0.5, only targets 1, only others 0, negative relevance ignored, undefined without positive relevance."""
    mask = grid_mask((4, 4), 2, chosen((0, 3)))
    inside = mask.double()
    assert focus(torch.ones(1, 4, 4), mask).item() == 0.5
    assert focus(inside, mask).item() == 1
    assert focus(1 - inside, mask).item() == 0
    assert focus(inside - 5 * (1 - inside), mask).item() == 1
    assert focus(-torch.ones(1, 4, 4), mask).isnan().item()
    assert focus(torch.zeros(1, 4, 4), mask).isnan().item()
    assert focus(torch.full((1, 4, 4), torch.nan), mask).isnan().item()


def test_is_the_mass_accuracy_of_the_kernel_that_the_benchmark_uses():
    """One kernel serves both: signed relevance of three channels, added up, its positive part."""
    relevance = np.random.default_rng(2).normal(size=(6, 3, 8, 10)).astype(np.float32)
    mask = grid_mask((8, 10), 2, chosen(*LAYOUTS))
    scores = score_heatmaps(relevance, {"target": mask.numpy()}, ["sum_pos"], ranks=False)
    assert scores.mass[0, 0] == pytest.approx(focus(torch.tensor(relevance).sum(1), mask).numpy())
    assert np.isnan(scores.rank).all()


def test_random_maps_score_a_half():
    heatmaps = torch.rand(400, 32, 32, generator=torch.Generator().manual_seed(0))
    mask = grid_mask((32, 32), 2, chosen((1, 2)).expand(400, -1))
    assert focus(heatmaps, mask).mean().item() == pytest.approx(0.5, abs=0.002)


def test_is_mass_accuracy_of_the_positive_part():
    heatmap = torch.randn(5, 8, 8, generator=torch.Generator().manual_seed(1))
    mask = grid_mask((8, 8), 2, chosen((0, 1)).expand(5, -1))
    assert torch.equal(focus(heatmap, mask), mass_accuracy(heatmap.clamp(min=0), mask))


def test_best_pooling_is_the_one_with_the_highest_mean():
    scores = torch.tensor([[0.9, 0.2, torch.nan], [0.1, 0.9, torch.nan], [torch.nan, 0.7, torch.nan]])
    assert best_column(scores) == 1
    assert focus_best(scores).tolist() == pytest.approx([0.2, 0.9, 0.7])


def test_is_registered():
    assert metrics["focus"].function is focus
    assert metrics["focus"].higher_is_better

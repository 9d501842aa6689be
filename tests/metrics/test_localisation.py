"""Mass accuracy, rank accuracy and the pointing game against literal loops, exact enumeration and Quantus."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from heatproof.errors import HeatproofError
from heatproof.metrics import metrics
from heatproof.metrics.localisation import mass_accuracy, pointing_game, rank_accuracy
from heatproof.pooling import pool
from reference import metrics as reference
from reference.libraries import import_quantus

SCORES = (mass_accuracy, rank_accuracy, pointing_game)
COUNTS = 1e-12
"""How near scores must be that are ratios of counts."""


def random_maps(cases: int, *space: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tie-free heatmaps, and masks of about a fifth of the positions."""
    generator = torch.Generator().manual_seed(seed)
    heatmap = torch.rand(cases, *space, generator=generator, dtype=torch.float64)
    return heatmap, torch.rand(cases, *space, generator=generator) < 0.2


def tiny_maps() -> tuple[Tensor, Tensor]:
    """Every heatmap of five positions with values 0, 1 and 2, not all zero, under every mask but the two ends."""
    values = [v for v in itertools.product((0.0, 1.0, 2.0), repeat=5) if any(v)]
    masks = [m for m in itertools.product((False, True), repeat=5) if any(m) and not all(m)]
    pairs = list(itertools.product(values, masks))
    return (
        torch.tensor([v for v, _ in pairs], dtype=torch.float64),
        torch.tensor([m for _, m in pairs]),
    )


@pytest.mark.parametrize("space", [(40,), (9, 11), (4, 5, 6)])
def test_mass_accuracy_equals_the_loop(space: tuple[int, ...]) -> None:
    """Reference: two exact sums over positions, one case at a time."""
    heatmap, mask = random_maps(6, *space)
    expected = [reference.mass_accuracy(h, m) for h, m in zip(heatmap.numpy(), mask.numpy(), strict=True)]
    np.testing.assert_allclose(mass_accuracy(heatmap, mask), expected, rtol=1e-12)


@pytest.mark.parametrize("space", [(40,), (9, 11), (4, 5, 6)])
def test_rank_accuracy_equals_argsort_without_ties(space: tuple[int, ...]) -> None:
    """Reference: the papers' argsort, reversed, the first K."""
    heatmap, mask = random_maps(6, *space)
    expected = [reference.rank_accuracy_sorted(h, m) for h, m in zip(heatmap.numpy(), mask.numpy(), strict=True)]
    np.testing.assert_allclose(rank_accuracy(heatmap, mask), expected, rtol=COUNTS)


def test_rank_accuracy_is_the_mean_over_all_ways_to_break_ties() -> None:
    """Reference: all 120 orders of five positions, sorted stably, averaged as fractions; every map with 0, 1, 2."""
    heatmap, mask = tiny_maps()
    known: dict[tuple[object, ...], float] = {}
    expected = []
    for h, m in zip(heatmap.tolist(), mask.tolist(), strict=True):
        # The mean over all orders does not depend on where a position lies: enumerate each multiset once.
        key = tuple(sorted(zip(h, m, strict=True)))
        if key not in known:
            known[key] = float(reference.rank_accuracy_enumerated(h, m))
        expected.append(known[key])
    np.testing.assert_allclose(rank_accuracy(heatmap, mask), expected, rtol=COUNTS)


def test_pointing_game_shares_the_maxima() -> None:
    """Reference: the share of the maxima that lie in the mask, counted as fractions; every tiny map and mask."""
    heatmap, mask = tiny_maps()
    expected = [
        float(reference.pointing_game_enumerated(h, m)) for h, m in zip(heatmap.tolist(), mask.tolist(), strict=True)
    ]
    np.testing.assert_allclose(pointing_game(heatmap, mask), expected, rtol=COUNTS)


def test_pointing_game_without_ties_is_the_argmax() -> None:
    """Reference: numpy's argmax looked up in the mask."""
    heatmap, mask = random_maps(40, 7, 8)
    expected = [m.ravel()[h.argmax()] for h, m in zip(heatmap.numpy(), mask.numpy(), strict=True)]
    np.testing.assert_array_equal(pointing_game(heatmap, mask), np.asarray(expected, dtype=np.float64))
    assert 0 < sum(expected) < len(expected)


@pytest.mark.parametrize("size", [1, 5, 17, 98])
def test_constant_map_scores_the_share_of_the_mask(size: int) -> None:
    """Invariant: a constant map has K / N of its mass, of its ranks and of its maxima inside the mask."""
    mask = (torch.arange(99) < size).view(1, 9, 11)
    heatmap = torch.full((1, 9, 11), 0.5)
    assert mass_accuracy(heatmap, mask).item() == size / 99
    for score in (rank_accuracy, pointing_game):
        np.testing.assert_allclose(score(heatmap, mask), [size / 99], rtol=COUNTS)


def test_uniform_maps_score_the_share_of_the_mask_on_average() -> None:
    """Invariant: uniform noise, K = 700 of N = 16384: mean K / N, standard deviations 0.0009 (mass), 0.0077 (rank)."""
    draws, size, positions = 64, 700, 128 * 128
    heatmap = torch.rand(draws, positions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = (torch.arange(positions) < size).expand(draws, -1)
    for score, deviation in ((mass_accuracy, 0.0009), (rank_accuracy, 0.0077)):
        values = score(heatmap, mask)
        assert abs(values.mean().item() - size / positions) < 4 * deviation / draws**0.5
        assert 0.7 * deviation < values.std().item() < 1.35 * deviation


@pytest.mark.parametrize("score", SCORES)
def test_the_mask_itself_scores_one_and_its_complement_zero(score: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Invariant: heatmap = mask gives exactly 1, heatmap = complement exactly 0 (masks below half of the positions)."""
    _, mask = random_maps(6, 9, 11, seed=4)
    assert (mask.flatten(1).sum(1) <= 99 // 2).all()
    assert score(mask.double(), mask).tolist() == [1.0] * 6
    assert score((~mask).double(), mask).tolist() == [0.0] * 6


@pytest.mark.parametrize("prefix", ["", "pos_"])
def test_squaring_keeps_ranks_and_sharpens_mass(prefix: str) -> None:
    """Invariant: l2 and l2_sq rank alike; squaring raises the mass where the mask holds the peaks."""
    relevance = torch.randn(6, 3, 9, 11, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    _, mask = random_maps(6, 9, 11, seed=6)
    relevance = torch.where(mask[:, None], 4 * relevance.abs(), relevance)
    plain, squared = pool(relevance, f"{prefix}l2_norm"), pool(relevance, f"{prefix}l2_norm_sq")
    torch.testing.assert_close(rank_accuracy(squared, mask), rank_accuracy(plain, mask), rtol=0, atol=0)
    assert (mass_accuracy(squared, mask) > mass_accuracy(plain, mask)).all()


@pytest.mark.filterwarnings("ignore")
def test_agreement_with_quantus() -> None:
    """Reference: Quantus' RelevanceMassAccuracy and RelevanceRankAccuracy, on tie-free positive maps."""
    quantus = import_quantus()
    heatmap, mask = random_maps(8, 12, 13, seed=7)
    given = {
        "model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12 * 13, 2)).double(),
        "x_batch": heatmap[:, None].numpy(),
        "y_batch": np.zeros(8, dtype=int),
        "a_batch": heatmap[:, None].numpy(),
        "s_batch": mask[:, None].numpy(),
        "device": "cpu",
    }
    quiet = {"disable_warnings": True, "display_progressbar": False}
    mass = quantus.RelevanceMassAccuracy(**quiet)(**given)
    rank = quantus.RelevanceRankAccuracy(**quiet)(**given)
    np.testing.assert_allclose(mass_accuracy(heatmap, mask), np.asarray(mass, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(rank_accuracy(heatmap, mask), np.asarray(rank, dtype=np.float64), rtol=COUNTS)


@pytest.mark.parametrize("score", SCORES)
def test_undefined_scores_are_nan_and_the_others_stay(score: Callable[[Tensor, Tensor], Tensor]) -> None:
    """NaN for an empty mask, an all-zero heatmap, a NaN and an infinity in it; the good case keeps its score."""
    heatmap, mask = random_maps(5, 6, 7, seed=8)
    alone = score(heatmap[4:], mask[4:])
    mask[0] = False
    heatmap[1] = 0
    heatmap[2, 3, 3] = torch.nan
    heatmap[3, 3, 3] = torch.inf
    values = score(heatmap, mask)
    assert values.isnan().tolist() == [True, True, True, True, False]
    assert values[4].item() == alone.item()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("heatmap", "mask", "message"),
    [
        (torch.tensor([[1.0, -0.1]]), torch.tensor([[True, False]]), "negative values; pool the relevance first"),
        (torch.ones(1, 1, 2), torch.tensor([[True, False]]), r"\(1, 1, 2\) and mask \(1, 2\) must have the same shape"),
        (torch.ones(2, 2), torch.tensor([[True, False]]), r"\(2, 2\) and mask \(1, 2\) must have the same shape"),
        (torch.ones(1, 2), torch.tensor([[1.0, 0.0]]), "must be boolean, got torch.float32"),
        (torch.ones(1, 2), torch.tensor([[1, 0]]), "must be boolean, got torch.int64"),
    ],
    ids=["negative", "channels", "cases", "float mask", "integer mask"],
)
def test_unfit_arguments_are_refused(
    score: Callable[[Tensor, Tensor], Tensor], heatmap: Tensor, mask: Tensor, message: str
) -> None:
    """Negative values, shapes that differ and masks of numbers raise an error that says what is wrong."""
    with pytest.raises(HeatproofError, match=message):
        score(heatmap, mask)


@pytest.mark.parametrize("score", SCORES)
def test_cases_do_not_see_each_other(score: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Reference: the same function on one case at a time."""
    heatmap, mask = random_maps(6, 5, 5, seed=9)
    heatmap = (heatmap * 4).round()
    alone = torch.cat([score(heatmap[i : i + 1], mask[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(score(heatmap, mask), alone, rtol=0, atol=0, equal_nan=True)


def test_registered_metrics_are_these_functions() -> None:
    """What the registry calls mass_accuracy, rank_accuracy and pointing_game is what is tested here."""
    for score in SCORES:
        assert metrics[score.__name__].function is score
        assert metrics[score.__name__].higher_is_better

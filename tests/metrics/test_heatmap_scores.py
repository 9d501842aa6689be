"""Mass and rank accuracy for all poolings at once, against literal loops, the torch functions and Quantus."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from heatproof.errors import HeatproofError
from heatproof.metrics.heatmap_scores import REASONS, pooled, score_heatmaps
from heatproof.metrics.localisation import mass_accuracy, rank_accuracy
from heatproof.pooling import pool, poolings
from reference import metrics as reference
from reference.libraries import import_quantus

CASES = 1000


def expected_rank(heatmap: np.ndarray, mask: np.ndarray) -> float:
    """Sorted literally; those that share the K-th value count by the share of them that lies in the mask."""
    order = sorted(range(heatmap.size), key=lambda n: -heatmap[n])
    size = int(mask.sum())
    last = heatmap[order[size - 1]]
    sure = [n for n in order[:size] if heatmap[n] > last]
    tied = [n for n in range(heatmap.size) if heatmap[n] == last]
    chance = Fraction(sum(bool(mask[n]) for n in tied), len(tied))
    return float((sum(bool(mask[n]) for n in sure) + (size - len(sure)) * chance) / size)


def cases_with_ties(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """1,000 signed maps of 3 x 6 x 7: a third tie-free, two thirds of eighths, of which many are equal; any mask."""
    rng = np.random.default_rng(seed)
    relevance = rng.normal(size=(CASES, 3, 6, 7))
    coarse = np.arange(CASES) % 3 > 0
    relevance[coarse] = np.round(relevance[coarse] * rng.choice([1, 2, 8], size=(coarse.sum(), 1, 1, 1))) / 8
    masks = rng.random((CASES, 6, 7)) < rng.uniform(0.03, 0.9, size=(CASES, 1, 1))
    masks[:, 2, 3] |= ~masks.any((1, 2))
    return relevance, masks


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equals_the_literal_version_on_a_thousand_cases(dtype):
    """Reference: plain Python in float64, position by position, ties counted as exact fractions."""
    relevance, masks = cases_with_ties()
    count = CASES if dtype is np.float64 else CASES // 10
    relevance, masks = relevance[:count].astype(dtype), masks[:count]
    found = score_heatmaps(relevance, {"truth": masks})
    assert found.poolings == tuple(poolings)
    ties = 0
    for place, name in enumerate(found.poolings):
        pooled = reference.pool(relevance, name).reshape(count, -1)
        for case in range(count):
            mask = masks[case].ravel()
            if not pooled[case].any():
                assert math.isnan(found.mass[place, 0, case])
                continue
            assert found.mass[place, 0, case] == pytest.approx(reference.mass_accuracy(pooled[case], mask), abs=1e-12)
            ties += len(set(pooled[case])) < pooled[case].size
            assert found.rank[place, 0, case] == pytest.approx(expected_rank(pooled[case], mask), abs=1e-12), name
    assert ties > 5 * count


def test_equals_the_literal_version_on_pictures_and_the_metrics_of_tensors():
    """Reference: torch's `pool`, then the literal scores; up-sampled maps too. The metrics of tensors say the same."""
    generator = torch.Generator().manual_seed(0)
    relevance = torch.randn(4, 3, 64, 64, generator=generator)
    relevance[2:] = torch.nn.functional.interpolate(torch.randn(2, 3, 8, 8, generator=generator), (64, 64))
    masks = {"small": torch.zeros(4, 64, 64, dtype=torch.bool), "large": torch.rand(4, 64, 64) < 0.4}
    masks["small"][:, 20:28, 30:39] = True
    found = score_heatmaps(relevance.numpy(), {name: mask.numpy() for name, mask in masks.items()})
    for p, name in enumerate(found.poolings):
        for m, truth in enumerate(masks.values()):
            heatmap = pool(relevance, name)
            pairs = list(zip(heatmap.numpy(), truth.numpy(), strict=True))
            mass = [reference.mass_accuracy(pooled, mask) for pooled, mask in pairs]
            rank = [expected_rank(pooled.ravel(), mask.ravel()) for pooled, mask in pairs]
            np.testing.assert_allclose(found.mass[p, m], mass, rtol=1e-12)
            np.testing.assert_allclose(found.rank[p, m], rank, rtol=1e-12)
            np.testing.assert_allclose(mass_accuracy(heatmap, truth), mass, rtol=1e-12)
            np.testing.assert_allclose(rank_accuracy(heatmap, truth), rank, rtol=1e-12)


def test_floors_and_ceiling():
    """Theory: a constant map scores the mask's share exactly, noise within four sampling errors, the mask itself 1."""
    masks = np.zeros((64, 128, 128), dtype=bool)
    masks.reshape(64, -1)[:, 3000:3700] = True
    share = 700 / 128**2
    constant = score_heatmaps(np.ones((64, 1, 128, 128), np.float32), {"truth": masks})
    assert (constant.mass == share).all()
    np.testing.assert_allclose(constant.rank, share, rtol=1e-12)
    noise = np.random.default_rng(0).random((64, 1, 128, 128))
    random = score_heatmaps(noise, {"truth": masks}, ["sum_pos"])
    assert abs(random.mass.mean() - share) < 4 * 0.0009 / 8
    assert abs(random.rank.mean() - share) < 4 * 0.0077 / 8
    oracle = score_heatmaps(masks[:, None].astype(np.float32), {"truth": masks})
    assert (oracle.mass == 1).all()
    assert (oracle.rank == 1).all()


def test_undefined_scores_say_why_and_cost_nobody_else():
    """NaN in, all zero, empty mask, infinite, negative only under a clipping pooling; the good case is untouched."""
    rng = np.random.default_rng(1)
    relevance, masks = rng.normal(size=(6, 3, 8, 8)), np.zeros((6, 8, 8), dtype=bool)
    masks[:, 2:4, 2:5] = True
    alone = score_heatmaps(relevance[5:], {"truth": masks[5:]})
    relevance[0, 1, 3, 3] = np.nan
    relevance[1] = 0
    masks[2] = False
    relevance[3, 0, 0, 0] = np.inf
    relevance[4] = -np.abs(relevance[4])
    found = score_heatmaps(relevance, {"truth": masks}, ["l2_norm", "pos_l2_norm", "pos_max_norm", "sum_pos"])
    said = [[REASONS[code] for code in found.state[p, 0]] for p in range(4)]
    nan, zero, empty = REASONS[2], REASONS[3], REASONS[1]
    assert said[0] == [nan, zero, empty, nan, "", ""]
    for p in (1, 2, 3):
        assert said[p] == [nan, zero, empty, nan, zero, ""]
    assert np.isnan(found.mass[0, 0]).tolist() == [True, True, True, True, False, False]
    assert found.mass[0, 0, 5] == alone.mass[list(poolings).index("l2_norm"), 0, 0]


def test_values_near_the_end_of_the_numbers():
    """Squares of 1e-30 in float32 would vanish; in float64 they rank and add up as their scaled copies do."""
    rng = np.random.default_rng(2)
    relevance, masks = rng.normal(size=(3, 3, 9, 9)).astype(np.float32), rng.random((3, 9, 9)) < 0.3
    plain = score_heatmaps(relevance, {"truth": masks})
    tiny = score_heatmaps(relevance * np.float32(2.0**-100), {"truth": masks})
    np.testing.assert_array_equal(plain.mass, tiny.mass)
    np.testing.assert_array_equal(plain.rank, tiny.rank)
    huge = score_heatmaps(relevance.astype(np.float64) * 1e306, {"truth": masks}, ["max_norm"])
    assert (huge.state == 0).all() or (huge.state == 2).all()


@pytest.mark.filterwarnings("ignore")
def test_quantus_agrees_by_definition_and_differs_where_it_is_known_to():
    """Reference: Quantus. Equal on tie-free non-negative maps; signed maps and ties are its known differences."""
    quantus = import_quantus()
    rng = np.random.default_rng(3)
    maps, masks = rng.random((8, 1, 12, 13)), rng.random((8, 12, 13)) < 0.2
    given = {
        "model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12 * 13, 2)).double(),
        "x_batch": maps,
        "y_batch": np.zeros(8, dtype=int),
        "s_batch": masks[:, None],
        "device": "cpu",
    }
    quiet = {"disable_warnings": True, "display_progressbar": False}

    def theirs(metric: str, relevance: np.ndarray) -> np.ndarray:
        return np.asarray(getattr(quantus, metric)(**quiet)(a_batch=relevance, **given), dtype=np.float64)

    ours = score_heatmaps(maps, {"truth": masks}, ["sum_pos"])
    np.testing.assert_allclose(ours.mass[0, 0], theirs("RelevanceMassAccuracy", maps), rtol=1e-12)
    np.testing.assert_allclose(ours.rank[0, 0], theirs("RelevanceRankAccuracy", maps), rtol=1e-12)
    # Signed relevance goes into its sums as it is, so that its mass leaves [0, 1].
    signed = maps - 0.49
    mass = theirs("RelevanceMassAccuracy", signed)
    assert ((mass < 0) | (mass > 1)).any()
    inside = np.where(masks, signed[:, 0], 0).sum((1, 2))
    np.testing.assert_allclose(mass, inside / signed.sum((1, 2, 3)), rtol=1e-9)
    pooled = score_heatmaps(signed, {"truth": masks}, ["sum_pos"])
    assert ((pooled.mass >= 0) & (pooled.mass <= 1)).all()
    # Among ties it takes what argsort happens to put first; we take the mean over all ways to choose.
    tied = np.round(maps * 2) / 2
    rank = theirs("RelevanceRankAccuracy", tied)
    ours_tied = score_heatmaps(tied, {"truth": masks}, ["sum_pos"])
    assert np.abs(rank - ours_tied.rank[0, 0]).max() > 0.01


@pytest.mark.parametrize(
    ("relevance", "mask", "message"),
    [
        (np.ones((1, 4)), np.ones((1, 4), bool), "must be .cases, channels"),
        (np.ones((1, 3, 4)), np.ones((1, 5), bool), r"boolean of shape \(1, 4\), got bool \(1, 5\)"),
        (np.ones((1, 3, 4)), np.ones((1, 4)), "boolean of shape"),
    ],
)
def test_unfit_arrays_are_refused(relevance, mask, message):
    with pytest.raises(HeatproofError, match=message):
        score_heatmaps(relevance, {"truth": mask})


def test_unknown_poolings_are_refused():
    with pytest.raises(HeatproofError, match="Did you mean 'l2_norm'"):
        score_heatmaps(np.ones((1, 3, 4)), {"truth": np.ones((1, 4), bool)}, ["l2norm"])


def test_without_ranks_the_masses_are_the_same():
    rng = np.random.default_rng(0)
    relevance, masks = rng.normal(size=(5, 3, 8, 8)), {"truth": rng.random((5, 8, 8)) < 0.3}
    found, both = score_heatmaps(relevance, masks, ranks=False), score_heatmaps(relevance, masks)
    np.testing.assert_array_equal(found.mass, both.mass)
    assert np.isnan(found.rank).all()
    assert not np.isnan(both.rank).any()


@pytest.fixture
def own_poolings(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(poolings, "_entries", dict(poolings.items()))
    return poolings


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_an_eleventh_pooling_scores_like_the_compiled_ones(own_poolings, dtype):
    """Reference: max_norm's compiled kernel against its plain function under another name; NaN and zeros too."""
    own_poolings.register("mine")(own_poolings["max_norm"])
    relevance, masks = cases_with_ties()
    relevance, masks = relevance[:60].astype(dtype), masks[:60]
    relevance[3, 1, 2, 2], relevance[4], masks[5] = np.nan, 0, False
    relevance.flags.writeable = False  # as memory-mapped files are
    truths = {"truth": masks, "rest": ~masks}
    found = score_heatmaps(relevance, truths, ["mine", "sum_abs", "max_norm"])
    np.testing.assert_array_equal(found.mass[0], found.mass[2])
    np.testing.assert_array_equal(found.rank[0], found.rank[2])
    np.testing.assert_array_equal(found.state[0], found.state[2])
    assert set(found.state[0].ravel()) == {0, 1, 2, 3}
    compiled = score_heatmaps(relevance, truths, ["sum_abs"])
    np.testing.assert_array_equal(found.rank[1], compiled.rank[0])
    everything = score_heatmaps(relevance, truths, ranks=False)
    assert everything.poolings[-1] == "mine"
    np.testing.assert_array_equal(everything.mass[-1], found.mass[0])
    alone = score_heatmaps(relevance, truths, ["mine"])
    np.testing.assert_array_equal(alone.mass[0], found.mass[0])


def test_a_pooling_may_change_its_argument_but_not_ours(own_poolings):
    own_poolings.register("mine")(lambda relevance: relevance.abs_().sum(1))
    relevance, masks = -np.ones((2, 3, 4)), {"truth": np.array([[True, False, False, False]] * 2)}
    assert (score_heatmaps(relevance, masks, ["mine"]).mass == 0.25).all()
    assert (relevance == -1).all()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda relevance: relevance.sum(1), "pooling mine gives negative values"),
        (lambda relevance: relevance.abs(), r"pooling mine must give heatmaps \(2, 4\), got shape \(2, 3, 4\)"),
        (lambda relevance: relevance.abs().sum(), r"must give heatmaps \(2, 4\), got shape \(\)"),
    ],
    ids=["negative", "not pooled", "one number"],
)
def test_poolings_that_give_no_heatmaps_are_refused(own_poolings, function, message):
    own_poolings.register("mine")(function)
    masks = {"truth": np.ones((2, 4), bool)}
    with pytest.raises(HeatproofError, match=message):
        score_heatmaps(-np.ones((2, 3, 4)), masks, ["mine"])


def test_no_cases_and_no_poolings_give_no_scores():
    masks = {"truth": np.ones((0, 4), bool)}
    assert score_heatmaps(np.ones((0, 3, 4)), masks, ["sum_abs"]).mass.shape == (1, 1, 0)
    assert score_heatmaps(np.ones((0, 3, 4)), masks, []).mass.shape == (0, 1, 0)


@pytest.mark.parametrize("name", poolings)
def test_pooled_without_torch_as_with_it(name):
    """Reference: the pooling of tensors, of signed relevance with several channels and with one."""
    for channels in (1, 3):
        relevance = np.random.default_rng(channels).normal(size=(6, channels, 11))
        expected = pool(torch.as_tensor(relevance), name).numpy()
        np.testing.assert_allclose(pooled(relevance, name), expected, rtol=1e-13)

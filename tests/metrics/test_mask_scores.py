"""Scores against masks: each against a literal float64 version, and against a library where one has it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from heatproof.errors import HeatproofError
from heatproof.metrics import metrics
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.metrics.mask_scores import INSIDE, SIGNED, VOID, score_masks, score_signed
from heatproof.metrics.uniform import uniform_column
from heatproof.pooling import pool, poolings
from reference import metrics as reference
from reference.libraries import import_quantus

SPACE = (6, 7)
CASES = 30


def made(channels: int, dtype: type = np.float64, seed: int = 0, void: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Signed maps, two thirds of them coarse so that many values are equal, and truth with void in most of them."""
    rng = np.random.default_rng(seed)
    relevance = rng.normal(size=(CASES, channels, *SPACE))
    coarse = np.arange(CASES) % 3 > 0
    relevance[coarse] = np.round(relevance[coarse] * 2) / 8
    relevance[::7] = np.abs(relevance[::7])
    truth = (rng.random((CASES, *SPACE)) < rng.uniform(0.1, 0.9, size=(CASES, 1, 1))).astype(np.uint8)
    truth[:, 2, 3], truth[:, 4, 1] = 1, 0
    if void:
        hidden = rng.random(truth.shape) < 0.2
        hidden[:, 2, 3] = hidden[:, 4, 1] = False
        truth[hidden & (np.arange(CASES) % 4 > 0)[:, None, None]] = VOID
    return relevance.astype(dtype), truth


def counted(relevance: np.ndarray, truth: np.ndarray, pooling: str, case: int) -> tuple[list[float], list[bool]]:
    """The pooled values that count, and whether each lies inside; pooled literally."""
    pooled = reference.pool(relevance[case : case + 1].astype(np.float64), pooling)[0].ravel()
    flat = truth[case].ravel()
    kept = flat != VOID
    return pooled[kept].tolist(), (flat[kept] == INSIDE).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_pooled_score_equals_its_formula(channels, dtype):
    """Reference: tests/reference/metrics.py in plain Python, and scikit-learn for AUC and average precision."""
    relevance, truth = made(channels, dtype)
    found = score_masks(relevance, truth)
    assert found.poolings == tuple(poolings)
    seen = 0
    for place, pooling in enumerate(found.poolings):
        for case in range(CASES):
            values, inside = counted(relevance, truth, pooling, case)
            scores = {name: float(found.values[name][place, case]) for name in found.values}
            if not any(values):
                assert all(math.isnan(score) for score in scores.values())
                continue
            seen += 1
            mass = reference.mass_accuracy(np.array(values), np.array(inside))
            share = sum(inside) / len(inside)
            assert scores["mass_accuracy"] == pytest.approx(mass, abs=1e-12)
            assert scores["lift"] == pytest.approx(mass / share, rel=1e-12)
            assert scores["rank_accuracy"] == pytest.approx(reference.rank_share(values, inside), abs=1e-12)
            assert scores["pointing_game"] == pytest.approx(reference.pointing_share(values, inside), abs=1e-12)
            assert scores["pixel_auc"] == pytest.approx(reference.pixel_auc(values, inside), abs=1e-12)
            assert scores["pixel_auc"] == pytest.approx(roc_auc_score(inside, values), abs=1e-12)
            assert scores["average_precision"] == pytest.approx(reference.average_precision(values, inside), abs=1e-12)
            assert scores["average_precision"] == pytest.approx(average_precision_score(inside, values), abs=1e-12)
            assert scores["best_iou"] == pytest.approx(reference.best_iou(values, inside), abs=1e-12)
            iou, accuracy = reference.at_mean(values, inside)
            assert scores["adaptive_iou"] == pytest.approx(iou, abs=1e-12)
            assert scores["pixel_accuracy"] == pytest.approx(accuracy, abs=1e-12)
    assert seen > 0.9 * CASES * len(poolings)


def test_without_void_mass_and_rank_are_those_of_the_other_kernel():
    relevance, truth = made(3, void=False)
    found, other = score_masks(relevance, truth), score_heatmaps(relevance, {"truth": truth == INSIDE})
    np.testing.assert_allclose(found.values["mass_accuracy"], other.mass[:, 0], rtol=1e-12)
    np.testing.assert_allclose(found.values["rank_accuracy"], other.rank[:, 0], rtol=1e-12)
    assert np.array_equal(found.state, other.state[:, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_channel_scores_like_three_that_add_up_to_it(dtype):
    """With one channel poolings share their work; zeros in further channels take the long way to the same scores."""
    relevance, truth = made(1, dtype, seed=3)
    long = np.concatenate([relevance, np.zeros_like(relevance)], 1)
    short, found = score_masks(relevance, truth), score_masks(long, truth)
    for name in short.values:
        np.testing.assert_allclose(short.values[name], found.values[name], rtol=1e-12, err_msg=name)
    assert np.array_equal(short.state, found.state)


@pytest.mark.parametrize(("dtype", "octaves"), [(np.float32, 120), (np.float64, 450)])
def test_sizes_that_are_far_apart_score_like_three_channels_too(dtype, octaves):
    """Their keys have no bit to spare for the sign, so that positive parts are sorted for themselves."""
    relevance, truth = made(1, seed=4)
    rng = np.random.default_rng(4)
    relevance = (np.sign(relevance) * 2.0 ** rng.uniform(-octaves, octaves, size=relevance.shape)).astype(dtype)
    long = np.concatenate([relevance, np.zeros_like(relevance)], 1)
    short, found = score_masks(relevance, truth), score_masks(long, truth)
    for name in short.values:
        np.testing.assert_allclose(short.values[name], found.values[name], rtol=1e-12, err_msg=name)
    assert np.array_equal(short.state, found.state)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["signed", "cut", "positive", "steps"])
def test_large_maps_equal_scikit_learn(dtype, kind):
    """Many digits to sort by, few or many ties, many zeros or none."""
    rng = np.random.default_rng(6)
    relevance = rng.normal(size=(1, 1, 120, 130)).astype(dtype)
    relevance = {
        "signed": relevance, "cut": np.maximum(relevance, 0), "positive": np.abs(relevance) + dtype(0.5),
        "steps": np.round(relevance * 4) / 4,
    }[kind]  # fmt: skip
    truth = np.zeros((1, 120, 130), np.uint8)
    truth[0, 30:80, 20:90] = INSIDE
    truth[0, 100:] = VOID
    counts, inside = truth[0] != VOID, truth[0][truth[0] != VOID] == INSIDE
    found = score_masks(relevance, truth)
    for place, pooling in enumerate(found.poolings):
        values = reference.pool(relevance.astype(np.float64), pooling)[0][counts]
        scores = {name: float(found.values[name][place, 0]) for name in found.values}
        assert scores["pixel_auc"] == pytest.approx(roc_auc_score(inside, values), abs=1e-12)
        assert scores["average_precision"] == pytest.approx(average_precision_score(inside, values), abs=1e-12)
        marked = values >= values.mean()
        assert scores["adaptive_iou"] == pytest.approx((marked & inside).sum() / (marked | inside).sum(), abs=1e-12)
        if pooling == "sum_pos":
            heights = (values - values.min()) / (values.max() - values.min())
            both = average_precision_score(np.append(~inside, inside), np.append(1 - heights, heights))
            assert scores["segmentation_ap"] == pytest.approx(both, abs=1e-12)


def test_values_beyond_squares_take_the_long_way():
    """1e-200 and 2e-200 differ, their squares do not: the square poolings see ties, or nothing at all."""
    relevance = np.array([1e-200, 2e-200, 3e-200, 0.0]).reshape(1, 1, 2, 2)
    truth = np.array([0, 0, 1, 0], np.uint8).reshape(1, 2, 2)
    found = score_masks(relevance, truth)
    by_pooling = dict(zip(found.poolings, found.values["rank_accuracy"][:, 0], strict=True))
    assert by_pooling["sum_abs"] == 1
    assert math.isnan(by_pooling["l2_norm_sq"])


def test_void_positions_count_neither_way():
    """Theory: whatever a map says there changes no score."""
    relevance, truth = made(1, seed=5)
    changed = np.where((truth == VOID)[:, None], 17.0 * relevance - 3, relevance)
    for name, values in score_masks(relevance, truth).values.items():
        np.testing.assert_array_equal(score_masks(changed, truth).values[name], values, err_msg=name)
    before, after = score_signed(relevance, truth), score_signed(changed, truth)
    for name in SIGNED:
        np.testing.assert_array_equal(before.values[name], after.values[name])


def test_the_oracle_the_uniform_and_the_opposite_map():
    """Theory: 1 for the mask, what `uniform` says for the same value everywhere, and the least for its opposite."""
    _, truth = made(1, seed=2)
    inside = (truth == INSIDE).astype(float)[:, None]
    best, uniform, worst = (score_masks(maps, truth, ["sum_pos"]) for maps in (inside, inside * 0 + 0.3, 1 - inside))
    for name in ("mass_accuracy", "rank_accuracy", "pointing_game", "pixel_auc", "average_precision", "best_iou"):
        np.testing.assert_allclose(best.values[name], 1)
    for name in ("adaptive_iou", "pixel_accuracy", "segmentation_ap"):
        np.testing.assert_allclose(best.values[name], 1)
    shares = [(case == INSIDE).sum() / (case != VOID).sum() for case in truth]
    for name in uniform.values:
        np.testing.assert_allclose(uniform.values[name][0], uniform_column(name, shares).to_numpy(), err_msg=name)
    for name in ("mass_accuracy", "pointing_game", "pixel_auc", "adaptive_iou", "pixel_accuracy", "lift"):
        np.testing.assert_allclose(worst.values[name], 0)


@pytest.mark.parametrize("tolerance", [0, 1, 2, 15])
def test_the_pointing_game_with_a_tolerance(tolerance):
    """Reference: the distance from the maximum to every position of the mask, measured literally."""
    rng = np.random.default_rng(1)
    relevance = rng.random((40, 1, 12, 9))
    truth = np.zeros((40, 12, 9), np.uint8)
    for case, (row, column) in enumerate(rng.integers(0, [11, 8], size=(40, 2))):
        truth[case, row : row + 2, column : column + 2] = 1
    found = score_masks(relevance, truth, ["sum_pos"], tolerance).values["pointing_game"][0]
    for case in range(40):
        peak = np.unravel_index(relevance[case, 0].argmax(), (12, 9))
        away = min(math.dist(peak, place) for place in np.argwhere(truth[case] == 1))
        assert found[case] == float(away <= tolerance)


def test_bad_maps_and_masks_say_why():
    relevance, truth = made(1, void=False)
    relevance[0, 0, 0, 0], relevance[1], truth[2], truth[3] = np.nan, 0, 0, 1
    truth[4][truth[4] == 0] = VOID  # nothing outside is left
    found = score_masks(relevance, truth)
    assert found.state[:, :5].tolist() == [[2, 3, 1, 1, 1]] * 10
    assert all(np.isnan(values[:, :5]).all() for values in found.values.values() if values is not None)
    signed = score_signed(relevance, truth)
    assert signed.state["attribution_accuracy"][:6].tolist() == [2, 3, 1, 1, 1, 0]
    with pytest.raises(HeatproofError, match="uint8"):
        score_masks(relevance, truth.astype(bool))


# Against other libraries


def test_quantus_agrees_where_definitions_do():
    """Quantus 0.6: mass and rank accuracy, pointing game and AUC of positive maps without ties."""
    quantus = import_quantus()
    rng = np.random.default_rng(4)
    maps, masks = rng.random((8, 1, 16, 16)), np.zeros((8, 1, 16, 16), bool)
    for case in range(8):
        masks[case, 0, case : case + 6, 4:12] = True
    found = score_masks(maps, masks[:, 0].astype(np.uint8), ["sum_pos"]).values
    given = {
        "model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 2)),
        "x_batch": maps, "y_batch": np.zeros(8, int), "a_batch": maps, "s_batch": masks, "device": "cpu",
    }  # fmt: skip
    settings = {"disable_warnings": True, "display_progressbar": False, "abs": False, "normalise": False}
    for name, kind in {
        "mass_accuracy": quantus.RelevanceMassAccuracy,
        "rank_accuracy": quantus.RelevanceRankAccuracy,
        "pointing_game": quantus.PointingGame,
        "pixel_auc": quantus.AUC,
    }.items():
        theirs = np.asarray(kind(**settings)(**given), dtype=float)
        np.testing.assert_allclose(found[name][0], theirs, rtol=1e-6, err_msg=name)


def test_torchmetrics_agrees_on_iou():
    """torchmetrics: the Jaccard index of maps that are cut at their mean, and the best of all cuts."""
    from torchmetrics.functional.classification import binary_jaccard_index

    relevance, truth = made(1, seed=6, void=False)
    found = score_masks(np.abs(relevance), truth, ["sum_pos"]).values
    for case in range(12):
        heat, mask = torch.as_tensor(np.abs(relevance[case, 0])), torch.as_tensor(truth[case].astype(int))
        at_mean = binary_jaccard_index((heat >= heat.mean()).int(), mask)
        cuts = [float(binary_jaccard_index((heat >= cut).int(), mask)) for cut in heat.unique()]
        assert found["adaptive_iou"][0, case] == pytest.approx(float(at_mean), abs=1e-6)
        assert found["best_iou"][0, case] == pytest.approx(max(cuts), abs=1e-6)


def test_imagenet_segmentation_as_transformers_are_evaluated():
    """Reference: pixel accuracy, mIoU and mAP re-written from the published evaluation, step by step."""
    rng = np.random.default_rng(8)
    maps = rng.random((20, 1, 14, 14))
    truth = (rng.random((20, 14, 14)) < 0.3).astype(np.uint8)
    found = score_masks(maps, truth, ["sum_pos"]).values
    correct = labelled = 0
    overlap, union, precisions = np.zeros(2), np.zeros(2), []
    for heat, labels in zip(maps[:, 0], truth, strict=True):
        scaled = (heat - heat.min()) / (heat.max() - heat.min())
        foreground = scaled > scaled.mean()
        correct += int((foreground == labels).sum())
        labelled += labels.size
        for kind, chosen in enumerate((~foreground, foreground)):
            overlap[kind] += (chosen & (labels == kind)).sum()
            union[kind] += (chosen | (labels == kind)).sum()
        both = np.stack([1 - scaled, scaled]).ravel()
        right = np.stack([labels == 0, labels == 1]).ravel()
        precisions.append(average_precision_score(right, both))
    assert found["pixel_accuracy"][0].mean() == pytest.approx(correct / labelled, abs=1e-12)
    np.testing.assert_allclose(found["segmentation_ap"][0], precisions, rtol=1e-12)
    sizes, counts = (truth == 1).sum((1, 2)), np.full(20, 14 * 14)
    from heatproof.benchmarks.masks.rows import mean_iou

    assert mean_iou(found["adaptive_iou"][0], found["pixel_accuracy"][0], sizes, counts) == pytest.approx(
        float((overlap / union).mean()), abs=1e-12
    )


# Signed scores


@pytest.mark.parametrize("channels", [1, 3])
def test_signed_scores_equal_the_confusion_matrix(channels):
    """Reference: the four sums position by position, as fractions, and the scores that follow from them."""
    relevance, truth = made(channels, seed=9)
    relevance = np.round(relevance * 64) / 64  # exact as fractions
    found = score_signed(relevance, truth)
    for case in range(CASES):
        cells = {
            ("+", True): Fraction(0),
            ("+", False): Fraction(0),
            ("-", True): Fraction(0),
            ("-", False): Fraction(0),
        }
        for place in np.ndindex(SPACE):
            if truth[(case, *place)] != VOID:
                value = sum(Fraction(float(relevance[(case, c, *place)])) for c in range(channels))
                cells["+" if value > 0 else "-", bool(truth[(case, *place)] == INSIDE)] += abs(value)
        tp, fp, fn, tn = cells["+", True], cells["+", False], cells["-", True], cells["-", False]

        def share(part: Fraction, whole: Fraction) -> float:
            return float(part / whole) if whole else math.nan

        halves = [value for value in (share(tp, tp + fp), share(tn, tn + fn)) if not math.isnan(value)]
        expected = {
            "attribution_precision": share(tp, tp + fp),
            "attribution_recall": share(tp, tp + fn),
            "attribution_accuracy": share(tp + tn, tp + fp + fn + tn),
            "attribution_f1": share(2 * tp, 2 * tp + fp + fn),
            "dual_polarity_precision": sum(halves) / len(halves) if halves else math.nan,
        }
        for name in SIGNED:
            assert found.values[name][case] == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name
            assert bool(found.state[name][case]) == math.isnan(expected[name])


def test_attribution_precision_is_focus():
    relevance, truth = made(3, void=False)
    signed = torch.as_tensor(relevance)
    masks = torch.as_tensor(truth == INSIDE)
    focus = metrics["focus"].function(pool(signed, "sum_pos"), masks)
    torch.testing.assert_close(metrics["attribution_precision"].function(signed, masks), focus)


def test_balanced_maps_get_what_uniform_says():
    """Theory: where relevance is as often for as against by the same size, scores are those of `balanced`."""
    _, truth = made(1, void=False)
    sign = torch.tensor([1.0, -1.0])
    masks = torch.as_tensor(truth == INSIDE).repeat_interleave(2, 2)  # every position twice, once of each sign
    relevance = sign.repeat(masks.shape[2] // 2).expand(masks.shape)[:, None].double()
    shares = masks.double().flatten(1).mean(1).tolist()
    for name in SIGNED:
        expected = torch.as_tensor(uniform_column(name, shares).to_numpy())
        torch.testing.assert_close(metrics[name].function(relevance, masks), expected)

"""Skill by hand, and where there is no scale."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from heatproof.results.skill import Scale
from heatproof.results.statistics import bootstrap_means, interval, stretch
from heatproof.story import MetricWords

UP, DOWN = MetricWords("up", "Up", ""), MetricWords("down", "Down", "", higher_is_better=False)
FAMILIES = {"low": "floor", "high": "floor", "oracle": "ceiling"}
NAMES = ("method", "low", "high", "oracle")


def keys(names=NAMES, model: str = "net", target: str = "logit"):
    return [(model, "" if name in FAMILIES else target, name) for name in names]


def values(n: int = 50, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal([0.5, 0.1, 0.2, 0.95], 0.05, (n, 4)), 0, 1)


def skills(scores: np.ndarray, words: MetricWords = UP, names=NAMES, counts=None):
    counts = np.full(scores.shape[1], len(scores)) if counts is None else np.asarray(counts)
    return Scale(words, FAMILIES).skills(keys(names), scores.mean(0), bootstrap_means(scores, 0), counts)


def test_skill_by_hand():
    """Reference: resample by resample, the best floor chosen anew in each."""
    scores = values()
    skill, low, high = skills(scores)
    method, *floors, ceiling = scores.mean(0)
    assert skill[0] == pytest.approx((method - max(floors)) / (ceiling - max(floors)))
    drawn = [(row[0] - max(row[1:3])) / (row[3] - max(row[1:3])) for row in bootstrap_means(scores, 0)]
    (plain_low,), (plain_high,) = interval(np.array(drawn)[:, None])
    factor = float(stretch(np.array(50)))
    assert_allclose(
        [low[0], high[0]], [skill[0] - factor * (skill[0] - plain_low), skill[0] + factor * (plain_high - skill[0])]
    )
    assert_allclose(skill[[2, 3]], [0, 1])
    assert skill[1] < 0


def test_what_explains_nothing_has_the_scale_of_the_only_quantity():
    """By hand: the best floor has a target, 0.5; the other floor is (0.2 - 0.5) / (1 - 0.5) on its scale."""
    scale = Scale(UP, {"shuffled": "floor", "random": "floor", "oracle": "ceiling"})
    names = [("m", "logit", "a"), ("m", "logit", "shuffled"), ("m", "", "random"), ("m", "", "oracle")]
    means = np.array([0.75, 0.5, 0.2, 1.0])
    skill, *_ = scale.skills(names, means, np.repeat(means[None], 9, axis=0), np.full(4, 30))
    assert_allclose(skill, [0.5, 0.0, -0.6, 1.0])
    both = [*names, ("m", "probability", "b")]
    skill, *_ = scale.skills(both, np.array([*means, 0.6]), np.array([[*means, 0.6]] * 9), np.full(5, 30))
    assert_allclose(skill, [0.5, 0.0, 0.0, 1.0, 0.5])


def test_lower_is_better():
    scores = values()
    assert_allclose(skills(1 - scores, DOWN), skills(scores), atol=1e-12)


def test_without_a_ceiling_the_best_score_there_is_takes_its_place():
    scores = values()[:, :3]
    skill, _, _ = skills(scores, names=NAMES[:3])
    method, *floors = scores.mean(0)
    assert skill[0] == pytest.approx((method - max(floors)) / (1 - max(floors)))
    free = MetricWords("free", "Free", "", range=(-np.inf, np.inf))
    assert np.isnan(skills(scores, free, names=NAMES[:3])).all()


def test_without_a_floor_there_is_no_skill():
    scores = values()[:, [0, 3]]
    assert np.isnan(skills(scores, names=("method", "oracle"))).all()


@pytest.mark.parametrize("ceiling", [0.2, 0.15, 0.21])
def test_a_ceiling_that_is_not_surely_better_than_a_floor_is_no_scale(ceiling):
    """Below the floor, a method that is worse than it would have skill; at it, any number might come out."""
    scores = values()
    scores[:, 3] = np.random.default_rng(1).normal(ceiling, 0.1, len(scores))
    assert np.isnan(skills(scores)).all()


def test_one_case_has_a_skill_and_no_interval():
    skill, low, high = skills(values(1))
    assert np.isfinite(skill).all()
    assert np.isnan([low, high]).all()


def test_clusters_are_what_it_rests_on():
    scores = values()
    _, low, high = skills(scores)
    _, fewer_low, fewer_high = skills(scores, counts=[5] * 4)
    assert fewer_high[0] - fewer_low[0] > 1.3 * (high[0] - low[0])


def test_each_model_has_its_own_scale():
    one, other = values(seed=0), values(seed=1) * 0.5
    both = np.hstack([one, other])
    scale = Scale(UP, FAMILIES)
    found, _, _ = scale.skills(
        keys(model="a") + keys(model="b"), both.mean(0), bootstrap_means(both, 0), np.full(8, 50)
    )
    assert_allclose(found, np.concatenate([skills(one)[0], skills(other)[0]]))


def test_explainers_without_scores_have_no_skill_and_spoil_none():
    scores = np.hstack([values(), np.full((50, 1), np.nan)])
    with np.errstate(invalid="ignore"):
        skill, _, _ = Scale(UP, FAMILIES | {"silent": "floor"}).skills(
            [*keys(), ("net", "", "silent")], scores.mean(0), bootstrap_means(scores, 0), np.full(5, 50)
        )
    assert_allclose(skill[:4], skills(values())[0])
    assert np.isnan(skill[4])

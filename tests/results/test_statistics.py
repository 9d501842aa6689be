"""Intervals against scipy, literal versions and theory."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from heatproof.results.statistics import (
    Sample,
    bootstrap_means,
    case_weights,
    cluster_sums,
    independent,
    interval,
    mean_interval,
    over_models,
    quantile_interval,
    quantiles,
    reach,
    stretch,
    told_by,
)


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).normal([0.5, 2.0], [0.1, 3.0], size=(400, 2))


def test_weights_are_resamples():
    weights = case_weights(50, seed=1, resamples=300)
    assert_array_equal(weights.sum(1), np.full(300, 50.0))
    assert weights.mean() == pytest.approx(1)
    assert weights.var() == pytest.approx(1 - 1 / 50, rel=0.1)  # multinomial


def literal_means(values: np.ndarray, weights: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """By hand: every draw of a cluster adds each of its defined values once more."""
    found = np.full((len(weights), values.shape[1]), np.nan)
    for draw, row in enumerate(weights):
        for column in range(values.shape[1]):
            drawn = [
                value
                for number, times in zip(np.unique(clusters), row, strict=True)
                for _ in range(int(times))
                for value in values[clusters == number, column]
                if not np.isnan(value)
            ]
            found[draw, column] = np.mean(drawn) if drawn else np.nan
    return found


@pytest.mark.parametrize("kind", ["all", "gaps", "clusters", "both"])
def test_means_equal_a_literal_loop(values, kind):
    values = np.hstack([values, values[:, :1]])[:40]
    if kind in ("gaps", "both"):
        values[::3, 0] = values[1::3, 2] = values[::3, 1] = np.nan  # the first two miss the same cases
    clusters = np.random.default_rng(1).integers(0, 9, 40) if kind in ("clusters", "both") else None
    plain = np.arange(40) if clusters is None else clusters
    weights = case_weights(len(np.unique(plain)), seed=3, resamples=20)
    found = bootstrap_means(values, seed=3, resamples=20, clusters=clusters)
    assert_allclose(found, literal_means(values, weights, plain))


def test_sums_of_clusters():
    values, clusters = np.arange(10.0).reshape(5, 2), np.array([7, 3, 7, 3, 9])
    assert_array_equal(cluster_sums(values, clusters), [[2 + 6, 3 + 7], [0 + 4, 1 + 5], [8, 9]])
    assert_array_equal(cluster_sums(values, None), values)
    assert cluster_sums(np.zeros((0, 2)), np.zeros(0, np.int64)).shape == (0, 2)
    assert_array_equal(independent(np.array([[1, 0], [1, 1], [0, 0]], bool), np.array([4, 4, 5])), [1, 1])


def test_interval_agrees_with_scipy(values):
    """Reference: scipy's percentile bootstrap; other draws, so equal up to Monte-Carlo error."""
    low, high = interval(bootstrap_means(values, seed=0, resamples=4000))
    for column in range(2):
        found = stats.bootstrap((values[:, column],), np.mean, method="percentile", n_resamples=4000, rng=1)
        width = found.confidence_interval.high - found.confidence_interval.low
        assert low[column] == pytest.approx(found.confidence_interval.low, abs=0.1 * width)
        assert high[column] == pytest.approx(found.confidence_interval.high, abs=0.1 * width)


@pytest.mark.parametrize("n", [2, 5, 20, 1000])
def test_intervals_are_stretched_to_those_of_student(n):
    """Reference: scipy's t, for values that have no tail; resamples of few values are coarse."""
    half = np.random.default_rng(n).normal(0, 1, (n - n // 2, 1))
    values = np.concatenate([half[: n // 2], -half]) + 3.0
    t = stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values[:, 0]))
    assert float(stretch(np.array(n))) == pytest.approx(
        stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975) * np.sqrt(n / (n - 1))
    )
    low, high = mean_interval(values, seed=0)
    if n >= 20:
        assert low[0] == pytest.approx(t[0], abs=0.07 * (t[1] - t[0]))
        assert high[0] == pytest.approx(t[1], abs=0.07 * (t[1] - t[0]))
    assert low[0] < values.mean() < high[0]


def literal_reach(values: np.ndarray) -> float:
    """By hand: skewness g, spread s: g s (z² + 2) / (6 n)."""
    z = stats.norm.ppf(0.975)
    return float(stats.skew(values) * values.std() * (z**2 + 2) / (6 * len(values)))


def test_an_interval_reaches_to_the_side_of_the_tail():
    rng = np.random.default_rng(0)
    values = np.stack([rng.beta(0.5, 3, 30), rng.beta(3, 0.5, 30)], 1)
    found = reach(values, values.mean(0), None)
    assert_allclose(found, [literal_reach(column) for column in values.T])
    assert found[0] > 0 > found[1]
    without = Sample(values.mean(0), np.array([30, 30]), np.array([False, False]))
    means = bootstrap_means(values, 0)
    (low, high), (plain_low, plain_high) = mean_interval(values, 0), without.around(means)
    assert_allclose([low[0], high[1]], [plain_low[0], plain_high[1]])
    assert_allclose([high[0], low[1]], [plain_high[0] + found[0], plain_low[1] + found[1]])


def test_the_reach_of_clusters_is_that_of_their_sums():
    rng = np.random.default_rng(0)
    values = rng.beta(0.5, 3, (40, 1))
    clusters = np.repeat(np.arange(10), 4)
    means_of_clusters = values.reshape(10, 4).mean(1)
    assert reach(values, values.mean(0), clusters)[0] == pytest.approx(literal_reach(means_of_clusters))


def test_two_values_have_no_tail():
    values = (np.random.default_rng(0).random((50, 1)) < 0.1) * 1.0
    assert reach(values, values.mean(0), None)[0] == 0.0
    assert reach(np.ones((4, 1)), np.ones(1), None)[0] == 0.0
    assert reach(np.full((4, 1), np.nan), np.full(1, np.nan), None)[0] == 0.0


@pytest.mark.parametrize("n", [2, 5, 30, 200])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_identical_values_are_a_share_of_which_all_were_seen(n, value):
    """Reference: scipy's exact interval of n successes of n."""
    low, high = mean_interval(np.full((n, 1), value), seed=0, ends=(0.0, 1.0))
    exact = stats.binomtest(int(n * value), n).proportion_ci(0.95, method="exact")
    assert (low[0], high[0]) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_identical_values_inside_of_the_range_are_no_chance():
    """A constant map has 0.5 on every case: what no case has by chance has no width, as 0.4999 and 0.5001 have none."""
    columns = np.stack([np.full(30, 0.5), np.resize([0.4999, 0.5001], 30)], 1)
    low, high = mean_interval(columns, seed=0, ends=(0.0, 1.0))
    assert_allclose([low[0], high[0]], 0.5, atol=0)
    assert_allclose([low[1], high[1]], 0.5, atol=1e-4)


def test_what_is_a_share_can_be_said():
    """Two methods that hit alike differ by 0 on every case, which is inside of the range, and a share nevertheless."""
    nothing = np.zeros((30, 2))
    sample = Sample.of(nothing, np.zeros(2), None, (-1.0, 1.0), np.array([True, False]))
    low, high = sample.around(bootstrap_means(nothing, 0))
    exact = stats.binomtest(0, 30).proportion_ci(0.95, method="exact").high
    assert_allclose([low, high], [[-exact, 0.0], [exact, 0.0]])


def test_intervals_stay_within_the_range():
    low, high = mean_interval(np.array([[0.0], [0.0], [1.0], [0.02]]), seed=0, ends=(0.0, 1.0))
    assert low[0] >= 0.0
    assert high[0] <= 1.0


def test_there_is_no_interval_of_one_value_or_one_cluster():
    assert np.isnan(mean_interval(np.array([[0.4, np.nan], [np.nan, np.nan]]), 0, ends=(0.0, 1.0))).all()
    assert np.isnan(mean_interval(np.array([[0.4], [0.6]]), 0, np.array([1, 1]))).all()
    assert np.isnan(mean_interval(np.array([[0.4], [0.4]]), 0, np.array([1, 1]), (0.0, 1.0))).all()


def test_clusters_widen_intervals_as_theory_says():
    """Cases that are the same within clusters tell no more than the clusters do."""
    few = np.random.default_rng(0).normal(size=(50, 1))
    alone = np.concatenate(mean_interval(few, 0))
    copied = np.concatenate(mean_interval(np.repeat(few, 6, axis=0), 0, np.repeat(np.arange(50), 6)))
    assert_allclose(copied, alone)
    deaf = np.concatenate(mean_interval(np.repeat(few, 6, axis=0), 0))
    assert np.diff(deaf) < 0.5 * np.diff(alone)


def test_undefined_values_do_not_count(values):
    holes = values.copy()
    holes[::2, 0] = np.nan
    holes[:, 1] = np.nan
    low, high = interval(bootstrap_means(holes, seed=0))
    assert low[0] < np.nanmean(holes[:, 0]) < high[0]
    assert np.isnan(low[1])
    assert np.isnan(high[1])


def test_same_seed_same_interval(values):
    assert_array_equal(bootstrap_means(values, seed=5), bootstrap_means(values, seed=5))
    assert not np.array_equal(bootstrap_means(values, seed=5), bootstrap_means(values, seed=6))


def test_quantiles_are_numpys():
    values = np.sort(np.random.default_rng(0).normal(size=(31, 3)), axis=0)
    values[20:, 1] = np.nan
    values[:, 2] = np.nan
    for share, found in zip((0.0, 0.2, 0.5, 0.8, 1.0), quantiles(values, (0.0, 0.2, 0.5, 0.8, 1.0)), strict=True):
        assert_allclose(found[:2], [np.quantile(values[:, 0], share), np.quantile(values[:20, 1], share)])
        assert np.isnan(found[2])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("n", [5, 12, 60, 333])
def test_intervals_of_quantiles_are_scipys(n, share):
    """Reference: scipy's quantile test, whose interval is made of order statistics too."""
    values = np.random.default_rng(n).normal(size=n)
    exact = stats.quantile_test(values, p=share).confidence_interval(0.95)
    low, high = quantile_interval(np.sort(values)[:, None], share)
    assert_allclose([low[0], high[0]], [exact.low, exact.high])


def alone(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return quantile_interval(np.sort(values, axis=0), 0.5)


def test_quantiles_of_clusters_tell_what_the_clusters_tell():
    few = np.random.default_rng(0).normal(size=(60, 1))
    many, clusters = np.repeat(few, 5, axis=0), np.repeat(np.arange(60), 5)
    told = told_by(many, np.median(many, axis=0), clusters)
    assert told[0] == pytest.approx(60 / float(stretch(np.array(60))) ** 2, rel=1e-6)
    low, high = quantile_interval(np.sort(many, axis=0), 0.5, told)
    places = np.searchsorted(np.sort(few[:, 0]), [low[0], high[0], *np.concatenate(alone(few))])
    assert_allclose(places[:2], places[2:], atol=1)  # whole places, of a few values less
    assert_array_equal(told_by(many, np.median(many, axis=0), None), [300.0])
    apart = told_by(many, np.median(many, axis=0), np.arange(300))  # each a cluster of its own: next to all of them
    assert 280 < apart[0] <= 300


def test_a_quantile_of_too_few_values_has_no_interval():
    low, high = quantile_interval(np.array([[0.1], [0.2], [0.3]]), 0.5)
    assert np.isnan([low, high]).all()
    assert np.isnan(quantile_interval(np.zeros((0, 2)), 0.5)).all()
    assert np.isnan(quantile_interval(np.full((3, 1), np.nan), 0.5)).all()


def test_interval_over_models_contains_their_spread():
    """Models whose means differ by far more than their cases do: the interval must span the models."""
    rng = np.random.default_rng(0)
    means = np.array([0.2, 0.5, 0.8])
    values = rng.normal(means, 0.01, size=(200, 3))
    low, high = interval(over_models(bootstrap_means(values, seed=0)[:, :, None], seed=0))
    assert low[0] < 0.3
    assert high[0] > 0.7
    assert (low[0] + high[0]) / 2 == pytest.approx(0.5, abs=0.05)


def test_many_models_are_a_sample_like_any():
    """Reference: Student's t over the models' means, where cases hardly matter."""
    rng = np.random.default_rng(0)
    middle = rng.normal(0.5, 0.1, 40)
    values = rng.normal(middle, 1e-6, size=(50, 40))
    low, high = interval(over_models(bootstrap_means(values, seed=0)[:, :, None], seed=0))
    t = stats.t.interval(0.95, 39, middle.mean(), stats.sem(middle))
    assert_allclose([low[0], high[0]], t, atol=0.1 * (t[1] - t[0]))


def test_models_without_values_do_not_count_in_the_interval():
    """Reference: the same models without them. One that is missing must not turn the weights of others around."""
    rng = np.random.default_rng(0)
    values = rng.normal([0.2, 0.5, 0.8], 0.01, size=(200, 3))
    missing = np.hstack([values, np.full((200, 2), np.nan)])
    low, high = interval(over_models(bootstrap_means(missing, seed=0)[:, :, None], seed=0))
    plain_low, plain_high = interval(over_models(bootstrap_means(values, seed=0)[:, :, None], seed=0))
    assert low[0] == pytest.approx(plain_low[0], abs=0.15)
    assert high[0] == pytest.approx(plain_high[0], abs=0.15)
    one = bootstrap_means(values[:, :1], seed=0)[:, :, None]
    assert_allclose(over_models(one, seed=0), one[:, 0])


@pytest.mark.parametrize("hang_together", [False, True], ids=["single", "clusters"])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.8, 0.95])
def test_intervals_of_quantiles_hold_the_truth(share, hang_together):
    """By simulation: normal values, alone or with what those of a cluster share; the truth is scipy's quantile."""
    rng = np.random.default_rng(8)
    ids = np.repeat(np.arange(50), rng.integers(1, 8, 50) if hang_together else 1)
    values = rng.normal(size=(50, 600))[ids] + rng.normal(size=(len(ids), 600))
    ordered = np.sort(values, axis=0)
    counts = told_by(values, quantiles(ordered, [share])[0], ids) if hang_together else None
    low, high = quantile_interval(ordered, share, counts)
    truth = stats.norm(0, np.sqrt(2)).ppf(share)
    low, high = np.nan_to_num(low, nan=-np.inf), np.nan_to_num(high, nan=np.inf)
    assert ((low <= truth) & (truth <= high)).mean() >= 0.93

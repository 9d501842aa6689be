"""Bootstrap intervals against scipy and against theory."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from heatproof.results.statistics import bootstrap_means, case_weights, interval, over_models


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).normal([0.5, 2.0], [0.1, 3.0], size=(400, 2))


def test_weights_are_resamples():
    weights = case_weights(50, seed=1, resamples=300)
    assert_array_equal(weights.sum(1), np.full(300, 50.0))
    assert weights.mean() == pytest.approx(1)
    assert weights.var() == pytest.approx(1 - 1 / 50, rel=0.1)  # multinomial


def test_means_equal_a_literal_loop(values):
    """Reference: resampling by hand, case by case, with the same draws."""
    weights = case_weights(len(values), seed=3, resamples=20)
    expected = [np.mean([values[i] for i in range(len(values)) for _ in range(int(row[i]))], axis=0) for row in weights]
    assert_allclose(bootstrap_means(values, seed=3, resamples=20), expected)


def test_interval_agrees_with_scipy(values):
    """Reference: scipy's percentile bootstrap; other draws, so equal up to Monte-Carlo error."""
    low, high = interval(bootstrap_means(values, seed=0, resamples=4000))
    for column in range(2):
        found = stats.bootstrap((values[:, column],), np.mean, method="percentile", n_resamples=4000, rng=1)
        width = found.confidence_interval.high - found.confidence_interval.low
        assert low[column] == pytest.approx(found.confidence_interval.low, abs=0.1 * width)
        assert high[column] == pytest.approx(found.confidence_interval.high, abs=0.1 * width)


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


def test_interval_over_models_contains_their_spread():
    """Models whose means differ by far more than their cases do: the interval must span the models."""
    rng = np.random.default_rng(0)
    means = np.array([0.2, 0.5, 0.8])
    values = rng.normal(means, 0.01, size=(200, 3))
    low, high = interval(over_models(bootstrap_means(values, seed=0)[:, :, None], seed=0))
    assert low[0] < 0.3
    assert high[0] > 0.7
    assert (low[0] + high[0]) / 2 == pytest.approx(0.5, abs=0.05)

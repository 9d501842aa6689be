"""Agreement of orders against scipy's Spearman."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from heatproof.results.agreement import around, between_runs, metric_name, rank_correlations
from heatproof.story import Column
from judging import DROP, MASS, evidence_of, part, steps, verdict_of


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_spearmans(ties):
    rng = np.random.default_rng(0)
    means = rng.integers(0, 4, (5, 3, 8)).astype(float) if ties else rng.random((5, 3, 8))
    found = rank_correlations(means)
    for draw in range(5):
        for i in range(3):
            for j in range(3):
                expected = stats.spearmanr(means[draw, i], means[draw, j]).statistic
                assert found[draw, i, j] == pytest.approx(expected)


def test_where_all_tie_there_is_no_correlation():
    found = rank_correlations(np.array([[[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]]]))
    assert np.isnan(found[0, 0, 1])
    assert found[0, 1, 1] == pytest.approx(1)


def test_agreement_between_poolings():
    one = steps(80, 0.3, 0.4, 0.5, 0.6)
    turned = dict(zip("dcba", one.values(), strict=True))
    parts = [part(scores, pooling=name) for name, scores in (("p", one), ("q", one), ("r", turned))]
    found = verdict_of(parts, columns=[Column("mass", "", "p")])
    (agreement,) = [each for each in found.agreements if each.axis == "pooling"]
    assert (agreement.readings, agreement.explainers) == (["p", "q", "r"], 4)
    assert_allclose(agreement.matrix, [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert agreement.mean == pytest.approx(-1 / 3)
    assert agreement.least == pytest.approx(-1)
    assert "r" in agreement.apart
    assert agreement.low <= agreement.mean <= agreement.high
    ranks = {standing.explainer: standing for standing in found.standings}
    assert (ranks["d"].mean, ranks["d"].best, ranks["d"].worst, ranks["d"].readings) == (2, 1, 4, 3)
    assert ranks["d"].spread == pytest.approx(np.std([1, 1, 4]))


def test_metrics_that_run_the_other_way_agree():
    scores = steps(60, 0.3, 0.4, 0.5)
    flipped = {name: 1 - values for name, values in scores.items()}
    parts = [part(scores, "mass"), part(flipped, "drop")]
    found = verdict_of(parts, (MASS, DROP))
    (agreement,) = [each for each in found.agreements if each.axis == "metric"]
    assert_allclose([agreement.mean, agreement.low, agreement.high], 1)
    assert "The order of the methods holds from metric to metric (1.00)" in " ".join(found.sentences)


def test_subsets_and_models_are_readings():
    parts = [part(steps(60, 0.3, 0.4, 0.5, seed=seed), model=f"net-{seed}") for seed in range(2)]
    found = verdict_of(parts, early=pl.col("case") < "0030")
    assert {agreement.axis for agreement in found.agreements} == {"subset", "model"}


def test_an_interval_holds_what_was_found():
    """Resamples of noisy orders agree less than these do; the interval is about these."""
    rng = np.random.default_rng(0)
    low, high = around(0.9, rng.normal(0.6, 0.05, 200))
    assert low < 0.9 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.05, rel=0.2)
    assert around(1.0, np.full(50, 0.7)) == (1.0, 1.0)
    assert around(0.5, np.full(50, np.nan)) == (-1.0, 1.0)  # where every draw ties, nothing is known
    assert around(-1.0, rng.normal(-0.9, 0.3, 200))[0] == -1.0


def test_two_methods_are_no_order():
    parts = [part(steps(20, 0.3, 0.6), pooling=name) for name in ("p", "q")]
    assert not verdict_of(parts, columns=[Column("mass", "", "p")]).agreements


def test_an_explainer_that_a_reading_lacks_is_left_out_of_it():
    three, four = steps(40, 0.3, 0.4, 0.5), steps(40, 0.3, 0.4, 0.5, 0.6)
    parts = [part(four, pooling="p"), part(three, pooling="q")]
    evidence = evidence_of(parts, columns=[Column("mass", "", "p")])
    found = evidence.orders.agreements([("mass", "", "p", "all", "logit", "net")])
    assert [agreement.explainers for agreement in found] == [3]
    assert {standing.readings for standing in evidence.orders.standings()} == {1}


def test_between_runs_by_hand():
    first = {"a": 1.0, "b": 2.0, "c": 3.0, "only": 4.0}
    second = {"a": 2.0, "b": 1.0, "c": 3.0}
    assert list(between_runs({"x": first, "y": second, "z": {"a": 1.0}})) == [("x", "y", 3, pytest.approx(0.5))]


def test_columns_of_one_metric_are_told_apart():
    readings = [
        ("m", "t", "p", "all", "logit", "net"),
        ("m", "u", "p", "all", "logit", "net"),
        ("k", "", "", "all", "", ""),
    ]
    assert [metric_name(reading, readings) for reading in readings] == ["m, t", "m, u", "k"]

"""Runs against each other: ranks by name, Spearman's correlation and its chance, against SciPy."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

import heatproof
from heatproof.results.across import across_sentences, chance_of, cost, meetings, ranks_by_name, run_names

NAMES = ["gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "random"]


@pytest.fixture(scope="module")
def runs(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    small = heatproof.run("svea", explainers=NAMES, limit=100, out=folder / "small")
    other = heatproof.run(toy(), explainers=NAMES, out=folder / "toy")
    return {"SVEA": small, "Toy": other}


@pytest.mark.parametrize("count", [3, 5, 7])
def test_chance_is_that_of_all_orders(count):
    places = list(range(count))
    every = [spearmanr(places, order).statistic for order in permutations(places)]
    for value in sorted(set(np.round(every, 9)))[::3]:
        assert chance_of(value, count) == pytest.approx(np.mean(np.array(every) >= value - 1e-9))


def test_chance_of_many_is_sampled():
    found = spearmanr(range(12), [1, 0, 2, 3, 5, 4, 6, 7, 8, 9, 11, 10], alternative="greater")
    assert chance_of(found.statistic, 12) <= 1e-3
    assert chance_of(0.0, 12) == pytest.approx(0.5, abs=0.02)


def test_correlation_is_of_the_ranks_by_name(runs):
    (meeting,) = meetings(runs)
    ranks = [ranks_by_name(run, "logit") for run in runs.values()]
    assert [sorted(found) for found in ranks] == [sorted(NAMES[:-1])] * 2
    expected = spearmanr(*([found[name] for name in NAMES[:-1]] for found in ranks)).statistic
    assert meeting.correlation == pytest.approx(expected)
    assert meeting.methods == 4
    assert meeting.first == min(runs, key=lambda name: cost(runs[name]))


def test_one_sentence_says_whether_the_small_one_predicts(runs):
    (said,) = across_sentences(runs)
    assert said.startswith("Does the small benchmark predict the larger ones? ")
    assert "over the 4 methods that both have" in said
    assert across_sentences({"SVEA": runs["SVEA"]}) == []


def test_runs_are_called_by_title_or_folder(runs):
    small, other = runs.values()
    assert run_names([small, other]) == ["SVEA", "Toy signals"]
    assert run_names([small, small]) == ["small 1", "small 2"]

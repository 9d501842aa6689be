"""Paired comparisons against scipy, statsmodels and literal versions."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from heatproof.results.contest import FLIPS, Contest, flipped_sums, holm, ranks_of


def scores(n: int, k: int, seed: int = 0, step: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.5 + rng.normal(0, 0.1, (n, 1)) + rng.normal(0, 0.1, (n, k)) + step * np.arange(k)


def literal_p(differences: np.ndarray) -> float:
    """Every pattern of signs, one after the other."""
    observed = abs(differences.sum())
    turned = [abs((np.array(signs) * differences).sum()) for signs in product([-1, 1], repeat=len(differences))]
    return sum(value >= observed - 1e-9 for value in turned) / len(turned)


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_p_values_of_few_cases_are_exact(n):
    """Reference: all sign patterns by hand, and scipy's permutation test of paired samples."""
    values = scores(n, 3)
    held = Contest(values, True, 0)
    for i, j in combinations(range(3), 2):
        apart = values[:, i] - values[:, j]
        assert held.p_values[i, j] == held.p_values[j, i] == pytest.approx(literal_p(apart))
        if n > 1:
            found = stats.permutation_test((apart,), np.mean, permutation_type="samples", n_resamples=np.inf)
            assert held.p_values[i, j] == pytest.approx(found.pvalue)
    assert_array_equal(np.diag(held.p_values), np.ones(3))


def test_p_values_of_many_cases_are_scipys():
    """Reference: scipy's permutation test with other draws, so equal up to Monte-Carlo error; and Student's t."""
    values = scores(60, 3, step=0.02)
    held = Contest(values, True, 0)
    for i, j in combinations(range(3), 2):
        apart = values[:, i] - values[:, j]
        found = stats.permutation_test((apart,), np.mean, permutation_type="samples", n_resamples=9999, rng=1)
        error = np.sqrt(found.pvalue * (1 - found.pvalue) / FLIPS)
        assert held.p_values[i, j] == pytest.approx(found.pvalue, abs=6 * error + 2e-4)
        assert held.p_values[i, j] == pytest.approx(stats.ttest_rel(values[:, i], values[:, j]).pvalue, abs=0.02)


def test_p_values_are_never_below_what_so_few_cases_can_give():
    values = np.stack([np.zeros(6), np.ones(6)], 1)
    assert Contest(values, True, 0).p_values[0, 1] == 2 / 2**6
    far = Contest(np.stack([np.zeros(400), np.ones(400)], 1), True, 0).p_values[0, 1]
    assert 2 / 2.0**400 <= far <= 2 * np.exp(-200)  # the exact one, and Hoeffding's bound of it


def test_hits_alike_may_yet_differ():
    values = np.repeat((scores(40, 1) > 0.5) * 1.0, 2, axis=1)
    low, high = Contest(values, True, 0, ends=(0.0, 1.0)).difference_intervals
    unseen = 1 - 0.025 ** (1 / 40)
    assert_allclose([low[0, 1], high[0, 1]], [-unseen, unseen])  # none of forty differed, which is not never


def test_rounding_makes_no_difference_of_ties():
    """Few cases differ, all the same way and by as much: half of what is as extreme must not get lost in rounding."""
    values = np.full((3000, 2), 0.1) + np.linspace(0, 1 / 3, 3000)[:, None]
    values[:7, 1] += 0.1
    assert Contest(values, True, 0).p_values[0, 1] == pytest.approx(2 / 2**7, rel=0.3)


def test_equal_columns_are_equal():
    values = np.repeat(scores(40, 1), 3, axis=1)
    held = Contest(values, True, 0, ends=(0.0, 1.0))
    assert_array_equal(held.p_values, np.ones((3, 3)))
    assert not held.differ.any()
    assert held.groups([0, 1, 2]) == [[0, 1, 2]]
    assert_array_equal(held.ranks[0], [2, 2, 2])
    low, high = held.difference_intervals
    assert_allclose([low[0, 1], high[0, 1]], 0.0, atol=0)  # to the last digit: the same maps
    assert held.cases_to_tell(0, 1) is None
    assert_array_equal(held.effects, np.full((3, 3), 0.5))


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_that_of_statsmodels(seed):
    p = np.random.default_rng(seed).random(12) ** 3
    assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_holm_of_none_and_of_ties():
    assert len(holm(np.array([]))) == 0
    assert_allclose(holm(np.array([0.01, 0.01, 0.5])), multipletests([0.01, 0.01, 0.5], method="holm")[1])


def test_all_pairs_are_corrected_together():
    held = Contest(scores(30, 5), True, 0)
    rows, columns = np.triu_indices(5, 1)
    expected = multipletests(held.p_values[rows, columns], method="holm")
    assert_allclose(held.adjusted[rows, columns], expected[1])
    assert_array_equal(held.differ[rows, columns], expected[0])
    assert_array_equal(held.differ, held.differ.T)


def literal_groups(differ: np.ndarray, order: list[int]) -> set[frozenset[int]]:
    """All sets without a pair that differs, of which no larger one is one too."""
    free = [
        frozenset(some)
        for size in range(1, len(order) + 1)
        for some in combinations(order, size)
        if not any(differ[i, j] for i, j in combinations(some, 2))
    ]
    return {group for group in free if not any(group < other for other in free)}


@pytest.mark.parametrize("seed", range(12))
def test_groups_are_all_largest_sets_of_which_no_pair_differs(seed):
    rng = np.random.default_rng(seed)
    held = Contest(scores(8, 7, seed), True, 0)
    differ = np.triu(rng.random((7, 7)) < rng.uniform(0.1, 0.9), 1)
    held.__dict__["differ"] = differ | differ.T
    order = [int(place) for place in rng.permutation(7)]
    found = held.groups(order)
    assert {frozenset(group) for group in found} == literal_groups(held.differ, order)
    assert len(found) == len({frozenset(group) for group in found})
    assert all(group == sorted(group, key=order.index) for group in found)
    for one, other in combinations(order, 2):
        assert any({one, other} <= set(group) for group in found) != held.differ[one, other]
    level = held.level_with(order[0], order)
    assert level == [other for other in order if not held.differ[order[0], other]]


def test_who_is_third_may_be_level_with_the_first_where_the_second_is_not():
    """The second is surely, if slightly, behind; the third far behind, and so unsteady that it may be anything."""
    rng = np.random.default_rng(0)
    first = rng.normal(0.6, 0.05, 60)
    values = np.stack([first, first - 0.02 + rng.normal(0, 0.005, 60), first - 0.1 + rng.normal(0, 0.6, 60)], 1)
    held = Contest(values, True, 0)
    assert held.order == [0, 1, 2]
    assert held.level_with(0, held.order) == [0, 2]
    assert held.groups(held.order) == [[0, 2], [1, 2]]


def test_ranks_are_scipys():
    values = np.random.default_rng(0).integers(0, 4, (30, 6)).astype(float)
    assert_array_equal(ranks_of(values), stats.rankdata(-values, axis=1))


def test_ranks_of_resamples():
    held = Contest(scores(50, 4, step=0.02), False, 0)
    rank, low, high = held.ranks
    assert_array_equal(rank, stats.rankdata(held.means))
    drawn = stats.rankdata(held.resampled, axis=1)
    assert_allclose([low, high], np.quantile(drawn, [0.025, 0.975], axis=0))
    assert_allclose(held.mean_ranks, stats.rankdata(held.values, axis=1).mean(0))
    apart = Contest(scores(50, 4, step=1.0), True, 0).ranks
    assert_array_equal(np.stack(apart), np.tile([4, 3, 2, 1], (3, 1)))


@pytest.mark.parametrize("higher", [True, False])
def test_effects_are_shares_of_cases(higher):
    values = np.random.default_rng(0).integers(0, 3, (25, 3)).astype(float)
    held = Contest(values, higher, 0)
    for i, j in product(range(3), repeat=2):
        won = [(a > b if higher else a < b) + 0.5 * (a == b) for a, b in zip(values[:, i], values[:, j], strict=True)]
        assert held.effects[i, j] == pytest.approx(np.mean(won))


def test_lower_is_better_turns_the_order_around():
    values = scores(100, 3, step=0.2)
    up, down = Contest(values, True, 0), Contest(values, False, 0)
    assert (up.order, down.order) == ([2, 1, 0], [0, 1, 2])
    assert up.is_better(2, 0)
    assert not up.is_better(0, 2)
    assert down.is_better(0, 2)
    assert_array_equal(up.differ, down.differ)
    assert_array_equal(up.ranks[0], 4 - down.ranks[0])


def test_intervals_of_differences_are_those_of_paired_scores():
    """Reference: scipy's t interval of the differences."""
    values = scores(80, 3)
    low, high = Contest(values, True, 0).difference_intervals
    for i, j in combinations(range(3), 2):
        found = stats.ttest_rel(values[:, i], values[:, j]).confidence_interval(0.95)
        assert_allclose([low[i, j], high[i, j]], [found.low, found.high], atol=0.1 * (found.high - found.low))
        assert_allclose([low[j, i], high[j, i]], [-high[i, j], -low[i, j]], atol=1e-12)
    assert_array_equal(np.diag(low), np.zeros(3))


def test_one_case_tells_nothing():
    held = Contest(np.array([[0.2, 0.9]]), True, 0, ends=(0.0, 1.0))
    low, high = held.difference_intervals
    assert np.isnan([low[0, 1], high[0, 1]]).all()
    assert held.p_values[0, 1] == 1.0
    assert held.cases_to_tell(0, 1) is None
    assert held.level_with(1, held.order) == [1, 0]


def test_one_method_has_nobody_to_be_told_apart_from():
    held = Contest(scores(20, 1), True, 0)
    assert (held.order, held.groups([0]), held.level_with(0, [0])) == ([0], [[0]], [0])
    assert_array_equal(np.stack(held.ranks), np.ones((3, 1)))
    assert held.adjusted.tolist() == [[1.0]]


def test_clusters_are_turned_together():
    """Reference: the same test on the sums of the clusters."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(9), rng.integers(1, 5, 9))
    values = scores(len(clusters), 3)
    held = Contest(values, True, 0, clusters)
    sums = np.stack([values[clusters == number].sum(0) for number in range(9)])
    assert_allclose(held.sums, sums)
    for i, j in combinations(range(3), 2):
        assert held.p_values[i, j] == pytest.approx(literal_p(sums[:, i] - sums[:, j]))


def test_copies_of_a_case_tell_no_more_than_it_does():
    values = scores(12, 3)
    once = Contest(values, True, 0)
    copied = Contest(np.repeat(values, 20, axis=0), True, 0, np.repeat(np.arange(12), 20))
    assert_allclose(copied.p_values, once.p_values)
    assert_allclose(copied.difference_intervals, once.difference_intervals)
    assert_allclose(copied.ranks, once.ranks)
    needed = [held.cases_to_tell(0, 1) for held in (once, copied)]
    assert needed[1] == pytest.approx(20 * needed[0], abs=20)


def test_signs_are_fair_coins():
    drawn = flipped_sums(np.eye(20), seed=0)
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert np.abs(drawn.mean(0)).max() < 5 / np.sqrt(FLIPS)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(20)).max() < 5 / np.sqrt(FLIPS)
    every = flipped_sums(np.eye(5), seed=0)
    assert sorted(map(tuple, every)) == sorted(product([-1.0, 1.0], repeat=5))


@pytest.mark.parametrize("count", [2, 5])
def test_cases_to_tell_two_apart_are_those_of_statsmodels(count):
    """Reference: the power of Student's t at the level of one of all pairs."""
    values = scores(40, count, step=0.02)
    held = Contest(values, True, 0)
    apart = values[:, 0] - values[:, 1]
    level = 0.05 / (count * (count - 1) / 2)
    exact = TTestPower().solve_power(abs(apart.mean()) / apart.std(ddof=1), alpha=level, power=0.8)
    assert held.cases_to_tell(0, 1) == pytest.approx(exact, abs=4)


@pytest.mark.parametrize("seed", range(8))
def test_it_takes_more_cases_than_there_are_to_tell_apart_what_is_not(seed):
    held = Contest(scores(25, 5, seed, step=0.02), True, 0)
    for i, j in combinations(range(5), 2):
        needed = held.cases_to_tell(i, j)
        if not held.differ[i, j] and held.p_values[i, j] > 0.06:
            assert needed is not None
            assert needed > 25


def test_models_that_disagree_settle_nothing():
    """On each network the order is plain, but not the same one; one more like them may be either way."""
    rng = np.random.default_rng(0)
    shift = np.array([[0.3, 0.0], [0.0, 0.2], [0.25, 0.0]])
    by_model = 0.5 + shift[:, None, :] + rng.normal(0, 0.02, (3, 100, 2))
    held = Contest(by_model.mean(0), True, 0, models=by_model)
    assert held.adjusted[0, 1] < 1e-3
    low, high = held.difference_intervals
    assert low[0, 1] < 0 < high[0, 1]
    assert not held.differ.any()
    agreed = 0.5 + np.array([0.3, 0.0]) + rng.normal(0, 0.02, (3, 100, 2))
    assert Contest(agreed.mean(0), True, 0, models=agreed).differ[0, 1]


def test_only_some_of_the_entrants():
    values = scores(30, 4)
    models = np.stack([values, values + 0.1])
    part = Contest(values, True, 0, models=models, ends=(0.0, 1.0)).only([3, 1])
    assert_array_equal(part.values, values[:, [3, 1]])
    assert part.models is not None
    assert_array_equal(part.models[1], models[1][:, [3, 1]])
    assert part.ends == (0.0, 1.0)

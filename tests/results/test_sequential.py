"""Tests that may be looked at any time, against literal versions and by simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from benchmarks.simulation import DATA, Data, settled, stop_early
from numpy.testing import assert_allclose

from heatproof.results.sequential import BETS, SMALLEST_BET, STEP, UNSEEN, Race


def literal_capital(blocks: np.ndarray, counts: np.ndarray, size: int, margin: float, total: int) -> np.ndarray:
    """The largest capital against each of a pair's four hypotheses, bet by bet and block by block."""
    found = []
    for sign, of_margin in ((1, 0), (-1, 0), (-1, 1), (1, 1)):
        most = 1.0
        fortunes = [1.0 * np.exp(-((SMALLEST_BET * STEP**k) ** 2) * UNSEEN / size**2 / 2) for k in range(BETS)]
        before = 0.0
        for place, (difference, count) in enumerate(zip(blocks, counts, strict=True)):
            seen = (sign * difference + of_margin * margin * count) / size
            expected = -before / (total - place)  # what the hypothesis, all of them nothing, leaves for each to come
            for k in range(BETS):
                bet = SMALLEST_BET * STEP**k
                fortunes[k] *= np.exp(bet * (seen - expected) - bet**2 * (seen - expected) ** 2 / 2)
            before += seen
            most = max(most, float(np.mean(fortunes)))
        found.append(np.log(most))
    return np.array(found)


def test_capital_equals_a_literal_loop():
    rng = np.random.default_rng(0)
    sums, counts = rng.normal(0.3, 0.5, (25, 2)), rng.integers(5, 9, 25)
    race = Race([(0, 1), (0, 2)], 40, 8, margin=0.02)
    for row, count in zip(sums, counts, strict=True):
        race.add(row, np.full(2, count))
    for pair in range(2):
        assert_allclose(race.capital[:, pair], literal_capital(sums[:, pair], counts, 8, 0.02, 40), rtol=1e-9)


def run(values: np.ndarray, size: int, margin: float = 0.01) -> Race:
    """All blocks of scores (cases, methods), in this order, until it is settled."""
    pairs = list(combinations(range(values.shape[1]), 2))
    first, second = np.array(pairs).T
    sums = (values[:, first] - values[:, second]).reshape(-1, size, len(pairs)).sum(1)
    race = Race(pairs, len(sums), size, margin)
    for row in sums:
        if race.is_settled:
            break
        race.add(row, np.full(len(pairs), size))
    return race


def test_what_is_plain_is_settled_soon_and_rightly():
    rng = np.random.default_rng(0)
    values = rng.normal([0.3, 0.5, 0.5], 0.05, (200 * 32, 3))
    race = run(values, 32, margin=0.02)
    assert race.is_settled
    assert race.seen < 60
    assert (race.below.tolist(), race.above.tolist()) == ([True, True, False], [False, False, False])
    assert race.close.tolist() == [False, False, True]


def test_few_blocks_settle_nothing():
    """Nothing below 2 ln(20 · 2 / 0.05) blocks can, whatever the scores: so little is no ground for 95 %."""
    values = np.random.default_rng(0).normal([0.0, 1.0], 0.01, (13 * 8, 2))
    assert not run(values, 8).is_settled
    assert run(np.random.default_rng(0).normal([0.0, 1.0], 0.01, (60 * 8, 2)), 8).seen < 60


def test_no_pairs_are_never_settled():
    race = Race([], 10, 8)
    race.add(np.zeros(0), np.zeros(0))
    assert not race.is_settled


def test_equal_methods_are_close_or_open_but_not_apart():
    values = np.repeat(np.random.default_rng(0).random((400 * 8, 1)), 3, axis=1)
    race = run(values, 8)
    assert race.is_settled
    assert not (race.above | race.below).any()


def test_without_a_margin_ties_stay_open():
    values = np.repeat(np.random.default_rng(0).random((100 * 8, 1)), 2, axis=1)
    assert not run(values, 8, margin=0.0).is_settled


def test_blocks_without_scores_change_nothing_but_what_is_to_come():
    race = Race([(0, 1)], 30, 8)
    race.add(np.zeros(1), np.zeros(1))
    assert race.seen == 1
    assert_allclose(race.off, np.zeros((4, 1)))


def test_a_rare_case_is_not_taken_for_none():
    """The first hundred cases do not differ but by a hair, always the same way: one may yet turn it around."""
    race = Race([(0, 1)], 1000, 1, margin=0.0)
    for _ in range(100):
        race.add(np.array([0.001]), np.ones(1))
    assert not race.above.any()


@pytest.mark.parametrize("data", DATA, ids=[data.name for data in DATA])
def test_wrong_orders_are_rare(data: Data):
    """The small version of `python -m benchmarks simulation`."""
    (line,) = settled(np.random.default_rng(1), 8, [data])
    assert line.share == 0


def test_what_is_plain_saves_most_cases():
    _, saved, _ = stop_early(np.random.default_rng(0), DATA[0])
    assert saved > 0.8

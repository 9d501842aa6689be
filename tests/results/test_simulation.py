"""A small version of `python -m benchmarks simulation`, with fixed seeds: intervals cover, groups do not err."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.simulation import GROUPS, Line, groupings, means, ranks, skills


@pytest.mark.parametrize("n", [20, 60])
def test_intervals_of_means_cover(n):
    for line in means(np.random.default_rng(n), 1000, [n]):
        assert line.holds, str(line)


def test_intervals_of_ranks_and_skill_cover():
    rng = np.random.default_rng(0)
    for line in (*ranks(rng, 60, [30]), *skills(rng, 250, [30])):
        assert line.holds, str(line)


def test_groups_err_rarely():
    found = list(groupings(np.random.default_rng(0), 60, [25]))
    assert len(found) == len(GROUPS)
    for line in found:
        assert line.holds, str(line)


def test_what_is_out_of_range_is_seen():
    assert not Line("", 0.85, 1000, 0.93, 0.97).holds
    assert not Line("", 0.09, 1000, 0.0, 0.05).holds
    assert Line("", 0.06, 100, 0.0, 0.05).holds  # as far as so few tries can tell
    assert str(Line("x", 0.951, 1000, 0.93, 0.97)) == "| x | 95.1 % | 93 to 97 % | 1,000 |  |"

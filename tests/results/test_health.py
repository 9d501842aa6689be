"""Health checks that must pass, and those that must not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heatproof.results.health import Check, chance_may_differ
from judging import part, steps, verdict_of

FAMILIES = {"random": "floor", "oracle": "ceiling"}


def checks(scores, families=FAMILIES, **options) -> dict[str, Check]:
    given = {name: options.pop(name) for name in ("uniform", "facts", "target") if name in options}
    found = verdict_of([part(scores, floors=["random", "oracle"], **given)], families=families, **options)
    return {check.name.partition(":")[0]: check for check in found.checks}


def world(n: int = 200, chance: float = 0.1, ceiling: float = 1.0):
    rng = np.random.default_rng(0)
    return steps(n, 0.5, 0.8) | {"random": rng.normal(chance, 0.03, n), "oracle": np.full(n, ceiling)}


def test_all_is_well():
    found = checks(world(), repeats=0)
    assert {name: check.passed for name, check in found.items()} == {
        "failed units": True, "chance": True, "ceiling": True, "undefined scores": True, "size of the truth": True,
        "repeated cases": True, "sample size": True,
    }  # fmt: skip
    assert "Random maps score" in found["chance"].text


def test_random_maps_that_are_not_at_chance():
    assert checks(world(chance=0.13))["chance"].passed is False


def test_of_one_case_chance_cannot_be_told():
    found = checks(world(1))["chance"]
    assert found.passed is None
    assert "too few to tell" in found.text


@pytest.mark.parametrize("n", [2, 5, 50])
def test_how_far_chance_may_be_off(n):
    """Reference: Student's t at the level of four standard errors."""
    off = np.random.default_rng(n).normal(size=n)
    within = stats.t.ppf(stats.norm.cdf(4), n - 1) * stats.sem(off)
    assert chance_may_differ(off) == pytest.approx(within, abs=2e-6)


def test_false_alarms_are_rare_however_few_cases():
    rng = np.random.default_rng(0)
    alarms = [abs(off.mean()) > chance_may_differ(off) for off in rng.normal(size=(4000, 3))]
    assert np.mean(alarms) < 0.002


def test_a_ceiling_that_is_none():
    assert checks(world(ceiling=0.9))["ceiling"].passed is False


def test_failed_units_and_repeats():
    found = checks(world(), failures=3, repeats=4)
    assert found["failed units"].passed is False
    assert found["failed units"].text.startswith("3 unit(s)")
    assert found["repeated cases"].passed is False


def test_silence():
    scores = world()
    scores["b"] = np.where(np.arange(200) < 10, np.nan, scores["b"])
    found = checks(scores)["undefined scores"]
    assert found.passed is False
    assert "b has no usable map for 5.0 % of the cases" in found.text


def test_facts_about_the_network():
    facts = {"correct": np.arange(200) < 150, "probability": np.where(np.arange(200) < 120, 1.0, 0.5)}
    found = checks(world(), facts=facts, target="probability")
    assert (found["accuracy of the network"].passed, found["saturation"].passed) == (False, False)
    assert "75.0 % of the 200 cases" in found["accuracy of the network"].text
    assert "60.0 %" in found["saturation"].text


def test_cases_are_counted_once_however_many_networks():
    facts = {"correct": [True] * 30}
    parts = [part(steps(30, 0.4, 0.6, seed=seed), model=f"net-{seed}", facts=facts) for seed in range(3)]
    found = {check.name: check for check in verdict_of(parts).checks}
    assert "100.0 % of the 30 cases explained" in found["accuracy of the network"].text


def test_large_truths():
    assert checks(world(), uniform=0.7)["size of the truth"].passed is False


def test_a_sample_that_is_too_small():
    found = checks(steps(12, 0.5, 0.51, spread=0.1))["sample size"]
    assert found.passed is False
    assert "With 12 cases, " in found.text
    needed = int(found.text.partition("some ")[2].partition(" ")[0].replace(",", ""))
    assert needed > 12

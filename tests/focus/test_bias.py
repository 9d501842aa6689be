"""The statistics of the bias finder."""

from __future__ import annotations

import math
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from heatproof.errors import HeatproofError
from heatproof.results.bias import (
    class_means,
    find_pairs,
    lowest_pair,
    over_all_classes,
    p_below,
    pair_mosaics,
    pair_rows,
    partner_means,
    worst_mosaics,
)
from heatproof.results.bias_reach import mosaics_for, reach_of, spread_within, visible_gap
from heatproof.results.contest import holm


def mosaic(name: str, labels: str, shares: tuple[float, ...], target: str = "x") -> dict[str, object]:
    row: dict[str, object] = {"case": name, "target_class": target}
    row |= {f"label_{i}": label for i, label in enumerate(labels)}
    return row | {f"share_{i}": share for i, share in enumerate(shares)}


def test_holm_by_hand():
    """Reference: the definition, worked out: 0.01 x 4, 0.02 x 3, then 0.03 x 2 and 0.5, never falling."""
    assert holm(np.array([0.03, 0.01, 0.5, 0.02])).tolist() == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_as_the_step_down_procedure(p, level):
    """Reference: Holm's own words: from the smallest p on, reject while p < level / (tests left), then stop."""
    rejected = set()
    for rank, place in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if not p[place] * (len(p) - rank) < level:
            break
        rejected.add(place)
    assert {i for i, value in enumerate(holm(np.array(p))) if value < level} == rejected


def test_p_is_that_of_the_t_test_where_nothing_is_skewed():
    """Reference: SciPy's t-test, on values that lie symmetrically."""
    values = np.array([0.3, 0.5, 0.2, 0.4, 0.35, 0.35])
    assert p_below(values, 0.5) == pytest.approx(stats.ttest_1samp(values, 0.5, alternative="less").pvalue)
    assert p_below(values[:4], 0.5) == 1.0  # too few to tell
    assert p_below(np.zeros(6), 0.5) == 0.5**6  # no spread: the sign test
    assert p_below(np.ones(6), 0.5) == 1.0


@pytest.mark.parametrize("shape", [(2, 2), (0.5, 0.5), (4, 1), (1, 4)], ids=str)
def test_without_any_bias_pairs_are_rarely_named(shape):
    """Simulated: sets of 6 pairs of 24 shares with mean 0.5, humped, at the ends, skewed either way.

    A pair may be named in 5 % of the sets. A plain t-test names one in 13 % of those with a long upper tail.
    """
    a, b = shape
    shares = np.random.default_rng(0).beta(a, b, (1000, 6, 24)) - a / (a + b) + 0.5
    named = [min(holm(np.array([p_below(values, 0.5) for values in pairs]))) < 0.05 for pairs in shares]
    assert np.mean(named) < 0.07


def test_pairs_of_a_mosaic():
    """Worked out by hand: per tile 0.3 on the target, 0.1 and 0.3 on the others."""
    rows = {
        r["other_class"]: r for r in pair_rows(pl.DataFrame([mosaic("a", "yxzx", (0.1, 0.2, 0.3, 0.4))])).to_dicts()
    }
    assert set(rows) == {"y", "z"}
    assert rows["y"]["focus"] == rows["z"]["focus"] == pytest.approx(0.6)
    assert (rows["y"]["other_part"], rows["y"]["remaining_part"]) == pytest.approx((0.1, 0.3))
    assert rows["y"]["share"] == pytest.approx(0.3 / 0.4)
    assert rows["z"]["share"] == pytest.approx(0.5)


def test_pairs_of_odd_mosaics():
    """Both others of one class; one target among eight; no relevance on the pair; none at all."""
    (row,) = pair_rows(pl.DataFrame([mosaic("a", "xyyx", (0.4, 0.2, 0.2, 0.2))])).to_dicts()
    assert row["share"] == pytest.approx(0.3 / 0.5)
    assert row["remaining_part"] == pytest.approx(0)
    nine = {
        r["other_class"]: r for r in pair_rows(pl.DataFrame([mosaic("a", "xyyyzzzzz", (0.2,) + (0.1,) * 8)])).to_dicts()
    }
    assert nine["y"]["share"] == pytest.approx(0.2 / 0.3)
    assert nine["z"]["other_part"] == pytest.approx(0.5)
    none = pair_rows(pl.DataFrame([mosaic("a", "xyzx", (0.0, 0.0, 1.0, 0.0)), mosaic("b", "xyzx", (math.nan,) * 4)]))
    values = {(row["case"], row["other_class"]): row["share"] for row in none.to_dicts()}
    assert values["a", "z"] == 0
    assert all(math.isnan(values[key]) for key in (("a", "y"), ("b", "y"), ("b", "z")))


def drawn_pairs() -> pl.DataFrame:
    rng = random.Random(0)
    middles = {("a", "b"): 0.3, ("a", "c"): 0.5, ("b", "a"): 0.8}
    return pl.DataFrame(
        [
            {"case": f"{number:02d}", "target_class": target, "other_class": other, "focus": middle}
            | {"other_part": 1 - middle, "remaining_part": 0.0, "share": middle + rng.gauss(0, 0.1)}
            for (target, other), middle in middles.items()
            for number in range(20)
        ]
    )


def test_only_pairs_that_are_surely_low_are_found():
    table = find_pairs(drawn_pairs())
    assert table.select("target_class", "other_class").rows() == [("a", "b"), ("a", "c"), ("b", "a")]
    assert table["found"].to_list() == [True, False, False]
    assert find_pairs(drawn_pairs(), below=0.7)["found"].to_list() == [True, True, False]
    first = table.row(0, named=True)
    assert first["share_low"] < first["share"] < first["share_high"] < 0.5
    assert first["focus"] == pytest.approx(0.3)


def few_pairs(*sizes: int) -> pl.DataFrame:
    """Pairs of a with other classes, of so many mosaics each."""
    rng = random.Random(1)
    return pl.DataFrame(
        [
            {"case": f"{other}{number}", "target_class": "a", "other_class": f"other {other}", "focus": 0.4}
            | {"other_part": 0.5, "remaining_part": 0.1, "share": 0.2 + rng.gauss(0, 0.02)}
            for other, size in enumerate(sizes)
            for number in range(size)
        ]
    )


def test_pairs_with_too_few_mosaics_are_not_tested_and_cost_the_others_nothing():
    """Reference: statsmodels' Holm, over those that were tested alone."""
    table = find_pairs(few_pairs(3, 12, 4, 9)).sort("n")
    assert table["p"].is_null().to_list() == table["p_corrected"].is_null().to_list() == [True, True, False, False]
    assert table["found"].to_list() == [False, False, True, True]
    adjusted = multipletests(table["p"].drop_nulls().to_numpy(), method="holm")[1]
    assert table["p_corrected"].drop_nulls().to_list() == pytest.approx(adjusted.tolist())


@pytest.mark.parametrize("n", [5, 12, 60])
@pytest.mark.parametrize("level", [0.05, 0.05 / 30])
def test_what_could_have_been_seen(n, level):
    """Reference: statsmodels' power of a t-test; and back from the gap to the number."""
    effect = TTestPower().solve_power(nobs=n, alpha=level, power=0.8, alternative="larger")
    assert visible_gap(n, 0.2, level) == pytest.approx(0.2 * effect, rel=1e-3)
    assert mosaics_for(visible_gap(n, 0.2, level) * 1.0001, 0.2, level) == n


def test_how_often_a_bias_of_that_size_is_found():
    """Simulated: pairs whose true share lies just as low as is said; found four times of five, by our own test."""
    gap = visible_gap(20, 0.1, 0.05)
    shares = np.random.default_rng(2).normal(0.5 - gap, 0.1, (2000, 20))
    assert np.mean([p_below(values, 0.5) < 0.05 for values in shares]) == pytest.approx(0.8, abs=0.04)


def test_the_reach_of_a_test():
    rows = few_pairs(3, 12, 4, 9)
    found = reach_of(rows, find_pairs(rows), 0.5)
    assert (found.pairs, found.tested, found.untested, found.usual) == (4, 2, 2, 10.5)
    spreads = [rows.filter(other_class=name)["share"].to_numpy() for name in rows["other_class"].unique()]
    pooled = sum(((s - s.mean()) ** 2).sum() for s in spreads) / sum(len(s) - 1 for s in spreads)
    assert spread_within(rows) == pytest.approx(pooled**0.5)
    assert found.seen == pytest.approx(0.5 - visible_gap(10, pooled**0.5, 0.05 / 2))
    assert found.sought == pytest.approx(0.4)
    nothing = few_pairs(1, 1, 2)
    none = reach_of(nothing, find_pairs(nothing), 0.5)
    assert (none.tested, none.seen, none.first) == (0, None, 5)
    single = few_pairs(1, 1)
    assert spread_within(single) is None
    unknown = reach_of(single, find_pairs(single), 0.5)
    assert unknown.at_worst
    assert unknown.needed == mosaics_for(0.1, 0.5, 0.05 / 2)


@pytest.mark.parametrize(
    "options", [{"below": 0.0}, {"below": 1.0}, {"level": 0.0}, {"level": 5.0}, {"below": math.nan}]
)
def test_limits_out_of_range(options):
    (name,) = options
    with pytest.raises(HeatproofError, match=f"{name} must lie between 0 and 1"):
        find_pairs(drawn_pairs(), **options)


def test_nothing_to_compare():
    empty = pair_rows(pl.DataFrame([mosaic("a", "xyzx", (math.nan,) * 4)]))
    with pytest.raises(HeatproofError, match="no mosaic has positive relevance"):
        find_pairs(empty)


def test_means_of_classes_count_each_mosaic_once():
    """By hand: mosaic a shows two other classes and b one; the mean of x is that of two mosaics."""
    shares = pl.DataFrame(
        [
            mosaic("a", "yxzx", (0.1, 0.2, 0.3, 0.4)),
            mosaic("b", "yxyx", (0.0, 0.5, 0.0, 0.5)),
            mosaic("c", "yxyx", (math.nan,) * 4),
            mosaic("d", "yxyx", (0.2, 0.4, 0.2, 0.2), target="y"),
        ]
    )
    table = class_means(shares)
    assert table.select("target_class", "n").rows() == [("y", 1), ("x", 2)]
    assert table["focus"].to_list() == pytest.approx([0.4, 0.8])
    assert table.row(0)[3:] == (None, None)  # of one mosaic there is no interval
    assert table["focus_low"][1] == 0.0  # Student's t of two is wide: 0.8 ± 2.5, cut to what Focus can be
    assert table["focus_high"][1] == 1.0


def test_focus_over_all_classes_beside_chance():
    """By hand: two targets of four tiles, then one of four; 0.6 and 0.5, where chance gives 0.5 and 0.25."""
    two = [mosaic("a", "yxzx", (0.1, 0.2, 0.3, 0.4)), mosaic("b", "xyyz", (0.5, 0.1, 0.2, 0.2))]
    assert not over_all_classes(pl.DataFrame(two))["follows_class"]  # two mosaics make nothing sure
    shares = pl.DataFrame([one | {"case": f"{one['case']}{k}"} for one in two for k in range(5)])
    assert over_all_classes(shares) == {
        "focus": pytest.approx(0.55),
        "chance": pytest.approx(0.375),
        "follows_class": True,
    }
    even = pl.DataFrame([mosaic("a", "yxzx", (0.3, 0.1, 0.4, 0.2)), mosaic("b", "yxzx", (0.2, 0.4, 0.1, 0.3))])
    assert not over_all_classes(even)["follows_class"]


def test_the_worst_mosaics_of_found_pairs():
    pairs = drawn_pairs()
    worst = worst_mosaics(pairs, find_pairs(pairs).filter("found"), 3)
    lowest = sorted(pairs.filter(target_class="a", other_class="b")["share"])[:3]
    assert worst["share"].to_list() == lowest
    assert worst_mosaics(pairs, find_pairs(pairs).clear(), 3).is_empty()


def shown_mosaics() -> pl.DataFrame:
    """Targets x and y; x is low, and lowest beside z, though its lowest single mosaic is one beside w."""
    return pl.DataFrame(
        [
            mosaic("a", "xxzz", (0.2, 0.2, 0.3, 0.3)),
            mosaic("b", "xxzw", (0.2, 0.3, 0.3, 0.2)),
            mosaic("c", "xxww", (0.1, 0.1, 0.4, 0.4)),
            mosaic("d", "xxww", (0.5, 0.4, 0.1, 0.0)),
            mosaic("e", "xxwy", (0.4, 0.4, 0.1, 0.1)),
            mosaic("f", "yyxz", (0.4, 0.5, 0.1, 0.0), target="y"),
            mosaic("g", "yyvv", (math.nan,) * 4, target="y"),
        ]
    )


def test_the_lowest_class_and_its_lowest_partner():
    """Section 6 of the paper, by hand: means of x 0.56 and y 0.9; of x beside z 0.45, w 0.6, y 0.8."""
    shares = shown_mosaics()
    pairs, classes = pair_rows(shares), class_means(shares)
    assert dict(classes.select("target_class", "focus").iter_rows()) == pytest.approx({"x": 0.56, "y": 0.9})
    partners = partner_means(pairs, "x")
    assert partners.select("other_class", "n").rows() == [("z", 2), ("w", 4), ("y", 1)]
    assert partners["focus"].to_list() == pytest.approx([0.45, 0.6, 0.8])
    assert lowest_pair(pairs, classes) == ("x", "z")
    assert lowest_pair(pairs, classes, partner="w") == ("x", "w")
    assert lowest_pair(pairs, classes, "y") == ("y", "x")  # level with z, and before it by name
    assert pair_mosaics(pairs, "x", "w")["case"].to_list() == ["c", "b", "e", "d"]


@pytest.mark.parametrize(
    ("target", "partner", "message"),
    [
        ("q", None, "unknown class for target 'q'"),
        (None, "q", "unknown class for partner 'q'"),
        ("z", None, "no mosaic of target z has positive relevance, or there is none; targets: x, y"),
        ("x", "x", "target and partner are both x"),
        ("y", "w", "no mosaic of target y shows w and has positive relevance; beside it are shown: x, z"),
        ("y", "v", "no mosaic of target y shows v and has positive relevance"),
    ],
)
def test_pairs_that_cannot_be_shown(target, partner, message):
    shares = shown_mosaics()
    with pytest.raises(HeatproofError, match=message):
        lowest_pair(pair_rows(shares), class_means(shares), target, partner)

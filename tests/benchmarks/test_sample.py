"""Which cases a run keeps: of every kind as many, drawn by the seed, and no more than there is room for."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from benchmarks.many_cases import Discs
from hypothesis import given
from hypothesis import strategies as st

import heatproof
from heatproof.benchmarks.sample import FEWEST, PICTURES, pictures_kept, pictures_shown, stratified
from heatproof.run_folder import RunFolder
from run_files import forget

STRATA = st.dictionaries(st.text(min_size=1, max_size=4), st.tuples(st.booleans(), st.sampled_from("abc")), max_size=40)


@given(STRATA, st.integers(0, 50), st.integers(0, 3))
def test_each_stratum_has_as_many_as_any_other_as_far_as_it_goes(strata, count, seed):
    chosen = stratified(strata, count, seed)
    assert len(chosen) == len(set(chosen)) == min(count, len(strata))
    assert set(chosen) <= set(strata)
    there, taken = Counter(strata.values()), Counter(strata[case] for case in chosen)
    most = max(taken.values(), default=0)
    for stratum, size in there.items():
        assert taken[stratum] >= min(size, most - 1)


@given(STRATA, st.integers(0, 3))
def test_fewer_are_the_first_of_more_and_the_order_of_the_cases_plays_no_part(strata, seed):
    whole = stratified(strata, len(strata), seed)
    assert stratified(strata, 5, seed) == whole[:5]
    assert stratified(dict(reversed(strata.items())), len(strata), seed) == whole


def test_the_seed_draws_and_rounds_go_through_the_strata():
    strata = {f"case-{place}": place % 3 for place in range(300)}
    first, second = (stratified(strata, 30, seed) for seed in (0, 1))
    assert first != second
    assert [strata[case] for case in first] == [0, 1, 2] * 10
    # known once and for all, so that a run keeps the same cases on every machine
    assert first[:3] == ["case-45", "case-10", "case-71"]


@pytest.mark.parametrize(
    ("side", "kept", "most"), [(32, PICTURES, 2000), (128, PICTURES, 2000), (224, 10, 668), (448, FEWEST, 167)]
)
def test_of_large_pictures_fewer_are_kept(side, kept, most):
    assert (pictures_kept(side, side), pictures_shown(side, side)) == (kept, most)


def test_a_run_keeps_its_sample_with_channels_added_up_or_everything(tmp_path):
    """Reference: the maps of the run that keeps all, whose sum over channels is what the other stores."""
    some = heatproof.run(Discs(count=30, sample=7), explainers="gradient", out=tmp_path / "some")
    every = heatproof.run(Discs(count=30, sample=7), explainers="gradient", out=tmp_path / "all", keep_heatmaps=True)
    few, many = (run.files.heatmaps("gradient@logit", "brightest") for run in (some, every))
    assert list(few) == list(some.story.examples) == list(every.story.examples)[:7]
    assert len(many) == len(every.story.examples) == len(every.files.examples()["ids"]) == 30
    for case, heat in few.items():
        assert heat.shape == (1, 32, 32)
        assert many[case].shape == (3, 32, 32)
        assert heat[0] == pytest.approx(many[case].sum(0), rel=1e-6)


def test_the_shipped_benchmarks_keep_right_and_wrong_of_each_class(tmp_path):
    svea = heatproof.run("svea", explainers="gradient", target="logit", limit=2000, out=tmp_path / "svea")
    seen = svea.scores().filter((pl.col("metric") == "drop") & pl.col("case").is_in(list(svea.story.examples)))
    assert len(seen) == 100
    assert seen["correct"].sum() < len(seen)
    assert set(seen.filter("correct")["label"]) == set(range(10))
    assert [fact.column for fact in svea.story.facts if fact.filters] == ["label", "correct"]
    focus = heatproof.run("focus", explainers="grad_cam", per_class=5, out=tmp_path / "focus")
    shown = focus.scores().filter(pl.col("case").is_in(list(focus.story.examples))).unique("case")
    assert len(shown) == 24
    assert shown["target_class"].n_unique() == focus.scores()["target_class"].drop_nulls().n_unique()
    for run in (svea, focus):
        assert sum(path.stat().st_size for path in run.files.path("heatmaps").rglob("*.*")) < 2e6


def test_what_the_page_says_of_them_is_kept_with_them(tmp_path):
    """Reference: all scores. A folder without that file gives the same page."""
    run = heatproof.run(Discs(count=12), explainers="gradient,random", out=tmp_path / "r")
    kept = RunFolder(tmp_path / "r").example_scores()
    rows = run.scores().filter(pl.col("metric").is_in(["mass_accuracy", "rank_accuracy"]))
    axes = ("explainer", "case", "metric")
    assert kept.sort(axes).select(rows.columns).equals(rows.sort(axes))
    before = run.report().read_text(encoding="utf-8")
    forget(run.folder, "heatmaps/examples.parquet")
    assert heatproof.load_run(run.folder).report().read_text(encoding="utf-8") == before

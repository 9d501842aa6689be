"""Runs until they are settled: the same cases and scores on every engine, resumed or not."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import heatproof
from heatproof.cases import Chunk
from heatproof.engine.plan import Unit
from heatproof.engine.settling import blocks_of, deciding, pairs_of
from heatproof.errors import HeatproofError
from heatproof.story import Column, MetricWords, Story

COST = ["seconds", "passes", "memory"]
SIGNALS = 240


def later(model, inputs, target):
    """Relevance at the end of a signal: far from what the gradient says."""
    return inputs.abs() * (inputs.new_ones(inputs.shape).cumsum(-1) > 20)


def scores(run: heatproof.Run) -> pl.DataFrame:
    return run.scores().filter(~pl.col("metric").is_in(COST)).sort(pl.all().exclude("value"))


def run_until(toy, out: Path, signals: int = SIGNALS, margin: float = 0.05, **options) -> heatproof.Run:
    """A run of the toy benchmark."""
    given = {"explainers": ["gradient", later, "integrated_gradients:steps=3", "random"], "target": "logit"}
    given |= {"margin": margin}
    return heatproof.run(toy(signals=signals), out=out, **given | options)


@pytest.fixture(scope="module")
def run_toy(toy):
    return partial(run_until, toy)


@pytest.fixture(scope="module")
def whole(run_toy, tmp_path_factory):
    return run_toy(tmp_path_factory.mktemp("whole") / "run", engine="local")


@pytest.fixture(scope="module")
def stopped(run_toy, tmp_path_factory):
    return run_toy(tmp_path_factory.mktemp("stopped") / "run", engine="local", until_settled=True)


def test_it_stops_early_and_says_so(whole, stopped):
    told = stopped.manifest["settled"]
    assert told["settled"]
    assert told["explained"] + told["saved"] == told["cases"] == SIGNALS
    assert told["saved"] > 0
    assert stopped.leaderboard()["n"].unique().to_list() == [told["explained"]]
    assert (told["decided_by"], told["margin"], told["pairs"]) == (["lateness", "", ""], 0.05, 3)
    text = f"Stopped after {told['explained']:,} of {SIGNALS} cases, {told['saved']:,} saved"
    assert text in told["text"]
    assert text in (stopped.folder / "leaderboard.md").read_text()
    assert text in (stopped.folder / "report.html").read_text()
    judged = stopped.verdict.contests[0]
    assert (judged.cases, judged.clusters) == (told["explained"], told["blocks"])
    assert "settled" not in whole.manifest


def test_the_scores_are_those_of_the_whole_run(whole, stopped):
    """To the last bit, case by case; and blocks are not the first ones, but drawn."""
    rows = scores(stopped)
    assert_frame_equal(rows, scores(whole).join(rows.select("case").unique(), on="case", how="semi"), check_exact=True)
    explained = sorted(int(case) for case in rows["case"].unique())
    assert explained != list(range(len(explained)))


def test_the_order_is_that_of_the_whole_run(whole, stopped):
    means = [dict(run.leaderboard().select("explainer", "mean").rows()) for run in (whole, stopped)]
    for one in means[0]:
        for other in means[0]:
            if abs(means[0][one] - means[0][other]) >= 0.05:
                assert (means[0][one] > means[0][other]) == (means[1][one] > means[1][other])


def assert_same(one: heatproof.Run, other: heatproof.Run) -> None:
    assert one.manifest["settled"] == other.manifest["settled"]
    assert_frame_equal(scores(one), scores(other), check_exact=True)
    measured = ["seconds_per_case", "peak_memory"]
    assert_frame_equal(one.leaderboard().drop(measured), other.leaderboard().drop(measured))


def test_worker_processes_stop_at_the_same_block(run_toy, stopped, tmp_path):
    """A Ray cluster does too: tests/executors/test_cluster.py."""
    assert_same(run_toy(tmp_path / "run", engine="processes", jobs=2, until_settled=True), stopped)


def parts(run: heatproof.Run) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in run.folder.glob("scores/*/*.parquet")}


def test_a_settled_run_is_resumed_by_doing_nothing_and_goes_on_without_the_flag(run_toy, whole, tmp_path):
    first = run_toy(tmp_path / "run", until_settled=True)
    before, told = parts(first), first.manifest["settled"]
    again = run_toy(tmp_path / "run", until_settled=True)
    assert parts(again) == before
    assert again.manifest["settled"] == told
    assert "cost" not in again.manifest
    rest = run_toy(tmp_path / "run")
    assert {path: written for path, written in parts(rest).items() if path in before} == before
    assert "settled" not in rest.manifest
    assert_frame_equal(scores(rest), scores(whole), check_exact=True)
    assert not any("Stopped after" in note for note in rest.story.notes)
    once_more = run_toy(tmp_path / "run", until_settled=True)  # all is there, and what would have settled it still does
    assert once_more.manifest["settled"] == told
    assert_frame_equal(scores(once_more), scores(first), check_exact=True)


def test_parts_of_an_interrupted_run_count_only_if_their_block_is_drawn(run_toy, stopped, tmp_path):
    """Some explainers have further blocks already: they are neither lost nor looked at."""
    from shutil import copytree

    whole = run_toy(tmp_path / "run")
    for path in list(parts(whole))[::3]:
        path.unlink()
    copytree(tmp_path / "run", tmp_path / "copy")
    again = run_toy(tmp_path / "copy", until_settled=True)
    assert again.manifest["settled"] == stopped.manifest["settled"]
    assert_frame_equal(scores(again), scores(stopped), check_exact=True)
    assert len(parts(again)) > len(parts(stopped))


def test_another_seed_draws_other_blocks(run_toy, stopped, tmp_path):
    other = run_toy(tmp_path / "run", until_settled=True, seed=1)
    assert list(other.manifest["settled"]["chunks"]) != list(stopped.manifest["settled"]["chunks"])


def test_what_cannot_be_settled_runs_to_its_end(run_toy, tmp_path):
    few = run_toy(tmp_path / "few", signals=60, until_settled=True)
    assert (few.manifest["settled"]["settled"], few.manifest["settled"]["saved"]) == (False, 0)
    assert "was not settled before all 60 cases were explained" in few.story.notes[0]
    alone = run_toy(tmp_path / "alone", explainers="gradient,random", until_settled=True)
    assert alone.manifest["settled"]["text"].startswith("There are no two methods to be put in order, so all 240 cases")
    strict = run_toy(tmp_path / "strict", until_settled=True, margin=0.0)
    assert not strict.manifest["settled"]["settled"]  # two of the methods are equal, and no margin lets that pass


def broken(model, inputs, target):
    """Fails wherever the first signal of a batch begins low."""
    if inputs[0, 0, 0] < 0.3:
        raise ValueError("not this one")
    return later(model, inputs, target)


def test_blocks_in_which_an_explainer_fails_count_too(run_toy, tmp_path):
    run = run_toy(tmp_path / "run", explainers=["gradient", broken, "random"], until_settled=True)
    told = run.manifest["settled"]
    assert told["settled"]
    assert run.failures()
    assert {failure["chunk"] for failure in run.failures()} <= set(told["chunks"])


def test_scores_of_the_whole_data_set_are_not_looked_at(tmp_path):
    """SVEA's first metric needs all signals; the next one decides, and two test chunks settle nothing."""
    run = heatproof.run("svea", limit=60, explainers="gradient,lrp,random", until_settled=True, out=tmp_path / "r")
    assert run.manifest["settled"]["decided_by"] == ["drop", "", ""]
    assert "decided by drop" in run.story.notes[0]


def test_the_first_column_that_cases_have_decides():
    rows = [pl.DataFrame({"metric": ["b", "b", "a"], "ground_truth": ["t", "t", ""], "pooling": ["q", "p", ""]})]
    words = tuple(MetricWords(name, name, name) for name in ("whole", "b", "a"))
    assert deciding(Story("", "", "", words, poolings=("p", "q")), rows) == ("b", "t", "p")
    assert deciding(Story("", "", "", words, (Column("b", "t", "q"),), ("p", "q")), rows) == ("b", "t", "q")
    assert deciding(Story("", "", "", words[:1]), rows) is None


def test_pieces_belong_to_the_chunk_they_are_cut_from(toy):
    opened = toy(signals=20).open(0)
    units = [Unit(folder, folder, "", chunk) for folder, most in (("a", 8), ("b", 3)) for chunk in opened.chunks(most)]
    found = blocks_of(opened.chunks(), units)
    assert opened.chunks(3)[:4] == [Chunk("000000", "net", 3), Chunk("000003", "net", 3), Chunk("000006", "net", 2),
                                    Chunk("000008", "net", 3)]  # fmt: skip
    assert [found[chunk] for chunk in opened.chunks(3)] == ["000000"] * 3 + ["000008"] * 3 + ["000016"] * 2
    assert [found[chunk] for chunk in opened.chunks()] == [chunk.name for chunk in opened.chunks()]


@pytest.mark.parametrize("most", range(1, 10))
def test_pieces_are_even_and_cover_every_case(toy, most):
    chunks = toy(signals=21).open(0).chunks(most)
    places = [int(chunk.name) + k for chunk in chunks for k in range(chunk.cases)]
    assert places == list(range(21))
    assert max(chunk.cases for chunk in chunks) <= most


def test_methods_of_one_quantity_are_compared():
    assert pairs_of([("logit", "a"), ("probability", "a"), ("logit", "b"), ("", "c")]) == [
        (0, 2),
        (0, 3),
        (1, 3),
        (2, 3),
    ]


def test_a_margin_that_is_none_is_told():
    with pytest.raises(HeatproofError, match="margin must be at least 0 and below 1"):
        heatproof.run("svea", until_settled=True, margin=1.5)


def test_the_command_line(tmp_path):
    file = Path(__file__).parents[1] / "toy_benchmark.py"
    words = f"--signals {SIGNALS} --explainers gradient,integrated_gradients:steps=3,random --target logit --quiet"
    how = "--until-settled --margin 0.05 --out r"
    command = [sys.executable, "-c", "from heatproof.cli import main; main()", "run", f"{file}:Toy"]
    done = subprocess.run([*command, *words.split(), *how.split()], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Stopped after" in done.stdout
    assert heatproof.load_run(tmp_path / "r").manifest["settled"]["margin"] == 0.05

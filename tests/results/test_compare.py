"""Runs side by side: numbers against the runs' own rows, and every way in which runs do not fit together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import heatproof
from heatproof.api import compare, evaluate
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.errors import HeatproofError
from heatproof.results.compare import CaseScores, differences, partner
from heatproof.story import MetricWords
from own_lines import own
from run_files import write_manifest
from tiny_datasets import write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=14, per_image=3)
    make_masks(open_dataset(folder), (24, 24))
    return folder


def score(world, out, seed, cases=slice(None), **options):
    """Heatmaps that are noise over a little of the truth, scored."""
    data = open_dataset(world)
    index = [question.index for question in data.questions("simple")][cases]
    masks = data.masks("simple", "single_object").batch(index)
    noise = np.random.default_rng(seed).random(masks.shape)
    maps = out.parent / f"{out.name}-maps"
    maps.mkdir()
    for place, k in enumerate(index):
        np.save(maps / f"{k}.npy", noise[place] + (1 + seed) * masks[place])
    return evaluate(maps, dataset=world, out=out, poolings=["max_norm", "pos_l2_norm_sq"], **options)


@pytest.fixture(scope="module")
def runs(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return score(world, folder / "a", 0), score(world, folder / "b", 1), score(world, folder / "c", 2, slice(5, 20))


def scores_by_case(run, **chosen):
    rows = own(run.scores()).filter(pl.all_horizontal(*[pl.col(name) == value for name, value in chosen.items()]))
    return dict(zip(rows["case"], rows["value"], strict=True))


def pairs_by_picture(run, first, second):
    """The differences on the same cases, and the picture of each."""
    pictures = dict(run.scores().select("case", "picture").unique().iter_rows())
    cases = sorted(case for case in set(first) & set(second) if not np.isnan(second[case] - first[case]))
    return np.array([second[case] - first[case] for case in cases]), [pictures[case] for case in cases]


def test_differences_are_those_of_the_same_cases(runs):
    """Reference: differences by case from the rows; SciPy's bootstrap over pictures, with t and the tail's reach."""
    found = compare(runs)
    for name, other in (("b", runs[1]), ("c", runs[2])):
        for metric in ("mass_accuracy", "rank_accuracy"):
            chosen = {"metric": metric, "ground_truth": "single_object", "pooling": "max_norm"}
            first, second = scores_by_case(runs[0], **chosen), scores_by_case(other, **chosen)
            pairs, pictures = pairs_by_picture(runs[0], first, second)
            row = own(found.table).filter(pl.col("run") == name, **chosen).row(0, named=True)
            assert row["cases"] == len(pairs) == len(second)
            assert row["difference"] == pytest.approx(pairs.mean())
            assert row["mean"] == pytest.approx(np.mean(list(second.values())))
            assert row["superior"] == pytest.approx(np.mean(np.sign(pairs) / 2 + 0.5))
            sums = np.array([[(p := pairs[np.array(pictures) == k]).sum(), len(p)] for k in sorted(set(pictures))]).T
            expected = stats.bootstrap(
                tuple(sums), lambda x, n, axis: x.sum(axis) / n.sum(axis), paired=True, method="percentile",
                n_resamples=4000, rng=1,
            ).confidence_interval  # fmt: skip
            count = sums.shape[1]
            factor = (count / (count - 1)) ** 0.5 * stats.t.ppf(0.975, count - 1) / stats.norm.ppf(0.975)
            low, high = (pairs.mean() + factor * (end - pairs.mean()) for end in expected)
            if not pairs.any():  # both are best everywhere: a share of which none of so many pictures was seen
                end = stats.binomtest(0, sums.shape[1]).proportion_ci(0.95, method="exact").high
                assert (row["difference_low"], row["difference_high"]) == pytest.approx((-end, end))
                continue
            off = sums[0] - sums[1] * pairs.mean()
            tail = (stats.norm.ppf(0.975) ** 2 + 2) / 6 * (off**3).sum() / (off**2).sum() / len(pairs)
            low, high = low + min(tail, 0.0), high + max(tail, 0.0)
            assert row["difference_low"] == pytest.approx(low, abs=0.15 * (high - low))
            assert row["difference_high"] == pytest.approx(high, abs=0.15 * (high - low))


def test_what_is_said_is_the_randomisation_test_after_holm(runs):
    """References: SciPy's test by random signs over pictures, statsmodels' Holm over all lines that were tested."""
    found = compare(runs)
    tested = found.tested
    assert set(tested["run"]) == {"b", "c"}
    for row in tested.iter_rows(named=True):
        chosen = {name: row[name] for name in ("metric", "ground_truth", "pooling")}
        other = dict(zip("abc", runs, strict=True))[row["run"]]
        pairs, pictures = pairs_by_picture(runs[0], scores_by_case(runs[0], **chosen), scores_by_case(other, **chosen))
        sums = np.array([pairs[np.array(pictures) == picture].sum() for picture in sorted(set(pictures))])
        expected = stats.permutation_test(
            (sums,), lambda x, axis: x.sum(axis), permutation_type="samples", n_resamples=20000, rng=0, vectorized=True
        )
        assert row["p"] == pytest.approx(expected.pvalue, abs=0.02)
    adjusted = multipletests(tested["p"].to_numpy(), method="holm")[1]
    np.testing.assert_allclose(tested["p_adjusted"].to_numpy(), adjusted)
    sure = tested.filter(pl.col("p_adjusted") < 0.05)
    assert set(sure.filter(pl.col("difference") > 0)["said"]) == {"better"}
    assert set(tested.filter(pl.col("p_adjusted") >= 0.05)["said"]) <= {"cannot be told apart"}
    assert (found.table["said"].null_count(), found.regressions.height) == (found.table.height - tested.height, 0)


def test_whoever_is_worse_is_called_so_and_only_then_fails(runs, tmp_path):
    """b has more of the truth than a: in this order nothing is worse, in the other b's place is taken by less."""
    better, worse = (tmp_path / name for name in ("better", "worse"))
    words = [str(runs[0].folder), str(runs[1].folder), "--fail-on-regression", "--out"]
    up, down = command(*words, str(better)), command(words[1], words[0], *words[2:], str(worse))
    assert (up.returncode, down.returncode) == (0, 1), up.stderr + down.stderr
    assert "b against a: of 6 scores (1 method, 6 metrics), 3 are better and 3 cannot be told apart" in up.stdout
    assert "a-maps (single_object, pos_l2_norm_sq) is worse: Mass accuracy -" in down.stdout
    page = (worse / "compare.html").read_text(encoding="utf-8")
    assert "a against b: of 6 scores" in page
    assert "<b>worse</b>" in page


def test_the_same_scores_are_no_regression(runs, tmp_path):
    """Nor are those that another machine has rounded otherwise, always the same way."""
    shutil.copytree(runs[0].folder, tmp_path / "again")
    result = command(str(runs[0].folder), str(tmp_path / "again"), "--fail-on-regression", "--out", str(tmp_path / "o"))
    assert result.returncode == 0, result.stderr
    assert "6 cannot be told apart (the same in both)" in result.stdout
    places, names = np.arange(30), np.array([f"{k:02}" for k in range(30)])
    scores = np.random.default_rng(0).random(30)
    before, after = (
        CaseScores(
            names, frozenset(["x"]), {("m", "", ""): (places, {("x", ""): values})}, frozenset(["x"]), [("m", "", "")]
        )
        for values in (scores, scores - 1e-8)
    )
    found = differences(before, after, 0, {"m": MetricWords("m", "M", "")})
    assert found["p"].to_list() == [1.0]
    assert found.select("difference", "difference_low", "difference_high").row(0) == (0.0, 0.0, 0.0)


def test_hits_that_are_the_same_may_yet_differ():
    """Reference: SciPy's exact interval of a share of which none of 30 was seen, to both sides."""
    places, names = np.arange(30), np.array([f"{k:02}" for k in range(30)])
    hits = (np.random.default_rng(0).random(30) < 0.4) * 1.0
    scores = CaseScores(names, frozenset(["x"]), {("m", "", ""): (places, {("x", ""): hits})})
    (row,) = differences(scores, scores, 0, {"m": MetricWords("m", "M", "")}).to_dicts()
    exact = stats.binomtest(0, 30).proportion_ci(0.95, method="exact").high
    assert (row["difference_low"], row["difference"], row["difference_high"]) == pytest.approx((-exact, 0.0, exact))


def test_a_regression_that_could_not_be_seen_is_an_error(runs, tmp_path):
    """Code 2, as bad input has it: no cases in common is not the same as nothing found."""
    folder = write_world(tmp_path / "other", scenes=6, per_image=6, seed=9)
    make_masks(open_dataset(folder), (24, 24))
    other = score(folder, tmp_path / "d", 1)
    words = [str(runs[0].folder), str(other.folder), "--out", str(tmp_path / "out")]
    assert command(*words).returncode == 0
    failed = command(*words, "--fail-on-regression")
    assert failed.returncode == 2
    assert "a regression could not have been seen" in failed.stderr
    assert "Nothing of d could be compared with a" in failed.stdout
    assert command(str(runs[0].folder), str(tmp_path), "--fail-on-regression").returncode == 2


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_tables_fold_where_the_terminal_is_narrow(runs, tmp_path, columns):
    """Nothing is cut, and every column is there, whatever the width."""
    shown = command(*(str(run.folder) for run in runs), "--out", str(tmp_path / "o"), columns=columns).stdout
    tables = shown.partition("b against a")[0]
    assert max(map(len, tables.splitlines())) <= columns
    assert "…" not in shown
    for word in ("minus a", "b is", "c is", "better"):
        assert word in tables


def command(*words, columns=150):
    return subprocess.run(
        [sys.executable, "-c", "from heatproof.cli import main; main()", "compare", *words],
        capture_output=True, text=True, env=os.environ | {"COLUMNS": str(columns)},
    )  # fmt: skip


def test_means_are_the_leaderboards_and_the_first_run_has_no_difference(runs):
    table = compare(runs).table
    assert table["run"].unique(maintain_order=True).to_list() == ["a", "b", "c"]
    assert table.filter(run="a")["difference"].null_count() == len(table) // 3
    for run in runs:
        board = run.leaderboard().filter(subset="all")
        own = table.filter(run=run.folder.name)
        joined = own.join(board, on=["metric", "ground_truth", "pooling", "explainer"], suffix="_there")
        assert len(joined) == len(own) == len(board)
        for number in ("mean", "ci_low", "ci_high", "n"):
            assert joined[number].to_list() == joined[f"{number}_there"].to_list()


def test_undefined_scores_count_as_those_of_uniform_maps(world, runs, tmp_path):
    maps = tmp_path / "maps"
    shutil.copytree(runs[1].folder.parent / "b-maps", maps)
    for path in sorted(maps.iterdir())[:4]:
        np.save(path, np.zeros((24, 24)))
    other = evaluate(maps, dataset=world, out=tmp_path / "holes", poolings=["max_norm"])
    row = own(compare([runs[0], other]).table).filter(run="holes", metric="mass_accuracy", ground_truth="single_object")
    everything = len(list(maps.iterdir()))
    assert (row["cases"].item(), row["n"].item()) == (everything, everything - 4)
    assert row["undefined"].item() == pytest.approx(4 / everything)


def test_explainers_of_several_models_meet_by_name(tmp_path):
    """SVEA on two networks: an explainer in one run only has no difference; the other's is the mean over networks."""
    options = {"limit": 200, "target": "logit", "model_seeds": 2}
    first = heatproof.run("svea", explainers=["gradient", "random"], out=tmp_path / "first", **options)
    second = heatproof.run("svea", explainers=["gradient", "edges"], out=tmp_path / "second", **options)
    table = compare([first, second]).table.filter(metric="mass_accuracy", run="second")
    same = table.filter(explainer="gradient").row(0, named=True)
    assert (same["difference"], same["difference_low"], same["difference_high"]) == (0, 0, 0)
    cases = first.scores().filter(metric="mass_accuracy", explainer="gradient")["case"].n_unique()
    assert same["cases"] == cases
    assert table.filter(explainer="edges")["difference"].is_null().all()


@pytest.mark.parametrize(
    ("line", "lines", "base", "expected"),
    [
        (("gradient", "logit"), 2, [("gradient", "logit"), ("gradient", "probability")], ("gradient", "logit")),
        (("gradient", ""), 2, [("gradient", "logit"), ("rise", "logit")], ("gradient", "logit")),
        (("gradient", ""), 2, [("gradient", "logit"), ("gradient", "probability")], None),
        (("gradient", "logit"), 2, [("gradient", "probability"), ("rise", "logit")], None),
        (("mine", ""), 1, [("theirs", "")], ("theirs", "")),
        (("mine", ""), 2, [("theirs", "")], None),
    ],
)
def test_what_is_compared_with_what(line, lines, base, expected):
    """Heatmaps made elsewhere do not say what was explained: they meet the only explainer of their name."""
    assert partner(line, having([line, ("other", "")][:lines]), having(base)) == expected


def test_what_is_no_explainer_does_not_count():
    """Every run of SVEA has a line for raw inputs: two runs of one explainer each are compared all the same."""
    raw = ("raw_input", "")
    mine, theirs = (having([(name, "logit"), raw], explainers=[name]) for name in ("mine", "theirs"))
    assert partner(("mine", "logit"), mine, theirs) == ("theirs", "logit")
    assert partner(raw, mine, theirs) == raw


def having(lines, explainers=None):
    """Scores of these lines, of no cases."""
    names = frozenset(explainers or [name for name, _ in lines])
    values = {("m", "", ""): (np.zeros(0, np.int64), dict.fromkeys(lines, np.zeros(0)))}
    return CaseScores(np.zeros(0, np.str_), names, values)


def test_other_data_gives_means_but_no_differences(runs, tmp_path):
    folder = write_world(tmp_path / "other", scenes=6, per_image=6, seed=9)
    make_masks(open_dataset(folder), (24, 24))
    found = compare([runs[0], score(folder, tmp_path / "d", 1)])
    assert found.table["difference"].null_count() == len(found.table)
    assert found.table.filter(run="d")["mean"].null_count() == 0
    assert "d has other cases than a (" in found.notes[0]


def test_runs_that_do_not_fit_are_named(runs, tmp_path):
    with pytest.raises(HeatproofError, match="at least two runs"):
        compare(runs[:1])
    with pytest.raises(HeatproofError, match="given twice"):
        compare([runs[0].folder, runs[0].folder])
    with pytest.raises(HeatproofError, match="holds no run"):
        compare([runs[0].folder, tmp_path])
    svea = tmp_path / "svea"
    shutil.copytree(runs[1].folder, svea)
    manifest = json.loads((svea / "run.json").read_text())
    manifest["configuration"]["benchmark"] = "svea"
    write_manifest(svea, manifest)
    with pytest.raises(HeatproofError, match="a is a run of clevr-xai, svea is a run of svea"):
        compare([runs[0].folder, svea])
    shutil.copytree(runs[1].folder, tmp_path / "stopped")
    (tmp_path / "stopped" / "leaderboard.csv").unlink()
    with pytest.raises(HeatproofError, match=r"stopped has no leaderboard\.csv yet: the run was interrupted"):
        compare([runs[0].folder, tmp_path / "stopped"])


def test_folders_of_the_same_name_are_told_apart(runs, tmp_path):
    for place in ("x", "y"):
        shutil.copytree(runs[0].folder, tmp_path / place / "run")
    assert list(compare([tmp_path / "x" / "run", tmp_path / "y" / "run"]).runs) == ["x/run", "y/run"]


def test_nothing_else_is_overwritten(runs, tmp_path):
    found = compare(runs[:2])
    page = found.write(tmp_path / "out")
    assert found.write(tmp_path / "out") == page
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(HeatproofError, match="not empty"):
        found.write(tmp_path / "full")


def test_the_command_writes_table_and_page(runs, tmp_path):
    words = ["compare", str(runs[0].folder), str(runs[1].folder)]
    command = [sys.executable, "-c", "from heatproof.cli import main; main()", *words]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    written = pl.read_csv(tmp_path / "runs" / "compare-a-b" / "compare.csv", infer_schema_length=None)
    row = own(written).filter(run="b", metric="mass_accuracy", ground_truth="single_object", pooling="pos_l2_norm_sq")
    shown = f"{100 * row['difference'].item():+.1f}"
    page = (tmp_path / "runs" / "compare-a-b" / "compare.html").read_text(encoding="utf-8")
    assert row["against"].item() == "a-maps"
    assert "a-maps · b-maps" in result.stdout
    assert shown in result.stdout
    assert f"<b>{shown}" in page
    assert "b against a: of 6 scores" in result.stdout
    assert "minus a" in page


def test_ceilings_of_two_runs_do_not_differ(runs):
    """Both are made of the truth, and best everywhere: that is no estimate, where hits of methods are one."""
    ceilings = compare(runs).table.filter(pl.col("explainer").str.starts_with("oracle"), pl.col("run") != "a")
    assert len(ceilings)
    assert set(ceilings.select("difference", "difference_low", "difference_high").rows()) == {(0.0, 0.0, 0.0)}

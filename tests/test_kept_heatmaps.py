"""The circle: heatmaps that a run keeps, scored again from their files. Reference: the run's own scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import heatproof
from heatproof.api import evaluate
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr import open_dataset
from heatproof.clevr.answers import in_words
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli import main
from heatproof.errors import HeatproofError
from heatproof.models.vqa import Vqa
from heatproof.run_folder import RunFolder
from own_lines import own
from small_vqa import make_vqa
from tiny_datasets import edit_json, write_world

SCORED = ("case", "explainer", "target", "model", "metric", "ground_truth", "pooling")
NUMBERS = ("n", "mean", "std", "median", "ci_low", "ci_high", "reference", "reference_elsewhere")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=7, per_image=6)
    for name in ("simple", "complex"):
        # other texts, so that probabilities differ
        edit_json(
            folder / f"CLEVR-XAI_{name}_questions.json",
            lambda content: [q.update(question=f"What about {q['question_index']}?") for q in content["questions"]],
        )
    make_masks(open_dataset(folder), (32, 32))
    return folder


def network() -> Vqa:
    """It is sure of some of its answers and unsure of others."""
    return make_vqa(sureness=lambda token: token % 20)


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    """Methods of the poster's names, one with other parameters than ours, single-channel and blind ones."""
    made = ClevrXai(dataset=str(world), model=network(), correct_only=False)
    explainers = ["gradient", "grad_cam", "lrp:composite=epsilon_plus", "random", "oracle:mask=single_object"]
    folder = tmp_path_factory.mktemp("run") / "whole"
    return heatproof.run(made, explainers=explainers, out=folder, keep_heatmaps=True, seed=3)


def scores_of(run: heatproof.Run) -> pl.DataFrame:
    """Every score, without what explaining cost."""
    rows = run.scores().filter(~pl.col("metric").is_in(["seconds", "passes", "memory"]))
    return rows.select(*SCORED, "value", "undefined", "mask_size", "predicted", "probability").sort(SCORED)


def lines_of(run: heatproof.Run) -> pl.DataFrame:
    axes = ("dataset", "model", "target", "explainer", "metric", "ground_truth", "pooling", "subset")
    return run.leaderboard().select(*axes, *NUMBERS).sort(axes)


def test_a_run_scores_the_same_from_its_files(run, tmp_path):
    """All explainers, poolings, ground truths and parts of the questions, to the last bit; the intervals too."""
    again = evaluate(run.folder, out=tmp_path / "again")
    assert scores_of(again).equals(scores_of(run), null_equal=True)
    assert lines_of(again).equals(lines_of(run))
    assert "probability>0.99999" in set(again.leaderboard()["subset"])
    assert again.manifest["models"] == run.manifest["models"]
    assert again.manifest["cases"] == run.manifest["cases"]


def test_the_poster_stands_where_it_stood_in_the_run(run, tmp_path):
    """Beside explainers with the parameters that we read into it, and not beside others of the same name."""
    again = evaluate(run.folder, out=tmp_path / "again", poolings=["pos_l2_norm_sq"])
    numbers = again.leaderboard().filter(pl.col("reference_elsewhere").is_not_null())
    assert set(numbers["explainer"]) == {"gradient", "grad_cam"}
    assert again.leaderboard()["reference"].is_null().all()


def test_one_explainers_folder_is_enough(run, tmp_path):
    entry = next(entry for entry in run.manifest["explainers"] if entry["name"] == "gradient")
    place = run.folder / "heatmaps" / entry["folder"]
    again = evaluate(place, out=tmp_path / "one")
    expected = scores_of(run).filter(pl.col("explainer") == "gradient")
    assert scores_of(again).equals(expected, null_equal=True)
    named = evaluate(place, out=tmp_path / "named", name="lrp", poolings=["pos_l2_norm_sq"])
    line = named.leaderboard().filter(pl.col("reference_elsewhere").is_not_null() & (pl.col("subset") == "all"))
    assert line.select("explainer", "reference_elsewhere").rows() == [("lrp", 0.85)]


def test_heatmaps_may_lie_elsewhere(run, world, tmp_path):
    """A copy of an explainer's folder without its run: the data set must be named, and answers are not known."""
    entry = next(entry for entry in run.manifest["explainers"] if entry["name"] == "gradient")
    copy = tmp_path / "copied"
    shutil.copytree(run.folder / "heatmaps" / entry["folder"], copy)
    with pytest.raises(
        HeatproofError, match="is no run, which would know its data set: give its folder with --dataset"
    ):
        evaluate(copy, out=tmp_path / "a")
    again = evaluate(copy, dataset=world, out=tmp_path / "a")
    own_truth = ~pl.col("metric").str.contains("selectivity")  # other questions are drawn by the seed of the run
    expected = scores_of(run).filter(own_truth, explainer="gradient").sort("case", *SCORED[4:])
    found = own(again.scores()).filter(own_truth).sort("case", *SCORED[4:])
    assert found["value"].equals(expected["value"])
    with pytest.raises(HeatproofError, match="is about simple questions: give --questions simple"):
        evaluate(copy, dataset=world, out=tmp_path / "b", questions="complex")


def test_the_data_set_that_ships_is_named_by_its_word(tmp_path, monkeypatch):
    """By the run that kept its heatmaps, and for heatmaps without a run."""
    monkeypatch.chdir(tmp_path)
    given = {"dataset": "shipped", "explainers": ["random"], "limit": 4, "poolings": ["max_norm"]}
    run = heatproof.run("clevr-xai", **given, keep_heatmaps=True, out="run")
    assert scores_of(evaluate("run", out="again")).equals(scores_of(run), null_equal=True)
    shipped = open_dataset(shipped_dataset()).questions("simple")[:3]
    np.savez("maps.npz", **{str(question.index): np.ones((3, 8, 8)) for question in shipped})
    assert len(evaluate("maps.npz", dataset="shipped", out="maps").scores()["question_index"].unique()) == 3


def test_predictions_of_one_s_own_choose_among_a_runs_heatmaps(run, world, tmp_path):
    questions = open_dataset(world).questions("simple")
    said = [{"question_index": q.index, "answer": q.answer if q.index % 3 else "nothing"} for q in questions]
    (tmp_path / "p.json").write_text(json.dumps(said))
    again = evaluate(run.folder, out=tmp_path / "again", predictions=tmp_path / "p.json", poolings=["max_norm"])
    assert set(again.scores()["question_index"]) == {q.index for q in questions if q.index % 3}


def test_the_command_needs_the_run_alone(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["heatproof", "evaluate", str(run.folder), "--poolings", "max_norm"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert "heatmaps scored against simple questions" in capsys.readouterr().out
    assert (tmp_path / "runs" / "evaluate-whole" / "leaderboard.csv").is_file()


def copied(run: heatproof.Run, place: Path) -> Path:
    shutil.copytree(run.folder, place)
    return place


def test_a_run_without_kept_heatmaps_says_how_to_keep_them(world, tmp_path):
    made = ClevrXai(dataset=str(world), model=network(), correct_only=False, poolings=["max_norm"])
    heatproof.run(made, explainers=["gradient"], out=tmp_path / "run")
    with pytest.raises(HeatproofError, match=r"holds a sample for the page, .* Make it again with --keep-heatmaps"):
        evaluate(tmp_path / "run", out=tmp_path / "again")
    shutil.rmtree(tmp_path / "run" / "heatmaps")
    with pytest.raises(
        HeatproofError, match=r"holds no heatmaps of a run's explainers\. Make the run with --keep-heat"
    ):
        evaluate(tmp_path / "run", out=tmp_path / "again")


def test_damage_is_named(run, tmp_path):
    folder = copied(run, tmp_path / "run")
    part = next((folder / "heatmaps").glob("gradient*/*.npz"))
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    with pytest.raises(HeatproofError, match=f"{part.name} is damaged"):
        evaluate(folder, out=tmp_path / "a")
    np.savez(part, ids=np.array(["simple-000000"]))
    with pytest.raises(HeatproofError, match=r"is no part of a run's heatmaps: it lacks relevance\. Give the archive"):
        evaluate(folder, out=tmp_path / "a")


def test_a_question_without_a_map_costs_its_own_scores(run, tmp_path):
    """An explainer that failed on some cases has no heatmaps of them, nor scores; the others have theirs."""
    folder = copied(run, tmp_path / "run")
    entry = next(entry for entry in run.manifest["explainers"] if entry["name"] == "gradient")
    last = sorted((folder / "heatmaps" / entry["folder"]).glob("*.npz"))[-1]
    lost = set(np.load(last)["ids"].tolist())
    last.unlink()
    (folder / "scores" / entry["folder"] / f"{last.stem}.parquet").unlink()
    RunFolder(folder).begin("", [entry["folder"]])  # a failed unit has no line
    again = evaluate(folder, out=tmp_path / "again")
    rows = again.scores()
    without = rows.filter(pl.col("undefined") == "there is no heatmap")
    assert set(without["case"]) == lost
    assert set(without["explainer"]) == {"gradient"}
    kept = scores_of(run).filter(~(pl.col("case").is_in(list(lost)) & (pl.col("explainer") == "gradient")))
    assert scores_of(again).join(without.select(SCORED), on=SCORED, how="anti").equals(kept, null_equal=True)
    assert "Questions with an undefined score" in " ".join(again.story.notes)


def test_a_data_set_that_changed_or_went_is_named(run, world, tmp_path):
    folder = copied(run, tmp_path / "run")
    moved = tmp_path / "moved"
    shutil.copytree(world, moved)
    manifest = RunFolder(folder).manifest()
    manifest["options"]["dataset"] = str(tmp_path / "absent")
    RunFolder(folder).write_manifest(manifest)
    with pytest.raises(HeatproofError, match=r"absent, is not there; give it with --dataset"):
        evaluate(folder, out=tmp_path / "a")
    assert scores_of(evaluate(folder, dataset=moved, out=tmp_path / "b"))["value"].len()
    edit_json(moved / "CLEVR-XAI_simple_questions.json", lambda content: content["questions"][0].update(answer="x"))
    shutil.rmtree(moved / "ground_truth")
    make_masks(open_dataset(moved), (32, 32))
    manifest["options"]["dataset"] = str(moved)
    RunFolder(folder).write_manifest(manifest)
    with pytest.raises(HeatproofError, match="has changed since"):
        evaluate(folder, out=tmp_path / "c")


def test_masks_of_another_size_are_named(run, world, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(world, other)
    shutil.rmtree(other / "ground_truth")
    make_masks(open_dataset(other), (24, 24))
    again = evaluate(run.folder, dataset=other, out=tmp_path / "again")
    assert again.scores()["value"].is_nan().all()
    assert all("ground-truth DATASET --size" in reason for reason in again.scores()["undefined"].unique())


def test_what_does_not_fit_a_run_is_refused(run, tmp_path):
    with pytest.raises(HeatproofError, match="is about simple questions, not about complex ones"):
        evaluate(run.folder, out=tmp_path / "a", questions="complex")
    with pytest.raises(HeatproofError, match=r"heatmaps of 5 explainers, which --name cannot all have; give one"):
        evaluate(run.folder, out=tmp_path / "a", name="mine")
    folder = copied(run, tmp_path / "run")
    manifest = RunFolder(folder).manifest()
    manifest["configuration"]["benchmark"] = "focus"
    RunFolder(folder).write_manifest(manifest)
    with pytest.raises(HeatproofError, match="is a run of focus"):
        evaluate(folder, out=tmp_path / "a")


# Probabilities in predictions


def write_maps(world: Path, folder: Path) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for question in open_dataset(world).questions("simple"):
        np.save(folder / f"{question.index}.npy", rng.random((32, 32)))
    return folder


def test_probabilities_bring_the_posters_second_column(world, tmp_path):
    """Reference: the mean of the rows whose probability, as given, is above the poster's bound."""
    questions = open_dataset(world).questions("simple")
    sure = {q.index: 1 - 10.0 ** -(3 + q.index % 5) for q in questions}
    said = [{"question_index": q.index, "answer": q.answer, "probability": sure[q.index]} for q in questions]
    del said[0]["probability"]
    (tmp_path / "p.json").write_text(json.dumps(said))
    maps = write_maps(world, tmp_path / "maps")
    run = evaluate(maps, dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json", name="lrp")
    column = (pl.col("metric") == "mass_accuracy") & (pl.col("ground_truth") == "single_object")
    column &= pl.col("pooling") == "pos_l2_norm_sq"
    wanted = [q.index for q in questions[1:] if sure[q.index] > 0.99999]
    rows = own(run.scores()).filter(column & pl.col("question_index").is_in(wanted))
    line = own(run.leaderboard()).filter(column & (pl.col("subset") == "probability>0.99999")).row(0, named=True)
    assert line["n"] == len(wanted) > 3
    assert line["mean"] == pytest.approx(rows["value"].mean(), abs=1e-12)
    assert line["median"] == pytest.approx(rows["value"].median(), abs=1e-12)
    assert line["std"] == pytest.approx(rows["value"].std(ddof=0), abs=1e-12)
    assert line["reference_elsewhere"] == 0.90
    note = f"in no part of the questions that asks for it: 1 ({said[0]['question_index']})."
    assert f"Predictions without a probability, {note}" in run.story.notes


def test_without_probabilities_there_is_no_such_part(world, tmp_path):
    questions = open_dataset(world).questions("simple")
    (tmp_path / "p.json").write_text(json.dumps([{"question_index": q.index, "answer": q.answer} for q in questions]))
    maps = write_maps(world, tmp_path / "maps")
    run = evaluate(maps, dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json", poolings=["max_norm"])
    assert not any(subset.startswith("probability") for subset in run.leaderboard()["subset"])
    assert set(run.scores()["predicted"]) == {in_words(q.answer) for q in questions}


@pytest.mark.parametrize("probability", [1.5, -0.1, "high", True, float("nan")])
def test_what_is_no_probability_is_named(world, tmp_path, probability):
    answer = open_dataset(world).questions("simple")[0]
    said = [{"question_index": answer.index, "answer": answer.answer, "probability": probability}]
    (tmp_path / "p.json").write_text(json.dumps(said))
    maps = write_maps(world, tmp_path / "maps")
    with pytest.raises(HeatproofError, match=rf"the probability of question {answer.index} must be a number between 0"):
        evaluate(maps, dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json")

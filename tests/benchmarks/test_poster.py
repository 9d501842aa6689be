"""The poster beside a run: columns, claims, and how near methods come to 1. References: rows and pixels, by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import heatproof
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.benchmarks.kept import find_kept
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks, mask_of_question
from heatproof.cli import main
from heatproof.errors import HeatproofError
from heatproof.experiments.poster import PARTS, TITLES, as_printed, claims, poster_table
from heatproof.experiments.poster_page import write_poster
from heatproof.experiments.rest import REACHED, others_of, reach, takers
from run_files import forget
from small_vqa import make_vqa
from tiny_datasets import write_world

COLUMN = (
    (pl.col("metric") == "mass_accuracy")
    & (pl.col("ground_truth") == "single_object")
    & (pl.col("pooling") == "pos_l2_norm_sq")
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    world = write_world(tmp_path_factory.mktemp("world") / "world", scenes=5, per_image=5)
    make_masks(open_dataset(world), (64, 64))
    made = ClevrXai(dataset=str(world), model=make_vqa(64), correct_only=False)
    explainers = ["gradient", "gradient_x_input", "grad_cam", "lrp:composite=relation_network,low=0.0,high=1.0"]
    out = tmp_path_factory.mktemp("run") / "r"
    return heatproof.run(made, explainers=[*explainers, "lrp", "random"], out=out, keep_heatmaps=True)


def test_the_table_has_our_numbers_and_the_posters(run):
    """Reference: the rows of each part, and the poster's csv."""
    table = poster_table(run)
    assert set(table["method"]) == {"lrp", "gradient", "gradient_x_input", "grad_cam"}
    assert set(table.filter(method="lrp")["explainer"]) == {"lrp:composite=relation_network,low=0.0,high=1.0"}
    for row in table.iter_rows(named=True):
        rows = run.scores().filter(COLUMN & (pl.col("explainer") == row["explainer"]) & pl.col("value").is_not_nan())
        if row["subset"] != "all":
            rows = rows.filter(pl.col("mask_size") > 1000)
        values = rows["value"]
        assert row["n"] == len(values)
        assert row["mean"] == pytest.approx(values.mean(), abs=1e-12)
        assert row["std"] == pytest.approx(values.std(ddof=0), abs=1e-12)
        assert row["median"] == pytest.approx(values.median(), abs=1e-12)
    first = table.filter(method="lrp", subset="all").row(0, named=True)
    assert as_printed(first["poster_mean"], first["poster_std"], first["poster_median"]) == "0.85 (0.17) 0.91"


def poster_as_a_run(**changed: float) -> pl.DataFrame:
    """A table whose own numbers are the poster's, but for means of some methods over all questions."""
    published = heatproof.benchmarks.clevr_xai.rows.poster()
    names = {"explainer": "method", "reference": "mean", "reference_std": "std", "reference_median": "median"}
    table = published.rename(names).select("method", "subset", "mean", "std", "median")
    table = table.with_columns(n=pl.lit(100), ci_low=pl.col("mean") - 0.01, ci_high=pl.col("mean") + 0.01)
    table = table.with_columns(**{f"poster_{name}": pl.col(name) for name in ("mean", "std", "median")})
    whole = pl.col("subset") == "all"
    for method, mean in changed.items():
        here = whole & (pl.col("method") == method)
        table = table.with_columns(mean=pl.when(here).then(mean).otherwise("mean"))
    return table


def test_the_posters_claims_on_its_own_numbers():
    """Read off the poster: excitation backprop is second, and always-bad methods vary least."""
    found = {claim.text: claim for claim in claims(poster_as_a_run())}
    verdicts = {text: claim.there.partition(":")[0] for text, claim in found.items()}
    assert verdicts == {
        "LRP and Integrated Gradients have the highest means": "does not hold",
        "LRP has the lowest variance": "holds for the better half of the methods only",
        "Deconvnet and Grad-CAM have the lowest means": "holds",
        "Methods of the gradient have the highest variance": "holds",
        "Accuracy rises with the network's confidence": "holds for most",
        "Accuracy rises with the object's size": "holds",
        "No method reaches 1.0": "holds",
    }
    confident = found["Accuracy rises with the network's confidence"]
    assert "rises for 10 of 11 methods" in confident.there
    # 0.05 .. 0.01 above the mean over all: gradient x input and grad-cam rise by no more than the interval of 0.01
    assert "rises for 10 of 11 methods (" in confident.here
    assert "falls for 0 (0); at most 100 questions; LRP 0.85 to 0.90" in confident.here


def test_claims_turn_with_the_numbers():
    found = {claim.text: claim.here for claim in claims(poster_as_a_run(excitation_backprop=0.5, grad_cam=0.99))}
    assert found["LRP and Integrated Gradients have the highest means"].startswith("does not hold: Grad-CAM 0.99")
    assert found["Deconvnet and Grad-CAM have the lowest means"].startswith("does not hold")
    assert "falls for 1 (1)" in found["Accuracy rises with the object's size"]
    better = {claim.text: claim.here for claim in claims(poster_as_a_run(excitation_backprop=0.5))}
    assert better["LRP and Integrated Gradients have the highest means"].startswith("holds: LRP 0.85, Integrated")
    whole = {claim.text: claim.here for claim in claims(poster_as_a_run(lrp=0.999))}
    assert whole["No method reaches 1.0"].startswith("does not hold")


def test_claims_about_methods_that_are_absent_are_not_judged():
    table = poster_as_a_run().filter(~pl.col("method").is_in(["lrp", "smoothgrad"]))
    found = {claim.text: claim.here for claim in claims(table)}
    assert found["LRP has the lowest variance"] == "cannot be judged without LRP"
    assert found["Methods of the gradient have the highest variance"] == "cannot be judged without SmoothGrad"
    some = {claim.text: claim.here for claim in claims(poster_as_a_run().filter(subset="all"))}
    assert some["Accuracy rises with the object's size"].startswith("cannot be judged")


def test_one_question_says_nothing_of_questions():
    """A part of one question has no spread, and no claim is judged by it."""
    large = pl.col("subset") == "mask>1000"
    table = poster_as_a_run().with_columns(
        n=pl.when(large).then(1).otherwise("n"), mean=pl.when(large).then(1.0).otherwise("mean")
    )
    found = {claim.text: claim.here for claim in claims(table)}
    assert found["Accuracy rises with the object's size"] == "cannot be judged: the run has one such question"
    assert found["No method reaches 1.0"].startswith("holds: the highest mean of any part is 0.9")
    alone = {claim.text: claim.here for claim in claims(table.filter(large).with_columns(subset=pl.lit("all")))}
    assert alone["No method reaches 1.0"] == "cannot be judged: the run has one question"


def test_how_near_methods_come_to_one(run):
    """Reference: the rows of both ground truths, case by case; what lies where adds up to all of it."""
    near = reach(run)
    assert set(near["explainer"]) == {e["explainer"] for e in run.manifest["explainers"] if e["name"] != "random"}
    rows = run.scores().filter((pl.col("metric") == "mass_accuracy") & (pl.col("pooling") == "pos_l2_norm_sq"))
    for line in near.iter_rows(named=True):
        own, every = (
            dict(rows.filter(explainer=line["explainer"], ground_truth=kind).select("case", "value").rows())
            for kind in ("single_object", "all_objects")
        )
        cases = [case for case in own if not np.isnan(own[case])]
        assert line["n"] == len(cases)
        assert line["mean"] == pytest.approx(np.mean([own[case] for case in cases]), abs=1e-12)
        assert line["reached"] == pytest.approx(np.mean([own[case] >= REACHED for case in cases]))
        assert line["others"] == pytest.approx(np.mean([every[case] - own[case] for case in cases]), abs=1e-12)
        assert line["mean"] + line["others"] + line["between"] == pytest.approx(1)


def test_which_objects_take_the_rest(run):
    """Literal: pixel by pixel, every other object that covers it gets an equal part of what lies there."""
    kept = find_kept(run.folder)
    assert kept is not None
    chosen = kept.only([entry for entry in kept.entries if entry["name"] == "gradient"])
    found = {row["kind"]: row for row in takers(chosen).iter_rows(named=True)}
    heatmaps = run.files.heatmaps(chosen.entries[0]["folder"], "net")
    taken = dict.fromkeys(found, 0.0)
    pixels = dict.fromkeys(found, 0.0)
    whole = 0.0
    for question in open_dataset(run.manifest["options"]["dataset"]).questions("simple"):
        relevance = np.maximum(heatmaps[f"simple-{question.index:06d}"].astype(np.float64), 0) ** 2
        relevance = relevance.sum(0) / relevance.sum()
        own = mask_of_question(question, "single_object", (64, 64))
        (target,) = next(n["_output"] for n in question.program[::-1] if n["type"].startswith("filter_"))
        things = question.scene["objects"]
        named = [node["type"][7:] for node in question.program if node["type"].startswith("filter_")]
        masks, _ = others_of(question, (64, 64))
        for row, column in np.argwhere(mask_of_question(question, "all_objects", (64, 64)) & ~own):
            covering = [k for k in range(len(things)) if masks[k, row, column] > 0]
            assert target not in covering
            for k in covering:
                share = relevance[row, column] / len(covering)
                whole += share
                missed = sum(things[k][name] != things[target][name] for name in named)
                kinds = [things[k]["size"], things[k]["material"], "near miss" if missed == 1 else "farther off"]
                kinds.append(
                    "gives the same answer"
                    if things[k][question.program[-1]["type"][6:]] == question.answer
                    else "gives another"
                )
                for kind in kinds:
                    taken[kind] += share
                    pixels[kind] += 1 / len(covering)
    for kind, row in found.items():
        assert row["taken"] == pytest.approx(taken[kind] / whole, abs=1e-9), kind
        assert row["pixels"] == pytest.approx(pixels[kind] / (pixels["large"] + pixels["small"]), abs=1e-9), kind


def test_the_command_prints_all_and_adds_it_to_the_page(run, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr("sys.argv", ["heatproof", "clevr", "poster", str(run.folder)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    said = capsys.readouterr().out
    assert "about another network" in said
    assert "0.85 (0.17) 0.91" in said
    assert "LRP has the lowest variance" in said
    assert "near miss" in said
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Beside the poster" in page
    assert "about another network" in page
    assert (run.folder / "sections" / "poster" / "takers.csv").is_file()
    assert set(pl.read_csv(run.folder / "sections" / "poster" / "poster.csv")["subset"]) <= set(PARTS)


def test_without_kept_heatmaps_all_else_is_told(run, tmp_path):
    folder: Path = tmp_path / "bare"
    shutil.copytree(run.folder, folder)
    forget(folder, "heatmaps")
    shutil.rmtree(folder / "heatmaps")
    beside = write_poster(folder)
    assert "--keep-heatmaps" in beside.without
    assert len(beside.reach) == 5
    assert "cannot be told" in (folder / "report.html").read_text(encoding="utf-8")


def test_what_the_poster_is_not_about_is_refused(run, tmp_path):
    for name, value, message in (
        ("benchmark", "focus", "is a run of focus"),
        ("questions", "complex", "asks complex questions"),
    ):
        folder = tmp_path / name
        shutil.copytree(run.folder, folder)
        changed = heatproof.load_run(folder)
        changed.manifest["configuration"][name] = value
        with pytest.raises(HeatproofError, match=message):
            poster_table(changed)
    made = heatproof.load_run(run.folder)
    for entry in made.manifest["explainers"]:
        entry["name"] = "other"
    with pytest.raises(HeatproofError, match="no mass accuracy of any of the poster's methods"):
        poster_table(made)


def test_the_poster_names_every_method():
    assert set(TITLES) == set(heatproof.benchmarks.clevr_xai.rows.poster()["explainer"])

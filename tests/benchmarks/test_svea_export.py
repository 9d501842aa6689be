"""Regions of explanation as data sets: what they hold, and a classifier that learns from the files alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

import heatproof
from heatproof import mnist1d
from heatproof.api import evaluate
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.experiments.regions import export


def test_a_classifier_on_the_files_scores_as_the_run(tmp_path):
    """Reference: the run's own ROE test; the points are looked up one by one in the published signals."""
    run = heatproof.run(
        "svea", explainers="gradient,input_magnitude", limit=500, target="both", model_seeds=2, out=tmp_path / "r"
    )
    made = export(run.folder)
    assert sorted(entry.path.name for entry in made) == [
        *(f"gradient@{target}.mnist1d_cnn-{seed}.npz" for target in ("logit", "probability") for seed in (1, 2)),
        *(f"input_magnitude.mnist1d_cnn-{seed}.npz" for seed in (1, 2)),
    ]
    assert all((entry.regions, entry.without, entry.is_whole) == (500, [], True) for entry in made)
    table = run.leaderboard().filter(metric="roe_accuracy")
    train, test = mnist1d.published()
    for entry in made:
        name, _, model = entry.path.stem.partition(".")
        explainer, _, target = name.partition("@")
        arrays = np.load(entry.path)
        learnt, judged = arrays["split"] == "train", arrays["split"] == "test"
        assert (learnt.sum(), judged.sum()) == (400, 100)
        svm = LinearSVC(dual=False, max_iter=10_000).fit(arrays["x"][learnt], arrays["y"][learnt])
        right = float((svm.predict(arrays["x"][judged]) == arrays["y"][judged]).mean())
        line = table.filter(explainer=explainer, target=target, model=model)
        assert line["mean"].to_list() == [pytest.approx(right)]
        for k in (0, 7, 400, 499):
            split, number = str(arrays["case"][k]).split("-")
            part, start = (train if split == "train" else test), int(arrays["starts"][k])
            assert arrays["x"][k].tolist() == [part.x[int(number)][start + i] for i in range(12)]
            assert arrays["y"][k] == part.y[int(number)]


def test_signals_without_a_region_are_left_out_and_named(tmp_path):
    train, test = (np.abs(part.x) for part in mnist1d.published())
    test[3] = np.nan
    np.savez(tmp_path / "maps.npz", train=train, test=test)
    run = evaluate(tmp_path / "maps.npz", benchmark="svea", out=tmp_path / "r")
    words = ["export", str(run.folder), "--to", "roe", "--out", str(tmp_path / "d")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "signals without a region, left out: 1 (test-0003)" in result.output
    arrays = np.load(tmp_path / "d" / "maps.npz")
    assert arrays["x"].shape == (4999, 12)
    assert "test-0003" not in arrays["case"]


def test_what_failed_is_said(tmp_path):
    """The first 500 test signals have no scores; the others are written."""

    first = mnist1d.published()[1].x[0]

    def moody(model, inputs, target):
        if np.allclose(inputs[0, 0], first):
            raise ValueError("not today")
        return inputs

    run = heatproof.run("svea", explainers=[moody], limit=2600, target="logit", out=tmp_path / "r")
    assert run.failures()
    (made,) = export(run.folder)
    assert (made.regions, made.is_whole) == (2100, False)


def test_bad_input(tmp_path):
    heatproof.run("svea", explainers="random", limit=20, out=tmp_path / "r")
    with pytest.raises(HeatproofError, match=r"unknown kind of export 'rois'. Did you mean 'roe'"):
        export(tmp_path / "r", "rois")
    with pytest.raises(HeatproofError, match="holds no run"):
        export(tmp_path / "absent")
    heatproof.run("focus", explainers="random", per_class=1, out=tmp_path / "f")
    with pytest.raises(HeatproofError, match="is a run of focus; regions of explanation are what a run of svea has"):
        export(tmp_path / "f")
    assert pl.read_csv(tmp_path / "r" / "leaderboard.csv").height > 0, "the run is as it was"

"""`heatproof focus table`: Table 1 of the paper from runs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import heatproof
from heatproof.clevr.objects import CLASSES, shipped_pictures
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.experiments.table import correlated, method_name
from heatproof.models.classifiers import load_classifier
from run_files import write_manifest

SMALL = {"per_class": 3, "tile": 32}
GRAD_CAM = (0.9101, 0.9446, 0.9725, 0.8292, 0.8556, 0.8941, 0.8133, 0.8230, 0.9248, 0.7866, 0.8426, 0.8792)
ACCURACY = (0.9644, 0.9893, 0.9878, 0.7676, 0.8069, 0.8220, 0.5806, 0.6948, 0.7619, 0.3618, 0.6350, 0.6072)
"""The paper's Table 1, row by row: Dogs vs. Cats, MAMe, MIT67, ImageNet, each AlexNet, VGG16, ResNet-18."""


def damaged(noise: float) -> tuple[torch.nn.Module, dict[str, object]]:
    """The shipped classifier with noise on its top layer: the more, the less it knows."""
    module = load_classifier("object_classifier").module
    torch.manual_seed(1)
    with torch.no_grad():
        module.linear.weight += noise * torch.randn_like(module.linear.weight)
    return module, {"labels": {label: place for place, label in enumerate(CLASSES)}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four networks, of which the first is the shipped one; `further` is that one under another method."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATPROOF_HOME", str(tmp_path_factory.mktemp("home")))
        heatproof.run(
            "focus", explainers="grad_cam,gradient,random", paper_row="imagenet/vgg16", out=place / "shipped", **SMALL
        )
        heatproof.run("focus", explainers="deconvnet", paper_row="imagenet/vgg16", out=place / "further", **SMALL)
        for number, noise in enumerate((0.3, 1.0, 3.0)):
            heatproof.run(
                "focus", explainers="grad_cam:layer=features,oracle", images=shipped_pictures(), model=damaged(noise),
                out=place / f"damaged-{number}", fit="squash", **SMALL,
            )  # fmt: skip
    return place


def test_rows_are_networks_and_the_papers_stands_beneath_its_own(runs, tmp_path):
    made = heatproof.focus.table(runs / "shipped", runs / "further", runs / "damaged-0", out=tmp_path / "t")
    assert made.table["run"].unique(maintain_order=True).to_list() == ["shipped, further", "damaged-0"]
    heads, ours, paper, other = made.lines()
    assert heads == ["network", "pictures", "mosaics", "accuracy", "grad_cam", "gradient", "deconvnet"]
    board = heatproof.load_run(runs / "shipped").leaderboard().filter(metric="focus", pooling="paper")
    mean, std = board.filter(explainer="grad_cam").select("mean", "std").row(0)
    assert ours[:3] == ["object_classifier", "shipped", "18"]
    assert ours[4] == f"{mean:.3f} ({std:.3f})"
    assert "–" not in ours
    assert paper == ["paper: imagenet/vgg16", "", "", "0.635", "0.843 (0.088)", "–", "–"]  # Table 1, ImageNet, VGG16
    assert other[0] == "ObjectClassifier"
    assert other[5:] == ["–", "–"]
    text = (tmp_path / "t" / "table.md").read_text()
    assert f"| object_classifier | shipped | 18 | {ours[3]} | {ours[4]} |" in text
    assert pl.read_csv(tmp_path / "t" / "table.csv")["mean"].to_list() == pytest.approx(made.table["mean"].to_list())


def test_a_method_in_two_runs_is_two_rows(runs, tmp_path):
    copy = shutil.copytree(runs / "shipped", tmp_path / "shipped")
    made = heatproof.focus.table(runs / "shipped", copy, out=tmp_path / "t")
    assert made.table["run"].unique(maintain_order=True).to_list() == ["shipped", "shipped (2)"]


def test_accuracy_is_the_runs_own_or_found_out(runs, tmp_path):
    """Reference for what is found out: what the run itself has found. A model that was an object is lost."""
    stored = heatproof.load_run(runs / "shipped").story.figures["mean_class_accuracy"]
    assert 0.8 < stored <= 1
    for name, note in (("shipped", ""), ("damaged-0", "has no accuracy: its model was given as a Python object")):
        older = shutil.copytree(runs / name, tmp_path / name)
        manifest = json.loads((older / "run.json").read_text())
        del manifest["story"]["figures"]
        write_manifest(older, manifest)
        made = heatproof.focus.table(older, out=tmp_path / "t")
        assert made.table["accuracy"][0] == (None if note else pytest.approx(stored))
        assert any(note in said for said in made.notes)
    manifest["cases"] = "others"
    manifest["options"]["model"] = "object_classifier"
    manifest["options"]["images"] = None
    write_manifest(older, manifest)
    assert "has changed since the run" in heatproof.focus.table(older, out=tmp_path / "t").notes[0]


def test_focus_goes_with_accuracy_or_not(runs, tmp_path):
    """Reference: NumPy's correlation of our numbers, and of the paper's as they are printed."""
    made = heatproof.focus.table(*sorted(runs.iterdir()), out=tmp_path / "t")
    (line,) = made.correlation.filter(method="grad_cam").to_dicts()
    rows = made.table.filter(method="grad_cam")
    assert rows["accuracy"].n_unique() > 1
    assert line["networks"] == 4
    assert line["pearson"] == pytest.approx(np.corrcoef(rows["accuracy"], rows["mean"])[0, 1])
    assert line["paper_networks"] == 12
    assert line["paper_pearson"] == pytest.approx(np.corrcoef(GRAD_CAM, ACCURACY)[0, 1])
    ranks = [np.argsort(np.argsort(values)) for values in (GRAD_CAM, ACCURACY)]
    assert line["paper_spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
    figure = (tmp_path / "t" / "accuracy.svg").read_text()
    assert len(re.findall(r'<circle [^>]*fill="#[^>]*><title>grad_cam', figure)) == 4
    assert len(re.findall(r'<circle [^>]*fill="none"[^>]*><title>grad_cam', figure)) == 12
    assert f"here r = {line['pearson']:.2f}, n = 4" in figure


def test_too_few_networks_have_no_correlation(runs, tmp_path):
    made = heatproof.focus.table(runs / "shipped", runs / "damaged-0", out=tmp_path / "t")
    assert made.correlation["pearson"].to_list() == [None, None]
    assert made.notes == ["Fewer than 3 networks have an accuracy, so there is no correlation of Focus with it."]
    level = pl.DataFrame({"accuracy": [0.5, 0.5, 0.5], "mean": [0.6, 0.7, 0.8]})
    assert set(correlated(level, "").values()) == {None}
    three = correlated(level.with_columns(accuracy=pl.Series([0.1, 0.2, 0.3])), "")
    assert three["pearson"] == pytest.approx(1)
    assert three["pearson_low"] is None


@pytest.mark.parametrize(
    ("explainer", "target", "name"),
    [
        ("grad_cam", "logit", "grad_cam"),
        ("grad_cam:layer=features", "logit", "grad_cam"),
        ("grad_cam_pp:layer=features.3,eps=1e-06,shift=True", "logit", "grad_cam_pp:eps=1e-06,shift=True"),
        ("grad_cam_pp:eps=1e-06,layer=features", "logit", "grad_cam_pp:eps=1e-06"),
        ("lime:top=5", "probability", "lime:top=5 (probability)"),
    ],
)
def test_columns_are_methods_whatever_layer_they_read(explainer, target, name):
    assert method_name(explainer, target) == name


def test_the_command(runs, tmp_path):
    words = ["focus", "table", str(runs / "shipped"), str(runs / "damaged-0"), "--out", str(tmp_path / "t")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    for said in ("object_classifier", "paper:", "accuracy", "too few networks", "0.83 (0.49 to 0.95)", "accuracy.svg"):
        assert said in result.output
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "accuracy.svg",
        "correlation.csv",
        "table.csv",
        "table.md",
    ]


def test_what_has_no_place_in_the_table(runs, tmp_path):
    def refused(message: str, *given: Path) -> None:
        with pytest.raises(HeatproofError, match=message):
            heatproof.focus.table(*given, out=tmp_path / "t")
        assert not (tmp_path / "t").exists()

    refused("name at least one run of focus")
    refused("holds no run", tmp_path / "nowhere")
    refused("shipped is named twice", runs / "shipped", runs / "further" / ".." / "shipped")
    other = heatproof.run("svea", explainers="random", limit=500, out=tmp_path / "svea").folder
    refused("svea is a run of svea, not of focus", runs / "shipped", other)
    floors = heatproof.run("focus", explainers="random,oracle", out=tmp_path / "floors", **SMALL).folder
    refused("has scores of floors and ceilings alone", floors)
    (floors / "leaderboard.csv").unlink()
    refused("the run was interrupted", floors)

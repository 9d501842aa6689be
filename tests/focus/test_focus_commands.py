"""`heatproof run focus` and `heatproof focus ...` from the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import heatproof
from heatproof.cli.app import app
from heatproof.errors import HeatproofError


def call(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(message: str, *words: object) -> None:
    with pytest.raises(HeatproofError, match=message):
        CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_layouts_are_seven_groups_with_box_plots(tmp_path):
    out = tmp_path / "l"
    words = ("focus", "layout", "--explainer", "oracle", "--per-class", 2, "--out", out)
    assert "antidiagonal" in call(*words)
    rows = table(out / "layout.csv")
    groups = {"random", "top", "bottom", "left", "right", "diagonal", "antidiagonal"}
    assert {row["group"] for row in rows} == groups
    assert {float(row["focus"]) for row in rows} == {1.0}
    figure = (out / "layout.svg").read_text()
    assert all(f">{group}<" in figure for group in groups)
    assert call(*words), "a second time nothing is computed again"


def test_randomised_models_have_a_table_and_two_figures(tmp_path):
    out = tmp_path / "r"
    printed = call("focus", "randomise", "--per-class", 1, "--draws", 2, "--explainer", "grad_cam", "--out", out)
    assert "cascade-01-linear" in printed
    rows = table(out / "randomise.csv")
    assert sum(row["group"] == "random" for row in rows) == 2 * 6
    assert sum(row["group"] == "object_classifier" for row in rows) == 6
    assert (out / "randomise.svg").exists()
    assert "n = 12" in (out / "histogram.svg").read_text()


def test_one_part_of_the_test_alone(tmp_path):
    words = ("focus", "randomise", "--per-class", 1, "--draws", 1, "--explainer", "grad_cam")
    printed = call(*words, "--only", "histogram", "--out", tmp_path / "h")
    assert "cascade" not in printed
    assert {row["group"] for row in table(tmp_path / "h" / "histogram.csv")} == {"object_classifier", "random"}
    assert not (tmp_path / "h" / "randomise.svg").exists()
    assert "density" in (tmp_path / "h" / "histogram.svg").read_text()
    printed = call(*words, "--only", "cascade", "--target", "metal_cube", "--out", tmp_path / "c")
    rows = table(tmp_path / "c" / "randomise.csv")
    blocks = ["linear", *(f"features.{place}" for place in (9, 6, 3, 0))]
    steps = [f"cascade-{number:02d}-{name}" for number, name in enumerate(blocks, 1)]
    assert [row["group"] for row in rows] == ["object_classifier", *steps]
    assert not (tmp_path / "c" / "histogram.svg").exists()
    assert f"figure {tmp_path / 'c' / 'randomise.svg'}" in printed
    with pytest.raises(HeatproofError, match="unknown part of the test 'cascades'\\. Did you mean 'cascade'"):
        heatproof.focus.randomise(only="cascades", out=tmp_path / "x")


def test_layouts_of_one_target(tmp_path):
    words = ("focus", "layout", "--explainer", "oracle", "--per-class", 3)
    call(*words, "--target", "metal_cube", "--out", tmp_path / "l")
    rows = table(tmp_path / "l" / "layout.csv")
    assert len(rows) == 7 * 3
    run = heatproof.load_run(tmp_path / "l" / "top")
    assert set(run.scores()["target_class"].drop_nulls()) == {"metal_cube"}
    same = heatproof.focus.layout("oracle", target="metal_cube", per_class=3, out=tmp_path / "l")
    assert same.rows() == [(row["group"], float(row["focus"])) for row in rows]
    refused("there is no class 'cat' among the pictures", *words, "--target", "cat", "--out", tmp_path / "x")


def test_mosaics_are_written_and_run_on(tmp_path):
    folder = tmp_path / "m"
    call("focus", "mosaics", "--per-class", 2, "--out", folder)
    assert Image.open(folder / "000000.png").size == (128, 128)
    words = ("run", "focus", "--explainers", "random,grad_cam", "--tile", 64)
    call(*words, "--mosaics", folder / "mosaics.csv", "--out", tmp_path / "a")
    call(*words, "--per-class", 2, "--out", tmp_path / "b")
    from_files, drawn = (
        {(r["explainer"], r["pooling"]): r["mean"] for r in table(tmp_path / n / "leaderboard.csv")} for n in "ab"
    )
    assert from_files == drawn
    refused("holds mosaics already", "focus", "mosaics", "--per-class", 2, "--out", folder)


def test_pictures_of_objects_are_made(tmp_path):
    pytest.importorskip("pyoidn", reason="the command denoises")
    call("focus", "objects", tmp_path / "o", "--per-class", 1, "--side", 16)
    assert len(list((tmp_path / "o").glob("*/*.png"))) == 6
    assert Image.open(tmp_path / "o" / "objects.png").size == (16, 6 * 16)
    refused("is not empty", "focus", "objects", tmp_path / "o")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("mean must be numbers with commas between, got 'a'", ("--mean", "a,b")),
        ("mean must be three numbers", ("--mean", "0.5,0.5")),
        ("std must be above zero", ("--std", "0,1,1")),
        ("tile", ("--tile", 4)),
        ("4 targets leave no tile for others", ("--targets", 4)),
        ("there is no folder nowhere", ("--images", "nowhere", "--model", "net.py:make")),
        ("unknown explainer", ("--explainers", "grad_camm")),
    ],
)
def test_bad_options_are_named(message, words, tmp_path):
    refused(message, "run", "focus", "--per-class", 1, "--out", tmp_path / "r", *words)


def test_a_choice_is_one_of_its_words(tmp_path):
    words = ["run", "focus", "--out", str(tmp_path / "r"), "--fit", "stretch"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "'stretch' is not one of" in result.output


def test_an_estimate_runs_nothing(tmp_path):
    assert "grad_cam" in call("run", "focus", "--dry-run", "--per-class", 1, "--explainers", "grad_cam")

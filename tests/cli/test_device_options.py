"""`--device` and `--precision` on the command line: where they are, what they do, and what is said of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_commands import assert_clear_error, heatproof
from typer.testing import CliRunner

from elsewhere import elsewhere
from heatproof.cli.app import app

COMMANDS = [
    ["run", "svea"],
    ["run", "focus"],
    ["run", "clevr-xai"],
    ["run", "all"],
    ["show", "svea"],
    ["show", "clevr-xai"],
    ["focus", "layout"],
    ["focus", "randomise"],
    ["focus", "planted-bias"],
    ["train", "mnist1d-cnn"],
    ["train", "focus-classifier"],
    ["train", "vqa"],
    ["train", "focus-head"],
    ["train", "focus-finetune"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_whatever_computes_takes_a_device(words):
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert shown.exit_code == 0
    assert "--device" in shown.output
    assert ("--precision" in shown.output) == (words[0] == "run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "svea", "--device", "cuda:9"], ["there is no device 'cuda:9'", "sees cpu", "or auto"]),
        (["run", "svea", "--device", "gpu", "--dry-run"], ["unknown device 'gpu'", "auto, cpu, cuda, mps"]),
        (["run", "svea", "--precision", "half"], ["half", "float16"]),
        (["show", "svea", "--case", "test-0001", "--device", "cuda:9"], ["there is no device 'cuda:9'"]),
        (["train", "mnist1d-cnn", "--device", "cuda:9"], ["there is no device 'cuda:9'"]),
        (["train", "vqa", "nowhere", "--device", "cuda:9"], ["there is no device 'cuda:9'"]),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_is_not_there_is_said_before_any_work(words, said, tmp_path):
    assert_clear_error(heatproof(*words, cwd=tmp_path), *said)
    assert not list(tmp_path.iterdir())


def test_a_run_there_from_nothing_to_a_page(tmp_path: Path):
    with elsewhere():
        words = ["run", "svea", "--explainers", "grad_cam,random", "--limit", "40", "--target", "logit"]
        shown = CliRunner().invoke(
            app, [*words, "--device", "meta", "--precision", "float16", "--out", str(tmp_path / "r")]
        )
    assert shown.exit_code == 0, shown.output
    assert "note: explained in float16" in shown.output
    manifest = json.loads((tmp_path / "r" / "run.json").read_text())
    assert (manifest["device"], manifest["precision"]) == ("meta:0", "float16")
    assert {machine["device"] for machine in manifest["machines"].values()} == {"meta:0"}
    assert "meta:0" in (tmp_path / "r" / "report.html").read_text()

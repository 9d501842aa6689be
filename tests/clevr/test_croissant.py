"""Croissant metadata of data sets, read by MLCommons' own library; records are compared with the files themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlcroissant
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from heatproof.clevr import croissant
from heatproof.cli.app import app

SHIPPED = Path(croissant.__file__).with_name("shipped")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """The data set that ships, with its description."""
    folder = tmp_path_factory.mktemp("sets") / "my data"
    shutil.copytree(SHIPPED, folder)
    return croissant.write_croissant(folder)


def test_mlcroissant_finds_no_fault(dataset):
    found = mlcroissant.Dataset(jsonld=str(dataset))
    assert not found.metadata.ctx.issues.errors
    assert found.metadata.name == "my_data"
    assert {one.uuid for one in found.metadata.record_sets} >= {
        "CLEVR_scenes",
        "CLEVR_XAI_simple_questions",
        "pictures",
    }


def test_records_are_those_of_the_files(dataset):
    found = mlcroissant.Dataset(jsonld=str(dataset))
    questions = json.loads((dataset.parent / "CLEVR-XAI_simple_questions.json").read_text())["questions"]
    records = list(found.records("CLEVR_XAI_simple_questions"))
    assert len(records) == len(questions)
    for record, question in zip(records, questions, strict=True):
        told = {key.rpartition("/")[2]: value for key, value in record.items()}
        assert told["question_index"] == question["question_index"]
        assert told["question"].decode() == question["question"]
    pictures = list(found.records("pictures"))
    assert len(pictures) == 60
    first = np.asarray(pictures[0]["pictures/content"])
    files = sorted((dataset.parent / "images").glob("*.png"))
    assert any(np.array_equal(first, np.asarray(Image.open(file))) for file in files)


def test_a_file_that_was_changed_is_noticed(dataset, tmp_path):
    folder = shutil.copytree(dataset.parent, tmp_path / "changed")
    path = folder / "CLEVR-XAI_simple_questions.json"
    path.write_text(path.read_text().replace("shape", "form", 1))
    described = json.loads((folder / croissant.FILE).read_text())["distribution"]
    stored = {entry["@id"]: entry.get("sha256") for entry in described}
    assert croissant.file_object(path)["sha256"] != stored[path.name]
    assert croissant.file_object(folder / "CLEVR_scenes.json")["sha256"] == stored["CLEVR_scenes.json"]


def test_questions_and_masks_are_described_where_the_data_set_is(dataset, tmp_path):
    """As `clevr render` has described it; test_render_command.py looks at that."""
    folder = shutil.copytree(dataset.parent, tmp_path / "data")
    (folder / "CLEVR-XAI_simple_questions.json").unlink()
    shutil.rmtree(folder / "ground_truth")
    croissant.write_croissant(folder)
    for words in (["ask", str(folder), "--set", "simple"], ["ground-truth", str(folder)]):
        done = CliRunner().invoke(app, ["clevr", *words])
        assert done.exit_code == 0, done.output
    found = mlcroissant.Dataset(jsonld=str(folder / croissant.FILE))
    assert not found.metadata.ctx.issues.errors
    assert any("questions" in one.uuid for one in found.metadata.record_sets)
    assert "ground_truth" in {one.uuid for one in found.metadata.distribution}


def test_the_folders_of_others_stay_as_they_are(tmp_path):
    folder = shutil.copytree(SHIPPED, tmp_path / "data")
    croissant.renew_croissant(folder)
    assert not (folder / croissant.FILE).exists()

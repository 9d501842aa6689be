"""Questions and pictures that the network for complex questions was not made for: named, or taken as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

import heatproof
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr.files import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError

PICTURES, CHANGED = 2, 3
EMPTY = (
    {"type": "scene", "inputs": [], "side_inputs": [], "_output": []},
    {"type": "count", "inputs": [0], "side_inputs": [], "_output": 0},
)

Change = Callable[[Path, list[Any], list[Any]], None]


def world(folder: Path, change: Change) -> Path:
    """Two of the shipped scenes with their complex questions, something of which is changed."""
    source = shipped_dataset()
    scenes = json.loads((source / "CLEVR_scenes.json").read_text(encoding="utf-8"))
    asked = json.loads((source / "CLEVR-XAI_complex_questions.json").read_text(encoding="utf-8"))
    scenes["scenes"] = scenes["scenes"][:PICTURES]
    names = [scene["image_filename"] for scene in scenes["scenes"]]
    asked["questions"] = [one for one in asked["questions"] if one["image_filename"] in names]
    for part in ("images", "objects"):
        (folder / part).mkdir()
        for name in names:
            shutil.copy(source / part / name, folder / part / name)
    change(folder, scenes["scenes"], asked["questions"])
    (folder / "CLEVR_scenes.json").write_text(json.dumps(scenes), encoding="utf-8")
    (folder / "CLEVR-XAI_complex_questions.json").write_text(json.dumps(asked), encoding="utf-8")
    make_masks(open_dataset(folder), (128, 128))
    return folder


def worded(text: str) -> Change:
    def change(folder: Path, scenes: list[Any], asked: list[Any]) -> None:
        asked[CHANGED]["question"] = text

    return change


def of_another_size(folder: Path, scenes: list[Any], asked: list[Any]) -> None:
    path = folder / "images" / scenes[0]["image_filename"]
    Image.open(path).convert("RGB").resize((200, 90)).save(path)


def without_colours(folder: Path, scenes: list[Any], asked: list[Any]) -> None:
    path = folder / "images" / scenes[0]["image_filename"]
    Image.open(path).convert("L").save(path)


def without_objects(folder: Path, scenes: list[Any], asked: list[Any]) -> None:
    """The first scene is bare, and one question is asked about it: there is nothing to count, and nothing to mask."""
    scene, name = scenes[0], scenes[0]["image_filename"]
    scene["objects"], scene["relationships"] = [], {way: [] for way in scene["relationships"]}
    for part in ("images", "objects"):
        picture = Image.open(folder / part / name)
        colour = picture.convert("RGB").getpixel((2, 2)) if part == "images" else 0
        Image.new("RGB" if part == "images" else "L", picture.size, colour).save(folder / part / name)
    asked[0] |= {"question": "How many things are there?", "answer": 0, "program": list(EMPTY)}
    del asked[1 : next(place for place, one in enumerate(asked) if one["image_filename"] != name)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("What color is the shiny thing near the cube?", r"complex question 3: unknown word .*'near'"),
        ("What color is the orange cube?", r"complex question 3: unknown word .*'orange'"),
        ("How many wooden things are there?", r"complex question 3: unknown word .*'wooden'"),
        ("What color is the cube large?", r"complex question 3: .*worded in no way"),
        ("", r"complex question 3: .*worded in no way"),
    ],
    ids=["unknown word", "no such colour", "no such material", "no sentence", "nothing"],
)
def test_a_question_that_cannot_be_asked_is_named(tmp_path, text, said):
    with pytest.raises(HeatproofError, match=said):
        ClevrXai(dataset=world(tmp_path, worded(text)), questions="complex").open(0)


@pytest.mark.parametrize("change", [of_another_size, without_colours])
def test_pictures_of_other_kinds_are_made_to_fit(tmp_path, change):
    opened = ClevrXai(dataset=world(tmp_path, change), questions="complex", correct_only=False).open(0)
    assert opened.load(opened.chunks()[0]).inputs.shape == (20, 3, 128, 128)


@pytest.mark.parametrize("batch_size", [1, 4], ids=["alone", "in company"])
def test_a_question_about_an_empty_scene_has_no_truth_and_hurts_no_other(tmp_path, batch_size):
    (tmp_path / "data").mkdir()
    data = world(tmp_path / "data", without_objects)
    run = heatproof.run(
        "clevr-xai", dataset=data, questions="complex", explainers=["gradient"], poolings=["max_norm"],
        out=tmp_path / "run", batch_size=batch_size,
    )  # fmt: skip
    rows = run.scores()
    bare = rows.filter(picture="CLEVR_val_000000.png")
    assert bare["predicted"].unique().to_list() == ["0"]
    assert bare["value"].is_nan().all()
    assert bare["undefined"].str.len_chars().min() > 0
    others = rows.filter(pl.col("picture") != "CLEVR_val_000000.png", metric="mass_accuracy", ground_truth="union")
    assert others["value"].is_not_nan().all()

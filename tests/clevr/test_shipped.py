"""The data set that ships with Heatproof is small, whole, and what the documented commands make.

heatproof clevr render DIR --num-images 60 --size 128x128 --mask-size 480x320 --seed 60 --split val
heatproof clevr ask DIR --set simple
heatproof clevr ask DIR --set complex
heatproof clevr ground-truth DIR
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from heatproof.benchmarks.clevr_removal import ClevrRemoval
from heatproof.benchmarks.clevr_twins import ClevrTwins
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr.files import Dataset, open_dataset
from heatproof.clevr.ground_truth import KINDS, make_masks
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings, sample_scene
from heatproof.clevr.shipped import folder_named, shipped_dataset
from heatproof.engine.arguments import folders_of
from heatproof.progress import silent

SETTINGS = SceneSettings(60, "val", 3, 10, 128, 128)


@pytest.fixture(scope="module")
def shipped() -> Dataset:
    return open_dataset(shipped_dataset())


def test_it_is_whole_and_small(shipped):
    shipped.check()
    assert len(shipped.scenes) == 60
    assert packed_size(shipped.folder) < 1_500_000
    assert len(shipped.questions("simple")) == 236
    assert len(shipped.questions("complex")) == 600
    for kind in KINDS["simple"]:
        assert shipped.masks("simple", kind).available.all()
    missing = {kind: int((~shipped.masks("complex", kind).available).sum()) for kind in KINDS["complex"]}
    assert missing == {"unique": 60, "unique_first_nonempty": 3, "union": 3, "all_objects": 0}


def test_it_is_meant_by_its_name_unless_there_is_another_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given in (Path("shipped"), "shipped", None):
        assert folder_named(given) == shipped_dataset()
    Path("shipped").mkdir()
    assert folder_named("shipped") == Path("shipped")
    assert folder_named(None) == shipped_dataset()


def test_benchmarks_know_it_by_its_name_and_send_nothing_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    removal = ClevrRemoval(dataset="shipped", limit=1)
    assert removal.found(silent)[1].folder == shipped_dataset()
    assert ClevrXai(dataset="shipped", limit=1).found("simple", silent)[1].folder == shipped_dataset()
    assert ClevrTwins(dataset="shipped", limit=1).open(0).story.dataset == "shipped"
    assert folders_of(removal) == []
    assert folders_of(ClevrRemoval(dataset=str(tmp_path))) == [tmp_path]


def packed_size(folder: Path) -> int:
    """What the files take in a wheel, which is a zip archive."""
    return sum(len(zlib.compress(path.read_bytes())) for path in folder.rglob("*") if path.is_file())


def test_its_scenes_are_sampled_from_the_seed(shipped):
    for index in range(60):
        made = json.loads(json.dumps(sample_scene(SETTINGS, index)))
        assert made == shipped.scenes[f"CLEVR_val_{index:06d}.png"]


@pytest.mark.parametrize("name", ["simple", "complex"])
def test_its_questions_are_asked_from_the_seed(shipped, tmp_path, name):
    make_questions(shipped.folder / "CLEVR_scenes.json", name, out=tmp_path / "questions.json")
    made, there = (
        json.loads(path.read_text(encoding="utf-8"))["questions"]
        for path in (tmp_path / "questions.json", shipped.layout.questions[name])
    )
    assert made == there


def test_its_masks_are_those_of_its_questions(shipped, tmp_path):
    make_masks(shipped, (128, 128), None, "packed", tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in (shipped.folder / "ground_truth").iterdir())
    for name in made:
        assert (tmp_path / name).read_bytes() == (shipped.folder / "ground_truth" / name).read_bytes()


def test_its_pictures_are_rendered_from_the_seed(shipped, tmp_path):
    """On the same kind of processor every bit is the same; others may round a value the other way."""
    pytest.importorskip("pyoidn", reason="the pictures are denoised")
    render_dataset(tmp_path, 2, SETTINGS, PictureSettings(denoise=True), mask_size=(320, 480))
    made = open_dataset(tmp_path)
    for name, scene in made.scenes.items():
        assert scene == shipped.scenes[name]
        assert (made.object_ids(scene) == shipped.object_ids(shipped.scenes[name])).all()
        rendered, there = (each.picture(each.scenes[name]).astype(int) for each in (made, shipped))
        assert np.abs(rendered - there).max() <= 1


def test_it_needs_no_torch():
    script = (
        "import sys\n"
        "from heatproof.clevr.files import open_dataset\n"
        "from heatproof.clevr.shipped import shipped_dataset\n"
        "question = open_dataset(shipped_dataset()).questions('simple')[0]\n"
        "assert question.mask('single_object').any() and question.picture().any()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

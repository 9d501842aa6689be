"""The fingerprint of questions changes with whatever they are about, and with nothing else."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.mask_files import FOLDER
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError
from tiny_datasets import edit_json, flip, write_clevr, write_world

FIRST, LAST = "CLEVR_new_000000.png", "CLEVR_new_000003.png"
QUESTIONS = "CLEVR-XAI_simple_questions.json"


@pytest.fixture
def world(tmp_path) -> Path:
    made = write_world(tmp_path / "w")
    make_masks(open_dataset(made), (16, 24))
    return made


def prints(world: Path) -> tuple[str, str]:
    """Of all simple questions, and of the first five, which are about the first picture."""
    dataset = open_dataset(world)
    return dataset.fingerprint("simple"), dataset.fingerprint("simple", dataset.questions("simple")[:5])


def repaint(path: Path) -> None:
    """Another value in one pixel; a whole PNG as before."""
    pixels = np.array(Image.open(path))
    pixels[3, 4, 0] ^= 1
    Image.fromarray(pixels).save(path)


def remake_masks(world: Path) -> None:
    shutil.rmtree(world / FOLDER)
    make_masks(open_dataset(world), (16, 24))


@pytest.mark.parametrize(("name", "changed"), [(FIRST, (True, True)), (LAST, (True, False))])
def test_a_pixel_of_a_picture(world, name, changed):
    before = prints(world)
    repaint(world / "images" / name)
    open_dataset(world).check()
    assert tuple(new != old for new, old in zip(prints(world), before, strict=True)) == changed


@pytest.mark.parametrize(
    ("place", "field", "value"),
    [(2, "question", "Which?"), (2, "answer", "other"), (19, "question", "Which?"), (19, "answer", "other")],
)
def test_a_question(world, place, field, value):
    before = prints(world)
    edit_json(world / QUESTIONS, lambda content: content["questions"][place].update({field: value}))
    remake_masks(world)
    all_of_them, first = prints(world)
    assert all_of_them != before[0]
    assert (first != before[1]) == (place == 2)


def test_a_program_a_scene_and_a_mask(world):
    before = prints(world)
    edit_json(world / QUESTIONS, lambda content: content["questions"][1]["program"][0].update(note=1))
    remake_masks(world)
    assert not set(prints(world)) & set(before)
    before = prints(world)
    edit_json(world / "CLEVR_scenes.json", lambda content: content["scenes"][0]["objects"][0].update(color="pink"))
    assert not set(prints(world)) & set(before)
    before = prints(world)
    shutil.rmtree(world / FOLDER)
    make_masks(open_dataset(world), (16, 25))
    assert not set(prints(world)) & set(before)


def test_what_it_does_not_hang_on(world, tmp_path):
    """Where the data set lies, dates, blanks and the order of keys, other sets, later scenes, the layout of masks."""
    before = prints(world)
    moved = shutil.move(world, tmp_path / "moved")
    assert prints(moved) == before
    for name in (QUESTIONS, "CLEVR_scenes.json"):
        content = json.loads((moved / name).read_text())
        (moved / name).write_text(json.dumps(content | {"info": {"date": "tomorrow"}}, indent=1, sort_keys=True))
    edit_json(moved / "CLEVR-XAI_complex_questions.json", lambda content: content["questions"].pop())
    shutil.rmtree(moved / FOLDER)
    make_masks(open_dataset(moved), (16, 24), layout="release")
    assert prints(moved) == before


def test_pictures_alone(world):
    dataset = open_dataset(world)
    simple, complex_ = dataset.questions("simple"), dataset.questions("complex")
    assert dataset.pictures_fingerprint(simple) == dataset.pictures_fingerprint(complex_)
    assert dataset.pictures_fingerprint(simple[:5]) == dataset.pictures_fingerprint(simple[4::-1])
    assert dataset.pictures_fingerprint(simple[:5]) != dataset.pictures_fingerprint(simple)
    repaint(world / "images" / LAST)
    again = open_dataset(world)
    assert again.pictures_fingerprint(again.questions("simple")) != dataset.pictures_fingerprint(simple)
    (world / "images" / FIRST).rename(world / "x")
    (world / "images" / LAST).rename(world / "images" / FIRST)
    (world / "x").rename(world / "images" / LAST)
    swapped = open_dataset(world)
    assert swapped.pictures_fingerprint(simple) != again.pictures_fingerprint(simple)


def test_a_damaged_picture_or_mask_has_none(world):
    flip(world / "images" / LAST, [60])
    with pytest.raises(HeatproofError, match=LAST):
        open_dataset(world).fingerprint("simple")
    dataset = open_dataset(world)
    assert dataset.fingerprint("simple", dataset.questions("simple")[:5])
    flip(world / FOLDER / "simple_single_object.npy", [128])
    with pytest.raises(HeatproofError, match="the mask of question 0 is damaged"):
        open_dataset(world).fingerprint("simple")


def test_data_sets_without_pictures_masks_or_scenes(tmp_path):
    world = write_world(tmp_path / "w")
    for path in (world / "images").iterdir():
        path.unlink()
    assert len(prints(world)[0]) == 32
    clevr = open_dataset(write_clevr(tmp_path))
    assert len({clevr.fingerprint(name) for name in ("train", "val", "test")}) == 3


@given(st.data())
def test_a_byte_of_the_scenes(scenes_only, data):
    """An error, or another fingerprint, or the same scenes."""
    path = scenes_only / "CLEVR_scenes.json"
    good, before = path.read_bytes(), open_dataset(scenes_only)
    flip(path, [data.draw(st.integers(0, len(good) - 1))], data.draw(st.integers(1, 255)))
    try:
        dataset = open_dataset(scenes_only)
        same_print = dataset.fingerprint("simple") == before.fingerprint("simple")
        assert not same_print or dict(dataset.scenes) == dict(before.scenes)
    except HeatproofError:
        pass
    finally:
        path.write_bytes(good)


@pytest.fixture(scope="module")
def scenes_only(tmp_path_factory) -> Path:
    """Scenes and questions without any picture, so that none is missed when its name is damaged."""
    world = write_world(tmp_path_factory.mktemp("scenes") / "w", scenes=2)
    for folder in ("images", "masks", "objects"):
        shutil.rmtree(world / folder)
    return world


def test_progress_and_time():
    """The 60 pictures that ship take milliseconds; a second is for slow machines."""
    told = []
    dataset = open_dataset(shipped_dataset())
    dataset.questions("simple")
    start = time.process_time()
    dataset.fingerprint("simple", progress=lambda *what: told.append(what))
    assert time.process_time() - start < 1
    assert told[-1] == ("reading pictures", 60, 60)

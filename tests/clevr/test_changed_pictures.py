"""Scenes once more without an object: which pixels may change, which may not, and what is made again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from heatproof.clevr import open_dataset
from heatproof.clevr.changed_pictures import (
    CHUNK,
    Look,
    folder_of,
    look_of,
    make_changed,
    painting_code,
    read_changed,
    recipe_in,
    wanted_of,
)
from heatproof.clevr.interventions import changed
from heatproof.clevr.object_regions import object_regions
from heatproof.clevr.rendering.checks import check_scene
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import seen_objects, trace_scene
from heatproof.clevr.scenes import SceneSettings, sample_scene
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution

SIDE, SAMPLES, SEED = 20, 6, 5
WALK = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from heatproof.clevr.rendering import kernels
from heatproof.clevr.rendering.checks import check_scene
from heatproof.clevr.rendering.packing import pack
from heatproof.clevr.rendering.tracer import VERTICES

scene, side, samples, seed, gone = json.load(sys.stdin)
met = False
plain_meet = kernels.meet

def watched_meet(o, d, i, nearest, w):
    global met
    t = plain_meet(o, d, i, nearest, w)
    met = met or (i == gone and t < nearest)
    return t

kernels.meet = watched_meet
seen = []
plain_window = kernels.in_window

def next_pixel(x, y, w):  # called once at the beginning of every pixel
    global met
    seen.append(met)
    met = False
    return plain_window(x, y, w)

kernels.in_window = next_pixel
kernels.trace(0, side, side, side, samples, VERTICES, np.uint64(seed), pack(check_scene(scene), side, side))
json.dump([*map(bool, seen[1:]), bool(met)], sys.stdout)
"""
"""The tracer as plain Python, watched: for each pixel, whether any ray meets the object, on whatever way of light."""


@pytest.fixture(scope="module")
def scene():
    return sample_scene(SceneSettings(seed=3, min_objects=4, max_objects=4), 0)


def test_pixels_that_no_light_by_the_object_reaches_are_bit_equal(scene):
    """Reference: the same tracer interpreted by Python, which notes for every pixel whether a ray meets the object."""
    gone = int(np.bincount(seen_objects(check_scene(scene), SIDE, SIDE).ravel())[1:].argmax())  # the one seen most of
    given = json.dumps([scene, SIDE, SAMPLES, SEED, gone])
    command = [sys.executable, "-c", WALK]
    walked = subprocess.run(
        command, input=given, capture_output=True, text=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}
    )
    assert walked.returncode == 0, walked.stderr
    touched = np.array(json.loads(walked.stdout)).reshape(SIDE, SIDE)

    with_it, without = (
        trace_scene(check_scene(one), SIDE, SIDE, SAMPLES, SEED) for one in (scene, changed(scene, gone, "remove"))
    )
    same = np.logical_and.reduce([(a == b).all(-1) for a, b in zip(with_it, without, strict=True)])
    assert same[~touched].all()
    assert 12 <= touched.sum() <= 0.7 * touched.size  # or it would say nothing
    assert (~same[touched]).mean() > 0.5  # light that comes by the object is another without it


def test_what_is_fully_hidden_leaves_the_picture_as_it_is(scene):
    """A ball inside a cube, or below the ground: no ray reaches it."""
    cube = scene["objects"][0] | {"shape": "cube", "size": "large"}
    inside = cube | {"shape": "sphere", "size": "small", "color": "red"}
    below = cube | {"shape": "sphere", "3d_coords": [0.0, 0.0, -9.0]}
    whole = scene | {"objects": [cube, inside, *scene["objects"][1:], below]}
    pictures = [render(one, 32, 32, samples=4, denoise=False).image for one in (whole, *without_each(whole))]
    assert np.array_equal(pictures[0], pictures[2])
    assert np.array_equal(pictures[0], pictures[-1])
    assert not np.array_equal(pictures[0], pictures[1])


def without_each(scene):
    return [changed(scene, place, "remove") for place in range(len(scene["objects"]))]


@pytest.mark.parametrize(("intervention", "field"), [("recolour", "color"), ("rematerial", "material")])
def test_other_interventions_change_one_attribute_of_one_object(scene, intervention, field):
    other = changed(scene, 2, intervention)
    differing = [
        (place, name)
        for place, (a, b) in enumerate(zip(scene["objects"], other["objects"], strict=True))
        for name in a
        if a[name] != b[name]
    ]
    assert differing == [(2, field)]
    assert changed(scene, 2, intervention) == other
    with pytest.raises(HeatproofError, match="no object 7"):
        changed(scene, 7, intervention)
    with pytest.raises(HeatproofError, match="remove"):
        changed(scene, 0, "removed")


def test_what_is_hidden_shows_the_empty_room_and_nothing_else_changes(scene, tmp_path):
    """Reference: pixel by pixel, the picture as it is and that of the scene without any object.

    With its rim: where it is seen at the centre of a pixel beside, and no other object at that of the pixel.
    """
    look = Look(24, 20, PictureSettings(samples=2, denoise=False).settled)
    wanted = wanted_of([scene], "hide")
    made = make_changed(wanted, tmp_path, look, Execution("local"))
    assert made.made == len(wanted) == 1 + len(scene["objects"])
    whole, empty = (render(one, 24, 20, samples=2, denoise=False) for one in (scene, scene | {"objects": []}))
    assert np.array_equal(read_changed(tmp_path, wanted[0]), whole.image)
    for place, one in enumerate(wanted[1:]):
        found = read_changed(tmp_path, one)
        for row, column in np.ndindex(20, 24):
            around = whole.objects[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
            own = whole.objects[row, column]
            expected = empty if own == place + 1 or (own == 0 and place + 1 in around) else whole
            assert np.array_equal(found[row, column], expected.image[row, column])
    assert make_changed(wanted, tmp_path, look, Execution("local")).made == 0
    assert len({one.recipe(look) for one in wanted}) == len(wanted)


@pytest.fixture
def world(tmp_path):
    folder = tmp_path / "world"
    settings = SceneSettings(seed=3, min_objects=3, max_objects=3, width=16, height=16)
    render_dataset(folder, 2, settings, PictureSettings(samples=1, denoise=False), how=Execution("local"))
    return folder


@pytest.mark.parametrize(("intervention", "moves"), [("remove", 3), ("hide", 4)])
def test_pictures_are_made_once_and_those_of_other_settings_again(world, intervention, moves):
    """Of a scene in which an object has moved, all change but the one without it."""
    data = open_dataset(world)
    look, folder = look_of(data), folder_of(data)
    assert look == Look(16, 16, PictureSettings(samples=1, denoise=False))
    wanted = wanted_of(data.scenes.values(), intervention)
    assert (make_changed(wanted, folder, look).made, len(wanted)) == (8, 8)
    for one in wanted:
        if one.place is None:
            assert np.array_equal(read_changed(folder, one), data.picture(one.scene))
    before = {path: path.read_bytes() for path in folder.rglob("*.png")}

    (folder / wanted[1].file).unlink()
    (folder / wanted[2].file).write_bytes(before[folder / wanted[2].file][:-20])
    shutil.copy(folder / wanted[6].file, folder / wanted[5].file)  # whole, but of another object
    again = make_changed(wanted, folder, look)
    assert (again.made, again.there) == (3, 5)
    assert {path: path.read_bytes() for path in folder.rglob("*.png")} == before

    finer = Look(16, 16, PictureSettings(samples=2, denoise=False))
    assert make_changed(wanted, folder, finer).made == 8
    assert all(recipe_in(folder / one.file) == one.recipe(finer) for one in wanted)
    assert make_changed(wanted, folder, look).made == 8
    assert {path: path.read_bytes() for path in folder.rglob("*.png")} == before

    moved = json.loads(json.dumps(data.scenes))
    next(iter(moved.values()))["objects"][0]["3d_coords"][0] += 0.1
    assert make_changed(wanted_of(moved.values(), intervention), folder, look).made == moves


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"blender_assets": 3}, "blender_assets must be a folder's name"),
        ({"denoise": 5}, "denoise true or false"),
        ({"samples": "x"}, "samples must be a whole number"),
        ({"renderer": "pov"}, "unknown renderer 'pov'"),
    ],
)
def test_settings_that_are_none_are_named(world, settings, said):
    (world / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(HeatproofError, match=said):
        look_of(open_dataset(world))


def test_scenes_as_they_are_serve_all_changes_and_no_change_another(world):
    data = open_dataset(world)
    look, folder = look_of(data), folder_of(data)
    for intervention, made in (("remove", 8), ("hide", 6), ("recolour", 6), ("rematerial", 6)):
        assert make_changed(wanted_of(data.scenes.values(), intervention), folder, look).made == made
    assert {path.name: len(list(path.iterdir())) for path in folder.iterdir()} == {
        "as_it_is": 2,
        "remove": 6,
        "hide": 6,
        "recolour": 6,
        "rematerial": 6,
    }
    assert len({path.read_bytes() for path in folder.rglob("*.png")}) == 26


def test_pictures_of_blender_take_no_denoiser_of_ours(scene, monkeypatch):
    """Blender brings its own, so that its pictures have a recipe where pyoidn is not installed."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    looks = [Look(16, 16, PictureSettings(renderer, 1, denoise=True)) for renderer in ("tracer", "blender")]
    (wanted, *_) = wanted_of([scene])
    assert len({wanted.recipe(look) for look in looks}) == 2
    painting_code.cache_clear()
    monkeypatch.setattr(metadata, "version", missing)
    assert wanted.recipe(looks[1])
    with pytest.raises(metadata.PackageNotFoundError):
        wanted.recipe(looks[0])


def test_progress_says_what_is_made(world, tmp_path):
    data = open_dataset(world)
    told = {
        "remove": "without an object",
        "hide": "with an object painted over",
        "recolour": "with an object of another colour",
    }
    for intervention, words in told.items():
        said = set()
        wanted = wanted_of(list(data.scenes.values())[:1], intervention)
        make_changed(wanted, tmp_path, look_of(data), progress=lambda what, *_, said=said: said.add(what))
        assert [what for what in said if "tracer" not in what] == [f"pictures {words}"]


@pytest.mark.parametrize("intervention", ["remove", "hide"])
def test_processes_make_the_same_bytes(world, tmp_path, intervention):
    data = open_dataset(world)
    wanted = wanted_of(data.scenes.values(), intervention)
    for name, how in (("here", Execution("local")), ("there", Execution("processes", 2))):
        make_changed(wanted, tmp_path / name, look_of(data), how)
    for one in wanted:
        assert (tmp_path / "here" / one.file).read_bytes() == (tmp_path / "there" / one.file).read_bytes()


def test_the_shipped_pictures_lie_in_the_cache():
    assert Path(os.environ["HEATPROOF_HOME"]) in folder_of(open_dataset(shipped_dataset())).parents


def test_the_command_says_what_it_made_and_what_is_missing(world):
    def remove(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from heatproof.cli import main; main()", "clevr", "remove", str(world)]
        return subprocess.run(
            [*command, *words], capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"}
        )

    made = remove("--limit", "1", "--jobs", "1")
    assert made.returncode == 0, made.stderr
    assert "4 pictures made in" in made.stdout
    assert "CPU seconds" in made.stdout

    path = world / "CLEVR_scenes.json"
    scenes = json.loads(path.read_text())
    del scenes["scenes"][1]["_render"]["key"]
    path.write_text(json.dumps(scenes))
    refused = remove("--jobs", "1")
    assert refused.returncode == 2
    assert "CLEVR_new_000001.png: the scene does not say where key stood" in refused.stderr
    assert "Traceback" not in refused.stderr

    del scenes["scenes"][1]["_render"]
    path.write_text(json.dumps(scenes))
    assert "where camera, key, back, fill stood" in remove("--jobs", "1").stderr


def test_regions_share_out_the_mask_of_all_objects():
    """Reference: the data set's own masks of all objects, made elsewhere; and each region within its object's mask."""
    from heatproof.clevr.ground_truth import resize_objects

    data = open_dataset(shipped_dataset())
    for scene in list(data.scenes.values())[:3]:
        ids, count = data.object_ids(scene), len(scene["objects"])
        regions = object_regions(ids, count, 128, 128)
        masks = resize_objects(ids, count, 128, 128)
        assert np.array_equal(regions > 0, masks.any(0))
        for place in range(count):
            assert not (regions == place + 1)[~masks[place]].any()
            assert (regions == place + 1).any()


def test_the_recipe_travels_in_the_picture(world):
    from PIL import Image

    data = open_dataset(world)
    wanted = wanted_of(list(data.scenes.values())[:1])[:1]
    make_changed(wanted, folder_of(data), look_of(data))
    with Image.open(folder_of(data) / wanted[0].file) as picture:
        assert picture.info[CHUNK] == wanted[0].recipe(look_of(data))

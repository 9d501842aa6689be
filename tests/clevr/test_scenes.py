"""Scenes: every rule of the original generator, checked literally."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from heatproof.clevr import scenes
from heatproof.clevr.rendering import world
from heatproof.clevr.rendering.camera import Camera
from heatproof.clevr.rendering.tracer import seen_objects
from heatproof.clevr.scenes import SceneSettings, sample_scene
from heatproof.clevr.srgb import srgb
from heatproof.errors import HeatproofError
from reference.clevr_rendering import view_rays

SCENES = 150


@pytest.fixture(scope="module")
def sampled() -> list[scenes.Scene]:
    return [sample_scene(SceneSettings(seed=3), index) for index in range(SCENES)]


def test_objects_keep_their_distance(sampled):
    """Gap of 0.25, and 0.4 along each of the four directions, pair by pair."""
    for scene in sampled:
        for i, one in enumerate(scene["objects"]):
            x, y, z = one["3d_coords"]
            radius = {"large": 0.7, "small": 0.35}[one["size"]]
            assert max(abs(x), abs(y)) <= 3
            assert z == radius
            for other in scene["objects"][:i]:
                dx, dy = x - other["3d_coords"][0], y - other["3d_coords"][1]
                assert (dx**2 + dy**2) ** 0.5 - radius - other["3d_coords"][2] >= 0.25
                for direction in ("left", "right", "front", "behind"):
                    vx, vy, _ = scene["directions"][direction]
                    assert not 0 < dx * vx + dy * vy < 0.4


def test_relations_are_strict_orders_and_agree_with_the_coordinates(sampled):
    for scene in sampled:
        places, count = [thing["3d_coords"] for thing in scene["objects"]], len(scene["objects"])
        for name, vector in scene["directions"].items():
            if name in ("above", "below"):
                assert name not in scene["relationships"]
                continue
            for i in range(count):
                expected = [
                    j
                    for j in range(count)
                    if j != i and sum((places[j][k] - places[i][k]) * vector[k] for k in range(3)) > 0.2
                ]
                assert scene["relationships"][name][i] == expected
        for one, other in (("left", "right"), ("front", "behind")):
            pairs = zip(scene["relationships"][one], scene["relationships"][other], strict=True)
            assert all(sorted(a + b + [i]) == list(range(count)) for i, (a, b) in enumerate(pairs))


def test_everything_is_visible_at_the_original_size(sampled):
    for scene in sampled[:30]:
        pixels = np.bincount(seen_objects(scene, 480, 320).ravel(), minlength=len(scene["objects"]) + 1)
        assert len(pixels) == len(scene["objects"]) + 1
        assert pixels.min() >= 200


def test_hidden_objects_are_rejected():
    """A small sphere right behind a large cube, as seen from the camera, shows less than 200 pixels."""
    from heatproof.clevr.scenes import all_visible

    away = np.array(world.CAMERA[:2]) / np.linalg.norm(world.CAMERA[:2])
    common = {"material": "rubber", "color": "red", "rotation": float(np.arctan2(away[1], away[0]))}
    cube = {"shape": "cube", "size": "large", "3d_coords": [0.0, 0.0, 0.7], **common}
    for distance, visible in ((-1.2, False), (3.0, True)):
        sphere = {"shape": "sphere", "size": "small", "3d_coords": [*(distance * away), 0.35], **common}
        assert all_visible([cube, sphere], {"camera": world.CAMERA} | world.LAMPS) is visible


def test_draws_are_uniform(sampled):
    """Chi-square of each attribute below the 99.99 % point of its distribution; numbers of objects too."""
    things = [thing for scene in sampled for thing in scene["objects"]]
    limits = {1: 15.1, 2: 18.4, 7: 29.9}
    columns = [[thing[name] for thing in things] for name in ("shape", "size", "material", "color")]
    # Scenes with many large objects are sampled anew more often, so sizes are judged where there is room for all.
    columns[1] = [thing["size"] for scene in sampled if len(scene["objects"]) <= 6 for thing in scene["objects"]]
    columns.append([len(scene["objects"]) for scene in sampled])
    for column, kinds in zip(columns, (3, 2, 2, 8, 8), strict=True):
        counts = Counter(column)
        assert len(counts) == kinds
        expected = len(column) / kinds
        assert sum((count - expected) ** 2 / expected for count in counts.values()) < limits[kinds - 1]


def test_jitter_stays_within_its_bounds_and_uses_them(sampled):
    for name, centre, most in [("camera", world.CAMERA, 0.5), *((n, p, 1.0) for n, p in world.LAMPS.items())]:
        offsets = np.array([scene["_render"][name] for scene in sampled]) - np.array(centre)
        assert np.abs(offsets).max() <= most
        assert_allclose(offsets.std(0), most / 3**0.5, rtol=0.25)
        assert np.abs(offsets.mean(0)).max() < 0.2 * most


def test_directions_are_those_of_the_camera_at_rest(sampled):
    """Reference: the camera's axes, projected on the ground; the right-hand vector is also printed in CLEVR's files."""
    eye = np.array(world.CAMERA)
    behind = -eye * (1, 1, 0) / np.linalg.norm(eye[:2])
    right = np.cross(behind, (0, 0, 1))
    for scene in sampled[:5]:
        assert_allclose(scene["directions"]["behind"], behind, atol=2e-3)
        assert_allclose(scene["directions"]["right"], right, atol=2e-3)
        assert_allclose(scene["directions"]["right"], (0.65631, 0.75449, 0), atol=1e-5)


def test_pixel_coordinates_point_at_the_objects(sampled):
    """Reference: the ray through that pixel passes the object's centre within a pixel."""
    for scene in sampled[:20]:
        eye, rays = view_rays(scene["_render"]["camera"], 480, 320)
        for thing in scene["objects"]:
            x, y, depth = thing["pixel_coords"]
            assert isinstance(x, int)
            assert isinstance(y, int)
            way = np.array(thing["3d_coords"]) - eye
            ray = rays[min(y, 319), min(x, 479)]
            assert np.linalg.norm(way - (way @ ray) * ray) < 1.5 * depth * 32 / 35 / 480
            assert depth == pytest.approx(way @ (-eye / np.linalg.norm(eye)))


def test_coordinates_and_relations_equal_those_of_stored_scenes(shared_data):
    """Reference: the scene file that came with pictures of the original assets."""
    stored = json.loads(shared_data("clevr/original_look/CLEVR_scenes.json").read_text())["scenes"]
    for scene in stored:
        places = [thing["3d_coords"] for thing in scene["objects"]]
        assert scenes.relationships(places) == scene["relationships"]
        projected = Camera(tuple(scene["_render"]["camera"]), 480, 320).project(np.array(places))
        for thing, (x, y, depth) in zip(scene["objects"], projected, strict=True):
            assert [round(float(x)), round(float(y))] == thing["pixel_coords"][:2]
            assert depth == pytest.approx(thing["pixel_coords"][2])


def test_a_scene_depends_on_seed_and_index_only(sampled):
    assert json.dumps(sample_scene(SceneSettings(seed=3), 7)) == json.dumps(sampled[7])
    assert sample_scene(SceneSettings(seed=4), 7)["objects"] != sampled[7]["objects"]
    small = sample_scene(SceneSettings(seed=3, width=128, height=128, split="val"), 7)
    assert small["image_filename"] == "CLEVR_val_000007.png"
    for one, other in zip(small["objects"], sampled[7]["objects"], strict=True):
        for name in set(one) - {"pixel_coords"}:
            assert one[name] == other[name]
        assert one["pixel_coords"][0] == pytest.approx(other["pixel_coords"][0] * 128 / 480, abs=1)


def test_mask_colours_can_be_told_apart():
    for index in range(20):
        scene = sample_scene(SceneSettings(seed=1, min_objects=10), index)
        colours = [(64, 64, 64), *(tuple(srgb(v) for v in thing["mask_color"]) for thing in scene["objects"])]
        assert all(max(abs(a - b) for a, b in zip(p, q, strict=True)) >= 24 for p in colours for q in colours if p != q)
        assert len(set(colours)) == 11


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_objects": 100}, "100 objects cannot be placed: no more than 22"),
        ({"min_objects": 5, "max_objects": 4}, "min-objects is 5, above max-objects"),
        ({"min_objects": 0}, "min-objects must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"split": "a/b"}, "split 'a/b'"),
        ({"width": 4}, "width must be a whole number of at least 8"),
    ],
)
def test_settings_that_make_no_sense(wrong, said):
    with pytest.raises(HeatproofError, match=said):
        SceneSettings(**wrong)


def test_a_scene_that_finds_no_place_gives_up(monkeypatch):
    monkeypatch.setattr(scenes, "SCENE_TRIES", 30)
    with pytest.raises(HeatproofError, match="scene 4: 20 objects could not be placed in 30 attempts"):
        sample_scene(SceneSettings(min_objects=20, max_objects=20), 4)

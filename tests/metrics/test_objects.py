"""Scores for objects and selectivity, against literal versions in float64, and theory where the score is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heatproof.errors import HeatproofError
from heatproof.metrics import metrics
from reference import metrics as literal

CASES, OBJECTS, SPACE = 12, 5, (4, 6)


@pytest.fixture(scope="module")
def scene() -> dict[str, torch.Tensor]:
    """Heatmaps in eighths, so that some objects hold the same; the last object of every other scene is none."""
    draw = np.random.default_rng(3)
    owner = draw.integers(-1, OBJECTS, (CASES, *SPACE))
    owner[:, 0, :OBJECTS], owner[:, 1, 0] = np.arange(OBJECTS), -1
    objects = owner[:, None] == np.arange(OBJECTS)[:, None, None]
    objects[::2, -1] = False
    truth = np.zeros((CASES, OBJECTS), bool)
    truth[:, 0], truth[::3, 1], other = True, True, np.zeros((CASES, OBJECTS), bool)
    other[:, 2], other[::3, 1] = True, True
    heat = draw.integers(0, 4, (CASES, *SPACE)) / 8
    heat[:, 0, 0] = 0.5
    arrays = {"heat": heat, "objects": objects, "truth": truth, "other": other}
    masks = {f"{name} mask": (objects & arrays[name][:, :, None, None]).any(1) for name in ("truth", "other")}
    return {name: torch.as_tensor(array) for name, array in (arrays | masks).items()}


def per_case(scene, make) -> list[float]:
    """What a literal version makes of each case: flat arrays, and only the objects that are there."""
    found = []
    for place in range(CASES):
        objects = scene["objects"][place].flatten(1).numpy()
        there = objects.any(1)
        flags = [scene[name][place].numpy()[there].tolist() for name in ("truth", "other")]
        found.append(make(scene["heat"][place].flatten().numpy(), objects[there], *flags))
    return found


@pytest.mark.parametrize("mean", [False, True])
def test_objects_found_equal_all_ways_of_breaking_ties(scene, mean):
    name = "object_top_n_mean" if mean else "object_top_n"
    found = metrics[name].function(scene["heat"], scene["objects"], scene["truth"])
    expected = per_case(
        scene, lambda heat, objects, own, other: literal.object_top_n(literal.held_by_objects(heat, objects, mean), own)
    )
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("mean", [False, True])
def test_selectivity_of_objects_equals_the_loop(scene, mean):
    name = "object_selectivity_mean" if mean else "object_selectivity"
    found = metrics[name].function(scene["heat"], scene["objects"], scene["truth"], scene["other"])
    expected = per_case(
        scene,
        lambda heat, objects, own, other: literal.object_selectivity(
            literal.held_by_objects(heat, objects, mean), own, other
        ),
    )
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["mass_selectivity", "rank_selectivity"])
def test_selectivity_of_pixels_equals_the_loop(scene, name):
    found = metrics[name].function(scene["heat"], scene["truth mask"], scene["other mask"])
    expected = [
        getattr(literal, name)(*(scene[each][place].flatten().numpy() for each in ("heat", "truth mask", "other mask")))
        for place in range(CASES)
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["mass_selectivity", "rank_selectivity", "object_selectivity"])
def test_selectivity_changes_its_sign_with_the_question(scene, name):
    """Theory: what is own for one of two questions is the other for the other."""
    about = [scene["objects"]] if name.startswith("object") else []
    sides = [scene[f"{side}{'' if about else ' mask'}"] for side in ("truth", "other")]
    found, turned = (metrics[name].function(scene["heat"], *about, *each) for each in (sides, sides[::-1]))
    torch.testing.assert_close(found, -turned)


def test_relevance_on_no_object_is_what_is_left_of_the_mass(scene):
    found = metrics["off_objects"].function(scene["heat"], scene["objects"])
    on = metrics["mass_accuracy"].function(scene["heat"], scene["objects"].any(1))
    torch.testing.assert_close(found, 1 - on)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_unusable_maps_are_undefined(scene, value):
    heat = scene["heat"].clone()
    heat[2] = 0.0 if value == 0 else heat[2]
    heat[2, -1, -1] = value
    calls = {
        "object_top_n": (scene["objects"], scene["truth"]),
        "object_selectivity": (scene["objects"], scene["truth"], scene["other"]),
        "off_objects": (scene["objects"],),
        "mass_selectivity": (scene["truth mask"], scene["other mask"]),
    }
    for name, about in calls.items():
        assert metrics[name].function(heat, *about).isnan().tolist() == [place == 2 for place in range(CASES)]


def test_no_choice_is_undefined(scene):
    """No object decides, or every one: any map would score the same."""
    truth = scene["truth"].clone()
    truth[3], truth[4] = False, True
    found = metrics["object_top_n"].function(scene["heat"], scene["objects"], truth)
    assert found.isnan().tolist() == [place in (3, 4) for place in range(CASES)]


def test_shapes_that_do_not_fit_are_named(scene):
    with pytest.raises(HeatproofError, match="must be"):
        metrics["object_top_n"].function(scene["heat"], scene["objects"][:, :3], scene["truth"])

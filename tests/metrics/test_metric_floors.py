"""No metric is won by a map that says nothing: constant, random and other-question maps, on all that are registered.

Two questions are asked about each of many scenes, about objects of their own. References: what each metric states for a
uniform map (`metrics.uniform`), and by hand where that depends on the scene.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from heatproof.benchmarks.base import benchmarks
from heatproof.benchmarks.clevr_removal import rows as effect_rows
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.benchmarks.clevr_xai import rows as question_rows
from heatproof.benchmarks.masks import rows as mask_rows
from heatproof.metrics import metrics
from heatproof.metrics.uniform import uniform_column
from reference import metrics as literal

SCENES, OBJECTS, SIDE, CELL = 100, 5, 24, 6
CASES = 2 * SCENES
MAPS = ("constant", "random", "other")
IN_MOSAICS = ("focus", "focus_best")
"""Their masks are the one half of a picture or the other."""
WINDOWS = ("drop", "increase", "roe_accuracy")
"""They cut a window around the maximum of a signal, and a constant map has none: tests/benchmarks/test_svea.py."""
BEATEN = {
    ("constant", "attribution_recall"): "nothing speaks against any position",
    ("constant", "attribution_f1"): "so with recall",
    ("random", "average_precision"): "luck at the few highest values counts for more than bad luck at others",
    ("random", "best_iou"): "of all thresholds the luckiest counts",
    ("random", "pixel_accuracy"): "it marks half of the picture, and most of a picture is background",
    ("other", "pixel_accuracy"): "most of the background is marked rightly, and that is most of the picture",
    ("other", "segmentation_ap"): "so here",
    ("other", "off_objects"): "it asks for objects, whichever they are",
    ("other", "no_object_share"): "so here",
    ("other", "false_cue_share"): "it leaves the cue alone, whether a network uses it or not",
}
"""Floors that a map can beat without knowing anything, and why: tables show them, if at all, beside other scores."""


@cache
def world() -> dict[str, Tensor]:
    """Scenes with five objects of different sizes; of each, two cases are about objects of their own."""
    draw = np.random.default_rng(7)
    objects = np.zeros((SCENES, OBJECTS, SIDE, SIDE), bool)
    for scene in objects:
        cells = draw.permutation((SIDE // CELL) ** 2)[:OBJECTS]
        for thing, cell in zip(scene, cells, strict=True):
            row, column = CELL * (cell // (SIDE // CELL)), CELL * (cell % (SIDE // CELL))
            height, width = draw.integers(2, CELL + 1, 2)
            thing[row : row + height, column : column + width] = True
    truth = np.zeros((SCENES, 2, OBJECTS), bool)
    truth[:, 0, 0] = truth[:, 1, 1] = True
    truth[::2, 0, 2] = truth[::2, 1, 3] = True
    effects = np.where(truth, draw.uniform(4, 6, truth.shape), draw.uniform(0, 0.1, truth.shape))
    half = np.zeros((SCENES, 2, SIDE, SIDE), bool)
    half[:, 0, :, : SIDE // 2] = half[:, 1, :, SIDE // 2 :] = True
    things = objects.repeat(2, 0)
    own, other = truth.reshape(CASES, OBJECTS), truth[:, ::-1].reshape(CASES, OBJECTS)
    found = {"objects": things, "truth": own, "other": other, "effects": effects.reshape(CASES, OBJECTS)}
    found |= {f"{name} mask": (things & found[name][:, :, None, None]).any(1) for name in ("truth", "other")}
    found |= {"half": half.reshape(CASES, SIDE, SIDE), "random": draw.random((CASES, SIDE, SIDE))}
    found["noise"] = draw.normal(size=(CASES, SIDE, SIDE))
    return {name: torch.as_tensor(array.copy()) for name, array in found.items()}


def map_of(name: str, maps: str) -> Tensor:
    """The maps that a metric scores; where signs count, random ones have both."""
    scene = world()
    if maps == "constant":
        return torch.full((CASES, SIDE, SIDE), 0.3, dtype=torch.float64)
    if maps == "random":
        return scene["noise" if "signed relevance" in metrics[name].needs else "random"]
    return (~scene["half"] if name in IN_MOSAICS else scene["other mask"]).double()


@cache
def effect_scores(maps: str) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Values and stated floors of the metrics that need effects."""
    scene = world()
    regions = (scene["objects"].int() * torch.arange(1, OBJECTS + 1)[:, None, None]).sum(1)
    batch = ObjectBatch(
        torch.zeros(CASES, 1, SIDE, SIDE),
        torch.zeros(CASES).long(),
        tuple(map(str, range(CASES))),
        regions=regions,
        truths={"logit_abs": scene["effects"]},
    )
    table = effect_rows.score_table(batch, map_of("effect_mass", maps)[:, None], ["sum_pos"])
    kept = table.filter(pooling="sum_pos")
    return {
        str(metric): (group["value"].fill_nan(None).fill_null(group["uniform"]).to_numpy(), group["uniform"].to_numpy())
        for (metric,), group in kept.group_by("metric")
    }


def of_objects(heat: Tensor, name: str) -> list[Tensor]:
    """What the functions of scores of objects take."""
    scene = world()
    if name.startswith("object"):
        return [heat, scene["objects"], scene["truth"], *([scene["other"]] if "selectivity" in name else [])]
    return [heat, *([scene["objects"]] if name == "off_objects" else [scene["truth mask"], scene["other mask"]])]


def value_of(name: str, maps: str) -> np.ndarray:
    """Scores (cases,); an undefined one counts as its floor, as everywhere."""
    metric, heat, scene = metrics[name], map_of(name, maps), world()
    if "effects" in metric.needs:
        return effect_scores(maps)[name][0]
    if "twins" in metric.needs:  # what says nothing of a network is the same for both
        marked = (heat * scene["truth mask"]).sum((1, 2)) / heat.sum((1, 2))
        return np.asarray(metric.function(marked.numpy(), marked.numpy()))
    if name == "focus_best":
        found = metric.function(metrics["focus"].function(heat, scene["half"])[:, None])
    elif "signed relevance" in metric.needs:
        found = metric.function(heat[:, None], scene["truth mask"])
    elif metric.uniform == "scene":
        found = metric.function(*of_objects(heat, name))
    else:
        found = metric.function(heat, scene["half" if name in IN_MOSAICS else "truth mask"])
    values = found.numpy()
    return np.where(np.isnan(values), floor_of(name), values)


@cache
def floor_of(name: str) -> np.ndarray:
    """What the metric states for a uniform map: by the mask's share, by its rows, or by hand from the scene."""
    scene = world()
    if "effects" in metrics[name].needs:
        return effect_scores("constant")[name][1]
    if name == "cue_contrast":
        return np.zeros(CASES)
    if metrics[name].uniform == "scene":
        return np.array([in_scene(name, case) for case in range(CASES)])
    shares = scene["half" if name in IN_MOSAICS else "truth mask"].double().flatten(1).mean(1)
    return uniform_column(name, shares.tolist()).to_numpy()


def in_scene(name: str, case: int) -> float:
    """A uniform map's score by areas: literal versions on what each object holds of it."""
    scene = world()
    things, own, other = (scene[part][case].numpy() for part in ("objects", "truth", "other"))
    areas = things.sum((1, 2))
    if name == "off_objects":
        return 1 - areas.sum() / SIDE**2
    if name in ("mass_selectivity", "rank_selectivity"):
        return (areas[own].sum() - areas[other].sum()) / SIDE**2
    held = [1.0] * OBJECTS if name.endswith("_mean") else areas.tolist()
    score: Callable[..., float] = literal.object_selectivity if "selectivity" in name else literal.object_top_n
    return score(held, own.tolist(), *([other.tolist()] if "selectivity" in name else []))


SCORED = [name for name in metrics if name not in WINDOWS]
every_kind_of_map = pytest.mark.parametrize("maps", MAPS)


@pytest.mark.parametrize("name", SCORED)
@every_kind_of_map
def test_maps_that_say_nothing_stay_at_the_stated_floor(name: str, maps: str) -> None:
    """On average, within four standard errors; BEATEN is whole, and nothing stands in it without need."""
    better = 1 if metrics[name].higher_is_better else -1
    gained = better * (value_of(name, maps) - floor_of(name))
    is_above = bool(gained.mean() > 4 * gained.std() / np.sqrt(CASES) + 1e-9)
    assert is_above == ((maps, name) in BEATEN)


def test_all_that_is_registered_is_tried() -> None:
    assert {*SCORED, *WINDOWS} == set(metrics)
    assert {name for _, name in BEATEN} <= set(SCORED)
    assert {metrics[name].uniform for name in WINDOWS} == {"window"}


@pytest.mark.parametrize("name", [name for name in SCORED if metrics[name].uniform not in ("balanced", "balanced_f1")])
def test_a_constant_map_gets_what_is_stated_for_it(name: str) -> None:
    np.testing.assert_allclose(value_of(name, "constant"), floor_of(name), atol=1e-12)


def test_no_table_is_led_by_a_score_that_says_nothing() -> None:
    """The first column decides the order; of CLEVR-XAI's columns only that of relevance on no object can be beaten."""
    beaten = {name for _, name in BEATEN}
    assert set(question_rows.SHOWN) & beaten == {"off_objects"}
    columns = [effect_rows.shown_columns(["l1_norm"], "unique"), mask_rows.columns_for(["sum_pos"])]
    firsts = [question_rows.SHOWN[0], *(found[0].metric for found in columns)]
    assert not beaten & {*firsts, *(benchmarks[name].metrics[0] for name in benchmarks)}

"""The bias finder: its statistics, and a bias that was planted."""

from __future__ import annotations

import random

import polars as pl
import pytest

import heatproof
from heatproof.clevr.rendering import world
from heatproof.focus.bias import find_pairs, holm, pair_rows, tile_shares
from heatproof.focus.objects import render_objects, write_pictures
from heatproof.models.object_classifier import train

CLASSES = ("rubber_cube", "rubber_sphere", "rubber_cylinder")
PLANTED = ("rubber_cube", "rubber_sphere")


def test_holm_by_hand():
    """Reference: the definition, worked out: 0.01 x 4, 0.02 x 3, then 0.03 x 2 and 0.5, never falling."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_pairs_of_a_mosaic():
    shares = pl.DataFrame(
        {"case": ["a"], "target_class": ["x"]}
        | {f"label_{i}": [label] for i, label in enumerate("yxzx")}
        | {f"share_{i}": [share] for i, share in enumerate((0.1, 0.2, 0.3, 0.4))}
    )
    rows = {row["other"]: row for row in pair_rows(shares).iter_rows(named=True)}
    assert rows["y"]["focus"] == pytest.approx(0.6)
    assert rows["y"]["share"] == pytest.approx(0.3 / 0.4)
    assert rows["z"]["share"] == pytest.approx(0.5)


def test_only_pairs_that_are_surely_low_are_found():
    rng = random.Random(0)
    middles = {("a", "b"): 0.3, ("a", "c"): 0.5, ("b", "a"): 0.8}
    rows = [
        {"target_class": t, "other": o, "share": middle + rng.gauss(0, 0.1), "focus": middle}
        for (t, o), middle in middles.items()
        for _ in range(20)
    ]
    table = find_pairs(pl.DataFrame(rows))
    assert table.filter("found").select("target_class", "other").rows() == [("a", "b")]


def biased_colours(label: str, rng: random.Random) -> str:
    """In training, cubes are red and nothing else is."""
    return "red" if label == PLANTED[0] else rng.choice([c for c in world.COLOURS if c not in ("red", "brown")])


def fair_colours(label: str, rng: random.Random) -> str:
    return rng.choice(list(world.COLOURS))


def shown_colours(label: str, rng: random.Random) -> str:
    """Where the model is judged, spheres are red and cubes are not."""
    return "red" if label == PLANTED[1] else rng.choice(["blue", "green", "gray", "cyan"])


@pytest.mark.parametrize(("colours", "expected"), [(biased_colours, [PLANTED]), (fair_colours, [])])
def test_a_planted_bias_is_found_and_nothing_where_there_is_none(colours, expected, tmp_path):
    """Cubes that were always red in training: the model must be found to see them in red spheres, first of all."""
    small = {"side": 32, "samples": 4, "denoise": False, "classes": CLASSES}
    network = train(render_objects("train", 80, colours=colours, **small), 0, epochs=15)
    write_pictures(render_objects("shown", 12, colours=shown_colours, **small), tmp_path / "shown")
    run = heatproof.run(
        "focus",
        images=tmp_path / "shown",
        model=(network, {"labels": {label: place for place, label in enumerate(CLASSES)}}),
        explainers="grad_cam",
        target="logit",
        mosaics_per_class=20,
        tile=32,
        fit="squash",
        out=tmp_path / "r",
    )
    table = find_pairs(pair_rows(tile_shares(run, "grad_cam")))
    found = table.filter("found").select("target_class", "other").rows()
    # Such a model also sees little of a sphere in red spheres, so pairs with the target sphere may follow.
    assert found[:1] == expected, table
    assert all(PLANTED[1] in pair for pair in found), table

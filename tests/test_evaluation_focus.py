"""Heatmaps of mosaics made elsewhere: the same Focus as a run, every way to be bad, and no torch."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import heatproof
from heatproof.api import evaluate
from heatproof.benchmarks.focus import Focus
from heatproof.errors import HeatproofError
from heatproof.metrics.mask_scores import SIGNED
from heatproof.mosaics.mosaics import read_mosaics, write_mosaics
from no_torch import call_without_torch
from own_lines import own

AXES = ["metric", "ground_truth", "pooling", "case"]


@pytest.fixture(scope="module")
def mosaics(tmp_path_factory):
    """Twelve mosaics of our pictures on disk, as `heatproof focus mosaics` writes them."""
    recipe = Focus(per_class=2)
    return write_mosaics(recipe.draw(0)[0], tmp_path_factory.mktemp("mosaics"), *recipe.shape())


@pytest.fixture(scope="module")
def kept(mosaics, tmp_path_factory):
    """A run on them whose heatmaps are all kept."""
    out = tmp_path_factory.mktemp("kept") / "run"
    return heatproof.run("focus", mosaics=mosaics, tile=64, explainers="gradient,grad_cam", keep_heatmaps=True, out=out)


def oracle_maps(mosaics, side=10):
    """1 on the tiles of the target class, tile by tile."""
    maps = {}
    for mosaic in read_mosaics(mosaics):
        maps[mosaic.name] = np.kron(np.reshape(mosaic.targets, (2, 2)), np.ones((side, side)))
    return maps


def focus(run, pooling="paper"):
    table = own(run.leaderboard()).filter((pl.col("metric") == "focus") & (pl.col("pooling") == pooling))
    return table["mean"].to_list()[0]


def test_round_trip_without_torch(kept, mosaics, tmp_path):
    """Reference: the run that made the heatmaps; every score is the same, in a process where torch cannot be had."""
    entry = next(entry for entry in kept.manifest["explainers"] if entry["name"] == "gradient")
    maps = kept.folder / "heatmaps" / entry["folder"]
    words = ("--mosaics", mosaics, "--name", "gradient", "--out", tmp_path / "r")
    done = call_without_torch("evaluate", maps, "--benchmark", "focus", *words)
    assert done.returncode == 0, done.stderr
    wanted = (pl.col("explainer") == "gradient") & pl.col("metric").is_in(["seconds", "passes", "memory"]).not_()
    labels = [f"label_{i}" for i in range(4)]
    columns = [*AXES, "value", "target_class", *labels]
    ours, theirs = (
        own(found.scores()).filter(wanted).select(columns).sort(AXES)
        for found in (kept, heatproof.load_run(tmp_path / "r"))
    )
    assert set(ours["metric"]) == {"focus", "focus_best", "share_0", "share_1", "share_2", "share_3", *SIGNED}
    assert_frame_equal(ours, theirs)
    assert heatproof.load_run(tmp_path / "r").manifest["cases"] == kept.manifest["cases"], (
        "so that they can be compared"
    )


@pytest.mark.parametrize("container", ["npy", "npz", "folder", "order", "channels"])
def test_every_container_scores_alike(mosaics, tmp_path, container):
    """Theory: 1 for maps that lie on the target's tiles, whatever their size and container."""
    maps = oracle_maps(mosaics)
    path = tmp_path / "maps.npz"
    if container == "npz":
        np.savez(path, **maps)
    elif container == "folder":
        path = tmp_path / "maps"
        path.mkdir()
        for name, heatmap in maps.items():
            np.save(path / f"{name}.npy", heatmap)
    elif container == "order":
        np.savez(path, heatmaps=np.stack(list(maps.values())))
    else:
        path = tmp_path / "maps.npy"
        stacked = np.stack(list(maps.values()))
        np.save(path, stacked if container == "npy" else np.repeat(stacked[:, None], 3, axis=1))
    run = evaluate(path, benchmark="focus", mosaics=mosaics, out=tmp_path / "r")
    assert focus(run) == 1.0
    assert focus(run, "max_norm") == 1.0


def test_bad_heatmaps_cost_their_own_scores(mosaics, tmp_path):
    maps = oracle_maps(mosaics)
    names = list(maps)
    maps[names[1]] = np.full((20, 20), np.nan)
    maps[names[2]] = np.zeros((20, 20))
    maps[names[3]] = np.ones((3, 8, 8))
    maps[names[4]] = -maps[names[4]]
    del maps[names[5]]
    np.savez(tmp_path / "maps.npz", **maps, stranger=np.ones((20, 20)))
    run = evaluate(tmp_path / "maps.npz", benchmark="focus", mosaics=mosaics, out=tmp_path / "r")
    rows = own(run.scores()).filter((pl.col("metric") == "focus") & (pl.col("pooling") == "sum_pos"))
    said = dict(zip(rows["case"], rows["undefined"], strict=True))
    assert "NaN" in said[names[1]]
    assert "zero everywhere" in said[names[2]]
    assert "shape (3, 8, 8)" in said[names[3]]
    assert "zero everywhere" in said[names[4]]
    assert names[5] not in said
    assert focus(run) == 1.0
    notes = " ".join(run.story.notes)
    assert f"Mosaics without a heatmap, left out: 1 ({names[5]})." in notes
    assert "Heatmaps for no mosaic, left out: 1 (stranger)." in notes
    assert "Mosaics with an undefined score: 4" in notes


def test_maps_that_do_not_fit_are_refused(mosaics, tmp_path):
    np.save(tmp_path / "few.npy", np.ones((11, 20, 20)))
    with pytest.raises(HeatproofError, match=r"shape \(11, 20, 20\); it must hold the heatmaps of 12 cases"):
        evaluate(tmp_path / "few.npy", benchmark="focus", mosaics=mosaics, out=tmp_path / "r")
    np.savez(tmp_path / "others.npz", cat=np.ones((20, 20)))
    with pytest.raises(HeatproofError, match=r"none of the heatmaps of .* \(cat\) is called like a mosaic"):
        evaluate(tmp_path / "others.npz", benchmark="focus", mosaics=mosaics, out=tmp_path / "r")
    np.savez(tmp_path / "flat.npz", **{"000000": np.ones(5)})
    with pytest.raises(HeatproofError, match=r"holds no heatmap \(channels, height, width\)"):
        evaluate(tmp_path / "flat.npz", benchmark="focus", mosaics=mosaics, out=tmp_path / "r")
    with pytest.raises(HeatproofError, match="absent"):
        evaluate(tmp_path / "few.npy", benchmark="focus", mosaics=tmp_path / "absent.csv", out=tmp_path / "r")


def test_mosaics_whose_picture_is_missing_are_named(mosaics, tmp_path):
    shutil.copytree(mosaics.parent, tmp_path / "m")
    (tmp_path / "m" / "000003.png").unlink()
    np.savez(tmp_path / "maps.npz", **oracle_maps(mosaics))
    with pytest.raises(HeatproofError, match=r"000003\.png"):
        evaluate(tmp_path / "maps.npz", benchmark="focus", mosaics=tmp_path / "m" / "mosaics.csv", out=tmp_path / "r")

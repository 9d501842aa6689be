"""Heatmaps made elsewhere: every container, every way to be bad, and no torch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.errors import HeatproofError
from heatproof.evaluate import evaluate
from tiny_datasets import write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=5, per_image=5)
    make_masks(open_dataset(folder), (24, 24))
    return folder


def oracle_maps(world, count=12):
    data = open_dataset(world)
    index = [question.index for question in data.questions("simple")][:count]
    masks = data.masks("simple", "single_object").batch(index)
    return dict(zip(index, masks.astype(np.float32), strict=True))


def save_folder(folder, maps):
    folder.mkdir()
    for index, heatmap in maps.items():
        np.save(folder / f"{index}.npy", heatmap)
    return folder


def means(run, pooling="pos_l2_norm_sq", truth="single_object"):
    table = run.leaderboard().filter(
        (pl.col("subset") == "all") & (pl.col("pooling") == pooling) & (pl.col("ground_truth") == truth)
    )
    return dict(zip(table["metric"], table["mean"], strict=True))


def test_a_folder_and_an_archive_score_alike(world, tmp_path):
    """Theory: true masks score 1, in either container, with or without channels."""
    maps = oracle_maps(world)
    first = evaluate(save_folder(tmp_path / "maps", maps), dataset=world, out=tmp_path / "a")
    np.savez(tmp_path / "maps.npz", **{str(k): np.repeat(v[None], 3, 0) for k, v in maps.items()})
    second = evaluate(tmp_path / "maps.npz", dataset=world, out=tmp_path / "b")
    assert means(first) == means(second) == {"mass_accuracy": 1.0, "rank_accuracy": 1.0}
    assert (tmp_path / "a" / "report.html").is_file()


def test_hdf5(world, tmp_path):
    h5py = pytest.importorskip("h5py", reason="needs h5py")
    maps = oracle_maps(world)
    with h5py.File(tmp_path / "maps.h5", "w") as file:
        file["heatmaps"] = np.stack(list(maps.values()))
        file["question_index"] = list(maps)
    run = evaluate(tmp_path / "maps.h5", dataset=world, out=tmp_path / "a", poolings=["pos_l2_norm_sq"])
    assert means(run)["mass_accuracy"] == 1.0


def test_zarr(world, tmp_path):
    zarr = pytest.importorskip("zarr", reason="needs zarr")
    maps = oracle_maps(world)
    group = zarr.open_group(str(tmp_path / "maps.zarr"), mode="w")
    for name, array in (("heatmaps", np.stack(list(maps.values()))), ("question_index", np.array(list(maps)))):
        stored = group.create_array(name, shape=array.shape, dtype=array.dtype)
        stored[:] = array
    run = evaluate(tmp_path / "maps.zarr", dataset=world, out=tmp_path / "a", poolings=["pos_l2_norm_sq"])
    assert means(run)["mass_accuracy"] == 1.0


def test_a_bad_heatmap_costs_its_own_scores(world, tmp_path):
    maps = oracle_maps(world)
    index = list(maps)
    maps[index[0]] = np.zeros((24, 24))
    maps[index[1]] = np.ones((3, 12, 12))
    maps[index[2]] = np.full((24, 24), np.nan)
    maps[index[3]] = np.array(["a"])
    maps[index[4]] = -maps[index[4]]
    folder = save_folder(tmp_path / "maps", maps)
    (folder / f"{index[5]}.npy").write_bytes(b"broken")
    run = evaluate(folder, dataset=world, out=tmp_path / "a", poolings=["pos_l2_norm_sq"])
    scores = run.scores().filter((pl.col("metric") == "mass_accuracy") & (pl.col("ground_truth") == "single_object"))
    said = dict(zip(scores["question_index"], scores["undefined"], strict=True))
    assert "zero everywhere" in said[index[0]]
    assert "shape (3, 12, 12)" in said[index[1]]
    assert "--size" in said[index[1]]
    assert "NaN" in said[index[2]]
    assert "not numbers" in said[index[3]]
    assert "zero everywhere" in said[index[4]]
    assert "cannot be read" in said[index[5]]
    assert scores["value"].is_nan().sum() == 6
    assert means(run)["mass_accuracy"] == 1.0


def test_predictions_keep_the_right_answers(world, tmp_path):
    maps = oracle_maps(world)
    questions = {question.index: question for question in open_dataset(world).questions("simple")}
    answers = [{"question_index": k, "answer": questions[k].answer if k % 2 else "nothing"} for k in maps]
    (tmp_path / "p.json").write_text(json.dumps(answers))
    run = evaluate(
        save_folder(tmp_path / "maps", maps), dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json"
    )
    assert set(run.scores()["question_index"]) == {k for k in maps if k % 2}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "must be a list"),
        ('[{"answer": 1}]', "entry 0 lacks question_index"),
        ('[{"question_index": 99999, "answer": 1}]', "no question 99999"),
        ("[", "cannot be read as predictions"),
    ],
)
def test_bad_predictions_are_named(world, tmp_path, content, message):
    (tmp_path / "p.json").write_text(content)
    maps = save_folder(tmp_path / "maps", oracle_maps(world, 2))
    with pytest.raises(HeatproofError, match=message):
        evaluate(maps, dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json")


def test_unknown_questions_and_names_are_errors(world, tmp_path):
    with pytest.raises(HeatproofError, match="does not have: 77777"):
        evaluate(save_folder(tmp_path / "m", {77777: np.ones((24, 24))}), dataset=world, out=tmp_path / "a")
    with pytest.raises(HeatproofError, match="called by their question_index, not 'cat'"):
        evaluate(save_folder(tmp_path / "n", {"cat": np.ones((24, 24))}), dataset=world, out=tmp_path / "b")
    with pytest.raises(HeatproofError, match="does not exist"):
        evaluate(tmp_path / "absent", dataset=world, out=tmp_path / "c")
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(HeatproofError, match="damaged or no"):
        evaluate(tmp_path / "bad.npz", dataset=world, out=tmp_path / "d")


def test_it_needs_no_torch(world, tmp_path):
    """In a process of its own: torch is never imported."""
    maps = save_folder(tmp_path / "maps", oracle_maps(world, 3))
    code = (
        "import sys; from heatproof.evaluate import evaluate;"
        f"evaluate({str(maps)!r}, dataset={str(world)!r}, out={str(tmp_path / 'a')!r});"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

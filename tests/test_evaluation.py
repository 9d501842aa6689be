"""Heatmaps made elsewhere: every container, every way to be bad, and no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from heatproof.api import evaluate
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.errors import HeatproofError
from own_lines import own
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


TRUE = {"mass_accuracy": 1.0, "rank_accuracy": 1.0}
"""What the true masks get of the paper's metrics."""


def means(run, pooling="pos_l2_norm_sq", truth="single_object"):
    table = own(run.leaderboard()).filter(
        (pl.col("subset") == "all") & (pl.col("pooling") == pooling) & (pl.col("ground_truth") == truth),
        pl.col("metric").is_in(list(TRUE)),
    )
    return dict(zip(table["metric"], table["mean"], strict=True))


def test_a_folder_and_an_archive_score_alike(world, tmp_path):
    """Theory: true masks score 1, in either container, with or without channels."""
    maps = oracle_maps(world)
    first = evaluate(save_folder(tmp_path / "maps", maps), dataset=world, out=tmp_path / "a")
    np.savez(tmp_path / "maps.npz", **{str(k): np.repeat(v[None], 3, 0) for k, v in maps.items()})
    second = evaluate(tmp_path / "maps.npz", dataset=world, out=tmp_path / "b")
    assert means(first) == means(second) == TRUE
    assert (tmp_path / "a" / "report.html").is_file()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", ">f4"])
def test_numbers_of_every_kind(world, tmp_path, dtype):
    maps = {index: heatmap.astype(dtype) for index, heatmap in oracle_maps(world, 2).items()}
    run = evaluate(save_folder(tmp_path / "maps", maps), dataset=world, out=tmp_path / "a", poolings=["pos_l2_norm_sq"])
    assert means(run) == TRUE


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
    scores = own(run.scores()).filter(
        (pl.col("metric") == "mass_accuracy") & (pl.col("ground_truth") == "single_object")
    )
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
        ('[{"question_index": 99999, "answer": 1}]', "no heatmap is left"),
        ('[{"question_index": 0, "answer": 1}, {"question_index": 0, "answer": 2}]', "question 0 is answered twice"),
        ("[", "cannot be read as predictions"),
    ],
)
def test_bad_predictions_are_named(world, tmp_path, content, message):
    (tmp_path / "p.json").write_text(content)
    maps = save_folder(tmp_path / "maps", oracle_maps(world, 2))
    with pytest.raises(HeatproofError, match=message):
        evaluate(maps, dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json")


def test_unknown_questions_and_names_are_errors(world, tmp_path):
    with pytest.raises(HeatproofError, match=r"none of the 1 heatmaps is for one of the simple questions .* 77777"):
        evaluate(save_folder(tmp_path / "m", {77777: np.ones((24, 24))}), dataset=world, out=tmp_path / "a")
    with pytest.raises(HeatproofError, match="called by their question_index, not 'cat'"):
        evaluate(save_folder(tmp_path / "n", {"cat": np.ones((24, 24))}), dataset=world, out=tmp_path / "b")
    with pytest.raises(HeatproofError, match="does not exist"):
        evaluate(tmp_path / "absent", dataset=world, out=tmp_path / "c")
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(HeatproofError, match="damaged or no"):
        evaluate(tmp_path / "bad.npz", dataset=world, out=tmp_path / "d")


def test_missing_and_extra_heatmaps_are_named_and_cost_nothing_else(world, tmp_path):
    """Reference: the questions of the data set, minus those that have a heatmap."""
    maps = oracle_maps(world)
    every = [question.index for question in open_dataset(world).questions("simple")]
    maps[88888] = maps[99999] = np.ones((24, 24))
    run = evaluate(save_folder(tmp_path / "maps", maps), dataset=world, out=tmp_path / "a")
    notes = " ".join(run.story.notes)
    assert "Heatmaps for questions that the data set does not have, left out: 2 (88888, 99999)." in notes
    missing = sorted(set(every) - set(maps))
    assert f"Questions without a heatmap: {len(missing)} ({', '.join(map(str, missing[:5]))}, ...)." in notes
    assert set(run.scores()["question_index"]) == set(maps) - {88888, 99999}
    assert means(run) == TRUE


def test_predictions_that_fit_no_question_or_no_heatmap_are_named(world, tmp_path):
    maps = oracle_maps(world, 6)
    questions = {question.index: question for question in open_dataset(world).questions("simple")}
    index = list(questions)
    answered = [*index[1:8], 99999]
    answers = [{"question_index": k, "answer": questions[k].answer if k in questions else 1} for k in answered]
    (tmp_path / "p.json").write_text(json.dumps(answers))
    maps = save_folder(tmp_path / "maps", maps)
    run = evaluate(maps, dataset=world, out=tmp_path / "a", predictions=tmp_path / "p.json")
    notes = " ".join(run.story.notes)
    assert "Predictions for questions that the data set does not have, left out: 1 (99999)." in notes
    assert f"Heatmaps of questions without a prediction, left out: 1 ({index[0]})." in notes
    assert f"Questions without a heatmap: 2 ({index[6]}, {index[7]})." in notes
    assert set(run.scores()["question_index"]) == set(index[1:6])


def test_masks_of_another_size_name_the_command(world, tmp_path):
    """All heatmaps have the network's size, the masks another: every row says so, and how to make masks that fit."""
    maps = {index: np.ones((3, 48, 40)) for index in oracle_maps(world)}
    run = evaluate(save_folder(tmp_path / "maps", maps), dataset=world, out=tmp_path / "a")
    assert own(run.scores())["value"].is_nan().all()
    said = set(own(run.scores())["undefined"])
    assert said == {
        "the heatmap has shape (3, 48, 40), not (channels, 24, 24) or (24, 24);"
        " masks of another size: heatproof clevr ground-truth DATASET --size WxH"
    }
    assert "Questions with an undefined score: 12 (" in " ".join(run.story.notes)


def test_a_data_set_without_masks_names_the_command(tmp_path):
    folder = write_world(tmp_path / "bare", scenes=2)
    with pytest.raises(HeatproofError, match="make them with: heatproof clevr ground-truth"):
        evaluate(save_folder(tmp_path / "maps", {0: np.ones((24, 24))}), dataset=folder, out=tmp_path / "a")


def test_released_masks_of_two_sizes_are_named(tmp_path):
    folder = write_world(tmp_path / "world", scenes=2)
    make_masks(open_dataset(folder), (24, 24), layout="release")
    place = next(folder.glob("ground_truth_simple*single_object"))
    maps = save_folder(tmp_path / "maps", {int(path.stem): np.ones((24, 24)) for path in place.glob("*.npy")})
    last = max(place.glob("*.npy"), key=lambda path: int(path.stem))
    np.save(last, np.ones((12, 20), dtype=bool))
    with pytest.raises(HeatproofError, match=r"20x12"):
        evaluate(maps, dataset=folder, out=tmp_path / "a")


@pytest.mark.parametrize("container", ["npz", "h5"])
def test_a_damaged_entry_of_an_archive_costs_its_own_row(world, tmp_path, container):
    maps = oracle_maps(world, 4)
    index = list(maps)
    path = tmp_path / f"maps.{container}"
    if container == "npz":
        np.savez(path, **{str(k): v for k, v in maps.items()})
        content = path.read_bytes()
        place = content.index(maps[index[1]].tobytes()[200:240], content.index(f"{index[1]}.npy".encode()))
        path.write_bytes(content[:place] + b"\x5a" * 40 + content[place + 40 :])
    else:
        h5py = pytest.importorskip("h5py", reason="needs h5py")
        with h5py.File(path, "w") as file:
            file["question_index"] = index
            stored = file.create_dataset(
                "heatmaps", data=np.stack(list(maps.values())), chunks=(1, 24, 24), fletcher32=True
            )
            place = stored.id.get_chunk_info(1).byte_offset
        content = path.read_bytes()
        path.write_bytes(content[: place + 200] + b"\x5a" * 40 + content[place + 240 :])
    run = evaluate(path, dataset=world, out=tmp_path / "a", poolings=["max_norm"])
    scores = own(run.scores()).filter(
        (pl.col("metric") == "mass_accuracy") & (pl.col("ground_truth") == "single_object")
    )
    said = dict(zip(scores["question_index"], scores["undefined"], strict=True))
    assert "cannot be read" in said.pop(index[1])
    assert set(said.values()) == {""}


def test_names_may_have_zeros_in_front_but_only_once(world, tmp_path):
    maps = {f"{index:06d}": heatmap for index, heatmap in oracle_maps(world, 3).items()}
    folder = save_folder(tmp_path / "maps", maps)
    assert means(evaluate(folder, dataset=world, out=tmp_path / "a"))["mass_accuracy"] == 1.0
    first = next(iter(maps))
    np.save(folder / f"{int(first)}.npy", np.ones((24, 24)))
    with pytest.raises(HeatproofError, match=f"two heatmaps for question {int(first)}"):
        evaluate(folder, dataset=world, out=tmp_path / "b")


def test_changed_heatmaps_do_not_pass_for_their_old_scores(world, tmp_path):
    maps = save_folder(tmp_path / "maps", oracle_maps(world, 3))
    first = evaluate(maps, dataset=world, out=tmp_path / "a")
    assert evaluate(maps, dataset=world, out=tmp_path / "a").manifest["created"] == first.manifest["created"]
    for path in maps.iterdir():
        np.save(path, np.ones((24, 24)))
    with pytest.raises(HeatproofError, match=r"another configuration:\n  heatmaps"):
        evaluate(maps, dataset=world, out=tmp_path / "a")
    assert means(evaluate(maps, dataset=world, out=tmp_path / "a", resume=False))["mass_accuracy"] < 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_scores(tmp_path):
    """Ten times the heatmaps, in processes of their own, take no more than 15 % more."""
    code = (
        "from pathlib import Path; from heatproof.api import evaluate;"
        "evaluate({maps!r}, dataset={world!r}, out={out!r});"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    if not Path("/proc/self/status").is_file():
        pytest.skip("reads the peak of memory as Linux tells it")
    peaks, counts = [], []
    for scenes in (40, 400):
        folder = write_world(tmp_path / f"world{scenes}", scenes=scenes, per_image=50)
        make_masks(open_dataset(folder), (24, 24))
        maps = tmp_path / f"maps{scenes}"
        maps.mkdir()
        np.save(tmp_path / "one.npy", np.random.default_rng(0).normal(size=(3, 24, 24)))
        questions = open_dataset(folder).questions("simple")
        for question in questions:
            (maps / f"{question.index}.npy").symlink_to(tmp_path / "one.npy")
        given = {"maps": str(maps), "world": str(folder), "out": str(tmp_path / f"out{scenes}")}
        done = subprocess.run([sys.executable, "-c", code.format(**given)], check=True, capture_output=True, text=True)
        peaks.append(int(done.stdout) / 1024)
        counts.append(len(questions))
    said = f"{peaks[0]:.0f} MB for {counts[0]:,} heatmaps, {peaks[1]:.0f} MB for {counts[1]:,}"
    print(said)
    assert peaks[1] < 1.15 * peaks[0], said


def test_it_needs_no_torch(world, tmp_path):
    """In a process of its own: torch is never imported."""
    maps = save_folder(tmp_path / "maps", oracle_maps(world, 3))
    code = (
        "import sys; from heatproof.api import evaluate;"
        f"evaluate({str(maps)!r}, dataset={str(world)!r}, out={str(tmp_path / 'a')!r});"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

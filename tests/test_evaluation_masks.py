"""Heatmaps of several vendors against any masks: every container, every size, and no torch."""

from __future__ import annotations

import json
import pickle

import numpy as np
import polars as pl
import pytest
from PIL import Image

from heatproof.api import evaluate
from heatproof.benchmarks.masks.held import HeldMasks
from heatproof.benchmarks.masks.readers import MaskPictures, Values
from heatproof.errors import HeatproofError
from heatproof.heatmap_files import load_npy
from heatproof.metrics.mask_scores import score_masks, score_signed
from no_torch import call_without_torch
from own_lines import own

SIZES = {"a": (16, 20), "b": (16, 20), "deep/c": (16, 20), "d": (24, 12)}


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
    """Mask pictures of two sizes, with some void."""
    folder = tmp_path_factory.mktemp("masks")
    for place, (name, size) in enumerate(SIZES.items()):
        mask = np.zeros(size, np.uint8)
        mask[4 : 9 + place, 3:9], mask[0] = 255, 128
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(mask).save(folder / f"{name}.png")
    return folder


def truth_of(masks, name):
    pixels = np.asarray(Image.open(masks / f"{name}.png"))
    return np.select([pixels == 255, pixels == 128], [1, 2], 0).astype(np.uint8)


def vendor(folder, seed, signed=True, channels=None):
    rng = np.random.default_rng(seed)
    for name, size in SIZES.items():
        shape = size if channels is None else (channels, *size)
        heatmap = rng.normal(size=shape).astype(np.float32)
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        np.save(folder / f"{name}.npy", heatmap if signed else np.abs(heatmap))
    return folder


def values(run, explainer, metric, pooling):
    rows = run.scores().filter(explainer=explainer, metric=metric, pooling=pooling)
    return dict(zip(rows["case"], rows["value"], strict=True))


def test_several_vendors_at_once(masks, tmp_path):
    """Reference: the scores of each map by itself; and a verdict that compares the vendors case by case."""
    folders = [vendor(tmp_path / "one", 1), vendor(tmp_path / "two", 2, channels=3), tmp_path / "three.npz"]
    np.savez(folders[2], **{name: truth_of(masks, name) == 1 for name in SIZES})
    run = evaluate(folders, masks=masks, void_value=128, out=tmp_path / "run")
    assert set(own(run.leaderboard())["explainer"]) == {"one", "two", "three"}
    for name in ("one", "two"):
        for case in SIZES:
            heatmap = np.load(tmp_path / name / f"{case}.npy")
            heatmap = heatmap[None] if heatmap.ndim == 2 else heatmap
            expected = score_masks(heatmap[None], truth_of(masks, case)[None])
            for place, pooling in enumerate(expected.poolings):
                for metric in ("mass_accuracy", "pixel_auc", "best_iou", "lift"):
                    found = values(run, name, metric, pooling)[case]
                    assert found == pytest.approx(expected.values[metric][place, 0], rel=1e-6)
            signed = score_signed(heatmap[None], truth_of(masks, case)[None])
            found = values(run, name, "attribution_f1", "")[case]
            assert found == pytest.approx(signed.values["attribution_f1"][0], rel=1e-6)
    best = run.leaderboard().filter(subset="all", metric="mass_accuracy", pooling="sum_pos", explainer="three")
    assert best["mean"].item() == 1
    verdict = json.loads((run.folder / "verdict.json").read_text())
    assert "three" in json.dumps(verdict)
    assert (run.folder / "report.html").is_file()


def test_sizes_that_differ_are_resized_only_when_asked(masks, tmp_path):
    maps = {name: np.full((8, 10), 2.0) for name in SIZES}
    np.savez(tmp_path / "m.npz", **maps)
    run = evaluate(tmp_path / "m.npz", masks=masks, void_value=128, out=tmp_path / "a")
    rows = own(run.scores()).filter(metric="mass_accuracy")
    assert rows["value"].is_nan().all()
    assert "--resize brings heatmaps to it" in rows["undefined"][0]
    run = evaluate(tmp_path / "m.npz", masks=masks, void_value=128, resize=True, out=tmp_path / "b")
    rows = own(run.scores()).filter(metric="mass_accuracy", pooling="sum_pos")
    np.testing.assert_allclose(rows["value"], rows["mask_share"], rtol=1e-6)  # the same everywhere, as before


def test_grey_pictures_as_heatmaps(masks, tmp_path):
    for name in SIZES:
        (tmp_path / "maps" / name).parent.mkdir(exist_ok=True, parents=True)
        Image.fromarray((truth_of(masks, name) == 1).astype(np.uint8) * 200).save(tmp_path / "maps" / f"{name}.png")
    run = evaluate(tmp_path / "maps", masks=masks, void_value=128, out=tmp_path / "run")
    table = own(run.leaderboard()).filter(subset="all", metric="mass_accuracy")
    assert table["mean"].to_list() == [1.0] * 10


def test_what_does_not_match_is_said(masks, tmp_path):
    folder = vendor(tmp_path / "one", 1)
    (folder / "a.npy").unlink()
    (folder / "b.npy").write_bytes(b"damaged")
    np.save(folder / "z.npy", np.ones((3, 3)))
    run = evaluate(folder, masks=masks, void_value=128, out=tmp_path / "run")
    said = " ".join(run.story.notes)
    for words in ("Masks without a heatmap: 1 (a)", "Heatmaps without a mask: 1 (z)", "one, b: the heatmap cannot be"):
        assert words in said
    np.savez(tmp_path / "other.npz", q=np.ones((2, 2)))
    with pytest.raises(HeatproofError, match="is called like a mask"):
        evaluate(tmp_path / "other.npz", masks=masks, out=tmp_path / "x")
    with pytest.raises(HeatproofError, match=r"4 of 4 masks of .* pixels of value 128"):
        evaluate(vendor(tmp_path / "two", 2), masks=masks, out=tmp_path / "x")


def test_masks_are_read_once_as_far_as_there_is_room(masks, monkeypatch):
    """Whatever is held is what was read: object, background and void, of any size."""
    read: list[str] = []
    source = MaskPictures(masks, Values(255, 0, 128))
    whole = MaskPictures.truth
    monkeypatch.setattr(MaskPictures, "truth", lambda self, name, label: read.append(name) or whole(self, name, label))
    roomy, full = HeldMasks(source), HeldMasks(source)
    full.room = 0
    for _ in range(2):
        for name in SIZES:
            for held in (roomy, full):
                found = held.truth(name, "")
                np.testing.assert_array_equal(found, whole(source, name, ""))
                assert found.dtype == np.uint8
    assert len(read) == 3 * len(SIZES)
    assert pickle.loads(pickle.dumps(roomy)).held == {}


@pytest.mark.parametrize("kind", ["<f4", ">f8", "?", "i2", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_are_read_as_numpy_reads_them(tmp_path, kind, order):
    heatmap = np.asarray(np.random.default_rng(0).normal(size=(3, 5, 4)).round(1) * 10, dtype=kind, order=order)
    np.save(tmp_path / "a.npy", heatmap)
    found = load_npy(tmp_path / "a.npy")
    assert (found.dtype, found.shape) == (heatmap.dtype, heatmap.shape)
    np.testing.assert_array_equal(found, heatmap)


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "lies", "words", "objects"])
def test_damaged_files_fail_as_numpy_lets_them(tmp_path, damage):
    """A header that says more than there is takes no memory."""
    path = tmp_path / "a.npy"
    heatmap = np.array([["a"]]) if damage == "words" else np.array([{}]) if damage == "objects" else np.ones((20, 30))
    np.save(path, heatmap, allow_pickle=True)
    content = path.read_bytes()
    lies = content.replace(b"(20, 30), }      ", b"(200000, 3000), }")
    path.write_bytes({"empty": b"", "cut": content[:-9], "longer": content + b"12", "lies": lies}.get(damage, content))
    try:
        expected = np.load(path, mmap_mode="r")
    except Exception as problem:
        with pytest.raises(type(problem)):
            load_npy(path)
    else:
        np.testing.assert_array_equal(load_npy(path), expected)


def test_masks_that_tell_nothing_are_an_error(tmp_path):
    np.savez(tmp_path / "masks.npz", a=np.ones((4, 5), bool), b=np.zeros((4, 5), bool))
    np.savez(tmp_path / "maps.npz", a=np.ones((4, 5)), b=np.ones((4, 5)))
    with pytest.raises(HeatproofError, match=r"no mask of .* has both object and background"):
        evaluate(tmp_path / "maps.npz", masks=tmp_path / "masks.npz", out=tmp_path / "run")


def test_names_and_what_is_not_for_masks(masks, tmp_path):
    one, two = vendor(tmp_path / "x" / "maps", 1), vendor(tmp_path / "y" / "maps", 2)
    run = evaluate([one, two], masks=masks, void_value=128, out=tmp_path / "run", poolings=["sum_pos"])
    assert set(own(run.leaderboard())["explainer"]) == {"x-maps", "y-maps"}
    run = evaluate([one, two], masks=masks, void_value=128, name="old, new", out=tmp_path / "b", poolings=["sum_pos"])
    assert set(own(run.leaderboard())["explainer"]) == {"old", "new"}
    with pytest.raises(HeatproofError, match="2 different names"):
        evaluate([one, two], masks=masks, name="old")
    with pytest.raises(HeatproofError, match="only --masks takes several"):
        evaluate([one, two], dataset=tmp_path)
    with pytest.raises(HeatproofError, match="--mosaics is not for --benchmark masks"):
        evaluate(one, masks=masks, mosaics=tmp_path)
    with pytest.raises(HeatproofError, match="cannot be the name of a folder"):
        evaluate(one, masks=masks, name="a/b")


def test_classes_of_coco(tmp_path):
    """Where a picture has masks of two classes, a heatmap says which it is for."""
    images = [{"id": n, "file_name": f"{name}.jpg", "height": 10, "width": 10} for n, name in enumerate("ab")]
    things = [
        {"id": 0, "image_id": 0, "category_id": 0, "bbox": [0, 0, 5, 10]},
        {"id": 1, "image_id": 0, "category_id": 1, "bbox": [5, 0, 5, 5]},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]},
    ]
    categories = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({"images": images, "annotations": things, "categories": categories}))
    even = np.ones((10, 10))
    np.savez(tmp_path / "m.npz", **{"a.cat": even, "a.dog": even, "b": even})
    run = evaluate(tmp_path / "m.npz", masks=path, boxes=True, out=tmp_path / "run")
    found = values(run, "m", "mass_accuracy", "sum_pos")
    assert found == pytest.approx({"a.cat": 0.5, "a.dog": 0.25, "b": 0.04})
    assert "class:dog" in set(run.leaderboard()["subset"])
    np.savez(tmp_path / "m2.npz", **{"a.dgo": even})
    with pytest.raises(HeatproofError, match=r"heatmaps .a\.dgo. is called like a mask of .*a\.cat, a\.dog, b\.dog"):
        evaluate(tmp_path / "m2.npz", masks=path, boxes=True, out=tmp_path / "run2")
    np.savez(tmp_path / "n.npz", a=even)
    with pytest.raises(HeatproofError, match=r"masks of cat, dog: call its heatmaps a\.cat"):
        evaluate(tmp_path / "n.npz", masks=path, boxes=True, out=tmp_path / "run2")


def test_the_command_needs_no_torch(masks, tmp_path):
    folders = [vendor(tmp_path / "one", 1), vendor(tmp_path / "two", 2)]
    command = ["evaluate", *folders, "--masks", masks, "--void-value", 128, "--jobs", 1, "--out"]
    done = call_without_torch(*command, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "Heatmaps of 4 pictures scored" in done.stdout
    frame = pl.read_csv(tmp_path / "run" / "leaderboard.csv")
    assert {"one", "two", "oracle", "centre"} <= set(frame["explainer"])
    bad = call_without_torch("evaluate", folders[0], "--masks", tmp_path / "nowhere")
    assert bad.returncode == 2
    assert "does not exist" in bad.stderr
    assert "Traceback" not in bad.stderr

"""The folder of a data set: whole files, resumed, by one process or several, never mixed with other settings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from heatproof.clevr.rendering import dataset
from heatproof.clevr.rendering.dataset import Lacking, Painter, PictureSettings, reasons, render_dataset
from heatproof.clevr.rendering.tracer import seen_objects
from heatproof.clevr.scenes import SceneSettings
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution
from reference.clevr_rendering import object_masks

SMALL = SceneSettings(seed=2, width=60, height=40)
PLAIN = PictureSettings(samples=1, denoise=False)


LOCAL, TWO = Execution("local"), Execution("processes", 2)


def make(
    folder: Path,
    count: int,
    scenes: SceneSettings = SMALL,
    pictures: PictureSettings | None = PLAIN,
    how: Execution = LOCAL,
) -> int:
    return render_dataset(folder, count, scenes, pictures, how=how)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "set"
    assert make(folder, 4) == 4
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    for name, content in contents(made).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_files_are_those_of_clevr_xai(made):
    names = [f"CLEVR_new_{index:06d}" for index in range(4)]
    for kind in ("images", "masks", "objects"):
        assert sorted(path.name for path in (made / kind).iterdir()) == [f"{name}.png" for name in names]
    assert sorted(path.name for path in (made / "scenes").iterdir()) == [f"{name}.json" for name in names]
    together = json.loads((made / "CLEVR_scenes.json").read_text())
    assert {"date", "version", "split", "license"} <= set(together["info"])
    assert together["scenes"] == [json.loads((made / "scenes" / f"{name}.json").read_text()) for name in names]
    with Image.open(made / "images" / f"{names[0]}.png") as image:
        assert (image.size, image.mode) == ((60, 40), "RGB")
    with Image.open(made / "objects" / f"{names[0]}.png") as ids:
        assert (ids.size, ids.mode) == ((60, 40), "L")


def test_masks_ids_and_scenes_agree(made):
    """Reference: CLEVR-XAI's rule for reading mask pictures, literally."""
    for scene in json.loads((made / "CLEVR_scenes.json").read_text())["scenes"]:
        ids = np.asarray(Image.open(made / "objects" / scene["image_filename"]))
        assert_array_equal(ids, seen_objects(scene, 60, 40))
        mask = np.asarray(Image.open(made / "masks" / scene["mask_filename"]))
        for number, pixels in enumerate(object_masks(mask, scene), 1):
            assert_array_equal(pixels, ids == number)


def test_two_processes_make_the_same_files_as_one(made, tmp_path):
    assert make(tmp_path / "set", 4, how=TWO) == 4
    assert contents(tmp_path / "set") == contents(made)


def test_what_is_there_is_not_made_again(copy):
    before = {path: path.stat().st_mtime_ns for path in copy.glob("*/*")}
    assert make(copy, 4) == 0
    assert {path: path.stat().st_mtime_ns for path in copy.glob("*/*")} == before


@pytest.mark.parametrize("kind", ["images", "masks", "objects", "scenes"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty"])
def test_what_is_missing_or_cut_short_is_made_again(copy, made, kind, damage):
    (victim,) = (copy / kind).glob("*000002*")
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[: 0 if damage == "empty" else -20])
    assert make(copy, 4) == 1
    assert contents(copy) == contents(made)


def test_a_set_can_grow_and_does_not_shrink(copy, made):
    assert make(copy, 6) == 2
    assert len(json.loads((copy / "CLEVR_scenes.json").read_text())["scenes"]) == 6
    assert make(copy, 2) == 0
    assert len(json.loads((copy / "CLEVR_scenes.json").read_text())["scenes"]) == 6
    old = contents(made)
    assert all(contents(copy)[name] == old[name] for name in old if "/" in name)


@pytest.mark.parametrize(
    ("scenes", "pictures", "said"),
    [
        (SceneSettings(seed=3, width=60, height=40), PLAIN, "seed: 2 there, 3 now"),
        (SceneSettings(seed=2, width=48, height=32), PLAIN, "size: 60x40 there, 48x32 now"),
        (SceneSettings(seed=2, width=60, height=40, split="val"), PLAIN, "split: new there, val now"),
        (SceneSettings(seed=2, width=60, height=40, max_objects=4), PLAIN, "max_objects: 10 there, 4 now"),
        (SMALL, PictureSettings(samples=2, denoise=False), "samples: 1 there, 2 now"),
    ],
)
def test_other_settings_are_refused_and_nothing_changes(copy, scenes, pictures, said):
    before = contents(copy)
    with pytest.raises(HeatproofError, match=said):
        make(copy, 6, scenes, pictures)
    assert contents(copy) == before


def test_masks_may_have_a_size_of_their_own(made, tmp_path):
    """Reference: the ids of the same scenes at that size; the pictures are those of the set without."""
    folder = tmp_path / "set"
    assert render_dataset(folder, 2, SMALL, PLAIN, mask_size=(80, 120)) == 2
    for path in sorted((folder / "objects").iterdir()):
        scene = json.loads((folder / "scenes" / f"{path.stem}.json").read_text())
        ids = np.asarray(Image.open(path))
        assert_array_equal(ids, seen_objects(scene, 120, 80))
        assert np.asarray(Image.open(folder / "masks" / path.name)).shape[:2] == (80, 120)
        assert (folder / "images" / path.name).read_bytes() == (made / "images" / path.name).read_bytes()
    with pytest.raises(HeatproofError, match="mask_size: 120x80 there, 60x40 now"):
        make(folder, 2)


def test_a_folder_of_before_there_were_mask_sizes_has_the_pictures(copy):
    settings = json.loads((copy / "settings.json").read_text())
    del settings["mask_size"]
    (copy / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(HeatproofError, match="mask_size: 60x40 there, 120x80 now"):
        render_dataset(copy, 4, SMALL, PLAIN, mask_size=(80, 120))
    assert make(copy, 4) == 0


def test_scenes_first_and_pictures_later_make_the_same_set(made, tmp_path):
    folder = tmp_path / "set"
    assert make(folder, 4, pictures=None) == 4
    assert not (folder / "images").exists()
    without = contents(folder)
    assert make(folder, 4) == 4
    whole = contents(folder)
    assert all(whole[name] == without[name] for name in without if name != "settings.json")
    assert whole == contents(made)
    assert make(folder, 4, pictures=None) == 0
    assert contents(folder) == whole


@pytest.mark.parametrize("how", [LOCAL, TWO], ids=["here", "in processes"])
def test_a_scene_on_disk_is_rendered_as_it_is(copy, how):
    """So that a set begun with another version of the sampler stays one."""
    path = copy / "scenes" / "CLEVR_new_000001.json"
    scene = json.loads(path.read_text())
    scene["objects"] = scene["objects"][:1]
    path.write_text(json.dumps(scene))
    for kind in ("images", "objects"):
        (copy / kind / "CLEVR_new_000001.png").unlink()
    make(copy, 4, how=how)
    assert np.asarray(Image.open(copy / "objects" / "CLEVR_new_000001.png")).max() == 1


def test_stopping_leaves_whole_files_only(made, tmp_path, monkeypatch):
    folder, write, written = tmp_path / "set", Path.write_bytes, []

    def stop_in_the_middle(path: Path, data: bytes) -> int:
        if ".png." in path.name:
            written.append(path)
        if len(written) == 5:
            write(path, data[:30])
            raise KeyboardInterrupt
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", stop_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        make(folder, 4)
    old = contents(made)
    assert all(content == old[name] for name, content in contents(folder).items())
    monkeypatch.setattr(Path, "write_bytes", write)
    assert make(folder, 4) == 3
    assert contents(folder) == old


class Deadly(Painter):
    """Dies of the last picture."""

    def compute(self, lacking: Lacking) -> dict[str, bytes]:
        if lacking.index == 5:
            os._exit(9)
        return super().compute(lacking)


def test_a_process_that_dies_costs_its_own_picture_only(copy, monkeypatch):
    before = contents(copy)
    with monkeypatch.context() as patch:
        patch.setattr(dataset, "Painter", Deadly)
        said = r"^1 of 2 pictures could not be made; the others are kept.*\n  CLEVR_new_000005: the process .* died"
        with pytest.raises(HeatproofError, match=said):
            make(copy, 6, how=TWO)
    assert all(contents(copy)[name] == before[name] for name in before if name != "settings.json")
    assert make(copy, 6) == 1


def test_folders_that_are_something_else(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    with pytest.raises(HeatproofError, match=r"letters is not empty and holds no settings\.json"):
        make(tmp_path / "letters", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(HeatproofError, match="file is a file"):
        make(tmp_path / "file", 1)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "settings.json").write_text('{"seed": ')
    with pytest.raises(HeatproofError, match=r"settings\.json: truncated or damaged JSON"):
        make(tmp_path / "cut", 1)


@pytest.mark.parametrize("how", [LOCAL, TWO], ids=["here", "in processes"])
def test_a_scene_that_cannot_be_rendered_is_named_when_the_others_are_made(copy, made, how):
    path = copy / "scenes" / "CLEVR_new_000001.json"
    path.write_text(json.dumps({"image_filename": "CLEVR_new_000001.png", "objects": [{"shape": "cone"}]}))
    for index in (1, 3):
        (copy / "images" / f"CLEVR_new_00000{index}.png").unlink()
    with pytest.raises(HeatproofError, match=r"1 of 2.*\n  CLEVR_new_000001.png: objects\[0\].shape is 'cone'"):
        make(copy, 4, how=how)
    assert (copy / "images" / "CLEVR_new_000003.png").read_bytes() == contents(made)["images/CLEVR_new_000003.png"]


def test_of_many_failures_a_few_are_named():
    failed = {f"CLEVR_new_{index:06d}": "no" for index in reversed(range(7))}
    assert reasons(failed) == [*(f"CLEVR_new_00000{index}: no" for index in range(5)), "and 2 more"]
    assert len(reasons({"CLEVR_new_000000": "no"})) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"renderer": "povray"}, "unknown renderer 'povray'"),
        ({"samples": 0}, "samples must be a whole number of at least 1"),
        ({"blender_assets": Path("x")}, "blender-assets is of use with --renderer blender only"),
    ],
)
def test_picture_settings_that_make_no_sense(wrong, said):
    with pytest.raises(HeatproofError, match=said):
        PictureSettings(**wrong)


def test_denoising_without_the_denoiser(monkeypatch):
    monkeypatch.setattr("heatproof.clevr.rendering.denoise.find_spec", lambda name: None)
    with pytest.raises(HeatproofError, match="denoising needs the package pyoidn"):
        PictureSettings(denoise=True)
    assert PictureSettings().denoised is False


def test_numbers_must_be_whole(tmp_path):
    with pytest.raises(HeatproofError, match="num-images must be a whole number of at least 1"):
        make(tmp_path / "set", 0)
    with pytest.raises(HeatproofError, match="jobs must be a whole number of at least 1"):
        make(tmp_path / "set", 1, how=Execution(jobs=0))
    assert not (tmp_path / "set").exists()

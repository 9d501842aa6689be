"""Bad files and values that once ended in a traceback, took all memory, or were taken for something else."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

import heatproof
from heatproof.arrays import read_arrays
from heatproof.benchmarks.focus import Focus
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.json_files import read_json
from heatproof.clevr.pictures import read_picture
from heatproof.clevr.rendering.dataset import claim
from heatproof.cli import Terminated, main
from heatproof.errors import HeatproofError
from heatproof.heatmap_files import open_heatmaps, open_ordered
from heatproof.models.classifiers import read_labels
from heatproof.models.weights import load_weights, name_misfit
from heatproof.models.weights import read_arrays as read_weights
from heatproof.mosaics.mosaics import MosaicSettings, draw_mosaics, read_mosaics, write_mosaics
from heatproof.mosaics.pictures import find_pictures
from tiny_datasets import edit_json, write_world


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for label in ("cat", "dog"):
        (folder / label).mkdir()
        for number in range(3):
            noise = np.random.RandomState(number).randint(0, 255, (20, 20, 3), np.uint8)
            Image.fromarray(noise).save(folder / label / f"{number}.png")
    return folder


# Tables


@pytest.mark.parametrize("read", [find_pictures, read_labels, read_mosaics])
def test_an_empty_csv(read, tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(HeatproofError, match=r"empty\.csv is empty; it must have the columns .*label"):
        read(tmp_path / "empty.csv")


@pytest.fixture
def mosaics(pictures, tmp_path) -> Path:
    drawn = draw_mosaics(find_pictures(pictures), MosaicSettings(per_class=2))
    return write_mosaics(drawn, tmp_path / "m", 16)


def test_a_mosaic_that_is_listed_twice(mosaics):
    lines = mosaics.read_text().splitlines()
    mosaics.write_text("\n".join([*lines, lines[1]]))
    with pytest.raises(HeatproofError, match="line 6: there is a mosaic called '000000' already"):
        read_mosaics(mosaics)


def test_a_label_below_zero_is_not_the_last_one(mosaics):
    head, first, *rest = mosaics.read_text().splitlines()
    cells = first.split(",")
    cells[head.split(",").index("label_0")] = cells[head.split(",").index("target_class")] = "-1"
    mosaics.write_text("\n".join([head, ",".join(cells), *rest]))
    with pytest.raises(HeatproofError, match=r"line 2: .*-1 is below zero"):
        read_mosaics(mosaics)


def test_a_label_that_is_listed_twice(mosaics):
    mosaics.with_name("labels.csv").write_text("label\ncat\ncat\n")
    for read, path in ((read_mosaics, mosaics), (read_labels, mosaics.with_name("labels.csv"))):
        with pytest.raises(HeatproofError, match=r"labels\.csv: the label 'cat' is there twice"):
            read(path)


@pytest.mark.parametrize("name", ["grid", "per_class", "tile"])
def test_numbers_that_nobody_means(name):
    with pytest.raises(HeatproofError, match=f"{name} must be at most"):
        Focus(**{name: 2147483648})


def test_many_tiles_of_few_pictures_are_dealt_in_no_time(pictures):
    """254 tiles of three pictures; reference: each as often as the others."""
    start = time.process_time()
    drawn = draw_mosaics(find_pictures(pictures), MosaicSettings(grid=16, per_class=10))
    assert time.process_time() - start < 5
    files = [file for mosaic in drawn for file in mosaic.files]
    counts = {file: files.count(file) for file in set(files)}
    assert max(counts.values()) <= 1.1 * min(counts.values())


def test_a_line_with_more_cells_than_the_heading(tmp_path):
    (tmp_path / "labels.csv").write_text("label,index\ncat,0\ndog,1,2\n")
    with pytest.raises(HeatproofError, match="line 3 has more cells than there are columns"):
        read_labels(tmp_path / "labels.csv")


@pytest.mark.parametrize("name", ["m.npz", "m.npy"])
def test_an_empty_file_for_arrays(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(HeatproofError, match="is damaged or no"):
        open_ordered(tmp_path / name, {"all": ["0"]})


# Weights


def test_a_state_dict_with_numbers_for_names(tmp_path):
    torch.save({1: torch.zeros(3)}, tmp_path / "w.pt")
    assert name_misfit(map(str, range(9)), ["a"]) == "misses 0, 1, 2, 3, 4, 5 and 3 more and has unknown a"
    with pytest.raises(HeatproofError, match=r"misses bias, weight and has unknown 1"):
        load_weights(torch.nn.Linear(2, 2), tmp_path / "w.pt")
    assert list(read_weights(tmp_path / "w.pt")) == ["1"]


def test_weights_of_a_machine_with_the_other_byte_order(tmp_path):
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    np.savez(tmp_path / "w.npz", **{n: t.numpy().astype(">f4") for n, t in model.state_dict().items()})
    load_weights(other, tmp_path / "w.npz")
    assert torch.equal(model.weight, other.weight)


# Data sets


def test_json_without_a_bottom(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(HeatproofError, match=r"deep\.json: truncated or damaged JSON"):
        read_json(tmp_path / "deep.json")
    world = write_world(tmp_path / "w", scenes=1)
    (world / "CLEVR_scenes.json").write_text('{"scenes": ' + "[" * 100_000)
    with pytest.raises(HeatproofError, match=r"CLEVR_scenes\.json: truncated or damaged JSON"):
        open_dataset(world)


def test_a_question_index_that_no_file_holds(tmp_path):
    world = write_world(tmp_path / "w", scenes=1)
    edit_json(
        world / "CLEVR-XAI_simple_questions.json", lambda content: content["questions"][0].update(question_index=2**70)
    )
    with pytest.raises(HeatproofError, match=r"question_index 1180591620717411303424 is not between"):
        make_masks(open_dataset(world), (8, 8))


@pytest.mark.parametrize("name", ["/nowhere/x.png", "../x.png"])
def test_pictures_outside_of_the_data_set_are_not_read(name, tmp_path):
    world = write_world(tmp_path / "w", scenes=1)
    edit_json(world / "CLEVR_scenes.json", lambda content: content["scenes"][0].update(image_filename=name))
    with pytest.raises(HeatproofError, match=rf"{name} is no name in the data set"):
        open_dataset(world)


def test_settings_with_a_list_for_a_number(tmp_path):
    from heatproof.clevr.rendering.dataset import Painter, Plan
    from heatproof.clevr.scenes import SceneSettings

    plan = Plan(tmp_path, Painter(SceneSettings(), None, (24, 32)))
    claim(plan, 2)
    edit_json(tmp_path / "settings.json", lambda content: content.update(num_images=[1, 2]))
    with pytest.raises(HeatproofError, match=r"num_images of .*settings\.json must be a whole number"):
        claim(plan, 2)


# Sizes before memory


def test_a_picture_that_would_take_gigabytes(tmp_path):
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    with pytest.raises(HeatproofError, match=r"bomb\.png: truncated or no picture \(Image size \(400000000 pixels\)"):
        read_picture(tmp_path / "bomb.png")


def head(*shape: int) -> bytes:
    """The beginning of a .npy file that promises an array of this shape, and some bytes of it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(64)


@pytest.mark.parametrize("shape", [(10**9, 32, 32), (10**5, 32, 32)])
def test_arrays_that_promise_more_than_there_is(shape, tmp_path):
    """Eight terabytes, which is refused by itself, and 800 megabytes, of which there are 64 bytes."""
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "0.npy").write_bytes(head(*shape))
    with zipfile.ZipFile(tmp_path / "maps.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0.npy", head(*shape))
    for path in (tmp_path / "maps", tmp_path / "maps.npz"):
        heatmap, problem = open_heatmaps(path).usable("0", (32, 32))
        assert heatmap is None
        assert "cannot be read" in problem
    with pytest.raises(HeatproofError, match=r"maps\.npz"):
        read_arrays(tmp_path / "maps.npz")


def test_one_heatmap_of_many_channels_costs_the_others_nothing(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros((4000, 4, 4), np.float32))
    heatmap, problem = open_heatmaps(tmp_path).usable("0", (4, 4))
    assert heatmap is None
    assert problem == "the heatmap has 4,000 channels, which is more than 1,024"


def test_a_group_that_holds_no_array(tmp_path):
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file.create_group("heatmaps")
        file["question_index"] = [0, 1]
    with pytest.raises(HeatproofError, match="heatmaps must be an array"):
        open_heatmaps(tmp_path / "g.h5")
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("heatmaps", shape=(2, 10**6, 10**6), dtype="f8", chunks=(1, 1000, 1000))
        file["question_index"] = [0, 1]
    with pytest.raises(HeatproofError, match="that is too large"):
        open_heatmaps(tmp_path / "large.h5")


# Names, places and settings of others


@pytest.mark.parametrize("name", ["..", "a/b", "", "/tmp/x"])
def test_a_name_that_leads_elsewhere(name, tmp_path):
    with pytest.raises(HeatproofError, match="cannot be the name of a folder"):
        heatproof.evaluate(tmp_path / "maps", dataset=tmp_path, name=name, out=tmp_path / "r")


def test_a_cache_that_cannot_be_written_names_its_variable(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path / "file"))
    with pytest.raises(HeatproofError, match="set HEATPROOF_HOME to a folder that you may write to"):
        heatproof.run("clevr-xai", explainers="random", limit=2, out=tmp_path / "r")


def test_what_the_machine_cannot_do_is_a_sentence(monkeypatch, capsys, tmp_path):
    """A name that no file system takes: an error of the system that readers have no words for."""
    name = "w" * 300 + ".npz"
    monkeypatch.setattr(sys, "argv", ["heatproof", "run", "svea", "--weights", name, "--limit", "4"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert name in capsys.readouterr().err


def test_an_interrupt_during_imports_is_no_traceback():
    """Reference for the code: that of shells, 128 and the number of the signal."""
    code = (
        "import sys, signal\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'heatproof.cli.app': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from heatproof.cli import command\n"
        "command()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    said = "\nStopped. What is finished is kept; the same command goes on:\n  heatproof\n"
    assert (done.returncode, done.stderr) == (130, said)


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_whatever_is_interrupted_says_how_to_go_on(stop, code, monkeypatch, capsys):
    """Training does by the command line, which cuts a run or a rendering short with words of their own."""

    def interrupted(*_words: object) -> None:
        raise stop

    monkeypatch.setattr("heatproof.mnist1d.make", interrupted)
    monkeypatch.setattr(sys, "argv", ["heatproof", "train", "mnist1d-cnn", "--out", "a b.npz"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert capsys.readouterr().err.endswith("\n  heatproof train mnist1d-cnn --out 'a b.npz'\n")


NET = torch.nn.Sequential(
    torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 3)
).eval()


@pytest.mark.parametrize("method", ["gradient", "grad_cam", "integrated_gradients:steps=3", "lrp", "rise:masks=4"])
def test_settings_of_torch_change_no_result(method):
    """Reference: the same call with nothing switched on. All settings are there afterwards."""
    inputs = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    usual = heatproof.explain(NET, inputs, method, target=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(heatproof.explain(NET, inputs, method, target=1), usual)
        assert torch.is_autocast_enabled("cpu")
    with torch.inference_mode():
        assert torch.equal(heatproof.explain(NET, inputs.clone(), method, target=1), usual)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(heatproof.explain(NET, inputs, method, target=1), usual)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_settings_of_torch_change_no_run(toy, tmp_path):
    runs = [heatproof.run(toy(), explainers="gradient", target="logit", out=tmp_path / "a")]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        runs.append(heatproof.run(toy(), explainers="gradient", target="logit", out=tmp_path / "b"))
    first, second = (json.dumps(run.leaderboard()["mean"].to_list()) for run in runs)
    assert first == second

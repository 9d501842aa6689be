"""The paper's data sets in the layouts in which they are distributed, on small copies made by hand."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from torch import nn
from typer.testing import CliRunner

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.cli.focus import app as focus_command
from heatproof.errors import HeatproofError
from heatproof.mosaics.datasets import DATASETS, held_out_pictures, pictures_of

MEDIUMS = ("Bronze", "Oil on canvas")
SCENES = ("airport_inside", "kitchen")
SYNSETS = ("n01440764", "n02102040", "n03888257")


def paint(path: Path, shade: int = 40) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 18), (shade % 256, 3 * shade % 256, 90)).save(path, "JPEG")


def write_rows(path: Path, rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def make_dogs_vs_cats(place: Path) -> Path:
    """Kaggle's archive: labelled pictures in train, others in test1."""
    for number in range(13):
        for kind in ("cat", "dog"):
            paint(place / "train" / f"{kind}.{number}.jpg", number)
    paint(place / "test1" / "1.jpg")
    return place


def make_mame(place: Path) -> Path:
    """The columns of MAMe_metadata/MAMe_dataset.csv, and data_256 with all pictures in one folder."""
    head = ["Image file", "Medium", "Museum", "Museum-based instance ID", "Subset"]
    head += ["Width", "Height", "Product size", "Aspect ratio"]
    rows: list[list[object]] = []
    for k, medium in enumerate(MEDIUMS):
        for number, subset in enumerate(["train"] * 3 + ["val"] * 2 + ["test"]):
            name = f"{medium.split()[0]}_{number}.jpg"
            paint(place / "data_256" / name, 30 * k + number)
            rows.append([name, medium, "Met", number, subset, 20, 18, 360, 1.1])
    write_rows(place / "MAMe_metadata" / "MAMe_dataset.csv", [head, *rows])
    return place


def make_mit67(place: Path) -> Path:
    """Images/class/file with the two lists beside; lines may end as on Windows, and the last is empty."""
    for name, numbers in (("TrainImages.txt", range(4)), ("TestImages.txt", range(4, 7))):
        lines = [f"{scene}/{scene}_{number}.jpg" for scene in SCENES for number in numbers]
        for line in lines:
            paint(place / "Images" / line)
        (place / name).write_bytes("\r\n".join([*lines, ""]).encode())
    return place


def imagenet_classes() -> list[int]:
    """The class of each of nine pictures, by place in SYNSETS."""
    return [0, 2, 1, 1, 0, 2, 2, 1, 0]


def make_imagenet(place: Path, kind: str) -> Path:
    for number in range(1, 10):
        paint(place / "val" / f"ILSVRC2012_val_{number:08d}.JPEG", number)
    names = [f"ILSVRC2012_val_{number:08d}" for number in range(1, 10)]
    classes = imagenet_classes()
    if kind == "kit":  # counts from 1, in an order that is not that of the WordNet ids
        data = place / "ILSVRC2012_devkit_t12" / "data"
        data.mkdir(parents=True)
        order = [SYNSETS[2], SYNSETS[0], SYNSETS[1]]
        lines = [str(1 + order.index(SYNSETS[k])) for k in classes]
        (data / "ILSVRC2012_validation_ground_truth.txt").write_text("\n".join(lines) + "\n")
        fields = [("ILSVRC2012_ID", object), ("WNID", object), ("words", object)]
        table = np.array([(number, wnid, "a, b") for number, wnid in enumerate(order, 1)], dtype=fields)
        savemat(data / "meta.mat", {"synsets": table[:, None]})
    elif kind == "kaggle":
        solution = [[name, f"{SYNSETS[k]} 1 2 3 4 "] for name, k in zip(names, classes, strict=True)]
        write_rows(place / "LOC_val_solution.csv", [["ImageId", "PredictionString"], *solution[::-1]])
    elif kind == "synsets":
        labels = "\n".join(SYNSETS[k] for k in classes)
        (place / "imagenet_2012_validation_synset_labels.txt").write_text(labels)
    elif kind == "caffe":
        lines = [f"{name}.JPEG {k}" for name, k in zip(names, classes, strict=True)]
        (place / "val.txt").write_text("\n".join(lines))
    return place


def names_of(files: Sequence[Path]) -> list[str]:
    return [file.name for file in files]


def test_dogs_vs_cats(tmp_path):
    """Kaggle has no split: every fifth picture by number is held out, wherever the copy is."""
    place = make_dogs_vs_cats(tmp_path)
    for folder in (place, place / "train"):
        found = held_out_pictures("dogs-vs-cats", folder).by_class
        assert {label: names_of(files) for label, files in found.items()} == {
            "cat": ["cat.0.jpg", "cat.10.jpg", "cat.5.jpg"],
            "dog": ["dog.0.jpg", "dog.10.jpg", "dog.5.jpg"],
        }
    training = pictures_of("dogs-vs-cats", place, "train")
    assert len(training) == 20
    assert not {*training.by_class["cat"]} & {*held_out_pictures("dogs-vs-cats", place).by_class["cat"]}


def test_mame(tmp_path):
    place = make_mame(tmp_path)
    found = held_out_pictures("mame", place)
    assert found.classes == MEDIUMS
    assert [names_of(files) for files in found.by_class.values()] == [
        ["Bronze_3.jpg", "Bronze_4.jpg"],
        ["Oil_3.jpg", "Oil_4.jpg"],
    ]
    assert names_of(held_out_pictures("mame", place, "test").by_class["Bronze"]) == ["Bronze_5.jpg"]
    assert all(file.is_file() for files in found.by_class.values() for file in files)


def test_mit67(tmp_path):
    found = held_out_pictures("mit67", make_mit67(tmp_path))
    assert found.classes == SCENES
    assert names_of(found.by_class["kitchen"]) == ["kitchen_4.jpg", "kitchen_5.jpg", "kitchen_6.jpg"]
    assert found.by_class["kitchen"][0].is_file()


@pytest.mark.parametrize("kind", ["kit", "kaggle", "synsets", "caffe"])
def test_imagenet(tmp_path, kind):
    """The same nine pictures under each list; classes in the order of torchvision's outputs."""
    found = held_out_pictures("imagenet", make_imagenet(tmp_path, kind))
    expected = [
        [f"ILSVRC2012_val_{n:08d}.JPEG" for n, k in enumerate(imagenet_classes(), 1) if k == c] for c in (0, 1, 2)
    ]
    assert [names_of(files) for files in found.by_class.values()] == expected
    assert found.classes == (("0000", "0001", "0002") if kind == "caffe" else SYNSETS)


def test_imagenet_in_a_folder_per_class(tmp_path):
    for synset in SYNSETS:
        paint(tmp_path / "val" / synset / "ILSVRC2012_val_00000007.JPEG")
    assert held_out_pictures("imagenet", tmp_path).classes == SYNSETS


@pytest.mark.parametrize("name", DATASETS)
def test_a_folder_of_another_layout_says_what_is_missing(tmp_path, name):
    paint(tmp_path / "cats" / "1.jpg")
    with pytest.raises(
        HeatproofError, match=f"is not {name} as it is distributed: .*Known layouts: dogs-vs-cats: .*"
    ) as e:
        held_out_pictures(name, tmp_path)
    missing = {"dogs-vs-cats": "cat.0.jpg", "mame": "no MAMe_dataset.csv", "mit67": "no TestImages.txt"}
    assert missing.get(name, "ILSVRC2012_val_00000001.JPEG") in str(e.value)
    with pytest.raises(HeatproofError, match="there is no folder"):
        held_out_pictures(name, tmp_path / "nowhere")


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def test_lists_that_do_not_fit_are_refused(tmp_path):
    place = make_mame(tmp_path / "mame")
    table = place / "MAMe_metadata" / "MAMe_dataset.csv"
    rewrite(table, "Medium", "Material")
    with pytest.raises(HeatproofError, match=r"MAMe_dataset.csv has no column Medium"):
        held_out_pictures("mame", place)
    rewrite(table, "Material", "Medium")
    (place / "data_256").rename(place / "elsewhere")
    with pytest.raises(HeatproofError, match=r"picture Bronze_0.jpg of its list is in none of its folders data,"):
        held_out_pictures("mame", place)

    place = make_mit67(tmp_path / "mit67")
    rewrite(place / "TestImages.txt", "kitchen/kitchen_6.jpg", "kitchen_6.jpg")
    with pytest.raises(HeatproofError, match=r"TestImages.txt, line 6: 'kitchen_6.jpg' is not of the form class/file"):
        held_out_pictures("mit67", place)

    place = make_imagenet(tmp_path / "none", "none")
    with pytest.raises(
        HeatproofError, match=r"no list of the pictures' classes .*LOC_val_solution.csv, .*ground_truth.txt"
    ):
        held_out_pictures("imagenet", place)
    place = make_imagenet(tmp_path / "kit", "kit")
    data = place / "ILSVRC2012_devkit_t12" / "data"
    (data / "meta.mat").rename(place / "kept")
    with pytest.raises(HeatproofError, match=r"numbers of the development kit, whose meta.mat must lie beside it"):
        held_out_pictures("imagenet", place)
    (data / "meta.mat").write_bytes(b"no matrix")
    with pytest.raises(HeatproofError, match=r"meta.mat cannot be read as the development kit's list"):
        held_out_pictures("imagenet", place)
    place = make_imagenet(tmp_path / "short", "synsets")
    labels = place / "imagenet_2012_validation_synset_labels.txt"
    labels.write_text("\n".join(labels.read_text().split("\n")[:5]))
    with pytest.raises(HeatproofError, match=r"ILSVRC2012_val_00000006.JPEG has no line in the list .* has 5 pictures"):
        held_out_pictures("imagenet", place)


def test_a_class_without_held_out_pictures_is_named(tmp_path):
    place = make_mame(tmp_path / "mame")
    rewrite(place / "MAMe_metadata" / "MAMe_dataset.csv", ",Met,3,val", ",Met,3,train")
    rewrite(place / "MAMe_metadata" / "MAMe_dataset.csv", ",Met,4,val", ",Met,4,train")
    with pytest.raises(HeatproofError, match="unknown subset of mame 'val'"):
        held_out_pictures("mame", place)
    place = make_mit67(tmp_path / "mit67")
    rewrite(place / "TestImages.txt", "kitchen", "airport_inside")
    with pytest.raises(HeatproofError, match=r"class 'kitchen' has no held-out pictures \(subset val\)"):
        held_out_pictures("mit67", place)
    place = make_imagenet(tmp_path / "imagenet", "kaggle")
    for number, k in enumerate(imagenet_classes(), 1):
        if k == 2:
            (place / "val" / f"ILSVRC2012_val_{number:08d}.JPEG").unlink()
    with pytest.raises(HeatproofError, match=f"class '{SYNSETS[2]}' has no held-out pictures"):
        held_out_pictures("imagenet", place)


def test_training_pictures_are_never_taken(tmp_path):
    with pytest.raises(HeatproofError, match="mosaics of mame are made of held-out pictures"):
        held_out_pictures("mame", make_mame(tmp_path), "train")


def test_the_papers_number_of_mosaics(tmp_path):
    """Unless the user says how many; the quick preset says so too."""
    options = {"dataset": "mame", "images": make_mame(tmp_path), "model": "vgg16"}
    assert Focus.from_preset("standard", **options).per_class == 100
    assert Focus.from_preset("standard", **options, per_class=7).per_class == 7
    assert Focus.from_preset("standard", **options | {"dataset": "imagenet"}).per_class == 10
    assert Focus.from_preset("quick", **options).per_class == 10
    drawn, classes = Focus.from_preset("paper", **options).draw(0)
    assert (len(drawn), classes) == (200, list(MEDIUMS))
    allowed = {file for files in held_out_pictures("mame", tmp_path).by_class.values() for file in files}
    assert {file for mosaic in drawn for file in mosaic.files} == allowed


def test_options_that_do_not_go_together(tmp_path):
    with pytest.raises(HeatproofError, match="say with --images in which folder mame is"):
        Focus(dataset="mame")
    with pytest.raises(HeatproofError, match="unknown data set 'cifar'"):
        Focus(dataset="cifar", images=tmp_path, model="vgg16")


def test_a_run_and_written_mosaics(tmp_path):
    place = make_dogs_vs_cats(tmp_path / "dogs")
    network = tmp_path / "net.py"
    network.write_text(
        "import torch\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    layers = torch.nn.Conv2d(3, 4, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()\n"
        "    return torch.nn.Sequential(*layers, torch.nn.Linear(4, 2)), {'size': 16}\n"
    )
    options = {"dataset": "dogs-vs-cats", "images": place, "model": f"{network}:build", "per_class": 2}
    run = heatproof.run("focus", **options, explainers="gradient", out=tmp_path / "run")
    assert run.leaderboard().filter(metric="focus", pooling="paper")["n"].to_list() == [4]
    words = [
        "mosaics",
        "--dataset",
        "dogs-vs-cats",
        "--images",
        str(place),
        "--tile",
        "16",
        "--out",
        str(tmp_path / "m"),
    ]
    assert CliRunner().invoke(focus_command, words).exit_code == 0
    assert len(list((tmp_path / "m").glob("*.png"))) == 200


def test_a_truncated_picture_is_named(tmp_path):
    place = make_mit67(tmp_path)
    picture = place / "Images" / "kitchen" / "kitchen_5.jpg"
    picture.write_bytes(picture.read_bytes()[:-200])
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    with pytest.raises(HeatproofError, match=r"kitchen_5.jpg cannot be read as a picture"):
        Focus(dataset="mit67", images=place, model=network, per_class=3, tile=16).open(0)

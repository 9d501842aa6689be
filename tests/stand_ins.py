"""What a reader of the documents brings along, in small: pictures, masks, networks, heatmaps, data sets, runs.

Names are those of the documents, so that their commands can be typed in such a folder.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

import heatproof
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.questions.make import make_questions

CLASSES = ("cat", "dog", "fox", "owl")
PICTURES = 6
SIDE = 64

NETWORK = '''
import torch


def build():
    """Pictures or signals of any size to four logits."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, 4)), {"size": 64}


def build_for_signals():
    torch.manual_seed(0)
    layers = [torch.nn.Conv1d(1, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, 2))
'''
EXPLAINER = """
import torch


def explain(model, inputs, target):
    inputs = inputs.detach().requires_grad_()
    score = model(inputs).gather(1, target[:, None]).sum()
    return torch.autograd.grad(score, inputs)[0].detach()
"""


def bring_all(place: Path) -> None:
    """Everything, into this folder, which is the current one."""
    bring_pictures(place)
    bring_data_set(place / "data")
    shutil.copytree(place / "data", place / "worlds")
    bring_heatmaps(place)
    bring_runs()


def bring_pictures(place: Path) -> None:
    """photos/CLASS/N.png with labels, masks of the same names in three formats, and a network that takes them."""
    rng = np.random.default_rng(0)
    rows, images, annotations = [], [], []
    for label, name in enumerate(CLASSES):
        for number in range(PICTURES):
            file = f"{name}/{number}.png"
            pixels = rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
            pixels[..., label % 3] //= 4
            left, top = rng.integers(4, 24, 2).tolist()
            inside = np.zeros((SIDE, SIDE), dtype=bool)
            inside[top : top + 28, left : left + 28] = True
            trimap = np.where(inside, 1, 2).astype(np.uint8)
            trimap[0] = 3
            for folder, array in (("photos", pixels), ("masks", inside.astype(np.uint8) * 255), ("trimaps", trimap)):
                (place / folder / name).mkdir(parents=True, exist_ok=True)
                Image.fromarray(array).save(place / folder / file)
            rows.append((f"photos/{file}", name))
            images.append({"id": len(images), "file_name": file, "width": SIDE, "height": SIDE})
            corners = [left, top, left + 28, top, left + 28, top + 28, left, top + 28]
            annotations.append(
                {"id": len(annotations), "image_id": images[-1]["id"], "category_id": label, "iscrowd": 0}
                | {"segmentation": [corners], "bbox": [left, top, 28, 28], "area": 28 * 28}
            )
    categories = [{"id": number, "name": name} for number, name in enumerate(CLASSES)]
    instances = {"images": images, "annotations": annotations, "categories": categories}
    (place / "instances.json").write_text(json.dumps(instances))
    write_csv(place / "photos.csv", ("filename", "label"), rows)
    write_csv(place / "labels.csv", ("label", "index"), [(name, number) for number, name in enumerate(CLASSES)])
    (place / "my_net.py").write_text(NETWORK)
    (place / "mine.py").write_text(EXPLAINER)


def write_csv(path: Path, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def bring_data_set(place: Path) -> None:
    """A CLEVR-XAI data set of three scenes, with pictures, both sets of questions, and their masks."""
    from typer.testing import CliRunner

    from heatproof.cli.app import app

    words = ["clevr", "render", str(place), "--num-images", "3", "--size", "128x128", "--mask-size", "480x320"]
    done = CliRunner().invoke(app, [*words, "--samples", "4", "--jobs", "1"])
    assert done.exit_code == 0, done.exception
    make_questions(place, "simple")
    make_questions(place, "complex")
    make_masks(open_dataset(place), (128, 128))


def bring_heatmaps(place: Path) -> None:
    """Of the data set's questions, of SVEA's signals, of mosaics, and of the masks; with what networks said."""
    rng = np.random.default_rng(1)
    data = open_dataset(place / "data")
    (place / "heatmaps").mkdir()
    answers = []
    for question in data.questions("simple"):
        np.save(place / "heatmaps" / f"{question.index}.npy", rng.random((3, 128, 128), dtype=np.float32))
        answers.append({"question_index": question.index, "answer": question.answer})
    (place / "answers.json").write_text(json.dumps(answers))
    complex_ones = [question.index for question in data.questions("complex")]
    with h5py.File(place / "complex_maps.h5", "w") as file:
        file["heatmaps"] = rng.random((len(complex_ones), 1, 128, 128), dtype=np.float32)
        file["question_index"] = np.array(complex_ones)
    np.save(place / "svea_maps.npy", rng.random((5000, 40)))
    for name in ("whole", "masked"):
        np.save(place / f"{name}.npy", rng.dirichlet(np.ones(10), 1000))
    (place / "mosaic_maps").mkdir()
    for number in range(12):
        np.save(place / "mosaic_maps" / f"{number:06d}.npy", rng.normal(size=(3, 128, 128)))
    for folder in ("maps", "vendor_a", "vendor_b"):
        for name in CLASSES:
            (place / folder / name).mkdir(parents=True)
            for number in range(PICTURES):
                np.save(place / folder / name / f"{number}.npy", rng.random((SIDE, SIDE)))
    maps = {f"{name}/{number}": rng.random((SIDE, SIDE)) for name in CLASSES for number in range(PICTURES)}
    np.savez(place / "vendor_c.npz", **maps)
    signals = {f"x_{part}": rng.normal(size=(20, 60)) for part in ("train", "test")}
    np.savez(place / "FILE.npz", **signals, y_train=np.arange(20) % 2, y_test=np.arange(20) % 2)


def bring_runs() -> None:
    """Finished runs under the names that documents have for them."""
    small = {"explainers": ["gradient", "grad_cam", "random"], "jobs": 1}
    heatproof.run("svea", limit=60, out="runs/svea-standard", **small)
    heatproof.run("focus", limit=30, out="runs/focus-standard", **small)
    heatproof.run("clevr-xai", limit=4, keep_heatmaps=True, out="runs/clevr-xai-quick", **small)
    heatproof.run("svea", explainers="mine.py:explain,random,oracle", preset="quick", limit=60, jobs=1, out="runs/mine")
    for name in ("before", "after", "released", "evaluate-mine", "evaluate-theirs"):
        shutil.copytree("runs/mine", f"runs/{name}")

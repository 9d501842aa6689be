"""Damaged files of caches, data sets of others and models that are asked: a sentence, or they are made anew."""

from __future__ import annotations

import json
import re
import socket
import threading
import zipfile
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from heatproof.benchmarks.masks.readers import Values, open_mask_source
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.models.black_box import Address
from heatproof.models.heads import read_kept, write_array
from heatproof.models.mnist1d_cnn import Mnist1dCnn, trained_network
from heatproof.models.programs import load_program
from heatproof.models.weights import save_weights
from heatproof.mosaics.datasets import kaggle_solution
from tiny_datasets import edit_json, write_world

# Caches, words


@pytest.mark.parametrize("content", [b"", b"PK", "cut"])
def test_a_truncated_file_in_the_cache_is_named(content, tmp_path, monkeypatch):
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path))
    kept = tmp_path / "models" / "mnist1d_cnn-77.npz"
    save_weights(Mnist1dCnn(), kept)
    kept.write_bytes(kept.read_bytes()[:900] if content == "cut" else content)
    with pytest.raises(HeatproofError, match=r"mnist1d_cnn-77\.npz"):
        trained_network(77)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", "cut"])
def test_truncated_features_in_the_cache_are_made_anew(content, tmp_path):
    """Reference: what was written."""
    path = tmp_path / "features.npy"
    write_array(path, np.arange(12, dtype=np.float32).reshape(3, 4))
    assert read_kept(path, 3).tolist() == np.arange(12).reshape(3, 4).tolist()
    assert read_kept(path, 2) is None, "of another number of pictures"
    path.write_bytes(path.read_bytes()[:-9] if content == "cut" else content)
    assert read_kept(path, 3) is None


def test_markup_in_answers_and_folders_under_clevr_stats(tmp_path):
    world = write_world(tmp_path / "[/bold] \x1b[2J", scenes=2, per_image=3)
    (file,) = world.glob("*simple*questions*.json")

    def answer(content: Any) -> None:
        for question in content["questions"]:
            question["answer"] = "[/bold]"

    edit_json(file, answer)
    shown = CliRunner().invoke(app, ["clevr", "stats", str(world)])
    assert shown.exit_code == 0, shown.output
    assert "[/bold]" in shown.output
    assert "\x1b[2J" not in shown.output


# Masks and answers from elsewhere


def coco(**changes: Any) -> dict[str, Any]:
    image = {"id": 1, "file_name": "a.jpg", "height": 8, "width": 8}
    thing = {"id": 5, "image_id": 1, "category_id": 3, "segmentation": [[1, 1, 5, 1, 5, 5]], "bbox": [1, 1, 4, 4]}
    for name, value in changes.items():
        (image if name in image and name != "id" else thing)[name] = value
    return {"images": [image], "categories": [{"id": 3, "name": "cat"}], "annotations": [thing]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"height": 10**9, "width": 10**9}, "with at most 268,435,456 pixels"),
        ({"height": float("nan")}, "a height and a width of whole numbers"),
        ({"height": "8"}, "a height and a width of whole numbers"),
        ({"image_id": [1]}, "image_id of entry 0 of annotations must be a number or a text"),
        ({"file_name": None}, "file_name of entry 0 of images must be the name of a file"),
        ({"segmentation": [[0, 0, 10**9, 0, 10**9, 10**9]]}, "in or near the image"),
        ({"segmentation": [[0, 0, float("nan"), 0, 1, 1]]}, "in or near the image"),
        ({"segmentation": {"size": [8, 8], "counts": [-10, 74]}}, "whole numbers from 0 on"),
        ({"segmentation": {"size": [8, 8], "counts": ["a"]}}, "whole numbers from 0 on"),
    ],
)
def test_annotations_that_ask_for_harm(changes, words, tmp_path):
    """Sizes that no memory holds, edges that take hours, run lengths that lead out of the picture."""
    pytest.importorskip("pycocotools", reason="needs pycocotools")
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(coco(**changes)))
    with pytest.raises(HeatproofError, match=re.escape(words)):
        open_mask_source(file, Values()).truth("a", "cat")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        *((size, r"a\.xml: size/height must be a number") for size in ("nan", "inf")),
        *((size, r"a\.xml must have a height and a width of whole numbers") for size in ("-8", "0", "1e9", "8.5")),
    ],
)
def test_boxes_of_pictures_that_cannot_be(size, words, tmp_path):
    (tmp_path / "Annotations").mkdir()
    sides = f"<size><height>{size}</height><width>{size}</width></size>"
    (tmp_path / "Annotations" / "a.xml").write_text(f"<annotation>{sides}</annotation>")
    with pytest.raises(HeatproofError, match=words):
        open_mask_source(tmp_path, Values()).truth("a", "cat")


def test_a_single_array_is_no_archive_of_masks(tmp_path):
    np.save(tmp_path / "masks.npy", np.ones((4, 4)))
    (tmp_path / "masks.npy").rename(tmp_path / "masks.npz")
    with pytest.raises(HeatproofError, match=r"masks\.npz holds a single array"):
        list(open_mask_source(tmp_path / "masks.npz", Values()).names)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_answers_of_an_address_that_are_none(answer, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            asked, _ = server.accept()
            with asked:
                asked.recv(65536)
                asked.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(HeatproofError, match=r"http://127\.0\.0\.1"):
            Address(f"http://127.0.0.1:{server.getsockname()[1]}/")(np.ones((2, 3)))
        thread.join()


@pytest.mark.parametrize("line", ["ILSVRC2012_val_00000001,", "ILSVRC2012_val_" + "9" * 5000 + ",n01"])
def test_a_solution_without_a_class_or_with_no_such_number(line, tmp_path):
    (tmp_path / "LOC_val_solution.csv").write_text(f"ImageId,PredictionString\n{line}\n")
    with pytest.raises(HeatproofError, match=r"LOC_val_solution\.csv"):
        list(kaggle_solution(tmp_path / "LOC_val_solution.csv"))


def test_an_archive_whose_names_are_no_text(tmp_path):
    """A flag of the archive says UTF-8, and the name is not."""
    path = tmp_path / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/\u00e9", b"1")
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\x83\x83"))
    with pytest.raises(HeatproofError, match=r"net\.pt2 is neither TorchScript nor torch\.export"):
        load_program(path)

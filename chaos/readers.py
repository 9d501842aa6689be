"""Every reader of files: the name of a file, what it holds where all is well, and what reads it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

Reader: TypeAlias = tuple[str, bytes, Callable[[Path], object]]


def readers(folder: Path) -> Iterator[Reader]:
    """All of them; `folder` is for what lies beside the files that are damaged."""
    yield from arrays()
    yield from tables()
    yield from pictures()
    yield from masks()
    yield from networks()
    yield from run_files()
    yield from data_set(folder / "world")
    if importlib.util.find_spec("h5py"):
        yield from groups(folder)
    if importlib.util.find_spec("onnx"):
        yield onnx_file()
    if importlib.util.find_spec("transformers"):
        yield from transformers_folder(folder / "hf")
    yield answers_of_an_address()


def arrays() -> Iterator[Reader]:
    import numpy as np

    from heatproof.arrays import read_arrays
    from heatproof.benchmarks.svea.heatmaps import open_signal_maps
    from heatproof.benchmarks.svea.outputs import read_outputs
    from heatproof.benchmarks.svea.own import own_signals
    from heatproof.heatmap_files import open_heatmaps
    from heatproof.models.weights import read_arrays as read_weights

    def maps(path: Path) -> object:
        found = open_heatmaps(path)
        return [found.usable(name, (4, 4)) for name in found.names]

    def one_map(path: Path) -> object:
        place = path.parent / "maps"
        place.mkdir(exist_ok=True)
        path.replace(place / "0.npy")
        return maps(place)

    def part(path: Path) -> object:
        place = path.parent / "parts"
        place.mkdir(exist_ok=True)
        path.replace(place / "net.0.npz")
        return maps(place)

    def archive(**content: object) -> bytes:
        buffer = io.BytesIO()
        np.savez(buffer, **content)  # type: ignore[arg-type]
        return buffer.getvalue()

    plain = archive(weight=np.ones((4, 4), np.float32), bias=np.ones(4))
    array = io.BytesIO()
    np.save(array, np.ones((4, 4)))
    signals = archive(
        x_train=np.ones((4, 1, 8)), y_train=np.arange(4) % 2, x_test=np.ones((4, 1, 8)), y_test=np.arange(4) % 2
    )
    there = Path("whole-signals.npz")
    there.write_bytes(signals)
    cases = own_signals(there)
    yield "arrays.npz", plain, read_arrays
    yield "maps.npz", plain, maps
    yield "map.npy", array.getvalue(), one_map
    yield "part.npz", archive(ids=np.array(["a", "b"]), relevance=np.ones((2, 1, 4, 4))), part
    yield "weights.npz", plain, read_weights
    yield "signals.npz", signals, own_signals
    yield "signal-maps.npz", archive(test=np.ones((1000, 40))), open_signal_maps
    yield "outputs.npz", archive(test=np.full((4, 10), 0.1)), lambda path: read_outputs(path, "predictions", cases)


def tables() -> Iterator[Reader]:
    from heatproof.experiments.bias import read_names
    from heatproof.models.classifiers import read_labels
    from heatproof.mosaics.datasets import caffe_list, kaggle_solution
    from heatproof.mosaics.mosaics import read_mosaics
    from heatproof.mosaics.pictures import find_pictures

    solution = b"ImageId,PredictionString\nILSVRC2012_val_00000001,n01440764 1 2 3 4\n"
    yield "pictures.csv", b"filename,label,subset\na.png,cat,test\nb.png,dog,test\n", find_pictures
    yield "labels.csv", b"label,index\ncat,0\ndog,1\n", read_labels
    yield "mosaics.csv", b"filename,label_0,label_1,label_2,label_3,target_class\na.png,0,0,1,1,0\n", read_mosaics
    yield "names.csv", b"label,name\ncat,Cat\ndog,Dog\n", read_names
    yield "LOC_val_solution.csv", solution, lambda path: list(kaggle_solution(path))
    yield "val.txt", b"ILSVRC2012_val_00000001.JPEG 65\n", lambda path: list(caffe_list(path))


def pictures() -> Iterator[Reader]:
    import numpy as np
    from PIL import Image, PngImagePlugin

    from heatproof.clevr.changed_pictures import CHUNK, recipe_in
    from heatproof.clevr.pictures import read_picture
    from heatproof.mosaics.pictures import tile

    told = PngImagePlugin.PngInfo()
    told.add_text(CHUNK, "0123")
    image = Image.fromarray(np.arange(1200, dtype=np.uint8).reshape(20, 20, 3))
    stored = {kind: io.BytesIO() for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP")}
    for kind, buffer in stored.items():
        image.save(buffer, kind, **({"pnginfo": told} if kind == "PNG" else {}))
    yield "picture.png", stored["PNG"].getvalue(), read_picture
    yield "changed.png", stored["PNG"].getvalue(), recipe_in
    for kind, buffer in stored.items():
        yield f"tile.{kind.lower()}", buffer.getvalue(), lambda path: tile(path, 16)


def masks() -> Iterator[Reader]:
    """Truths: COCO's, VOC's of both kinds, pictures (trimaps are such), arrays."""
    import numpy as np
    from PIL import Image

    from heatproof.benchmarks.masks.readers import MaskSource, Values, open_mask_source

    def truths(source: MaskSource) -> object:
        return [source.truth(name, label) for name in source.names for label in source.classes(name) or ("",)]

    def opened(path: Path) -> object:
        return truths(open_mask_source(path, Values(1, 0, 2)))

    def in_folder(name: str, path: Path) -> object:
        place = path.parent / "truths" / name
        place.mkdir(parents=True, exist_ok=True)
        path.replace(place / path.name)
        return opened(path.parent / "truths" if name in ("SegmentationClass", "Annotations") else place)

    def alone(name: str) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            shutil.rmtree(path.parent / "truths", ignore_errors=True)
            return in_folder(name, path)

        return read

    pixels, archive = io.BytesIO(), io.BytesIO()
    Image.fromarray((np.arange(64, dtype=np.uint8) % 3).reshape(8, 8)).save(pixels, "PNG")
    np.savez(archive, a=np.ones((8, 8), np.uint8), b=np.ones((8, 8), bool))
    runs = {"size": [8, 8], "counts": [10, 20, 34]}
    things = [[[1, 1, 5, 1, 5, 5]], runs, {"size": [8, 8], "counts": ":d00b0"}, None]
    coco = {
        "images": [{"id": 1, "file_name": "a.jpg", "height": 8, "width": 8}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": 3, "segmentation": thing, "bbox": [1, 1, 4, 4], "iscrowd": i % 2}
            for i, thing in enumerate(things)
        ],
    }
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4</ymax></bndbox>"
    thing = f"<object><name>cat</name><difficult>0</difficult>{box}</object>"
    voc = f"<annotation><size><width>8</width><height>8</height></size>{thing}</annotation>"
    yield "instances.json", json.dumps(coco).encode(), opened
    yield "masks.npz", archive.getvalue(), opened
    yield "trimap.png", pixels.getvalue(), alone("plain")
    yield "segments.png", pixels.getvalue(), alone("SegmentationClass")
    yield "boxes.xml", voc.encode(), alone("Annotations")


def networks() -> Iterator[Reader]:
    import torch

    from heatproof.models.checkpoints import read_checkpoint
    from heatproof.models.programs import load_program
    from heatproof.models.weights import read_arrays

    state, program = io.BytesIO(), io.BytesIO()
    torch.save({"weight": torch.ones(2, 2)}, state)
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)), program)
    yield "weights.pt", state.getvalue(), read_arrays
    yield "net.checkpoint", state.getvalue(), lambda path: read_checkpoint(path, {})
    yield "program.pt2", program.getvalue(), load_program
    if importlib.util.find_spec("safetensors"):
        from safetensors.torch import save

        yield "weights.safetensors", save({"weight": torch.ones(2, 2)}), read_arrays


def run_files() -> Iterator[Reader]:
    from heatproof.benchmarks.clevr_xai.heatmaps import read_predictions
    from heatproof.clevr.json_files import read_object, read_records
    from heatproof.run_folder import RunFolder

    def records(path: Path) -> object:
        return list(read_records(path.parent, path, "questions", {"question": str, "question_index": int}, []))

    questions = [{"question": "What?", "question_index": 0, "answer": "red", "probability": 0.5}]
    yield "questions.json", json.dumps({"questions": questions}).encode(), records
    yield "settings.json", b'{"num_images": 3, "seed": 0}', read_object
    yield "answers.json", json.dumps(questions).encode(), read_predictions
    start = b'{"format": 5, "configuration": {}, "explainers": [], "sha256": ""}'
    yield "run.json", start, lambda path: RunFolder(path.parent).manifest()


def data_set(folder: Path) -> Iterator[Reader]:
    """The files of a data set, of which all but one are whole."""
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.ground_truth import make_masks
    from heatproof.clevr.questions.make import make_questions
    from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
    from heatproof.clevr.scenes import SceneSettings
    from heatproof.clevr.stats import describe
    from heatproof.executors.choice import Execution

    here = Execution("local")
    render_dataset(folder, 1, SceneSettings(width=48, height=32), PictureSettings(samples=1), how=here)
    make_questions(folder, "simple", how=here)
    make_masks(open_dataset(folder), (16, 16))

    def beside(place: Path, whole: bytes, path: Path) -> object:
        path.replace(place)
        try:
            data = open_dataset(folder)
            return describe(data), [question.scene for name in data.sets for question in data.questions(name)]
        finally:
            place.write_bytes(whole)

    for place in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "croissant.json"):
        whole = place.read_bytes()
        yield place.name, whole, functools.partial(beside, place, whole)


def groups(folder: Path) -> Iterator[Reader]:
    import h5py
    import numpy as np

    from heatproof.heatmap_files import open_heatmaps

    def maps(path: Path) -> object:
        found = open_heatmaps(path)
        return [found.usable(name, (4, 4)) for name in found.names]

    whole = folder / "whole.h5"
    with h5py.File(whole, "w") as file:
        file["a"] = np.ones((4, 4))
    yield "maps.h5", whole.read_bytes(), maps


def onnx_file() -> Reader:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    from heatproof.models.black_box import black_box

    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])
    weight = numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [taken], [given], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def read(path: Path) -> object:
        import torch

        return black_box(path)(torch.ones(2, 4))

    return "net.onnx", model.SerializeToString(), read


def transformers_folder(folder: Path) -> Iterator[Reader]:
    import transformers

    from heatproof.models.hugging_face import from_transformers

    try:
        network = transformers.ViTForImageClassification
    except Exception as problem:  # a torchvision that does not fit torch
        print(f"folders of transformers are left out: {problem}")
        return
    transformers.logging.set_verbosity_error()
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.ViTConfig(**small, image_size=16, patch_size=8, num_labels=2)
    network(config).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)

    def beside(place: Path, whole: bytes, path: Path) -> object:
        path.replace(place)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return from_transformers(f"hf:{folder.resolve()}", None, pretrained=False)
        finally:
            place.write_bytes(whole)

    for place in sorted(folder.iterdir()):
        whole = place.read_bytes()
        yield f"hf-{place.name}", whole, functools.partial(beside, place, whole)


def answers_of_an_address() -> Reader:
    """What a model behind an address says, from the first letter of its answer on."""
    import socket

    import numpy as np

    from heatproof.models.black_box import Address

    said: list[bytes] = [b""]
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            asked, _ = server.accept()
            with asked, contextlib.suppress(OSError):
                asked.recv(65536)
                asked.sendall(said[0])

    threading.Thread(target=serve, daemon=True).start()

    def read(path: Path) -> object:
        said[0] = path.read_bytes()
        return Address(f"http://127.0.0.1:{server.getsockname()[1]}/")(np.ones((2, 3)))

    body = b'{"predictions": [[0.1, 0.9], [0.5, 0.5]]}'
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return "answer.http", head.encode() + body, read

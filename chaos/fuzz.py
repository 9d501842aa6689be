"""Random and damaged files for every reader, and random values for every option: a result or a sentence, never more."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

PATIENCE = 10
"""Seconds after which a reader hangs."""
PIECES = (
    b"", b"\0", b"\xff\xfe", b"[" * 2000, b"{", b'"', b",", b"\n", b"-1", b"1e999", b"NaN", b"null", b"\xed\xa0\x80",
    b"../../x", b"99999999999999999999", b"label", b"=cmd", b"PK\x03\x04", b"\x93NUMPY\x01\x00",
)  # fmt: skip
WORDS = (
    "", " ", "-1", "0", "1", "2147483648", "1e400", "nan", "inf", "None", "[]", "{}", "'", ":", ",", "=", "..", "/",
    "a/b", "\x1b[2J", "\u202e", "\ud800", "=cmd", "gradient", "rise:masks=", "rise:masks=-1", "smoothgrad:sigma=nan",
    "lrp:composite=x", "randomised:", "gradient:x=1", "file.py:f", "x:y:z", "occlusion:window=0,stride=0", "é" * 300,
)  # fmt: skip


def damaged(content: bytes, draws: random.Random) -> bytes:
    """A file that was whole, changed in a few places; or none at all."""
    if draws.random() < 0.1:
        return draws.randbytes(draws.randrange(200))
    found = bytearray(content)
    for _ in range(draws.randint(1, 4)):
        where = draws.randrange(len(found) + 1)
        how = draws.randrange(4)
        if how == 0 and found:
            found[min(where, len(found) - 1)] = draws.randrange(256)
        elif how == 1:
            del found[where : where + draws.randrange(1, 40)]
        elif how == 2:
            found[where:where] = draws.choice(PIECES)
        else:
            del found[where:]
    return bytes(found)


def readers() -> Iterator[tuple[str, bytes, Callable[[Path], object]]]:
    """The name of a file that is read, what it holds where all is well, and what reads it."""
    import numpy as np
    import torch
    from PIL import Image

    from heatproof.arrays import read_arrays
    from heatproof.benchmarks.clevr_xai.heatmaps import read_predictions
    from heatproof.clevr.json_files import read_object, read_records
    from heatproof.clevr.pictures import read_picture
    from heatproof.heatmap_files import open_heatmaps
    from heatproof.models.checkpoints import read_checkpoint
    from heatproof.models.classifiers import read_labels
    from heatproof.models.weights import read_arrays as read_weights
    from heatproof.mosaics.mosaics import read_mosaics
    from heatproof.mosaics.pictures import find_pictures, tile
    from heatproof.run_folder import RunFolder

    def maps(path: Path) -> object:
        found = open_heatmaps(path)
        return [found.usable(name, (4, 4)) for name in found.names]

    def one_map(path: Path) -> object:
        place = path.parent / "maps"
        place.mkdir(exist_ok=True)
        path.replace(place / "0.npy")
        return maps(place)

    def records(path: Path) -> object:
        return list(read_records(path.parent, path, "questions", {"question": str, "question_index": int}, []))

    def manifest(path: Path) -> object:
        return RunFolder(path.parent).manifest()

    arrays, array, picture, state = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(arrays, weight=np.ones((4, 4), np.float32), bias=np.ones(4))
    np.save(array, np.ones((4, 4)))
    Image.fromarray(np.ones((20, 20, 3), np.uint8)).save(picture, "PNG")
    torch.save({"weight": torch.ones(2, 2)}, state)
    questions = [{"question": "What?", "question_index": 0, "answer": "red", "probability": 0.5}]
    yield "pictures.csv", b"filename,label,subset\na.png,cat,test\nb.png,dog,test\n", find_pictures
    yield "labels.csv", b"label,index\ncat,0\ndog,1\n", read_labels
    yield "mosaics.csv", b"filename,label_0,label_1,label_2,label_3,target_class\na.png,0,0,1,1,0\n", read_mosaics
    yield "questions.json", json.dumps({"questions": questions}).encode(), records
    yield "settings.json", b'{"num_images": 3, "seed": 0}', read_object
    yield "answers.json", json.dumps(questions).encode(), read_predictions
    yield "arrays.npz", arrays.getvalue(), read_arrays
    yield "maps.npz", arrays.getvalue(), maps
    yield "map.npy", array.getvalue(), one_map
    yield "weights.pt", state.getvalue(), read_weights
    yield "weights.npz", arrays.getvalue(), read_weights
    yield "net.checkpoint", state.getvalue(), lambda path: read_checkpoint(path, {})
    yield "picture.png", picture.getvalue(), read_picture
    yield "tile.png", picture.getvalue(), lambda path: tile(path, 16)
    yield "run.json", b'{"format": 5, "configuration": {}, "explainers": [], "sha256": ""}', manifest


def options() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every option of every benchmark, and lists of explainers and metrics."""
    from heatproof.benchmarks import benchmarks
    from heatproof.explainers.spec import make_explainers
    from heatproof.metrics.spec import load_metrics

    def option(recipe: Any, name: str, value: object) -> object:
        return recipe(**{name: value})

    for called, recipe in benchmarks.items():
        for entry in fields(recipe):
            yield f"{called} {entry.name}", lambda text, recipe=recipe, name=entry.name: option(recipe, name, text)
            if any(kind in str(entry.type) for kind in ("int", "float")):
                yield (
                    f"{called} {entry.name} as a number",
                    lambda text, recipe=recipe, name=entry.name: option(recipe, name, len(text) - 3),
                )
    yield "explainers", make_explainers
    yield "metrics", load_metrics


class Hangs(Exception):  # noqa: N818
    """A reader takes too long."""


def hangs(_signal: int, _frame: object) -> None:
    raise Hangs


def fuzz(folder: Path, count: int, seed: int = 0) -> Mapping[str, int]:
    """So many inputs: nine in ten files, the others values."""
    from heatproof.errors import HeatproofError

    warnings.simplefilter("ignore")
    os.chdir(folder)
    draws = random.Random(seed)
    files, values = list(readers()), list(options())
    found: Counter[str] = Counter({"inputs": 0, "taken": 0, "refused in a sentence": 0, "tracebacks": 0, "hangs": 0})
    signal.signal(signal.SIGALRM, hangs)
    for number in range(count):
        if number % 10:
            name, whole, read = files[number % len(files)]
            (folder / name).write_bytes(content := damaged(whole, draws))
            given: object = content
            attempt: Callable[[], object] = lambda read=read, path=folder / name: read(path)  # noqa: E731
        else:
            name, take = draws.choice(values)
            given = text = draws.choice(WORDS) + draws.choice(("", draws.choice(WORDS)))
            attempt = lambda take=take, text=text: take(text)  # noqa: E731
        found["inputs"] += 1
        signal.alarm(PATIENCE)
        try:
            attempt()
            found["taken"] += 1
        except HeatproofError:
            found["refused in a sentence"] += 1
        except Hangs:
            found["hangs"] += 1
            print(f"hang: {name}: {given!r}"[:300])
        except BaseException:
            found["tracebacks"] += 1
            print(f"traceback: {name}: {given!r}"[:300], traceback.format_exc(limit=-2)[-600:], sep="\n")
        finally:
            signal.alarm(0)
    return found

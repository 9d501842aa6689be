"""Every command that takes long, made small, and what is the same whenever it has come to its end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURED = ("seconds", "memory")
"""What differs from run to run."""


@dataclass(frozen=True)
class Command:
    """Words with {out} for what is made, {data} and {square} for small data sets, {cluster} for Ray's address.

    `made(out)` is compared.
    """

    name: str
    words: str
    made: Callable[[Path], object]

    def given(self, out: Path, data: Path, cluster: str = "") -> list[str]:
        places = {"out": out, "data": data, "square": data / "square", "cluster": cluster}
        return [word.format(**places) for word in self.words.split()]

    @property
    def needs_cluster(self) -> bool:
        return "{cluster}" in self.words


def scores(folder: Path) -> object:
    """A run's scores and table to the last bit."""
    import polars as pl
    import polars.selectors as cs

    from heatproof import load_run

    run = load_run(folder)
    rows = run.scores().filter(~pl.col("metric").is_in(MEASURED))
    table = run.leaderboard().drop(cs.contains(*MEASURED))
    names = sorted(rows.columns)
    return [
        sorted(map(str, rows.select(names).rows())),
        sorted(map(str, table.rows())),
        sorted(entry["folder"] for entry in run.manifest["explainers"]),
        len(run.failures()),
    ]


def files(folder: Path) -> object:
    """The bytes of all files, but for the day that they were made on."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(undated(path)).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "croissant.json"
    }


def undated(path: Path) -> bytes:
    """What a file holds; of a list of scenes, without the day."""
    if path.name != "CLEVR_scenes.json":
        return path.read_bytes()
    content = json.loads(path.read_bytes())
    content["info"].pop("date", None)
    return json.dumps(content).encode()


def network(folder: Path) -> object:
    """The weights that were learned."""
    import numpy as np

    with np.load(folder / "net.npz") as arrays:
        return {name: hashlib.sha256(arrays[name].tobytes()).hexdigest() for name in arrays.files}


FEW = "--explainers gradient,smoothgrad:samples=3,random"
SVEA = f"run svea --limit 60 --target logit {FEW} --out {{out}}"
FOCUS = f"run focus --per-class 1 --target logit {FEW} --out {{out}}"
CLEVR = "run clevr-xai --limit 4 --explainers gradient,random --out {out}"
REMOVAL = "run clevr-removal --scenes 1 --limit 2 --explainers gradient,random --out {out}"
MASKS = f"run masks --limit 12 {FEW} --out {{out}}"
SIGNALS = f"run svea --signals {{data}}/signals.npz --weights {{data}}/net.npz {FEW} --out {{out}}"
EVALUATE = "evaluate {data}/maps --dataset {data} --out {out}"
EVALUATE_MASKS = "evaluate {data}/maps {data}/others --masks {data}/masks.npz --out {out}"
RENDER = "clevr render {out} --num-images 3 --size 48x32 --samples 1"
ASK = "clevr ask {data} --out {out}/asked.json --set simple --per-image 3"
REMOVE = "clevr remove {data} --limit 2 --out {out}/changed"
ONE, TWO, RAY = "--engine local", "--engine processes --jobs 2", "--engine ray --address {cluster} --jobs 2"
COMMANDS = (
    Command("run svea", f"{SVEA} {ONE}", scores),
    Command("run focus", f"{FOCUS} {ONE}", scores),
    Command("run clevr-xai", f"{CLEVR} {ONE}", scores),
    Command("run clevr-removal", f"{REMOVAL} {ONE}", scores),
    Command("run masks", f"{MASKS} {ONE}", scores),
    Command("run svea --signals", f"{SIGNALS} {ONE}", scores),
    Command("evaluate", f"{EVALUATE} --jobs 1", scores),
    Command("evaluate --masks", EVALUATE_MASKS, scores),
    Command("clevr render", f"{RENDER} {ONE}", files),
    Command("clevr ask", f"{ASK} {ONE}", files),
    Command("clevr ground-truth", "clevr ground-truth {data} --size 48x64 --out {out}/masks", files),
    Command("clevr remove", f"{REMOVE} {ONE}", files),
    Command("train signals", "train signals {data}/signals.npz --steps 60 --out {out}/net.npz", network),
    Command("train focus-vit", "train focus-vit --per-class 1 --epochs 2 --out {out}/net.npz", network),
    Command("train scene-logic", "train scene-logic {square} --steps 6 --batch 2 --out {out}/net.npz", network),
    Command(
        "train vqa",
        "train vqa {square} --eye-epochs 1 --reader-steps 3 --answer-steps 3 --whole-steps 3 --out {out}/net.npz",
        network,
    ),
    Command(
        "train relation-network",
        "train relation-network {data} --epochs 3 --batch 4 --limit 8 --out {out}/net.npz",
        network,
    ),
    Command("run svea, two workers", f"{SVEA} {TWO}", scores),
    Command("run focus, two workers", f"{FOCUS} {TWO}", scores),
    Command("run clevr-xai, two workers", f"{CLEVR} {TWO}", scores),
    Command("run masks, two workers", f"{MASKS} {TWO}", scores),
    Command("evaluate, two workers", f"{EVALUATE} --jobs 2", scores),
    Command("clevr render, two workers", f"{RENDER} {TWO}", files),
    Command("clevr ask, two workers", f"{ASK} {TWO}", files),
    Command("clevr remove, two workers", f"{REMOVE} {TWO}", files),
    Command("run svea, Ray", f"{SVEA} {RAY}", scores),
    Command("run clevr-xai, Ray", f"{CLEVR} {RAY}", scores),
    Command("clevr render, Ray", f"{RENDER} {RAY}", files),
    Command("clevr ask, Ray", f"{ASK} {RAY}", files),
)


def small_world(folder: Path, call: Callable[[Sequence[str]], None]) -> Path:
    """A data set of three pictures with questions, masks, and two heatmaps for each question; signals and a network."""
    import numpy as np

    data = folder / "data"
    few = ["--samples", "1", "--engine", "local"]
    call(["clevr", "render", str(data), "--num-images", "3", "--size", "48x32", *few])
    call(["clevr", "render", str(data / "square"), "--num-images", "2", "--size", "128x128", *few])
    call(["clevr", "ask", str(data), "--set", "simple", "--per-image", "3", "--engine", "local"])
    call(["clevr", "ground-truth", str(data), "--size", "32x32"])
    draws = np.random.default_rng(0)
    names = [str(question["question_index"]) for question in questions_of(data)]
    for place in ("maps", "others"):
        (data / place).mkdir()
        for name in names:
            np.save(data / place / f"{name}.npy", draws.random((32, 32)))
    np.savez(data / "masks.npz", **{name: draws.random((32, 32)) > 0.7 for name in names})
    parts = {f"x_{part}": draws.standard_normal((24, 1, 40)).astype(np.float32) for part in ("train", "test")}
    np.savez(data / "signals.npz", **parts, y_train=np.arange(24) % 2, y_test=np.arange(24) % 2)
    call(["train", "signals", str(data / "signals.npz"), "--steps", "40", "--out", str(data / "net.npz")])
    return data


def questions_of(data: Path) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = json.loads((data / "CLEVR-XAI_simple_questions.json").read_text())["questions"]
    return found

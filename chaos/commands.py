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
    """Words with {out} for what is made and {data} for a small data set; `made(out)` is compared."""

    name: str
    words: str
    made: Callable[[Path], object]

    def given(self, out: Path, data: Path) -> list[str]:
        return [word.format(out=out, data=data) for word in self.words.split()]


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
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("CLEVR_scenes.json", "croissant.json")
    }


def network(folder: Path) -> object:
    """The weights that were learned."""
    import numpy as np

    with np.load(folder / "net.npz") as arrays:
        return {name: hashlib.sha256(arrays[name].tobytes()).hexdigest() for name in arrays.files}


FEW = "--explainers gradient,smoothgrad:samples=3,random"
SVEA = f"run svea --limit 60 --target logit {FEW} --out {{out}}"
TWO = "--engine processes --jobs 2"
COMMANDS = (
    Command("run svea", f"{SVEA} --engine local", scores),
    Command("run focus", f"run focus --per-class 1 --target logit {FEW} --out {{out}} --engine local", scores),
    Command("run clevr-xai", "run clevr-xai --limit 4 --explainers gradient,random --out {out} --engine local", scores),
    Command("evaluate", "evaluate {data}/maps --dataset {data} --out {out} --jobs 1", scores),
    Command("clevr render", "clevr render {out} --num-images 3 --size 48x32 --samples 1 --engine local", files),
    Command("clevr ask", "clevr ask {data} --out {out}/asked.json --set simple --per-image 3 --engine local", files),
    Command("clevr ground-truth", "clevr ground-truth {data} --size 48x64 --out {out}/masks", files),
    Command(
        "train relation-network",
        "train relation-network {data} --epochs 3 --batch 4 --limit 8 --out {out}/net.npz",
        network,
    ),
    Command("run svea, two workers", f"{SVEA} {TWO}", scores),
    Command("evaluate, two workers", "evaluate {data}/maps --dataset {data} --out {out} --jobs 2", scores),
    Command("clevr render, two workers", f"clevr render {{out}} --num-images 3 --size 48x32 --samples 1 {TWO}", files),
)


def small_world(folder: Path, call: Callable[[Sequence[str]], None]) -> Path:
    """A data set of three pictures with questions, masks, and a heatmap for each question."""
    import numpy as np

    data = folder / "data"
    call(["clevr", "render", str(data), "--num-images", "3", "--size", "48x32", "--samples", "1", "--engine", "local"])
    call(["clevr", "ask", str(data), "--set", "simple", "--per-image", "3", "--engine", "local"])
    call(["clevr", "ground-truth", str(data), "--size", "32x32"])
    (data / "maps").mkdir()
    draws = np.random.default_rng(0)
    for question in questions_of(data):
        np.save(data / "maps" / f"{question['question_index']}.npy", draws.random((32, 32)))
    return data


def questions_of(data: Path) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = json.loads((data / "CLEVR-XAI_simple_questions.json").read_text())["questions"]
    return found

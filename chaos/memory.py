"""The most memory of a command on little and on much: it must not grow with the number of cases."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.commands import questions_of

GROWN = 1.15
"""How much more much may take than little."""


@dataclass(frozen=True)
class Growing:
    """A command whose words depend on how many cases it has; `ready` makes what it needs."""

    name: str
    few: int
    many: int
    words: Callable[[Path, int], str]
    ready: Callable[[Path, int], None] = lambda folder, count: None


def memory(folder: Path, scale: float, seed: int = 0) -> Mapping[str, float]:  # noqa: ARG001
    """Megabytes of each command on its fewest cases, and on `scale` times its most; `bad` are those that grow."""
    found: dict[str, float] = {}
    bad = 0
    for command in COMMANDS:
        many = max(2 * command.few, round(command.many * scale))
        taken = []
        for count in (command.few, many):
            command.ready(folder, count)
            taken.append(peak(folder, command.words(folder, count)))
            found[f"{command.name}, {count:,}: MB"] = round(taken[-1] / 1e6)
            print(f"{command.name}, {count:,}: {taken[-1] / 1e6:.0f} MB", flush=True)
        bad += taken[1] > GROWN * taken[0]
    return {**found, "bad": bad}


def peak(folder: Path, words: str) -> int:
    """The most bytes that one process of `heatproof WORDS` holds."""
    told = {**os.environ, "HEATPROOF_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "heatproof", *words.split()]
    said = os.open(folder / "said-memory.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    process = os.posix_spawn(
        sys.executable, command, told, file_actions=[(os.POSIX_SPAWN_DUP2, said, 1), (os.POSIX_SPAWN_DUP2, said, 2)]
    )
    os.close(said)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise RuntimeError((folder / "said-memory.txt").read_text(errors="replace")[-2000:])
    return usage.ru_maxrss * 1024


def questions(folder: Path, count: int) -> None:
    """So many questions about the pictures, the first ones over and over, their masks, and a heatmap for each."""
    import numpy as np

    data = folder / "pictures"
    if not (data / "CLEVR-XAI_simple_questions.json").exists():
        peak(folder, f"clevr ask {data} --set simple --engine local --quiet")
    place = data / "CLEVR-XAI_simple_questions.json"
    content = json.loads(place.read_text())
    asked = questions_of(data)
    content["questions"] = [{**asked[i % len(asked)], "question_index": i} for i in range(count)]
    place.write_text(json.dumps(content))
    shutil.rmtree(data / "ground_truth", ignore_errors=True)
    peak(folder, f"clevr ground-truth {data} --size 16x16")
    maps = folder / f"maps-{count}"
    maps.mkdir()
    draws = np.random.default_rng(0)
    for i in range(count):
        np.save(maps / f"{i}.npy", draws.random((16, 16), dtype=np.float32))


def evaluate(folder: Path, count: int) -> str:
    return f"evaluate {folder}/maps-{count} --dataset {folder}/pictures --out {folder}/e-{count} --jobs 1"


COMMANDS = (
    Growing(
        "clevr render", 10, 1000,
        lambda folder, count: f"clevr render {folder}/{'pictures' if count > 10 else 'few'} --num-images {count}"
        " --size 48x32 --samples 1 --engine local",
    ),
    Growing(
        "run focus", 60, 3000,
        lambda folder, count: f"run focus --per-class {count // 6} --explainers gradient,random --engine local"
        f" --out {folder}/f-{count}",
    ),
    Growing(
        "run clevr-xai", 40, 400,
        lambda folder, count: f"run clevr-xai --limit {count} --explainers gradient,random --engine local"
        f" --out {folder}/c-{count}",
    ),
    Growing("evaluate", 1000, 50_000, evaluate, questions),
)  # fmt: skip

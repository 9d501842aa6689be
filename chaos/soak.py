"""Small runs over and over, killed and resumed: neither memory nor the number of files creeps."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from chaos.children import command, forked

WORDS = ["run", "svea", "--limit", "30", "--target", "logit", "--explainers", "gradient,random", "--out"]
GROWN = 1.15
"""How much more memory or files there may be at the end than after the first quarter."""


def soak(folder: Path, minutes: float, seed: int = 0) -> Mapping[str, float]:
    """One process runs all the time, others are killed and typed again beside it."""
    draws = random.Random(seed)
    end = time.monotonic() + 60 * minutes
    (folder / "steady").mkdir()
    steady = forked(lambda: over_and_over(folder / "steady", end), folder / "steady.txt")
    memory: list[int] = []
    files: list[int] = []
    kills = resumed = 0
    while time.monotonic() < end and steady.running():
        out = folder / f"out-{draws.randrange(3)}"
        child = command([*WORDS, str(out)], folder / "said.txt.soak", folder / "home")
        time.sleep(draws.uniform(0, 3))
        if child.running():
            os.kill(child.process, draws.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
            child.end()
            kills += 1
        again = command([*WORDS, str(out)], folder / "said.txt.soak", folder / "home")
        resumed += again.end() == 0
        memory.append(resident(steady.process))
        files.append(len([*folder.rglob("*"), *Path(tempfile.gettempdir()).glob("heatproof-*")]))
    lived = time.monotonic() >= end
    quarter = max(1, len(memory) // 4)
    early, late = max(memory[:quarter], default=1), max(memory[-quarter:], default=1)
    few, many = max(files[:quarter], default=1), max(files[-quarter:], default=1)
    return {
        "kills": kills,
        "resumed": resumed,
        "memory at first, MB": round(early / 1e6),
        "memory at last, MB": round(late / 1e6),
        "files at first": few,
        "files at last": many,
        "bad": int(late > GROWN * early) + int(many > GROWN * few) + int(resumed < len(memory)) + int(not lived),
    }


def over_and_over(folder: Path, end: float) -> None:
    import heatproof

    os.environ["HEATPROOF_HOME"] = str(folder / "home")
    while time.monotonic() < end:
        heatproof.run(
            "svea", limit=30, target="logit", explainers="gradient,random", out=folder / "r", resume=False,
            engine="local",
        )  # fmt: skip


def resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

"""Whole commands with one process and with two: wall time, CPU time and the system's share of it, as ratios.

Each is a process of its own, in turn, and the least of its times counts. What a second core is worth at most is seen
by two such commands side by side, which share nothing: cores share caches and memory, and on many machines more. The
last lines are those of a machine whose second core is taken by another program.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 2
COMMANDS = {
    "SVEA standard": "run svea --out",
    "Focus quick": "run focus --preset quick --out",
    "CLEVR-XAI quick": "run clevr-xai --preset quick --out",
    "200 pictures": "clevr render --num-images 200 --size 128x128",
    "417 changed": "clevr remove shipped --out",
}
"""By name; the folder to write to comes last."""


@dataclass(frozen=True)
class Spent:
    """Seconds of a command, its workers included."""

    wall: float
    cpu: float
    system: float

    def __str__(self) -> str:
        return f"{self.wall:6.1f} s, {self.cpu:6.1f} CPU s, {self.system / self.cpu:4.1%} of it the system's"


def spend(words: str, jobs: int) -> Spent:
    """Run a command to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "heatproof", *words.split(), str(Path(folder) / "out")]
        subprocess.run([*command, "--jobs", str(jobs), "--quiet"], check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Spent(wall, user + system, system)


def best(words: str) -> dict[int, Spent]:
    """With one job and with two, which take turns, so that a slow moment hits both alike."""
    turns = [{jobs: spend(words, jobs) for jobs in (1, 2)} for _ in range(ROUNDS)]
    return {jobs: min((turn[jobs] for turn in turns), key=lambda spent: spent.wall) for jobs in (1, 2)}


def worth(words: str, alone: float) -> float:
    """How many times as fast two commands with one job each are side by side as one after the other."""
    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: spend(words, 1), range(2)))
    return 2 * alone / (time.perf_counter() - start)


@contextmanager
def busy_core() -> Iterator[None]:
    """Another program keeps a core busy."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def main(commands: Mapping[str, str] = COMMANDS) -> None:
    print(f"whole commands on {len(os.sched_getaffinity(0))} cores, --jobs 1 and --jobs 2, the best of {ROUNDS}")
    free: dict[str, Spent] = {}
    for name, words in commands.items():
        spent = best(words)
        free[name] = spent[2]
        for jobs, found in spent.items():
            print(f"  {name:<16} --jobs {jobs}  {found}")
        limit = worth(words, spent[1].wall)
        print(f"  {name:<16} {spent[1].wall / spent[2].wall:.2f} times as fast; the second core is worth {limit:.2f}")
    name, words = next(iter(commands.items()))
    with busy_core():
        found = spend(words, 2)
    print(f"  {name:<16} --jobs 2  {found}, beside a busy loop")
    print(
        f"  {name:<16} {found.wall / free[name].wall:.2f} times as long, {found.cpu / free[name].cpu:.2f} times the CPU"
    )

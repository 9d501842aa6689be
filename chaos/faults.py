"""Disks, folders, workers and nodes that fail under way: a sentence, what was computed stays, the next run goes on."""

from __future__ import annotations

import os
import pickle
import random
import resource
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chaos.children import Child, command, forked, session
from chaos.clusters import cluster, node, remove
from chaos.commands import ONE, RAY, TWO, scores
from chaos.mounts import read_only, small_disk

HUNGRY = """
import os
from pathlib import Path

import numpy as np

def hungry(model, inputs, target):
    full = Path(os.environ["HEATPROOF_HOME"], "full")
    if not full.exists():
        full.touch()
        np.ones(2**56)
    return inputs.abs()
"""
"""An explainer that finds no memory the first time."""


@dataclass
class Place:
    """Where faults are tried."""

    folder: Path
    draws: random.Random
    out: Path = Path()
    unharmed: bool = True
    """Whether a run came to its end that had to."""

    @cached_property
    def home(self) -> Path:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        (home / "hungry.py").write_text(HUNGRY)
        (home / "full").touch()
        return home

    def words(self, engine: str, address: str = "") -> list[str]:
        methods = f"gradient,smoothgrad:samples=3,random,{self.home}/hungry.py:hungry"
        run = f"run svea --limit 200 --batch-size 50 --target logit --explainers {methods} --out {self.out} {engine}"
        return run.format(cluster=address).split()

    def start(self, words: Sequence[str]) -> Child:
        return command(list(words), self.folder / "said-fault.txt", self.home)

    def has_parts(self, child: Child) -> Callable[[], bool]:
        return lambda: any(self.out.glob("scores/*/*.parquet")) or not child.running()

    def looked_at(self) -> object:
        """What the run folder holds, seen by another process."""
        place = self.folder / "fault.pickle"
        place.unlink(missing_ok=True)
        child = forked(lambda: place.write_bytes(pickle.dumps(scores(self.out))), self.folder / "looked-fault.txt")
        return pickle.loads(place.read_bytes()) if child.end() == 0 else child.text


def faults(folder: Path, rounds: float, seed: int = 0) -> Counter[str]:
    """Rounds of every fault, each on a run of its own. `bad` counts what did not go as it must."""
    place = Place(folder, random.Random(seed), folder / "undisturbed")
    found: Counter[str] = Counter({"bad": 0})
    child = place.start(place.words(ONE))
    if child.end():
        raise RuntimeError(child.text)
    wanted = place.looked_at()
    for number in range(int(rounds)):
        for name, harm in FAULTS.items():
            place.out = folder / f"{number}-{harm.__name__}"
            place.unharmed = True
            text = harm(place)
            if text is None:
                found[f"{name}: not to be had here"] += 1
                continue
            kept = len(list(place.out.glob("scores/*/*.parquet")))
            again = place.start(place.words(TWO))
            code = again.end()
            fine = "Traceback" not in text + again.text and code == 0 and place.unharmed
            fine = fine and place.looked_at() == wanted
            print(f"{name}: {kept} parts kept, {'well' if fine else 'bad'}", flush=True)
            found[f"{name}: tries"] += 1
            found[f"{name}: a sentence, and equal when typed again"] += fine
            found[f"{name}: parts kept"] += kept
            if not fine:
                found["bad"] += 1
                print(
                    f"{name}: exit {code}",
                    *(part[max(0, part.find("Traceback")) :][:3000] for part in (text, again.text)),
                    sep="\n",
                )
    return found


def limited_files(place: Place) -> str:
    """No file may grow beyond so many bytes: the system refuses as it does where a disk is full."""
    most = place.draws.choice([0, 500, 5_000, 20_000, 50_000])

    def work() -> None:
        import sys

        from heatproof.cli import main

        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        os.environ["HEATPROOF_HOME"] = str(place.home)
        sys.argv = ["heatproof", *place.words(ONE)]
        main()

    said = place.folder / "full.txt"
    forked(work, said).end()
    return said.read_text()


def full_disk(place: Place) -> str | None:
    """The run's folder lies on a disk that is full after so many kilobytes; then it is moved to a larger one."""
    size = f"{place.draws.choice([8, 40, 80, 160, 320])}k"
    disk, place.out = place.out, place.out / "run"
    with small_disk(disk, size) as there:
        if not there:
            return None
        child = place.start(place.words(place.draws.choice([ONE, TWO])))
        child.end()
        aside = place.folder / f"{disk.name}-aside"
        if place.out.exists():
            shutil.copytree(place.out, aside)
    if aside.exists():
        aside.rename(place.out)
    return child.text


def read_only_folder(place: Place) -> str | None:
    """Nobody may write to the folder any more as soon as it holds scores."""
    child = place.start(place.words(place.draws.choice([ONE, TWO])))
    wait_for(place.has_parts(child))
    with read_only(place.out) as closed:
        child.end()
    return child.text if closed else None


def vanished_folder(place: Place) -> str:
    """The folder is moved away as soon as it holds scores, and back when the run has ended."""
    child = place.start(place.words(ONE))
    wait_for(place.has_parts(child))
    away = place.folder / "away"
    if place.out.exists():
        place.out.rename(away)
    child.end()
    if away.exists():
        shutil.rmtree(place.out, ignore_errors=True)
        away.rename(place.out)
    return child.text


def dead_worker(place: Place) -> str:
    """Any process of the run but its first is killed at a random moment.

    Not Python's tracker of semaphores: its successor knows none, and prints a KeyError for each at the end.
    """
    child = place.start(place.words(TWO))
    time.sleep(place.draws.uniform(0.5, 4))
    others = [process for process in session(child.process) if process != child.process and not tracks(process)]
    if others and child.running():
        with suppress(ProcessLookupError):
            os.kill(place.draws.choice(others), signal.SIGKILL)
    child.end()
    return child.text


def tracks(process: int) -> bool:
    """Whether it is the process by which Python itself keeps track of semaphores."""
    with suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def hungry_worker(place: Place) -> str:
    """A worker finds no memory: its unit is done again alone."""
    (place.home / "full").unlink(missing_ok=True)
    child = place.start(place.words(TWO))
    place.unharmed = child.end() == 0
    (place.home / "full").touch()
    return child.text


def lost_node(place: Place) -> str | None:
    """A node of a Ray cluster is gone as soon as there are scores."""
    with cluster(place.folder, 1) as address, node(place.folder, address) as leader:
        child = place.start(place.words(RAY, address))
        wait_for(place.has_parts(child))
        remove(leader)
        place.unharmed = child.end() == 0
        return child.text


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    stop = time.monotonic() + seconds
    while not condition() and time.monotonic() < stop:
        time.sleep(0.005)


FAULTS: dict[str, Callable[[Place], str | None]] = {
    "files that may not grow": limited_files,
    "full disk": full_disk,
    "read-only folder": read_only_folder,
    "vanished folder": vanished_folder,
    "dead worker": dead_worker,
    "worker without memory": hungry_worker,
    "lost Ray node": lost_node,
}

"""Each command is killed at random moments, then typed again: the result is that of one that nobody disturbed."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from chaos.children import Child, command, forked
from chaos.clusters import cluster
from chaos.commands import COMMANDS, Command, small_world

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
PROMPT = 2.0
"""Seconds in which a command ends that is asked to."""


@dataclass
class Tally:
    """What became of a command's kills."""

    kills: int = 0
    under_way: int = 0
    equal: int = 0
    refused: int = 0
    left: int = 0
    orphans: int = 0
    tracebacks: int = 0
    untold: int = 0
    slow: int = 0
    slowest: float = 0.0

    @property
    def is_well(self) -> bool:
        return self.equal == self.kills and not any(self.bad)

    @property
    def bad(self) -> tuple[int, ...]:
        return self.refused, self.left, self.orphans, self.tracebacks, self.untold, self.slow

    @property
    def cells(self) -> list[str]:
        counts = (self.kills, self.under_way, self.equal, self.kills - self.equal, *self.bad)
        return [*map(str, counts), f"{self.slowest:.1f}"]

    def add(self, other: Tally) -> None:
        for entry in fields(self):
            mine, others = getattr(self, entry.name), getattr(other, entry.name)
            setattr(self, entry.name, max(mine, others) if entry.name == "slowest" else mine + others)


HEADS = (
    "command", "signal", "kills", "under way", "equal", "not equal", "refused", "files left", "orphans", "tracebacks",
    "no resume command", "over 2 s", "slowest s",
)  # fmt: skip


class Place:
    """Where commands are tried: a small data set, a cache that is filled, and what undisturbed ones give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.number = 0
        self.cluster = ""
        self.stored = folder / "references.pickle"
        if self.stored.exists():  # of an earlier call
            self.data = folder / "data"
            self.references: dict[str, tuple[object, float]] = pickle.loads(self.stored.read_bytes())
        else:
            shutil.rmtree(folder / "data", ignore_errors=True)
            self.data, self.references = small_world(folder, self.must), {}

    def start(self, words: list[str]) -> Child:
        self.number += 1
        return command(words, self.folder / f"said-{self.number}.txt", self.home)

    def must(self, words: object) -> None:
        assert isinstance(words, list)
        child = self.start(words)
        if child.end():
            raise RuntimeError(f"heatproof {' '.join(words)} failed:\n{child.text}")

    def fresh(self) -> Path:
        out = self.folder / f"out-{self.number}"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return out

    def made(self, what: Command, out: Path) -> object:
        """What a command has made, looked at in a process of its own: this one must not start threads."""
        found = self.folder / "found.pickle"
        found.unlink(missing_ok=True)
        child = forked(lambda: found.write_bytes(pickle.dumps(what.made(out))), self.folder / "looked.txt")
        if child.end():
            return f"cannot be read: {child.text[-500:]}"
        return pickle.loads(found.read_bytes())

    def reference(self, what: Command) -> tuple[object, float]:
        """What it gives undisturbed, and the seconds that it takes; the second time, with caches that are filled."""
        if what.name not in self.references:
            for _ in range(2):
                out = self.fresh()
                start = time.monotonic()
                self.must(what.given(out, self.data, self.cluster))
                seconds = time.monotonic() - start
            self.references[what.name] = self.made(what, out), seconds
            self.stored.write_bytes(pickle.dumps(self.references))
        return self.references[what.name]


def kill(place: Place, what: Command, number: int, moment: float) -> Tally:
    """Start a command, signal it after so many seconds, and type it again."""
    wanted, _ = place.reference(what)
    out = place.fresh()
    words = what.given(out, place.data, place.cluster)
    child = place.start(words)
    time.sleep(moment)
    tally = Tally(kills=1)
    if child.running():
        tally.under_way = 1
        start = time.monotonic()
        os.kill(child.process, number)
        child.end()
        if number != signal.SIGKILL:
            tally.slowest = time.monotonic() - start
            tally.slow = int(tally.slowest > PROMPT)
            tally.tracebacks = int("Traceback" in child.text)
            tally.untold = int(child.code in INTERRUPTED and "\n  heatproof " not in child.text)
        tally.orphans = int(bool(child.orphans()))
        child.kill()
    again = place.start(words)
    tally.refused = int(again.end() != 0)
    tally.equal = int(place.made(what, out) == wanted)
    tally.left = int(any(path.is_file() for path in out.rglob(".*")))
    if not tally.is_well:
        print(f"{' '.join(words)}: {signal.Signals(number).name} after {moment:.2f} s: {tally}", file=sys.stderr)
        print(child.text[-2000:], again.text[-2000:], sep="\n--- again\n", file=sys.stderr)
    shutil.rmtree(out)
    return tally


@dataclass(frozen=True)
class Log:
    """The kills of a seed that were done, in a file that later calls go on with."""

    path: Path
    seed: int

    def read(self) -> dict[int, tuple[str, str, Tally]]:
        if not self.path.exists():
            return {}
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return {
            line["number"]: (line["command"], line["by"], Tally(**line["tally"]))
            for line in lines
            if line["seed"] == self.seed
        }

    def add(self, number: int, what: str, by: str, tally: Tally) -> None:
        line = {"seed": self.seed, "number": number, "command": what, "by": by, "tally": asdict(tally)}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def kills(
    folder: Path, count: int, seed: int = 0, only: str = "", minutes: float = 10**6
) -> list[tuple[str, str, Tally]]:
    """So many kills over all commands, or as many as fit into the time: two in three by SIGKILL.

    Each has a number, which decides command, signal and moment; those that the folder tells of are not done again.
    """
    end = time.monotonic() + 60 * minutes
    book = Log(folder / "kills.jsonl", seed)
    done = book.read()
    chosen = [number for number in range(count) if only in COMMANDS[number % len(COMMANDS)].name]
    missing = [number for number in chosen if number not in done]
    with ExitStack() as stack:
        place = Place(folder) if missing else None
        for number in missing:
            if place is None or time.monotonic() > end:
                break
            what = COMMANDS[number % len(COMMANDS)]
            if what.needs_cluster and not place.cluster:
                place.cluster = stack.enter_context(cluster(folder))
            draws = random.Random(f"{seed}/{number}")
            by = "SIGKILL" if (number // len(COMMANDS)) % 3 < 2 else draws.choice(["SIGTERM", "Ctrl-C"])
            try:
                _, seconds = place.reference(what)
            except RuntimeError as problem:
                print(problem, file=sys.stderr)
                done[number] = what.name, by, Tally(kills=1, refused=1)
                continue
            tally = kill(place, what, SIGNALS[by], draws.uniform(0, seconds))
            done[number] = what.name, by, tally
            book.add(number, what.name, by, tally)
            print(f"{len(done)} of {count} kills", file=sys.stderr, flush=True)
    found: dict[tuple[str, str], Tally] = {}
    for number in sorted(done):
        name, by, tally = done[number]
        found.setdefault((name, by), Tally()).add(tally)
    return [(name, by, tally) for (name, by), tally in sorted(found.items())]

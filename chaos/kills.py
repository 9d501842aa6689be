"""Each command is killed at random moments, then typed again: the result is that of one that nobody disturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from chaos.children import Child, command, forked
from chaos.commands import COMMANDS, Command, small_world

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
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
    slow: int = 0
    slowest: float = 0.0

    @property
    def is_well(self) -> bool:
        harmless = not (self.refused or self.left or self.orphans or self.tracebacks or self.slow)
        return self.equal == self.kills and harmless

    @property
    def cells(self) -> list[str]:
        bad = (self.kills - self.equal, self.refused, self.left, self.orphans, self.tracebacks, self.slow)
        return [str(self.kills), str(self.under_way), str(self.equal), *map(str, bad), f"{self.slowest:.1f}"]


HEADS = (
    "command", "signal", "kills", "under way", "equal", "not equal", "refused", "files left", "orphans", "tracebacks",
    "over 2 s", "slowest s",
)  # fmt: skip


class Place:
    """Where commands are tried: a small data set, a cache that is filled, and what undisturbed ones give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.number = 0
        self.data = small_world(folder, self.must)
        self.references: dict[str, tuple[object, float]] = {}

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
        out.mkdir()
        return out

    def made(self, what: Command, out: Path) -> object:
        """What a command has made, looked at in a process of its own: this one must not start threads."""
        import pickle

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
                self.must(what.given(out, self.data))
                seconds = time.monotonic() - start
            self.references[what.name] = self.made(what, out), seconds
        return self.references[what.name]


def kill(place: Place, what: Command, number: int, moment: float, tally: Tally) -> None:
    """Start a command, signal it after so many seconds, and type it again."""
    wanted, _ = place.reference(what)
    out = place.fresh()
    words = what.given(out, place.data)
    child = place.start(words)
    time.sleep(moment)
    tally.kills += 1
    if child.running():
        tally.under_way += 1
        start = time.monotonic()
        os.kill(child.process, number)
        child.end()
        if number != signal.SIGKILL:
            seconds = time.monotonic() - start
            tally.slowest = max(tally.slowest, seconds)
            tally.slow += seconds > PROMPT
            tally.tracebacks += "Traceback" in child.text
        orphans = child.orphans()
        tally.orphans += bool(orphans)
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
    again = place.start(words)
    code = again.end()
    tally.refused += code != 0
    tally.equal += place.made(what, out) == wanted
    tally.left += bool([path for path in out.rglob(".*") if path.is_file()])
    shutil.rmtree(out)


def kills(
    folder: Path, count: int, seed: int = 0, only: str = "", minutes: float = 10**6
) -> list[tuple[str, str, Tally]]:
    """So many kills over all commands, or as many as fit into the time: two in three by SIGKILL."""
    end = time.monotonic() + 60 * minutes
    draws = random.Random(seed)
    place = Place(folder)
    found: dict[tuple[str, str], Tally] = {}
    chosen = [what for what in COMMANDS if only in what.name]
    for number in range(count):
        if time.monotonic() > end:
            break
        what = chosen[number % len(chosen)]
        by = "SIGKILL" if (number // len(chosen)) % 3 < 2 else draws.choice(["SIGTERM", "Ctrl-C"])
        _, seconds = place.reference(what)
        tally = found.setdefault((what.name, by), Tally())
        kill(place, what, SIGNALS[by], draws.uniform(0, seconds), tally)
        print(f"{number + 1} of {count} kills", file=sys.stderr, flush=True)
    return [(name, by, tally) for (name, by), tally in sorted(found.items())]

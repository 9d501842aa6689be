"""Disks, folders and workers that fail under way: a sentence, what was computed stays, the next run goes on."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from chaos.children import Child, command, forked, session
from chaos.commands import COMMANDS, scores

(ONE,) = (what for what in COMMANDS if what.name == "run svea")
(TWO,) = (what for what in COMMANDS if what.name == "run svea, two workers")


def faults(folder: Path, rounds: int, seed: int = 0) -> Counter[str]:
    """Rounds of every fault, each on a run of its own. `bad` counts what did not go as it must."""
    draws = random.Random(seed)
    found: Counter[str] = Counter({"bad": 0})
    wanted = reference(folder)
    for number in range(int(rounds)):
        for name, harm in FAULTS.items():
            out = folder / f"{number}-{name.replace(' ', '-')}"
            text = harm(out, folder, draws)
            found[f"{name}: tries"] += 1
            again = started(TWO.given(out, folder), folder)
            code = again.end()
            fine = "Traceback" not in text + again.text and code == 0 and looked_at(out, folder) == wanted
            found[f"{name}: a sentence, and equal when typed again"] += fine
            if not fine:
                found["bad"] += 1
                print(f"{name}: exit {code}", text[-800:], again.text[-800:], sep="\n")
    return found


def reference(folder: Path) -> object:
    child = started(ONE.given(folder / "undisturbed", folder), folder)
    if child.end():
        raise RuntimeError(child.text)
    return looked_at(folder / "undisturbed", folder)


def started(words: list[str], folder: Path) -> Child:
    return command(words, folder / "said-fault.txt", folder / "home")


def looked_at(out: Path, folder: Path) -> object:
    import pickle

    place = folder / "fault.pickle"
    place.unlink(missing_ok=True)
    child = forked(lambda: place.write_bytes(pickle.dumps(scores(out))), folder / "looked-fault.txt")
    return pickle.loads(place.read_bytes()) if child.end() == 0 else child.text


def full_disk(out: Path, folder: Path, draws: random.Random) -> str:
    """No file may grow beyond so many bytes: the system refuses as it does where a disk is full."""
    most = draws.choice([0, 500, 5_000, 20_000, 50_000])

    def work() -> None:
        import sys

        from heatproof.cli import main

        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        os.environ["HEATPROOF_HOME"] = str(folder / "home")
        sys.argv = ["heatproof", *ONE.given(out, folder)]
        main()

    said = folder / "full.txt"
    keeper = forked(work, said)
    keeper.end()
    return said.read_text()


def vanishing(out: Path, folder: Path, _draws: random.Random) -> str:
    """The folder is moved away as soon as it holds scores, and back when the run has ended."""
    child = started(ONE.given(out, folder), folder)
    wait_for(lambda: any(out.glob("scores/*/*.parquet")) or not child.running())
    if out.exists():
        out.rename(folder / "away")
    child_end(child)
    text = child.text
    if (folder / "away").exists():
        shutil.rmtree(out, ignore_errors=True)
        (folder / "away").rename(out)
    return text


def dead_worker(out: Path, folder: Path, draws: random.Random) -> str:
    """Any process of the run but its first is killed at a random moment."""
    child = started(TWO.given(out, folder), folder)

    def kill() -> None:
        time.sleep(draws.uniform(0.5, 4))
        others = [process for process in session(child.process) if process != child.process]
        if others:
            os.kill(draws.choice(others), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    killer.join()
    child_end(child)
    return child.text


def child_end(child: Child) -> None:
    with suppress(ChildProcessError):  # it was seen to have ended
        child.end()


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


FAULTS: dict[str, Callable[[Path, Path, random.Random], str]] = {
    "full disk": full_disk,
    "vanished folder": vanishing,
    "dead worker": dead_worker,
}

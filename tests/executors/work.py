"""Small works for executors, in a module that workers can import."""

from __future__ import annotations

import gc
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from polars.exceptions import PanicException

from heatproof.errors import HeatproofError
from heatproof.executors.set_up import ONE_THREAD
from heatproof.progress import reached


@dataclass(frozen=True)
class Square:
    """Squares numbers."""

    def compute(self, task: float) -> float:
        reached(0.5)
        return task**2


@dataclass(frozen=True)
class Fragile:
    """Fails for 2 and 3, and takes its process along for 5: always, or only while `once` does not exist."""

    once: Path | None = None

    def compute(self, task: int) -> int:
        if task == 2:
            raise HeatproofError("two is not wanted.")
        if task == 3:
            raise ValueError("three")
        if task == 5 and (self.once is None or not self.once.exists()):
            if self.once is not None:
                self.once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


class WordlessError(Exception):
    """Its message raises."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass(frozen=True)
class Leaving:
    """Wants to end the process for 2, and raises what cannot be said for 3."""

    def compute(self, task: int) -> int:
        if task == 2:
            raise SystemExit(0)
        if task == 3:
            raise WordlessError
        return task


@dataclass(frozen=True)
class Hungry:
    """Notes each try in a folder. 2 lacks memory the first time, 3 every time; 4 panics as polars does."""

    folder: Path

    def compute(self, task: int) -> int:
        tries = len(list(self.folder.glob(f"{task}-*")))
        (self.folder / f"{task}-{tries}").touch()
        if task == 2 and tries == 0:
            raise MemoryError
        if task == 3:
            return int(np.ones(2**56).sum())
        if task == 4:
            raise PanicException("not thought of")
        return task


class Poison:
    """Takes along the process that opens it."""

    def __reduce__(self) -> Any:
        return os._exit, (9,)

    def compute(self, task: int) -> int:
        return task


@dataclass(frozen=True)
class Sleeper:
    """Says in a folder which process sleeps."""

    folder: Path

    def compute(self, task: float) -> None:
        (self.folder / str(os.getpid())).touch()
        time.sleep(task)


@dataclass(frozen=True)
class Holder:
    """Holds arrays, and says where they lie: in a file that is mapped, or in memory of its process alone."""

    array: Any
    tensor: Any

    def compute(self, task: int) -> dict[str, Any]:
        maps = Path("/proc/self/maps").read_text().splitlines()
        places = {
            "array": self.array.__array_interface__["data"][0],
            "tensor": self.tensor.data_ptr(),
        }
        mapped = {}
        for line in maps:
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            mapped |= {name: line.split()[-1] for name, place in places.items() if start <= place < end}
        self.array[0] = task  # its own from now on
        return {
            "process": os.getpid(),
            "files": mapped,
            "sums": (float(np.asarray(self.array[1:]).sum()), float(self.tensor.sum())),
            "strides": self.tensor.stride(),
            "threads": torch.get_num_threads(),
        }


@dataclass(frozen=True)
class Reader:
    """Reads a file."""

    path: Path

    def compute(self, task: int) -> tuple[str, str]:
        return self.path.read_text(), str(self.path)


@dataclass(frozen=True)
class Asked:
    """Says what its process is like."""

    def compute(self, task: str) -> Any:
        if task == "parent":
            return os.getppid()
        if task == "place":
            return str(Path.cwd())
        if task == "garbage":
            return gc.isenabled(), gc.get_freeze_count()
        return {name: os.environ.get(name) for name in ONE_THREAD}


@dataclass(frozen=True)
class Interrupted:
    """Gets a Ctrl-C, and says whether its process could ever have heard one, from its start on."""

    def compute(self, task: int) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@dataclass(frozen=True)
class Burner:
    """Takes so many CPU seconds."""

    def compute(self, task: float) -> None:
        start = time.process_time()
        while time.process_time() - start < task:
            pass

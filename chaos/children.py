"""Commands in processes of their own, which are started quickly: forked from one that has loaded the libraries."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

LIBRARIES = (
    "numba", "PIL.Image", "sklearn.svm", "heatproof.cli.app", "heatproof.engine.sources", "heatproof.explainers.layers",
)  # fmt: skip


def load_libraries() -> None:
    """What takes long to load and starts no thread by it, so that forking is safe; polars is left to the children."""
    import torch

    for name in LIBRARIES:
        import_module(name)

    torch.set_num_threads(1)


@dataclass
class Child:
    """A forked process with a session of its own; what it prints goes to `said`."""

    process: int
    said: Path
    code: int | None = None

    def running(self) -> bool:
        return self.ended(os.WNOHANG) is None

    def end(self) -> int:
        """Wait for it; its exit code, or minus the signal that ended it."""
        code = self.ended(0)
        assert code is not None
        return code

    def ended(self, options: int) -> int | None:
        if self.code is None:
            process, status = os.waitpid(self.process, options)
            self.code = os.waitstatus_to_exitcode(status) if process else None
        return self.code

    @property
    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def orphans(self, seconds: float = 2.0) -> list[int]:
        """Processes of its session that still live after so long."""
        end = time.monotonic() + seconds
        while (left := session(self.process)) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def kill(self) -> None:
        """End all processes of its session."""
        for process in session(self.process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def session(leader: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                state, _, _, belongs = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(belongs) == leader and state != "Z":
                    found.append(int(entry.name))
    return found


def forked(work: Callable[[], object], said: Path) -> Child:
    """Do the work in a child; its exit code is that of SystemExit, 0, or 1 with a traceback."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return Child(process, said)
    code = 1
    try:
        os.setsid()
        output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        import atexit

        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def command(words: Sequence[str], said: Path, home: Path) -> Child:
    """`heatproof WORDS` in a child."""

    def work() -> None:
        from heatproof import cli

        os.environ["HEATPROOF_HOME"] = str(home)
        sys.argv = ["heatproof", *words]
        cli.command()

    return forked(work, said)

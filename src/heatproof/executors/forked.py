"""Workers that are forked from a process which has loaded the libraries once; on Linux alone.

They start at once, and share the memory of the libraries. The process that they are forked from computes nothing and
has one thread, so that forking it is safe, which forking this one would not be.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any

from heatproof.executors.interrupts import interrupts_held
from heatproof.executors.set_up import MAKER, ONE_THREAD

LIBRARIES = ("numpy", "torch", "numba", "sklearn.svm")
"""What takes long to load, and starts no thread by it as polars does."""
OURS = tuple(
    f"heatproof.{name}"
    for name in (
        "benchmarks", "clevr", "engine.sources", "exact_kernels", "executors", "explainers", "metrics", "models",
        "mosaics",
    )
)  # fmt: skip
TO_EXPLAIN = (
    "torch", "heatproof.engine.sources", "heatproof.exact_kernels", "heatproof.executors.processes",
    "heatproof.explainers.layers", "heatproof.explainers.memory", "heatproof.metrics.heatmap_kernels",
)  # fmt: skip
"""What explaining takes, for a server that starts before this process has loaded it."""
FIRST, LAST = "heatproof.executors.loading_begins", "heatproof.executors.loading_ends"


class ForkedProcess(ForkServerProcess):
    """A child of Python's fork server, which does not run the user's script again: work is sent by value."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802
        with nameless_main():
            return ForkServerProcess._Popen(process_obj)


class ForkedContext(ForkServerContext):
    Process = ForkedProcess


def forked_context() -> ForkedContext:
    """Where loky gets such workers from."""
    start_server(loaded_here())
    return ForkedContext()


def start_server(modules: Sequence[str]) -> None:
    """Let a process load these modules, for workers to be forked from; nothing if there is one already."""
    ForkedContext().set_forkserver_preload([FIRST, *modules, LAST])
    resource_tracker.ensure_running()  # before Python itself would: where it starts, it lets interrupts through again
    with environment({**ONE_THREAD, MAKER: str(os.getpid())}), interrupts_held():
        forkserver.ensure_running()
    atexit.unregister(stop_server)
    atexit.register(stop_server)


def server() -> list[int]:
    """The number of that process, if it runs."""
    number = getattr(forkserver._forkserver, "_forkserver_pid", None)
    return [] if number is None else [number]


def stop_server() -> None:
    """End it before this process ends, so that what its children took counts as taken by this one."""
    if multiprocessing.active_children():  # somebody else's, perhaps
        return
    for process in server():
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def loaded_here() -> list[str]:
    """What a worker will need of what this process has loaded."""
    return [name for name in sys.modules if name in LIBRARIES or name.startswith(OURS)]


@contextmanager
def nameless_main() -> Iterator[None]:
    """In here the script that runs seems to have neither name nor file."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """These settings for processes that start in here."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""How a process is set up that computes: its memory, its threads, its end."""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LIMITS = ("MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
ONE_THREAD = dict.fromkeys(LIMITS, "1")
"""Environment of workers: each has a core of its own, and threads of one would wait for those of others."""
FORKS = sys.platform.startswith("linux")
"""Whether workers are forked, from a process that has loaded libraries; elsewhere each starts afresh."""
MAKER = "HEATPROOF_MAKER"
"""Variable with the number of the process that started the one which workers are forked from."""
LOOKS = 0.5
"""Seconds between two looks at whether the parent lives."""

# Parameters of glibc's mallopt, and what they are set to: large blocks are taken from a heap that is kept, instead of
# being mapped anew and cleared by the system at every pass of a network. Threads share it: one of their own would take
# no large blocks.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8
PR_SET_PDEATHSIG = 1
"""Of Linux' prctl."""
KEPT_FREE = 2**30
LARGEST_ON_HEAP = 2**30
GROWS_BY = 64 * 2**20


def keep_memory() -> bool:
    """Let the C library keep what it was given and is free again; whether it could be told (glibc alone knows how)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = (
        (M_MMAP_THRESHOLD, LARGEST_ON_HEAP),
        (M_TRIM_THRESHOLD, KEPT_FREE),
        (M_TOP_PAD, GROWS_BY),
        (M_ARENA_MAX, 1),
    )
    return all(mallopt(which, value) for which, value in settings)


def give_memory_back() -> None:
    """Let the C library hand to the system what it keeps and is free: what comes next needs other pieces of memory."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


_number = 0


def worker_number() -> int:
    """Which of several workers this process is, counted from zero; zero too where there are none."""
    return _number


def set_up_worker(parent: int, folder: Path) -> None:
    """What a worker process does first: it leaves Ctrl-C to its parent, ends when that does, and takes a number."""
    global _number
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if FORKS:
        end_with_maker()  # the process that it was forked from, which ends when the parent does
    keep_memory()
    _number = next(number for number in itertools.count() if taken(folder / f"worker-{number}"))
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()


def taken(path: Path) -> bool:
    """Whether this process is the first to make the file."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def end_with_maker(does: bool = True) -> None:
    """Let the system end this process with the one that made it, or no longer.

    A thread that looks comes too late where a kernel, or a library that is being loaded, keeps the interpreter.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL) if does else 0, 0, 0, 0)


def end_with(parent: int) -> None:
    """End this process, whatever it does, once its parent is gone."""
    known = multiprocessing.parent_process()  # a forked worker is nobody's child that would notice
    while os.getppid() == parent if known is None else known.is_alive():
        time.sleep(LOOKS)
    os._exit(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch in here: sums are then made in the same order as in a worker.

    Work that needs torch has loaded it by now, for it holds networks and tensors. Work that does without (pictures,
    questions, stored heatmaps) is not made to wait for it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

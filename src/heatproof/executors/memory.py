"""How much memory processes hold."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

PAGE = mmap.PAGESIZE
LOOKS = 0.01
"""Seconds between two looks at what is allocated."""


def most_memory() -> int:
    """The most that this process ever held, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def resident(processes: Iterable[int]) -> int:
    """What these processes hold now, shared pages counted for each; quick to ask. 0 where the system does not tell."""
    found = 0
    for process in processes:
        try:
            found += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
        except OSError:
            continue
    return found


def held_together(processes: Iterable[int]) -> int:
    """The same with shared pages counted once, which takes 10 ms for each process."""
    return sum(map(proportional, processes))


def proportional(process: int) -> int:
    """Pages of its own, and its share of pages that are shared."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


@dataclass(frozen=True)
class Held:
    """What a process holds, in bytes: pages of its own, and pages of files (code, mapped arrays) that others share."""

    own: int
    files: int

    @property
    def all(self) -> int:
        return self.own + self.files


def held_now() -> Held:
    """What this process holds now; all counts as its own where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return Held(most_memory(), 0)
    words = [line.split() for line in lines if line.startswith("Rss")]
    found = {name: int(size) * 1024 for name, size, _ in words}
    return Held(found["RssAnon:"], found["RssFile:"] + found["RssShmem:"])


class Mallinfo(ctypes.Structure):
    """What glibc's mallinfo2 tells, in bytes; `uordblks` is what is in use on heaps, `hblkhd` what is mapped."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip


@cache
def allocator() -> Any:
    """The C library's function that tells what is allocated; None where there is none."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    ask.restype = Mallinfo
    return ask


def allocated() -> int:
    """Bytes that this process has allocated and not freed; 0 where the system does not tell.

    Memory that is kept for later does not count, so this falls when something is freed, which pages held do not.
    """
    ask = allocator()
    if ask is None:
        return 0
    told = ask()
    return int(told.uordblks + told.hblkhd)


@dataclass
class Peak:
    """The most bytes seen beyond what was allocated at first."""

    first: int = field(default_factory=allocated)
    bytes: int = 0

    def look(self) -> None:
        self.bytes = max(self.bytes, allocated() - self.first)


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """How much more than before is allocated at most in here, looked at a hundred times a second."""
    seen, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(LOOKS):
            seen.look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()
        seen.look()

"""How much memory processes hold."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PAGE = mmap.PAGESIZE


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

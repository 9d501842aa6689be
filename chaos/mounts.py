"""Small disks and folders that become read-only, where this process may mount them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def mount(*words: str) -> bool:
    """Whether it could be mounted; only an administrator may."""
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """A disk of this size under the folder; whether there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    there = mount("-t", "tmpfs", "-o", f"size={size}", "heatproof-chaos", str(folder))
    try:
        yield there
    finally:
        if there:
            unmount(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[bool]:
    """In here nobody can write to the folder, root included; whether that could be done."""
    there = mount("--bind", str(folder), str(folder))
    closed = False
    for _ in range(50 if there else 0):  # while a file is being written to, the system refuses
        if closed := mount("-o", "remount,bind,ro", str(folder)):
            break
        time.sleep(0.01)
    try:
        yield closed
    finally:
        if there:
            unmount(folder)

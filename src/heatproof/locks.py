"""One process at a time writes to a folder; a process that is gone holds nothing."""

from __future__ import annotations

import errno
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.workspace import writable

LOCK = ".lock"
HELD = (errno.EACCES, errno.EAGAIN)
"""What the system says of a lock that another process has."""
OWNER = 4096
"""Where the lock of Windows begins, which nobody else can read: behind what the file says."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """In here no other process (nor thread) holds the folder. The system lets go of the lock when the process ends.

    A folder that is made for it, and then is given nothing, is removed again.
    """
    path, is_new = folder / LOCK, not folder.exists()
    with writable(path):
        file = take(path)
    try:
        with writable(path):
            os.ftruncate(file, 0)
            os.write(file, json.dumps(this_process()).encode())
        yield
    finally:
        with suppress(OSError):  # before it is let go of: whoever waits for it then sees that it is another file
            path.unlink()
        os.close(file)
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def take(path: Path) -> int:
    """The lock file, open and locked; an error that says who holds it where somebody does."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # whoever made the folder has just removed it
            continue
        try:
            lock(file)
            if is_there(file, path):
                return file
        except OSError as problem:
            said = owner(file)
            os.close(file)
            if problem.errno not in HELD:
                raise
            raise HeatproofError(
                f"{path.parent} is in use: process {said.get('process', 'unknown')} on"
                f" {said.get('machine', 'this machine')} writes to it since {said.get('since', 'a moment ago')}"
                f" ({said.get('command', 'heatproof')}). Wait until it ends, or give another folder with --out."
            ) from None
        os.close(file)


def lock(file: int) -> None:
    """Lock an open file, or raise at once. Where the file system knows no locks, go without."""
    if os.name == "nt":
        import msvcrt

        os.lseek(file, OWNER, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        os.lseek(file, 0, os.SEEK_SET)
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise


def is_there(file: int, path: Path) -> bool:
    """Whether the open file still is the one of this name: its last owner removes it."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def this_process() -> dict[str, Any]:
    return {
        "process": os.getpid(),
        "machine": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def owner(file: int) -> Mapping[str, Any]:
    """What the holder of a lock has written about itself; nothing if it has just begun."""
    try:
        said = json.loads(os.pread(file, OWNER, 0)) if hasattr(os, "pread") else {}
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}

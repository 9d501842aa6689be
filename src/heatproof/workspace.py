"""Where trained models and other things made once are kept between runs."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from heatproof.errors import HeatproofError

FULL = (errno.ENOSPC, errno.EDQUOT)
PART = re.compile(r"\..*\.(\d+)\.part")
"""The names of temporary files, with the process that writes them."""


def workspace(*parts: str) -> Path:
    """A path in the cache folder: `HEATPROOF_HOME`, or the user's cache folder of this system."""
    home = os.environ.get("HEATPROOF_HOME")
    if home is None:
        from platformdirs import user_cache_dir

        home = user_cache_dir("heatproof", appauthor=False)
    return Path(home, *parts)


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Errors of the file system in this block are about writing `path`, and say so."""
    try:
        yield
    except OSError as problem:
        raise HeatproofError(
            f"cannot write {path}: {problem.strerror or problem}. {remedy(path, problem)}"
        ) from problem


def remedy(path: Path, problem: OSError) -> str:
    """What to do about a file that cannot be written."""
    if problem.errno in FULL:
        return "Make room and run again; what is written is kept."
    if workspace() in path.parents:
        return "That is in the cache: set HEATPROOF_HOME to a folder that you may write to."
    return "Choose a folder that you may write to."


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, to be filled in the block, then renamed: a file that exists is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it."""
    with whole(path) as temporary:
        write(temporary)


def sweep(folder: Path, below: bool = True) -> None:
    """Remove temporary files and folders of processes that are gone, in the folder and in those below it."""
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if (found := PART.fullmatch(name)) and not is_alive(int(found[1])):
                if name in folders:
                    shutil.rmtree(Path(place, name), ignore_errors=True)
                else:
                    with suppress(OSError):
                        Path(place, name).unlink()
        if not below:
            return


def is_alive(process: int) -> bool:
    """Whether a process of this number runs."""
    if os.name == "nt":  # asking would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True

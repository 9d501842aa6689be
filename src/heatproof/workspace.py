"""Where trained models and other things made once are kept between runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from heatproof.errors import HeatproofError


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
            f"cannot write {path}: {problem.strerror or problem}. Choose a folder that you may write to."
        ) from problem


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

"""Named arrays on disk: .npz archives, written whole or not at all, read without pickles."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.workspace import write_whole


def npz(arrays: Mapping[str, np.ndarray[Any, Any]], compressed: bool = False) -> bytes:
    """The content of an .npz file."""
    buffer = BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], compressed: bool = False) -> None:
    """Write the arrays as .npz."""
    write_whole(path, lambda temporary: temporary.write_bytes(npz(arrays, compressed)))


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a .npz file, by name."""
    return loaded(path, path)


def arrays_of(content: bytes, path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of the content of a .npz file."""
    return loaded(BytesIO(content), path)


def loaded(source: Path | BytesIO, path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an .npz archive; what is wrong with it is said of `path`."""
    try:
        found = np.load(source, allow_pickle=False)
        if isinstance(found, np.ndarray):
            raise HeatproofError(f"{path} holds a single array, not a .npz archive of named ones.")
        with found:
            return dict(found)
    except HeatproofError:
        raise
    except FileNotFoundError as problem:
        raise HeatproofError(f"there is no file {path}.") from problem
    except Exception as problem:  # zip, zlib, value and key errors of many kinds, by where the damage is
        raise HeatproofError(
            f"{path} is damaged: it is truncated, or not a .npz archive of plain arrays"
            f" ({type(problem).__name__}: {problem})."
        ) from problem

"""Named arrays on disk: .npz archives, written whole or not at all, read without pickles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.workspace import write_whole

MOST = 2**36
"""Bytes of an array that is read whole: 64 GB. What says that it is larger is damaged, or meant to do harm."""


def require_room(where: object, shape: Sequence[int], dtype: Any) -> None:
    """Refuse an array that is too large before memory is taken for it."""
    if prod(map(int, shape)) * np.dtype(dtype).itemsize > MOST:
        raise HeatproofError(f"{where} says that it holds an array of shape {tuple(shape)}: that is too large.")


def member(archive: Any, name: str) -> np.ndarray[Any, Any]:
    """An array of an open .npz archive, once its head is seen to promise no more than the archive holds."""
    entry = next((known for known in (f"{name}.npy", name) if known in archive.zip.namelist()), name)
    size = archive.zip.getinfo(entry).file_size
    with archive.zip.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    require_room(f"{archive.zip.filename or 'the archive'}: {name}", shape, dtype)
    if not dtype.hasobject and prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{name} promises {prod(shape) * dtype.itemsize:,} bytes and has {size:,}")
    return np.asarray(archive[name])


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
            return {name: member(found, name) for name in found.files}
    except HeatproofError:
        raise
    except FileNotFoundError as problem:
        raise HeatproofError(f"there is no file {path}.") from problem
    except Exception as problem:  # zip, zlib, value and key errors of many kinds, by where the damage is
        raise HeatproofError(
            f"{path} is damaged: it is truncated, or not a .npz archive of plain arrays"
            f" ({type(problem).__name__}: {problem})."
        ) from problem

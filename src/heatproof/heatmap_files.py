"""Heatmaps on disk, made anywhere: a folder of .npy files or grey pictures, a .npz archive, a Zarr or HDF5 group.

A folder or an archive calls each heatmap by the name of its case. A group holds `heatmaps` (N, ...) and, in the same
order, their names: `case`, or `question_index` where these are numbers. Where a benchmark's cases have an order, arrays
in that order do too. What a run keeps of an explainer is a folder of .npz parts, each with `ids` and `relevance`. Needs
no torch.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.arrays import member, read_arrays, require_room
from heatproof.errors import HeatproofError
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("case", "question_index")
NUMBERS = "bfiu"
"""Kinds of arrays: truth values, floats, integers with a sign and without."""
SHOWN = 5
HEADER = 128
"""Bytes before the numbers, as numpy writes them unless there is much to say."""
MOST_READ = 2**22
"""Bytes of numbers that are read at once."""
MOST_CHANNELS = 1024
"""Of a heatmap: all of a chunk get as many as the one that has most."""
PICTURES = (".png", ".tif", ".tiff")
PART = ("ids", "relevance")
"""What a part of a run's heatmaps holds."""


@dataclass(frozen=True)
class Heatmaps:
    """Heatmaps by name; `read` gives one, whatever its shape, and may fail for that one alone."""

    source: Path
    names: tuple[str, ...]
    read: Callable[[str], NDArray[Any]] = field(repr=False)
    """May map the file into memory; what is asked for then is read where it is used."""
    stamp: str
    """Changes when the files do, so that scores of changed heatmaps are not taken for theirs."""
    parts: Mapping[str, Sequence[str]] | None = field(default=None, repr=False)
    """The cases that arrays in their order are of, by the part of the data that these belong to."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes open the files for themselves."""
        source = self.source.resolve()
        return (open_heatmaps, (source,)) if self.parts is None else (open_ordered, (source, self.parts))

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset(self.names)

    def usable(
        self, name: str, space: tuple[int, ...], hint: str = "", resize: bool = False
    ) -> tuple[NDArray[Any] | None, str]:
        """The heatmap (channels, *space), or None and what is wrong with it; `hint` is for one of another size.

        With `resize`, a picture's heatmap of another size is brought to this one. What is float32 stays so.
        """
        if name not in self.known:
            return None, "there is no heatmap"
        try:
            heatmap = np.asarray(self.read(name))
        except Exception as problem:  # damaged files fail in many ways, by their format
            return None, f"the heatmap cannot be read: {type(problem).__name__}: {problem}"
        if heatmap.dtype.kind not in NUMBERS:
            return None, f"the heatmap holds {heatmap.dtype}, not numbers"
        if heatmap.ndim > len(space) and len(heatmap) > MOST_CHANNELS:
            return None, f"the heatmap has {len(heatmap):,} channels, which is more than {MOST_CHANNELS:,}"
        if heatmap.ndim == len(space):
            heatmap = heatmap[None]
        if resize and heatmap.ndim == len(space) + 1 == 3 and min(heatmap.shape) > 0 and heatmap.shape[1:] != space:
            heatmap = resized(heatmap, (space[0], space[1]))
        if heatmap.ndim != len(space) + 1 or len(heatmap) < 1 or heatmap.shape[1:] != space:
            extent = ", ".join(map(str, space))
            return None, f"the heatmap has shape {heatmap.shape}, not (channels, {extent}) or ({extent}){hint}"
        return heatmap.astype(np.float32 if heatmap.dtype == np.float32 else np.float64, copy=False), ""


def picture_files(path: Path) -> dict[str, Path]:
    """Grey pictures of a folder, by name."""
    files = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in PICTURES)
    return {entry.relative_to(path).with_suffix("").as_posix(): entry for entry in files}


def read_picture(file: Path) -> NDArray[Any]:
    """A heatmap that is stored as a grey picture."""
    from PIL import Image

    with Image.open(file) as image:
        pixels = np.asarray(image)
    if pixels.ndim != 2:
        raise HeatproofError("it is a picture in colour; a heatmap has one value for each position")
    return pixels


def resized(heatmap: NDArray[Any], space: tuple[int, int]) -> NDArray[Any]:
    """A heatmap (channels, height, width) in another height and width: bilinear, averaged where it gets smaller."""
    from PIL import Image

    height, width = space
    channels = [
        np.asarray(Image.fromarray(channel).resize((width, height), Image.Resampling.BILINEAR))
        for channel in heatmap.astype(np.float32)
    ]
    return np.stack(channels)


def open_heatmaps(path: Path) -> Heatmaps:
    """The heatmaps of a folder, a .npz archive, or a Zarr or HDF5 group; none is read yet."""
    if path.suffix in (".h5", ".hdf5"):
        return open_group(path, "h5py")
    if path.suffix == ".zarr":
        return open_group(path, "zarr")
    if path.is_dir():
        files = sorted(entry.relative_to(path).with_suffix("").as_posix() for entry in path.rglob("*.npy"))
        parts = sorted(entry for entry in path.iterdir() if entry.suffix == ".npz")
        if parts and not files:
            return open_parts(path, parts)
        if not files and (pictures := picture_files(path)):
            return named(path, list(pictures), lambda name: read_picture(pictures[name]))
        return named(path, files, lambda name: load_npy(path / f"{name}.npy"))
    if path.suffix == ".npz" and path.is_file():
        archive = archive_of(path)
        return named(path, sorted(archive.files), lambda name: member(archive, name))
    said = "does not exist" if not path.exists() else "is neither a folder nor a .npz, .zarr, .h5 or .hdf5"
    raise HeatproofError(f"{path} {said}; give a folder of CASE.npy, or an archive of heatmaps.")


def open_ordered(path: Path, parts: Mapping[str, Sequence[str]], space: tuple[int, ...] | None = None) -> Heatmaps:
    """Heatmaps by name as above, kept by a run, or in the order of the cases: `parts` names these.

    In order: an array of all of them (.npy, or `heatmaps` in a .npz), or an array of each part, by its name (in a .npz,
    or as .npy files of a folder). What does not fit `space`, if that is given, is refused.
    """
    arrays: dict[str, NDArray[Any]] = {}
    if path.is_file() and path.suffix == ".npy":
        arrays = {"heatmaps": read_array(path)}
    elif path.is_file() and path.suffix == ".npz" and {"heatmaps", "ids", *parts} & set(archive_of(path).files):
        arrays = read_arrays(path)
    elif path.is_dir() and all((path / f"{part}.npy").is_file() for part in parts):
        arrays = {part: read_array(path / f"{part}.npy") for part in parts}
    if set(PART) <= set(arrays):
        return replace(open_parts(path, [path]), parts=parts)
    if "heatmaps" in arrays:
        every = [name for names in parts.values() for name in names]
        return replace(in_order(path, {"heatmaps": every}, arrays, space), parts=parts)
    if set(parts) <= set(arrays):
        return replace(in_order(path, parts, arrays, space), parts=parts)
    if some := sorted(set(parts) & set(arrays)):
        missing = ", ".join(sorted(set(parts) - set(arrays)))
        raise HeatproofError(f"{path} holds heatmaps for {', '.join(some)} and none for {missing}.")
    return replace(open_heatmaps(path), parts=parts)


def in_order(
    path: Path,
    wanted: Mapping[str, Sequence[str]],
    arrays: Mapping[str, NDArray[Any]],
    space: tuple[int, ...] | None,
) -> Heatmaps:
    """Heatmaps of arrays that hold one for each case, in the order of their names."""
    place: dict[str, tuple[str, int]] = {}
    for array, names in wanted.items():
        found = arrays[array]
        fits = space is None or (found.shape[-len(space) :] == space and found.ndim - len(space) in (1, 2))
        if found.ndim < 2 or len(found) != len(names) or not fits:
            extent = "" if space is None else f", each ({', '.join(map(str, space))}) or with channels before that,"
            raise HeatproofError(
                f"{path}: {array} has shape {found.shape}; it must hold the heatmaps of {len(names):,} cases"
                f" ({names[0]} to {names[-1]}){extent} in the order of the data set."
            )
        if found.dtype.kind not in NUMBERS:
            raise HeatproofError(f"{path}: {array} holds {found.dtype}, not numbers.")
        place |= {name: (array, k) for k, name in enumerate(names)}

    def read(name: str) -> NDArray[Any]:
        array, k = place[name]
        return np.asarray(arrays[array][k])

    return named(path, list(place), read)


def archive_of(path: Path) -> Any:
    """A .npz archive whose arrays are read when they are asked for."""
    try:
        archive = np.load(path, allow_pickle=False)
    except Exception as problem:  # of zip files and arrays, many kinds
        raise HeatproofError(f"{path} is damaged or no .npz archive ({problem}).") from problem
    if isinstance(archive, np.ndarray):
        raise HeatproofError(f"{path} holds a single array, not a .npz archive of named ones.")
    return archive


def read_array(path: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False, mmap_mode="r"))
    except Exception as problem:  # a file without a byte is no ValueError
        raise HeatproofError(f"{path} is damaged or no .npy file of plain numbers ({problem}).") from problem


def named(path: Path, names: list[str], read: Callable[[str], NDArray[Any]]) -> Heatmaps:
    if not names:
        raise HeatproofError(f"{path} holds no heatmaps (CASE.npy).")
    return Heatmaps(path, tuple(names), read, stamp(path))


def load_npy(path: Path) -> NDArray[Any]:
    """A small plain file is read, which is quick; others are mapped, to take no memory before their shape is known."""
    with path.open("rb", buffering=0) as file:
        shape, kind = plain_header(file.read(HEADER))
        if kind and file.seek(0, 2) - HEADER == math.prod(shape) * np.dtype(kind).itemsize <= MOST_READ:
            file.seek(HEADER)
            array = np.empty(shape, kind)
            if file.readinto(array.reshape(-1).view(np.uint8).data) == array.nbytes:
                return array
    loaded: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
    return loaded


@lru_cache(maxsize=256)
def plain_header(head: bytes) -> tuple[tuple[int, ...], str]:
    """Shape and kind of the numbers in a .npy file that begins so; no kind where it is not as most files are."""
    file = io.BytesIO(head)
    try:
        if np.lib.format.read_magic(file) == (1, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
            if not by_columns and dtype.kind in NUMBERS and math.prod(shape) > 0 and file.tell() == HEADER:
                return shape, dtype.str
    except ValueError:
        pass  # damaged, or with a longer header: not plain
    return (), ""


def open_parts(path: Path, parts: Sequence[Path]) -> Heatmaps:
    """The heatmaps of an explainer as a run keeps them (MODEL.CHUNK.npz); the part that was read last is held."""
    models = sorted({part.stem.rpartition(".")[0] for part in parts})
    if len(models) > 1:
        raise HeatproofError(
            f"{path} holds heatmaps of {len(models)} models ({', '.join(models)}); give a folder with those of one."
        )
    where: dict[str, tuple[Path, int]] = {}
    for part in parts:
        names = part_names(part)
        if twice := sorted(set(names) & set(where)):
            raise HeatproofError(
                f"{path} has two heatmaps of {twice[0]}: in {where[twice[0]][0].name} and {part.name}."
            )
        where |= {name: (part, place) for place, name in enumerate(names)}
    held: dict[Path, NDArray[Any]] = {}

    def read(name: str) -> NDArray[Any]:
        part, place = where[name]
        if part not in held:
            held.clear()
            held[part] = read_arrays(part)["relevance"]
        heatmap: NDArray[Any] = held[part][place]
        return heatmap

    return named(path, list(where), read)


def part_names(part: Path) -> list[str]:
    """The cases of a part of a run's heatmaps; only their names are read."""
    try:
        with np.load(part, allow_pickle=False) as archive:
            there, names = set(archive.files), archive["ids"].tolist() if "ids" in archive.files else []
    except Exception as problem:  # damaged files fail in many ways
        raise HeatproofError(f"{part} is damaged ({type(problem).__name__}: {problem}); make it anew.") from problem
    if "heat" in there:
        raise HeatproofError(
            f"{part} holds a sample for the page, with channels added up: a run stores no more unless it is told to."
            " Make it again with --keep-heatmaps --no-resume."
        )
    if not set(PART) <= there:
        raise HeatproofError(
            f"{part} is no part of a run's heatmaps: it lacks {' and '.join(n for n in PART if n not in there)}."
            " Give the archive itself, not its folder, if it holds heatmaps by name."
        )
    return [str(name) for name in names]


def open_group(path: Path, library: str) -> Heatmaps:
    """The arrays `heatmaps` and `case` or `question_index` of a Zarr or HDF5 group."""
    import importlib

    try:
        module: Any = importlib.import_module(library)
    except ImportError:
        raise HeatproofError(f"to read {path}, install {library}: pip install {library}") from None
    try:
        group = module.File(path, "r") if library == "h5py" else module.open_group(str(path), mode="r")
        kind = next(kind for kind in NAMES if kind in group)
        names = [entry.decode() if isinstance(entry, bytes) else str(entry) for entry in np.asarray(group[kind])]
        array = group["heatmaps"]
    except Exception as problem:  # by library and version
        raise HeatproofError(
            f"{path} cannot be read as a group with heatmaps and question_index or case"
            f" ({type(problem).__name__}: {problem})."
        ) from problem
    if len(getattr(array, "shape", ())) < 2:
        raise HeatproofError(f"{path}: heatmaps must be an array (N, ...), one heatmap after the other.")
    if len(names) != array.shape[0] or len(set(names)) != len(names):
        raise HeatproofError(f"{path}: {kind} must name each of the {array.shape[0]} heatmaps once.")
    require_room(path, array.shape[1:], array.dtype)
    place = {name: k for k, name in enumerate(names)}
    return named(path, names, lambda name: np.asarray(array[place[name]]))


def few(entries: Sequence[object], between: str = ", ") -> str:
    """The first few, and that there are more."""
    return between.join(map(str, entries[:SHOWN])) + f"{between}..." * (len(entries) > SHOWN)


def stamp(path: Path) -> str:
    """A hash of names, sizes and dates of a file, or of all files in a folder."""
    found = [entry for entry in path.rglob("*") if entry.is_file()] if path.is_dir() else [path]
    known = [(str(file.relative_to(path)), file.stat()) for file in sorted(found, key=attrgetter("parts"))]
    about = [(name, status.st_size, status.st_mtime_ns) for name, status in known]
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]

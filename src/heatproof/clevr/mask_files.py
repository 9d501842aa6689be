"""Ground-truth masks on disk: packed bits in one file per kind, or one file per question as CLEVR-XAI released them.

Packed: `SET_KIND.npy`, uint8 (questions, ceil(H * W / 8)), row i the mask of the i-th question of the questions file,
pixels row by row, the first pixel in the highest bit (as `np.packbits` does). `SET_KIND.json` beside it says how it was
made and lists, in the same order, `question_index`, `available`, `objects` and `pixels` of each mask. It is written
last, so where it exists the masks are whole. Reading needs NumPy only.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.workspace import whole, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = "ground_truth"
"""Where packed masks lie in a data set."""

LAYOUTS = ("packed", "release")
"""One file per kind, or one folder per kind with a file per question."""

RELEASE_SETTINGS = "heatproof.json"
"""In a folder of the release layout that we wrote: how it was made."""

Put: TypeAlias = Callable[[int, "NDArray[np.uint8]", int, int], None]
"""Takes (position of the question, its packed mask, objects in the mask, objects in the scene)."""


@dataclass(frozen=True)
class MaskSettings:
    """What the masks of one kind depend on."""

    set: str
    kind: str
    height: int
    width: int
    source: str
    """Hash of the questions and of the objects they are about."""

    @property
    def name(self) -> str:
        return f"{self.set}_{self.kind}"

    @property
    def release_name(self) -> str:
        return release_name(self.set, self.kind)

    @property
    def row_bytes(self) -> int:
        return (self.height * self.width + 7) // 8


@dataclass(frozen=True, eq=False)
class PackedMasks:
    """The masks of one kind, memory-mapped."""

    settings: MaskSettings
    question_index: NDArray[np.int64]
    objects: NDArray[np.int64]
    """How many objects each mask shows; 0 where there is no mask."""
    pixels: NDArray[np.int64]
    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.question_index)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Which questions have a mask, in the order of the questions file."""
        return self.objects > 0

    def positions(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these question indices."""
        wanted = np.asarray(questions, dtype=np.int64).reshape(-1)
        places = np.searchsorted(self._sorted_index, wanted).clip(max=len(self) - 1)
        strange = wanted[self._sorted_index[places] != wanted]
        if len(strange):
            raise HeatproofError(f"question {strange[0]} has no place in the masks {self.settings.name}.")
        rows: NDArray[np.int64] = self._order[places]
        return rows

    def batch(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Masks (B, H, W) of these question indices; all False where a question has none."""
        return unpack(self.rows[self.positions(questions)], self.settings.height, self.settings.width)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.question_index, kind="stable")

    @cached_property
    def _sorted_index(self) -> NDArray[np.int64]:
        return self.question_index[self._order]


@dataclass(frozen=True, eq=False)
class ReleaseMasks:
    """The masks of one kind, one `.npy` per question that has one, as in CLEVR-XAI's release."""

    folder: Path
    question_index: NDArray[np.int64]
    """Of all questions of the set, in the order of the questions file."""

    def __len__(self) -> int:
        return len(self.question_index)

    @cached_property
    def _present(self) -> frozenset[int]:
        return frozenset(int(path.stem) for path in self.folder.glob("*.npy") if path.stem.isdecimal())

    @cached_property
    def available(self) -> NDArray[np.bool_]:
        """Which questions have a mask, in the order of the questions file."""
        return np.array([int(index) in self._present for index in self.question_index], dtype=np.bool_)

    @cached_property
    def pixels(self) -> NDArray[np.int64]:
        """Pixels of each mask; reads every file."""
        sizes = [int(self._read(i).sum()) if i in self._present else 0 for i in map(int, self.question_index)]
        return np.array(sizes, dtype=np.int64)

    def batch(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Masks (B, H, W) of these question indices; all False where a question has none."""
        wanted = [int(index) for index in questions]
        strange = set(wanted).difference(map(int, self.question_index))
        if strange:
            raise HeatproofError(f"question {min(strange)} has no place in the masks {self.folder.name}.")
        if not self._present:
            raise HeatproofError(f"{self.folder} holds no masks (QUESTION_INDEX.npy).")
        empty = np.zeros_like(self._read(next(iter(self._present))))
        masks = [self._read(index) if index in self._present else empty for index in wanted]
        for index, mask in zip(wanted, masks, strict=True):
            if mask.shape != empty.shape:
                raise HeatproofError(
                    f"{self.folder / f'{index}.npy'} is {mask.shape[1]}x{mask.shape[0]},"
                    f" another mask of that folder {empty.shape[1]}x{empty.shape[0]}."
                )
        return np.stack(masks) if masks else np.zeros((0, *empty.shape), dtype=np.bool_)

    def _read(self, index: int) -> NDArray[np.bool_]:
        path = self.folder / f"{index}.npy"
        mask = load_array(path)
        if mask.ndim != 2 or mask.dtype != np.bool_:
            raise HeatproofError(f"{path} holds {mask.dtype} of shape {mask.shape}, not a boolean picture.")
        return mask


def release_name(question_set: str, kind: str) -> str:
    """The folder's name in CLEVR-XAI's release."""
    spelt = {"unique_first_nonempty": "unique_firstnonempty"}.get(kind, kind)
    return f"ground_truth_{question_set}_questions_{spelt}"


def release_source(folder: Path) -> str | None:
    """What the masks of the release layout were made from, if we made them."""
    path = folder / RELEASE_SETTINGS
    return str(read_header(path).get("source")) if path.exists() else None


def pack(masks: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Masks (B, H, W) as bits (B, ceil(H * W / 8))."""
    return np.packbits(masks.reshape(len(masks), masks.shape[1] * masks.shape[2]), axis=1)


def unpack(rows: NDArray[np.uint8], height: int, width: int) -> NDArray[np.bool_]:
    """Bits (B, ceil(H * W / 8)) as masks (B, H, W)."""
    bits = np.unpackbits(rows, axis=1, count=height * width)
    return bits.reshape(len(rows), height, width).view(np.bool_)


def count_pixels(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Set bits of each row."""
    table = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1).astype(np.uint8)
    step = 4096  # rows at a time: a memory-mapped file need not fit into memory
    parts = [table[rows[start : start + step]].sum(1, dtype=np.int64) for start in range(0, len(rows), step)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def open_packed(folder: Path, question_set: str, kind: str) -> PackedMasks:
    """The packed masks of one kind in `folder`."""
    header_path, rows_path = (folder / f"{question_set}_{kind}{ending}" for ending in (".json", ".npy"))
    header = read_header(header_path)
    rows = load_array(rows_path, mmap_mode="r")
    try:
        settings = MaskSettings(**header["settings"])
        index, objects, pixels = (
            np.asarray(header[name], dtype=np.int64) for name in ("question_index", "objects", "pixels")
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise damaged(header_path, rows_path) from problem
    if not len(index) == len(objects) == len(pixels) == len(rows) or rows.shape[1:] != (settings.row_bytes,):
        raise damaged(header_path, rows_path)
    return PackedMasks(settings, index, objects, pixels, rows)


def is_made(folder: Path, settings: MaskSettings, layout: str) -> bool:
    """Whether these masks are in `folder`, whole; an error if masks made differently are in their place."""
    if layout == "packed":
        path = folder / f"{settings.name}.json"
        if not path.exists():
            return False
        found = read_header(path).get("settings")
    else:
        place = folder / settings.release_name
        if not place.exists():
            return False
        path = place / RELEASE_SETTINGS
        if not path.exists():
            raise HeatproofError(f"{place} exists and was not written by heatproof. Choose another folder with --out.")
        found = read_header(path)
    if found != asdict(settings):
        raise HeatproofError(
            f"{path} tells of masks made differently: {differences(found, asdict(settings))}. "
            "Nothing was overwritten: delete them, or choose another folder with --out."
        )
    if layout == "packed":
        open_packed(folder, settings.set, settings.kind)
    return True


def differences(there: object, now: Mapping[str, object]) -> str:
    """The settings that differ, in words."""
    if not isinstance(there, dict):
        return "without settings"
    said = []
    for name, value in now.items():
        if there.get(name) != value:
            said.append(
                "from other questions or scenes" if name == "source" else f"{name} {there.get(name)} there, {value} now"
            )
    return ", ".join(said)


def writer(
    folder: Path, settings: MaskSettings, question_index: Sequence[int], layout: str
) -> AbstractContextManager[Put]:
    """A block that is given a function to put masks with; they appear, whole, when it ends without an error."""
    write = packed_writer if layout == "packed" else release_writer
    return write(folder, settings, question_index)


@contextmanager
def packed_writer(folder: Path, settings: MaskSettings, question_index: Sequence[int]) -> Iterator[Put]:
    counted = np.zeros(len(question_index), dtype=np.int64)
    rows_path = folder / f"{settings.name}.npy"
    shape = (len(question_index), settings.row_bytes)
    with whole(rows_path) as temporary, temporary.open("wb") as file:
        about = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
        start = file.tell()
        file.truncate(start + shape[0] * shape[1])

        def put(position: int, row: NDArray[np.uint8], objects: int, in_scene: int) -> None:  # noqa: ARG001
            file.seek(start + position * settings.row_bytes)
            file.write(row.tobytes())
            counted[position] = objects

        yield put
    header = {
        "settings": asdict(settings),
        "question_index": list(question_index),
        "available": (counted > 0).tolist(),
        "objects": counted.tolist(),
        "pixels": count_pixels(load_array(rows_path, mmap_mode="r")).tolist(),
    }
    write_whole(folder / f"{settings.name}.json", lambda path: path.write_text(json.dumps(header), encoding="utf-8"))


@contextmanager
def release_writer(folder: Path, settings: MaskSettings, question_index: Sequence[int]) -> Iterator[Put]:
    place = folder / settings.release_name
    temporary = place.with_name(f".{place.name}.{os.getpid()}.part")
    stats: dict[str, dict[str, int]] = {}

    def put(position: int, row: NDArray[np.uint8], objects: int, in_scene: int) -> None:
        if objects:
            index = question_index[position]
            np.save(temporary / f"{index}.npy", unpack(row[None], settings.height, settings.width)[0])
            stats[str(index)] = {"target_objects": objects, "total_objects": in_scene}

    try:
        temporary.mkdir(parents=True)
        yield put
        (temporary / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
        (temporary / RELEASE_SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")
        temporary.replace(place)
    except OSError as problem:
        raise HeatproofError(
            f"cannot write {place}: {problem.strerror or problem}. Choose a folder that you may write to with --out."
        ) from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeatproofError(
            f"there are no masks {path.with_suffix('.npy')}; make them with: heatproof clevr ground-truth DATASET"
        ) from None
    except (OSError, ValueError) as problem:
        raise damaged(path) from problem
    if not isinstance(header, dict):
        raise damaged(path)
    return header


def load_array(path: Path, mmap_mode: Any = None) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise damaged(path) from problem
    return array


def damaged(*paths: Path) -> HeatproofError:
    return HeatproofError(
        f"{' or '.join(map(str, paths))} is missing or damaged. "
        "Delete it and run again: heatproof clevr ground-truth DATASET"
    )

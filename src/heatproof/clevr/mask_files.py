"""Ground-truth masks on disk: packed bits in one file per kind, or one file per question as CLEVR-XAI released them.

Packed: `SET_KIND.npy`, uint8 (questions, ceil(H * W / 8)), row i the mask of the i-th question of the questions file,
pixels row by row, the first pixel in the highest bit (as `np.packbits` does). `SET_KIND.json` beside it says how it was
made and lists, in the same order, `question_index`, `available`, `objects`, `pixels` and `checksums` of each mask. It
is written last, so where it exists the masks are whole. What is read is compared with it. Reading needs NumPy only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from heatproof.clevr.damage import DatasetError
from heatproof.clevr.json_files import read_object
from heatproof.errors import HeatproofError
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = "ground_truth"
"""Where packed masks lie in a data set."""

RELEASE_SETTINGS = "heatproof.json"
"""In a folder of the release layout that we wrote: how it was made."""

RELEASE_CHECKSUMS = "checksums.json"
"""In a folder of the release layout that we wrote: the checksum of each mask by its question's index."""

RELEASE_SPELLINGS = {"unique_first_nonempty": "unique_firstnonempty"}
"""Kinds that CLEVR-XAI's release spells differently."""

AT_ONCE = 1024
"""Masks that are looked at together where all are checked."""

UNREADABLE = (OSError, ValueError, EOFError, SyntaxError, TokenError, TypeError, OverflowError, MemoryError)
"""What NumPy raises for damaged files: it reads their first lines as Python, and believes the shape given there."""

MAKE_AGAIN = "make it again with: heatproof clevr ground-truth DATASET"


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

    path: Path
    settings: MaskSettings
    question_index: NDArray[np.int64]
    objects: NDArray[np.int64]
    """How many objects each mask shows; 0 where there is no mask."""
    pixels: NDArray[np.int64]
    checksums: NDArray[np.int64] | None
    """None in files of before there were any; their masks are compared with `pixels` only."""
    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.question_index)

    @property
    def available(self) -> NDArray[np.bool_]:
        """Which questions have a mask, in the order of the questions file."""
        return self.objects > 0

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.settings.height, self.settings.width

    def positions(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these question indices."""
        wanted = np.asarray(questions, dtype=np.int64).reshape(-1)
        places = np.searchsorted(self._sorted_index, wanted).clip(max=len(self) - 1)
        strange = wanted[self._sorted_index[places] != wanted]
        if len(strange):
            raise HeatproofError(f"question {strange[0]} has no place in the masks {self.settings.name}.")
        rows: NDArray[np.int64] = self._order[places]
        return rows

    def packed(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Bits (B, ceil(H * W / 8)) of the masks of these question indices; an error if they are damaged."""
        places = self.positions(questions)
        rows: NDArray[np.uint8] = self.rows[places]
        problems = self._compare(places, rows)
        if problems:
            raise DatasetError(self.path.parent, problems)
        return rows

    def batch(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Masks (B, H, W) of these question indices; all False where a question has none."""
        return unpack(self.packed(questions), *self.size)

    def problems(self) -> Iterator[str]:
        """What is wrong with any of the masks."""
        for start in range(0, len(self), AT_ONCE):
            places = np.arange(start, min(start + AT_ONCE, len(self)))
            yield from self._compare(places, self.rows[places])

    def _compare(self, places: NDArray[np.int64], rows: NDArray[np.uint8]) -> list[str]:
        """What is wrong with these rows of the file."""
        index, objects = self.question_index[places], self.objects[places]
        wrong = count_pixels(rows) != self.pixels[places]
        if self.checksums is not None:
            wrong |= sum_rows(index, objects, rows) != self.checksums[places]
        both = f"{self.path.name} and {self.path.with_suffix('.json').name}"
        return [
            f"{self.path}: the mask of question {question} is damaged. Delete {both}, and {MAKE_AGAIN}"
            for question in index[wrong].tolist()
        ]

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.question_index, kind="stable")

    @cached_property
    def _sorted_index(self) -> NDArray[np.int64]:
        return self.question_index[self._order]


@dataclass(frozen=True, eq=False)
class ReleaseMasks:
    """The masks of one kind, one `.npy` per question that has one, as in CLEVR-XAI's release.

    Those that we wrote come with checksums. Of CLEVR-XAI's own, `stats.json` tells which questions have a mask.
    """

    folder: Path
    question_index: NDArray[np.int64]
    """Of all questions of the set, in the order of the questions file."""

    def __len__(self) -> int:
        return len(self.question_index)

    @cached_property
    def _present(self) -> frozenset[int]:
        there = frozenset(int(path.stem) for path in self.folder.glob("*.npy") if path.stem.isdecimal())
        missing = sorted(self._listed - there)
        if missing:
            said = "missing, but stats.json tells of its objects. Copy the folder again, or delete it and"
            raise DatasetError(self.folder, [f"{index}.npy: {said} {MAKE_AGAIN}" for index in missing])
        return there

    @cached_property
    def _listed(self) -> frozenset[int]:
        """Questions that have a mask by `stats.json`; none if there is no such file."""
        path = self.folder / "stats.json"
        stats = read_object(path, MAKE_AGAIN) if path.exists() else {}
        return frozenset(
            int(index)
            for index, row in stats.items()
            if index.isdecimal() and isinstance(row, dict) and row.get("target_objects")
        )

    @cached_property
    def _checksums(self) -> dict[str, Any]:
        path = self.folder / RELEASE_CHECKSUMS
        return read_object(path, MAKE_AGAIN) if path.exists() else {}

    @cached_property
    def available(self) -> NDArray[np.bool_]:
        """Which questions have a mask, in the order of the questions file."""
        return np.array([int(index) in self._present for index in self.question_index], dtype=np.bool_)

    @cached_property
    def pixels(self) -> NDArray[np.int64]:
        """Pixels of each mask; reads every file."""
        sizes = [int(self._read(i).sum()) if i in self._present else 0 for i in map(int, self.question_index)]
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def size(self) -> tuple[int, int]:
        """Height and width, those of the first mask."""
        if not self._present:
            raise HeatproofError(f"{self.folder} holds no masks (QUESTION_INDEX.npy).")
        height, width = self._load(min(self._present)).shape
        return height, width

    def packed(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Bits (B, ceil(H * W / 8)) of the masks of these question indices; an error if they are damaged."""
        return pack(self.batch(questions))

    def batch(self, questions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        """Masks (B, H, W) of these question indices; all False where a question has none."""
        wanted = [int(index) for index in questions]
        strange = set(wanted) - self._known
        if strange:
            raise HeatproofError(f"question {min(strange)} has no place in the masks {self.folder.name}.")
        masks = np.zeros((len(wanted), *self.size), dtype=np.bool_)
        for mask, index in zip(masks, wanted, strict=True):
            if index in self._present:
                mask[:] = self._read(index)
        return masks

    def problems(self) -> Iterator[str]:
        """What is wrong with any of the masks."""
        try:
            present = sorted(self._present)
        except DatasetError as found:
            yield from (f"{self.folder / problem}" for problem in found.problems)
            return
        for index in present:
            try:
                self._read(index)
            except HeatproofError as problem:
                yield str(problem)

    @cached_property
    def _known(self) -> frozenset[int]:
        return frozenset(self.question_index.tolist())

    def _read(self, index: int) -> NDArray[np.bool_]:
        """The mask of a question that has one, if it has the size of the others and was not changed."""
        path, mask, (height, width) = self._path(index), self._load(index), self.size
        if mask.shape != (height, width):
            raise HeatproofError(
                f"{path} is {mask.shape[1]}x{mask.shape[0]}, another mask of that folder {width}x{height}."
            )
        # a byte of a boolean array is 0 or 1; NumPy does not look
        damage = mask.size and mask.view(np.uint8).max() > 1
        if damage or self._checksums.get(str(index), sum_mask(mask)) != sum_mask(mask):
            raise HeatproofError(
                f"{path}: the mask of question {index} is damaged. Copy it again, or delete its folder and {MAKE_AGAIN}"
            )
        return mask

    def _load(self, index: int) -> NDArray[np.bool_]:
        path = self._path(index)
        mask = load_array(path)
        if mask.ndim != 2 or mask.dtype != np.bool_:
            raise HeatproofError(f"{path} holds {mask.dtype} of shape {mask.shape}, not a boolean picture.")
        return mask

    def _path(self, index: int) -> Path:
        return self.folder / f"{index}.npy"


def release_name(question_set: str, kind: str) -> str:
    """The folder's name in CLEVR-XAI's release."""
    return f"ground_truth_{question_set}_questions_{RELEASE_SPELLINGS.get(kind, kind)}"


def release_source(folder: Path) -> str | None:
    """What the masks of the release layout were made from, if we made them."""
    path = folder / RELEASE_SETTINGS
    return str(read_header(path).get("source")) if path.exists() else None


def kinds_there(folder: Path, question_set: str) -> list[str]:
    """The kinds of masks that a data set has for these questions, in either layout."""
    ours = {spelt: kind for kind, spelt in RELEASE_SPELLINGS.items()}
    packed = {path.stem.removeprefix(f"{question_set}_") for path in (folder / FOLDER).glob(f"{question_set}_*.json")}
    start = release_name(question_set, "")
    released = {path.name.removeprefix(start) for path in folder.glob(f"{start}*") if path.is_dir()}
    return sorted(packed | {ours.get(spelt, spelt) for spelt in released})


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


def sum_rows(index: NDArray[np.int64], objects: NDArray[np.int64], rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """CRC-32 of each row, begun with its question's index and number of objects: damage to those is seen too."""
    said = np.stack([index, objects], axis=1).astype("<i8")
    sums = [zlib.crc32(row.tobytes(), zlib.crc32(about.tobytes())) for about, row in zip(said, rows, strict=True)]
    return np.array(sums, dtype=np.int64)


def sum_mask(mask: NDArray[np.bool_]) -> int:
    """CRC-32 of a mask (H, W), its shape included."""
    return zlib.crc32(mask.tobytes(), zlib.crc32(repr(mask.shape).encode()))


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
        sums = None if header.get("checksums") is None else np.asarray(header["checksums"], dtype=np.int64)
        row_bytes = settings.row_bytes
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise damaged(header_path, rows_path) from problem
    lists = [index, objects, pixels, *([] if sums is None else [sums])]
    if any(column.shape != (len(index),) for column in lists) or rows.shape != (len(index), row_bytes):
        raise damaged(header_path, rows_path)
    if rows.dtype != np.uint8 or (settings.set, settings.kind) != (question_set, kind):
        raise damaged(header_path, rows_path)
    return PackedMasks(rows_path, settings, index, objects, pixels, sums, rows)


def read_header(path: Path) -> dict[str, Any]:
    """What stands beside masks: how they were made, and what is compared with them."""
    if not path.exists():
        raise HeatproofError(
            f"there are no masks {path.with_suffix('.npy')}; make them with: heatproof clevr ground-truth DATASET"
        )
    return read_object(path, f"Delete it and {MAKE_AGAIN}")


def load_array(path: Path, mmap_mode: Any = None) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except UNREADABLE as problem:
        raise damaged(path) from problem
    return array


def damaged(*paths: Path) -> HeatproofError:
    return HeatproofError(f"{' or '.join(map(str, paths))} is missing or damaged. Delete it and {MAKE_AGAIN}")

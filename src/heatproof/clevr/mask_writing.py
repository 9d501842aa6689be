"""Ground-truth masks are written: whole or not at all, and never over others."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, get_args

from heatproof.clevr.damage import DatasetError
from heatproof.clevr.mask_files import (
    RELEASE_CHECKSUMS,
    RELEASE_SETTINGS,
    MaskSettings,
    count_pixels,
    load_array,
    open_packed,
    read_header,
    sum_mask,
    sum_rows,
    unpack,
)
from heatproof.clevr.words import MaskLayout
from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.workspace import sweep, whole, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYOUTS: tuple[str, ...] = get_args(MaskLayout)
"""One file per kind, or one folder per kind with a file per question."""

Put: TypeAlias = Callable[[int, "NDArray[np.uint8]", int, int], None]
"""Takes (position of the question, its packed mask, objects in the mask, objects in the scene)."""


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
        problems = list(open_packed(folder, settings.set, settings.kind).problems())
        if problems:
            raise DatasetError(folder, problems)
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
    sweep(folder, below=False)
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
    index, rows = np.asarray(question_index, dtype=np.int64), load_array(rows_path, mmap_mode="r")
    header = {
        "settings": asdict(settings),
        "question_index": list(question_index),
        "available": (counted > 0).tolist(),
        "objects": counted.tolist(),
        "pixels": count_pixels(rows).tolist(),
        "checksums": sum_rows(index, counted, rows).tolist(),
    }
    write_whole(folder / f"{settings.name}.json", lambda path: path.write_text(json.dumps(header), encoding="utf-8"))


@contextmanager
def release_writer(folder: Path, settings: MaskSettings, question_index: Sequence[int]) -> Iterator[Put]:
    place = folder / settings.release_name
    temporary = place.with_name(f".{place.name}.{os.getpid()}.part")
    stats: dict[str, dict[str, int]] = {}
    checksums: dict[str, int] = {}

    def put(position: int, row: NDArray[np.uint8], objects: int, in_scene: int) -> None:
        if objects:
            index = question_index[position]
            mask = unpack(row[None], settings.height, settings.width)[0]
            np.save(temporary / f"{index}.npy", mask)
            checksums[str(index)] = sum_mask(mask)
            stats[str(index)] = {"target_objects": objects, "total_objects": in_scene}

    try:
        temporary.mkdir(parents=True)
        yield put
        (temporary / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
        (temporary / RELEASE_CHECKSUMS).write_text(json.dumps(checksums), encoding="utf-8")
        (temporary / RELEASE_SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")
        temporary.replace(place)
    except OSError as problem:
        raise HeatproofError(
            f"cannot write {place}: {problem.strerror or problem}. Choose a folder that you may write to with --out."
        ) from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

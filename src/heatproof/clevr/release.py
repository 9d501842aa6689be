"""CLEVR-XAI as its authors released it: downloaded, unpacked and counted once, then found by name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from heatproof.clevr.damage import DatasetError
from heatproof.clevr.files import Dataset, open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.clevr.layouts import recognise
from heatproof.clevr.mask_files import kinds_there
from heatproof.clevr.shipped import shipped_dataset
from heatproof.downloads import Download, downloads, fetch_file
from heatproof.errors import HeatproofError
from heatproof.progress import Progress, silent
from heatproof.workspace import workspace, writable

NAME = "clevr-xai"
AGAIN = "Delete {} and {}.sha256 beside it, and fetch it again."


@dataclass(frozen=True)
class Counts:
    """How many there are: pictures, questions by set, and masks by set and kind."""

    pictures: int
    questions: Mapping[str, int]
    masks: Mapping[tuple[str, str], int]


PUBLISHED = Counts(
    pictures=10_000,
    questions={"simple": 39_761, "complex": 100_000},
    masks={
        ("simple", "single_object"): 39_761,
        ("simple", "all_objects"): 39_761,
        ("complex", "unique"): 89_873,
        ("complex", "unique_first_nonempty"): 99_786,
        ("complex", "union"): 99_786,
        ("complex", "all_objects"): 100_000,
    },
)


def release_folder() -> Path:
    """Where the release lies once it is here; it is there only when it is whole."""
    return workspace("datasets", NAME)


def released_dataset() -> Path | None:
    """The folder of the release for `open_dataset`, or None where it was not fetched."""
    found = release_folder()
    return data_root(found) if found.is_dir() else None


def default_dataset(released: bool) -> Path:
    """The data set where none is named: the release if it is meant and at hand, else the one that ships."""
    return (released_dataset() if released else None) or shipped_dataset()


def fetch_release(wanted: Download | None = None, counts: Counts = PUBLISHED, progress: Progress = silent) -> Path:
    """Download the release, unpack it and count what it holds; what was fetched before is only looked for."""
    if (there := released_dataset()) is not None:
        return there
    archive = fetch_file(wanted or downloads[NAME], progress)
    place = release_folder()
    unpacked = place.with_name(f".{place.name}.unpacking")
    with writable(place):
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        try:
            unpack(archive, unpacked, progress)
            problems = list(miscounted(open_dataset(data_root(unpacked) or unpacked), counts, progress))
            if problems:
                raise DatasetError(archive, problems)
            unpacked.replace(place)
        except DatasetError as problem:  # the folder that it names is gone by then, the archive stays
            said = str(problem).replace(f"{unpacked}{os.sep}", f"{archive}: ")
            raise HeatproofError(f"{said}\n{AGAIN.format(archive, archive.name)}") from problem
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return data_root(place) or place


def unpack(archive: Path, folder: Path, progress: Progress) -> None:
    """Unpack a zip archive; a name that leads out of the folder, or a link, is an error and nothing is kept."""
    try:
        with ZipFile(archive) as packed:
            members = packed.infolist()
            for member in members:
                require_inside(archive, member, folder)
            for done, member in enumerate(members, 1):
                packed.extract(member, folder)
                progress(f"unpacking: {archive.name}", done, len(members))
    except (BadZipFile, EOFError) as problem:
        raise HeatproofError(
            f"{archive} is no whole zip archive ({problem}). {AGAIN.format(archive, archive.name)}"
        ) from problem


def require_inside(archive: Path, member: ZipInfo, folder: Path) -> None:
    is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
    if is_link or not (folder / member.filename).resolve().is_relative_to(folder.resolve()):
        raise HeatproofError(f"{archive}: {member.filename!r} leads out of the folder; nothing was unpacked.")


def data_root(folder: Path) -> Path | None:
    """The data set in an unpacked archive: the folder itself, or the first in it that holds one."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    return next((path for path in (folder, *inside) if recognise(path) is not None), None)


def miscounted(data: Dataset, counts: Counts, progress: Progress) -> Iterator[str]:
    """What is not as published, in words."""
    if len(data.scenes) != counts.pictures:
        yield f"scenes: {len(data.scenes):,}, published are {counts.pictures:,}"
    if (shown := sum(1 for _ in data.layout.images.rglob("*.png"))) != counts.pictures:
        yield f"images: {shown:,} pictures, published are {counts.pictures:,}"
    for name, expected in counts.questions.items():
        found = sum(1 for _ in data.each_question(name)) if name in data.sets else 0
        if found != expected:
            yield f"{name} questions: {found:,}, published are {expected:,}"
    for done, ((name, kind), expected) in enumerate(counts.masks.items(), 1):
        assert kind in KINDS[name]
        there = kind in kinds_there(data.folder, name)
        found = int(data.masks(name, kind).available.sum()) if there and name in data.sets else 0
        if found != expected:
            yield f"{kind} masks of {name} questions: {found:,}, published are {expected:,}"
        progress("counting masks", done, len(counts.masks))

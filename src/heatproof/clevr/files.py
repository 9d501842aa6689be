"""CLEVR data sets on disk: those made by Heatproof, CLEVR-XAI as released, and CLEVR v1.0.

`open_dataset` finds out which it is, reads the scenes, and names every file that is missing or damaged. Questions,
pictures and masks are read when asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.clevr.damage import DatasetError
from heatproof.clevr.json_files import Record, all_records, ends_like_json, list_blocks, read_records
from heatproof.clevr.layouts import Layout, find_layout
from heatproof.clevr.mask_files import (
    AT_ONCE,
    FOLDER,
    PackedMasks,
    ReleaseMasks,
    kinds_there,
    open_packed,
    release_name,
    release_source,
)
from heatproof.clevr.object_masks import read_flat_colours, read_ids
from heatproof.clevr.pictures import read_picture, read_whole
from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray


ASKED = ("question_index", "image_filename", "question", "program", "answer")
"""What of a question's record decides anything."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question with its scene; pictures and masks are read when asked for."""

    record: Record
    scene: Record | None
    """None where the data set has none (the test questions of CLEVR v1.0)."""
    dataset: Dataset = field(repr=False)
    set: str

    @property
    def index(self) -> int:
        return int(self.record["question_index"])

    @property
    def text(self) -> str:
        return str(self.record["question"])

    @property
    def answer(self) -> bool | int | str | None:
        """As in the file: CLEVR-XAI has booleans and numbers, CLEVR v1.0 words; None where it is not given."""
        answer: bool | int | str | None = self.record.get("answer")
        return answer

    @property
    def program(self) -> list[Record]:
        """The nodes as in the file; empty where it is not given."""
        return self.record.get("program") or []

    def picture(self) -> NDArray[np.uint8]:
        """The picture (H, W, 3)."""
        return self.dataset.picture(self.record)

    def mask(self, kind: str) -> NDArray[np.bool_]:
        """The ground-truth mask (H, W) of this kind; all False if the question has none."""
        mask: NDArray[np.bool_] = self.dataset.masks(self.set, kind).batch([self.index])[0]
        return mask


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set of CLEVR's kind. `scenes` are by the picture's file name."""

    folder: Path
    layout: Layout
    scenes: Mapping[str, Record]
    _kept: dict[object, Any] = field(default_factory=dict, repr=False)

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the question sets: `simple` and `complex`; in CLEVR v1.0 `train`, `val` and `test`."""
        return tuple(self.layout.questions)

    def questions(self, name: str) -> tuple[Question, ...]:
        """The questions of one set, in the file's order; read at first use."""
        if name not in self._kept:
            self._kept[name] = tuple(self.each_question(name))
        questions: tuple[Question, ...] = self._kept[name]
        return questions

    def each_question(self, name: str) -> Iterator[Question]:
        """The same one by one, without keeping them: all of CLEVR-XAI's complex questions take 800 MB."""
        if name not in self.layout.questions:
            if not self.layout.questions:
                raise HeatproofError(f"{self.folder} has no questions; make them with: heatproof clevr ask")
            raise unknown_name(f"question set of {self.folder}", name, self.layout.questions)
        return iter(self._kept[name]) if name in self._kept else read_questions(self, name)

    @cached_property
    def has_pictures(self) -> bool:
        """False for scenes that were sampled without rendering."""
        return any(True for _ in self.layout.images.rglob("*.png"))

    def picture_path(self, record: Record) -> Path:
        """Where the picture of this scene or question lies."""
        return self.layout.picture(str(record.get("split", "")), str(record["image_filename"]))

    def picture(self, record: Record) -> NDArray[np.uint8]:
        """The picture (H, W, 3) of a scene or question."""
        if not self.has_pictures:
            raise HeatproofError(f"{self.folder} has scenes only, no pictures; render it without --scenes-only.")
        return read_picture(self.picture_path(record), "RGB")[1]

    @cached_property
    def object_folder(self) -> Path | None:
        """Where the object masks lie: id buffers if there are any, else flat-coloured masks."""
        for name in ("objects", "masks"):
            if any(True for _ in (self.folder / name).glob("*.png")):
                return self.folder / name
        return None

    def object_ids(self, scene: Record) -> NDArray[np.uint8]:
        """Which object each pixel (H, W) shows: 0 none, k `scene["objects"][k - 1]`."""
        folder = self.require_object_folder()
        read = read_ids if folder.name == "objects" else read_flat_colours
        return read(folder / scene["image_filename"], scene["objects"])

    def require_object_folder(self) -> Path:
        """The folder of the object masks, or an error."""
        if self.object_folder is None:
            raise HeatproofError(
                f"{self.folder} has no object masks (objects/*.png or masks/*.png); "
                "heatproof clevr render makes them, CLEVR v1.0 comes without."
            )
        return self.object_folder

    def masks(self, name: str, kind: str, folder: Path | None = None) -> PackedMasks | ReleaseMasks:
        """The ground-truth masks of one kind: packed ones (in `folder`), else those of the release layout."""
        key = (name, kind, folder)
        if key not in self._kept:
            place, released = folder or self.folder / FOLDER, (folder or self.folder) / release_name(name, kind)
            if not (place / f"{name}_{kind}.json").exists() and released.is_dir():
                index = [question.index for question in self.each_question(name)]
                opened: PackedMasks | ReleaseMasks = ReleaseMasks(released, np.asarray(index, dtype=np.int64))
                source = release_source(released)
            else:
                opened = open_packed(place, name, kind)
                source = opened.settings.source
            if source not in (None, self.mask_source(name)):
                raise HeatproofError(
                    f"the {kind} masks of {self.folder} were made for other {name} questions than those there now. "
                    "Delete them and run again: heatproof clevr ground-truth DATASET"
                )
            self._kept[key] = opened
        masks: PackedMasks | ReleaseMasks = self._kept[key]
        return masks

    def mask_size(self, name: str, kind: str) -> tuple[int, int]:
        """Height and width of the masks of one kind; an error if no question has one."""
        masks = self.masks(name, kind)
        if not masks.available.any():
            raise HeatproofError(f"no {name} question of {self.folder} has a {kind} mask.")
        return masks.size

    def mask_source(self, name: str) -> str:
        """A hash of what this set's masks depend on: the questions and the objects of the scenes they are about.

        Dates and other information about the files are left out, and so are scenes that came later.
        """
        key = ("mask source", name)
        if key not in self._kept:
            digest = hashlib.blake2b(digest_size=16)
            for block in list_blocks(self.layout.questions[name], "questions"):
                digest.update(block)
            for picture in dict.fromkeys(question.record["image_filename"] for question in self.each_question(name)):
                objects = self.scenes[picture]["objects"] if picture in self.scenes else []
                digest.update(repr((picture, [thing.get("mask_color") for thing in objects])).encode())
            self._kept[key] = digest.hexdigest()
        return str(self._kept[key])

    def fingerprint(self, name: str, questions: Sequence[Question] | None = None, progress: Progress = silent) -> str:
        """A hash of all that these questions of the set (by default all) are about, masks and pictures included.

        Where nothing but dates, the format of JSON files, the layout of the masks or what other questions are about
        differs, it is the same. See `pictures_fingerprint` for how pictures count.
        """
        key = ("fingerprint", name, None if questions is None else tuple(question.index for question in questions))
        if key not in self._kept:
            digest = hashlib.blake2b(digest_size=16)
            index: list[int] = []
            asked: dict[Path, Record | None] = {}
            for question in self.each_question(name) if questions is None else questions:
                digest.update(canonical([question.record.get(field) for field in ASKED]))
                index.append(question.index)
                asked.setdefault(self.picture_path(question.record), question.scene)
            for scene in asked.values():
                digest.update(canonical(scene))
            for kind in kinds_there(self.folder, name):
                masks = self.masks(name, kind)
                if not masks.available.any():
                    continue  # files of single masks do not tell their size then
                digest.update(canonical([kind, masks.size]))
                for start in range(0, len(index), AT_ONCE):
                    digest.update(masks.packed(index[start : start + AT_ONCE]).tobytes())
                    progress(f"reading masks: {kind}", start, len(index))
                progress(f"reading masks: {kind}", len(index), len(index))
            digest.update(self._hash_pictures(asked, progress).encode())
            self._kept[key] = digest.hexdigest()
        return str(self._kept[key])

    def pictures_fingerprint(self, questions: Sequence[Question], progress: Progress = silent) -> str:
        """A hash of the names and the content of the pictures that are asked about, whatever is asked.

        Content means the files' bytes, which are read in a fraction of the time that it takes to decode them: where
        the same pixels are compressed by another version of zlib, the hash is another.
        """
        return self._hash_pictures({self.picture_path(question.record) for question in questions}, progress)

    def _hash_pictures(self, paths: Collection[Path], progress: Progress) -> str:
        """Each picture is read once in the life of the data set; where there are none, only names count."""
        digest = hashlib.blake2b(digest_size=16)
        for done, path in enumerate(sorted(paths), 1):
            key = ("picture", path)
            if key not in self._kept:
                content = read_whole(path) if self.has_pictures else b""
                self._kept[key] = hashlib.blake2b(content, digest_size=16).hexdigest()
            digest.update(canonical([path.relative_to(self.layout.images).as_posix(), self._kept[key]]))
            progress("reading pictures", done, len(paths))
        return digest.hexdigest()

    def check(self, progress: Progress = silent) -> None:
        """Read every file, and name all that are damaged."""
        problems: list[str] = []
        for name in self.sets:
            try:
                self.questions(name)
            except DatasetError as found:
                problems += found.problems
            else:
                problems += self._mask_problems(name, progress)
        for done, scene in enumerate(self.scenes.values(), 1):
            try:
                if self.has_pictures:
                    read_whole(self.picture_path(scene))
            except HeatproofError as problem:
                problems.append(str(problem))
            try:
                if self.object_folder is not None:
                    self.object_ids(scene)
            except HeatproofError as problem:
                problems.append(str(problem))
            progress("checking", done, len(self.scenes))
        if problems:
            raise DatasetError(self.folder, problems)

    def _mask_problems(self, name: str, progress: Progress) -> Iterator[str]:
        """What is wrong with the masks of these questions, of any kind."""
        kinds = kinds_there(self.folder, name)
        for done, kind in enumerate(kinds, 1):
            try:
                yield from self.masks(name, kind).problems()
            except HeatproofError as problem:
                yield str(problem)
            progress(f"checking {name} masks", done, len(kinds))


def open_dataset(path: str | Path, sets: Sequence[str] | None = None) -> Dataset:
    """A data set made by Heatproof, CLEVR-XAI as released, or CLEVR v1.0; found out from its files.

    Raises DatasetError with every file that is missing or visibly damaged. `sets` leaves out all other question sets
    (and, in CLEVR v1.0, their scenes).
    """
    folder = Path(path)
    layout = find_layout(folder, sets)
    problems: list[str] = []
    scenes: dict[str, Record] = {}
    for file in layout.scenes:
        for scene in read_records(folder, file, "scenes", SCENE_FIELDS, problems):
            if scene["image_filename"] in scenes:
                problems.append(f"{file.relative_to(folder)}: {scene['image_filename']} is there twice")
            if not is_below(scene["image_filename"]):
                problems.append(f"{file.relative_to(folder)}: {scene['image_filename']} is no name in the data set")
            if not all_records(scene["objects"]):
                problems.append(
                    f"{file.relative_to(folder)}: the objects of {scene['image_filename']} are not JSON objects"
                )
            scenes[scene["image_filename"]] = scene
    for file in layout.questions.values():
        if not file.is_file():
            problems.append(f"{file.relative_to(folder)}: missing")
        elif not ends_like_json(file):
            problems.append(f"{file.relative_to(folder)}: truncated JSON (its last character is not a bracket)")
    dataset = Dataset(folder, layout, scenes)
    problems += missing_pictures(dataset)
    if problems:
        raise DatasetError(folder, problems)
    return dataset


def canonical(content: object) -> bytes:
    """JSON that is the same for the same content, ended by a line break, so that entries do not run together."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"


SCENE_FIELDS: Mapping[str, type] = {"image_filename": str, "objects": list}
MOST_INDEX = 2**63
"""What no number of a question reaches: files hold them in 64 bits."""
QUESTION_FIELDS: Mapping[str, type] = {"image_filename": str, "question_index": int, "question": str}


def read_questions(dataset: Dataset, name: str) -> Iterator[Question]:
    """The questions of one set, each with its scene; an error at the end if there is anything wrong with them."""
    file = dataset.layout.questions[name]
    shown = file.relative_to(dataset.folder)
    problems: list[str] = []
    seen: set[int] = set()
    for record in read_records(dataset.folder, file, "questions", QUESTION_FIELDS, problems):
        index, picture = record["question_index"], record["image_filename"]
        scene = dataset.scenes.get(picture)
        if scene is None and dataset.layout.has_scenes(name):
            problems.append(f"{shown}: question {index} is about {picture}, of which there is no scene")
        if not all_records(record.get("program") or []):
            problems.append(f"{shown}: the program of question {index} is no list of nodes")
        if not 0 <= index < MOST_INDEX:
            problems.append(f"{shown}: question_index {index} is not between 0 and 2**63")
        if index in seen:
            problems.append(f"{shown}: question_index {index} is there twice")
        seen.add(index)
        yield Question(record, scene, dataset, name)
    if not seen and not problems:
        problems.append(f"{shown}: holds no question")
    if problems:
        raise DatasetError(dataset.folder, problems)


def missing_pictures(dataset: Dataset) -> list[str]:
    """Pictures and object masks that scenes name and that are absent or empty."""
    problems = []
    wanted = [dataset.picture_path(scene) for scene in dataset.scenes.values()] if dataset.has_pictures else []
    if dataset.object_folder is not None:
        wanted += [dataset.object_folder / scene["image_filename"] for scene in dataset.scenes.values()]
    sizes: dict[Path, dict[str, int]] = {}
    for path in wanted:
        if path.parent not in sizes:
            sizes[path.parent] = list_sizes(path.parent)
        size = sizes[path.parent].get(path.name)
        if not size:
            shown = path.relative_to(dataset.folder) if path.is_relative_to(dataset.folder) else path
            problems.append(f"{shown}: {'missing' if size is None else 'empty'}")
    return problems


def is_below(name: str) -> bool:
    """Whether a file's name leads nowhere but down, so that no other files are read than the data set's."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name


def list_sizes(folder: Path) -> dict[str, int]:
    """The size of each file in a folder, by name."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

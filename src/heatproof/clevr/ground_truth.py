"""Ground-truth masks of CLEVR-XAI (Arras, Osman and Samek 2022): which objects a question is about, and their pixels.

A mask is the visible part of some objects, resized with Pillow's bilinear filter; every pixel with a value above zero
belongs to it, so masks grow by up to a pixel on each side. All weights of that filter are non-negative, so the resized
mask of a set of objects is exactly the union of the resized masks of each: every picture is resized once, whatever is
asked about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from heatproof.clevr.damage import DatasetError
from heatproof.clevr.files import Dataset, Question
from heatproof.clevr.mask_files import FOLDER, MaskSettings, pack
from heatproof.clevr.mask_writing import LAYOUTS, Put, is_made, writer
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

Program: TypeAlias = Sequence[Mapping[str, Any]]
"""The nodes of a question's program, each with its `type`, `inputs` and result `_output`."""

Rule: TypeAlias = Callable[[Program, int], frozenset[int]]
"""Takes a program and the number of objects in the scene; gives the objects of the mask, possibly none."""

OBJECT_SETS = ("filter_", "relate", "intersect", "union", "same_")
"""How the types begin of nodes that give a set of objects; `scene` is left out on purpose."""

PLANES = 16
"""Objects that are resized together, one bit each."""


def single_object(program: Program, objects: int) -> frozenset[int]:  # noqa: ARG001
    """What the last filter leaves: the one object that a simple question asks about."""
    filters = [node for node in program if node["type"].startswith("filter_")]
    return frozenset(filters[-1]["_output"]) if filters else frozenset()


def all_objects(program: Program, objects: int) -> frozenset[int]:  # noqa: ARG001
    """Every object of the scene."""
    return frozenset(range(objects))


def unique(program: Program, objects: int) -> frozenset[int]:  # noqa: ARG001
    """The objects that the question singles out: the results of all `unique` nodes."""
    return frozenset(node["_output"] for node in program if node["type"] == "unique")


def unique_first_nonempty(program: Program, objects: int) -> frozenset[int]:
    """Those of `unique`, and the last non-empty set of objects before the answer."""
    return unique(program, objects) | first_nonempty(program)


def union(program: Program, objects: int) -> frozenset[int]:  # noqa: ARG001
    """All objects that appear anywhere on the way to the answer."""
    return frozenset(thing for node in program if gives_objects(node) for thing in node["_output"])


def first_nonempty(program: Program) -> frozenset[int]:
    """The first non-empty set of objects, walking back from the answer.

    Where an empty `union` or `intersect` is met first, both of its branches are walked. Comparisons do not branch: the
    walk goes through the second compared set, and only if nothing is found there through the first, as in the original.
    """
    for node in reversed(program):
        if not gives_objects(node):
            continue
        if node["_output"]:
            return frozenset(node["_output"])
        if node["type"] in ("union", "intersect"):
            branches = [nonempty_on_branch(program, start) for start in node["inputs"]]
            return frozenset[int]().union(*branches)
    return frozenset()


def nonempty_on_branch(program: Program, start: int) -> frozenset[int]:
    """The first non-empty set of objects on the chain of inputs that begins at node `start`."""
    place = start
    while True:
        node = program[place]
        if gives_objects(node) and node["_output"]:
            return frozenset(node["_output"])
        if not node["inputs"]:
            return frozenset()
        place = node["inputs"][0]


def gives_objects(node: Mapping[str, Any]) -> bool:
    return bool(node["type"].startswith(OBJECT_SETS))


KINDS: Mapping[str, Mapping[str, Rule]] = {
    "simple": {"single_object": single_object, "all_objects": all_objects},
    "complex": {
        "unique": unique,
        "unique_first_nonempty": unique_first_nonempty,
        "union": union,
        "all_objects": all_objects,
    },
}
"""The kinds of ground truth of each question set."""


@lru_cache(maxsize=8)
def windows(length: int, new_length: int) -> NDArray[np.intp]:
    """First and past-the-last source pixel that feed each target pixel, interleaved (2 * new_length,).

    Pillow itself is asked, by resizing the identity matrix: its rows then hold the filter's weights.
    """
    from PIL import Image

    identity = Image.fromarray(np.eye(length, dtype=np.float32))
    feeds = np.asarray(identity.resize((new_length, length), Image.Resampling.BILINEAR)) > 0
    return np.stack([feeds.argmax(0), length - feeds[::-1].argmax(0)], axis=1).reshape(-1)


def resize_objects(ids: NDArray[np.uint8], objects: int, height: int, width: int) -> NDArray[np.bool_]:
    """The mask (objects, height, width) of each object of an id buffer: Pillow's bilinear resize of it, above zero.

    A target pixel is above zero exactly if the object has a pixel in the rectangle that feeds it, so it is the logical
    or of a rectangle; `PLANES` objects at a time, each in a bit of its own.
    """
    resized = np.empty((objects, height, width), dtype=np.bool_)
    for first in range(0, objects, PLANES):
        count = min(PLANES, objects - first)
        bits = np.zeros(256, dtype=np.uint16)
        bits[first + 1 : first + 1 + count] = 1 << np.arange(count)
        # one more row and column, because `reduceat` wants every bound to be a valid index
        planes = np.zeros((ids.shape[0] + 1, ids.shape[1] + 1), dtype=np.uint16)
        planes[:-1, :-1] = np.take(bits, ids)
        planes = np.bitwise_or.reduceat(planes, windows(ids.shape[0], height), axis=0)[::2]
        planes = np.bitwise_or.reduceat(planes, windows(ids.shape[1], width), axis=1)[:, ::2]
        for place in range(count):
            resized[first + place] = (planes >> place) & 1
    return resized


def mask_of_question(question: Question, kind: str, size: tuple[int, int] = (128, 128)) -> NDArray[np.bool_]:
    """One question's mask (height, width), made on the spot; all False if the question has none."""
    if kind not in KINDS.get(question.set, ()):
        raise unknown_name(f"kind of ground truth of {question.set} questions", kind, KINDS.get(question.set, ()))
    assert question.scene is not None
    objects = len(question.scene["objects"])
    masks = resize_objects(question.dataset.object_ids(question.scene), objects, *size)
    chosen = sorted(KINDS[question.set][kind](question.program, objects))
    mask: NDArray[np.bool_] = np.logical_or.reduce(masks[chosen], axis=0)
    return mask


def parse_size(text: str) -> tuple[int, int]:
    """(height, width) of a size written WIDTHxHEIGHT."""
    match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", text)
    if match is None:
        raise HeatproofError(f"size must be WIDTHxHEIGHT such as 128x128, got {text!r}.")
    return int(match[2]), int(match[1])


def choose_kinds(dataset: Dataset, kinds: Sequence[str] | None) -> list[tuple[str, str]]:
    """The (question set, kind) pairs to make: those of `kinds` that the data set's questions allow, or all."""
    possible = [(name, kind) for name in dataset.sets for kind in KINDS.get(name, ())]
    if not possible:
        raise HeatproofError(
            f"{dataset.folder} has no simple or complex questions to make masks for; "
            "ask them with: heatproof clevr ask CLEVR_scenes.json --set simple"
        )
    if kinds is not None and not kinds:
        raise HeatproofError("no kind of ground truth is named; leave kinds out for all.")
    for kind in kinds or ():
        known = {kind: name for name in KINDS for kind in KINDS[name]}
        if kind not in known:
            raise unknown_name("kind of ground truth", kind, known)
        if kind not in {kind for _, kind in possible}:
            raise HeatproofError(f"kind {kind} needs {known[kind]} questions, and {dataset.folder} has none.")
    return [pair for pair in possible if kinds is None or pair[1] in kinds]


def make_masks(
    dataset: Dataset,
    size: tuple[int, int] = (128, 128),
    kinds: Sequence[str] | None = None,
    layout: str = "packed",
    out: Path | None = None,
    progress: Progress = silent,
) -> dict[tuple[str, str], Path]:
    """Write the masks of each (question set, kind), (height, width) large; those that are there are kept.

    `layout` is `packed` (into the data set's `ground_truth` folder) or `release` (one folder per kind).
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    for name, length in zip(("height", "width"), size, strict=True):
        require_whole(name, length, 1)
    chosen = choose_kinds(dataset, kinds)
    dataset.require_object_folder()
    folder = out or (dataset.folder / FOLDER if layout == "packed" else dataset.folder)
    sources = {name: dataset.mask_source(name) for name in dict(chosen)}
    wanted = [MaskSettings(name, kind, *size, sources[name]) for name, kind in chosen]
    missing = [settings for settings in wanted if not is_made(folder, settings, layout)]
    if missing:
        check_programs(dataset, dict.fromkeys(settings.set for settings in missing), progress)
        with ExitStack() as stack:
            puts = {}
            for settings in missing:
                index = [question.index for question in dataset.questions(settings.set)]
                puts[settings] = stack.enter_context(writer(folder, settings, index, layout))
            put_masks(dataset, puts, progress)
    return {
        (settings.set, settings.kind): folder
        / (f"{settings.name}.npy" if layout == "packed" else settings.release_name)
        for settings in wanted
    }


def put_masks(dataset: Dataset, puts: Mapping[MaskSettings, Put], progress: Progress) -> None:
    """Hand each question's mask to the function of its kind; one picture after the other."""
    problems: list[str] = []
    asked = by_picture(dataset, dict.fromkeys(settings.set for settings in puts))
    for done, (picture, questions) in enumerate(asked.items(), 1):
        scene = dataset.scenes[picture]
        objects = len(scene["objects"])
        try:
            ids = dataset.object_ids(scene)
        except HeatproofError as problem:
            problems.append(str(problem))
            continue
        height, width = next((settings.height, settings.width) for settings in puts)
        masks = pack(resize_objects(ids, objects, height, width))
        for settings, put in puts.items():
            rule = KINDS[settings.set][settings.kind]
            for position, question in questions.get(settings.set, ()):
                targets = sorted(rule(question.program, objects))
                put(position, np.bitwise_or.reduce(masks[targets], axis=0), len(targets), objects)
        progress("ground truth", done, len(asked))
    if problems:
        raise DatasetError(dataset.folder, problems)


def by_picture(dataset: Dataset, names: Collection[str]) -> dict[str, dict[str, list[Any]]]:
    """The (position, question) pairs of each set, by the picture they are about."""
    asked: dict[str, dict[str, list[Any]]] = {}
    for name in names:
        for position, question in enumerate(dataset.questions(name)):
            asked.setdefault(question.record["image_filename"], {}).setdefault(name, []).append((position, question))
    return asked


def check_programs(dataset: Dataset, names: Collection[str], progress: Progress = silent) -> None:
    """Every question must have a program with results that fit its scene; an error that names those that have not."""
    problems = []
    for done, name in enumerate(names):
        progress("reading questions", done, len(names))
        file = dataset.layout.questions[name].name
        for question in dataset.questions(name):
            problems += [f"{file}: question {question.index}: {problem}" for problem in program_problems(question)]
    progress("reading questions", len(names), len(names))
    if problems:
        raise DatasetError(dataset.folder, problems)


def program_problems(question: Question) -> Iterator[str]:
    """What keeps a program from telling which objects it is about."""
    if not question.program:
        yield "has no program"
    objects = len(question.scene["objects"]) if question.scene is not None else 0
    for place, node in enumerate(question.program):
        kind = node.get("type")
        if not isinstance(kind, str):
            said = " (CLEVR v1.0 questions have no results; ask in the default format)" if "function" in node else ""
            yield f"program[{place}] has no type{said}"
            return
        elif "_output" not in node:
            yield f"program[{place}] ({kind}) has no _output"
        elif kind == "unique" and not is_index(node["_output"], objects):
            yield f"program[{place}] (unique) gives {node['_output']!r}, no object of a scene of {objects}"
        elif kind.startswith(OBJECT_SETS) and not are_indices(node["_output"], objects):
            yield f"program[{place}] ({kind}) gives {node['_output']!r}, no objects of a scene of {objects}"
        elif not are_indices(node.get("inputs"), place):
            yield f"program[{place}] ({kind}) has inputs {node.get('inputs')!r}, not earlier nodes"


def has_results(question: Question) -> bool:
    """Whether the program says what its nodes gave; in CLEVR v1.0's format it does not."""
    return any("_output" in node for node in question.program)


def is_index(value: object, length: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < length


def are_indices(value: object, length: int) -> bool:
    return isinstance(value, list) and all(is_index(entry, length) for entry in value)

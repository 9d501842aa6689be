"""Questions as CLEVR-XAI and CLEVR write them, and the files they go to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

from heatproof.clevr.answers import in_words
from heatproof.clevr.json_files import read_json
from heatproof.clevr.questions.asking import Question
from heatproof.clevr.questions.functions import FUNCTIONS, Call, Value
from heatproof.clevr.questions.world import members
from heatproof.clevr.words import Form
from heatproof.errors import HeatproofError
from heatproof.workspace import sweep, whole

FORMS: tuple[Form, ...] = get_args(Form)

SCENE_FILES = ("CLEVR_scenes.json", "CLEVR-XAI_scenes.json")
"""Names of the scene file in a dataset folder: ours, the release's."""

Line: TypeAlias = tuple[str, str]
"""A question of a file, before and after its number."""
NUMBER = '"question_index": {}'

HEAD = 1 << 16
"""Characters at the start of a question file within which its 'info' ends."""


@dataclass(frozen=True)
class SceneFile:
    """The scenes of a file."""

    path: Path
    info: Mapping[str, Any]
    scenes: Sequence[Mapping[str, Any]]
    digest: str


def read_scenes(path: Path) -> SceneFile:
    """The scenes of a scene file, or of the dataset folder that holds one."""
    if path.is_dir():
        found = [path / name for name in SCENE_FILES if (path / name).is_file()]
        if not found:
            raise HeatproofError(f"{path} holds no {' or '.join(SCENE_FILES)}. Give a dataset folder or a scene file.")
        path = found[0]
    content = read_json(path)
    scenes = content.get("scenes") if isinstance(content, dict) else None
    if not isinstance(scenes, list) or not scenes:
        raise HeatproofError(f"{path}: field 'scenes' must be a list of scenes. Is this a scene file?")
    info = content.get("info")
    # Of the scenes alone: the file's date changes whenever pictures are added.
    digest = hashlib.blake2b(json.dumps(scenes).encode(), digest_size=8).hexdigest()
    return SceneFile(path, info if isinstance(info, dict) else {}, scenes, digest)


def record(question: Question, index: int, form: Form = "clevr-xai", family: int | None = None) -> dict[str, Any]:
    """A question as JSON; `index` counts the questions of the file.

    CLEVR-XAI keeps the output of every node, which its masks are made from, and numbers templates within their file.
    CLEVR v1.0 says 'function' for 'type', has answers as words, and numbers all templates through (`family`).
    """
    scene, found = question.scene, question.found
    filename = scene["image_filename"]
    common = {
        "split": scene.get("split", ""),
        "image_filename": filename,
        "image_index": scene["image_index"],
        "question": question.text,
        "question_index": index,
    }
    if form == "clevr":
        program = [_node(call, "function") for call in found.program]
        answer = in_words(found.answer)
        return common | {"program": program, "answer": answer, "question_family_index": family}
    return common | {
        "image": Path(filename).stem,
        "program": [
            _node(call, "type") | {"_output": plain(call, output)}
            for call, output in zip(found.program, found.outputs, strict=True)
        ],
        "answer": found.answer,
        "template_filename": f"{question.template.family}.json",
        "question_family_index": question.template.index,
    }


def _node(call: Call, key: str) -> dict[str, Any]:
    return {key: call.function, "inputs": list(call.inputs), "value_inputs": list(call.values)}


def plain(call: Call, output: Value) -> Value | list[int]:
    """An output as files hold it: sets as lists of objects."""
    return members(int(output)) if FUNCTIONS[call.function].output == "ObjectSet" else output


def as_line(question: Question, form: Form, family: int) -> Line:
    """A question as JSON, without its number in the file: that is known when those before it are there."""
    before, _, after = json.dumps(record(question, 0, form, family)).partition(NUMBER.format(0))
    return before, after


@contextmanager
def question_file(path: Path, info: Mapping[str, Any]) -> Iterator[Callable[[Iterable[Line]], None]]:
    """A function that adds questions to a file, one per line; it is there only when it is whole."""
    sweep(path.parent, below=False)
    with whole(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(f'{{"info": {json.dumps(info)}, "questions": [')
        number = 0

        def add(lines: Iterable[Line]) -> None:
            nonlocal number
            for before, after in lines:
                file.write(f"{',' if number else ''}\n{before}{NUMBER.format(number)}{after}")
                number += 1

        yield add
        file.write("\n]}\n")


def is_there(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the file exists and was made with these settings; an error if it was made with others."""
    if not path.exists():
        return False
    made_with = _settings(path)
    if made_with == settings:
        return True
    differing = [name for name in settings if made_with.get(name) != settings[name]]
    what = ", ".join(f"{name} {made_with[name]!r}, not {settings[name]!r}" for name in differing if name in made_with)
    raise HeatproofError(
        f"{path} exists and was made with other settings ({what or 'unknown ones'}). "
        "Nothing was written: choose another --out, or remove the file."
    )


def _settings(path: Path) -> dict[str, Any]:
    """The settings in a question file of ours, from its first characters; empty if it is another's."""
    start = '{"info": '
    try:
        with path.open(encoding="utf-8") as file:
            head = file.read(HEAD)
        info, _ = json.JSONDecoder().raw_decode(head.removeprefix(start))
        settings = info.get("heatproof", {}) if head.startswith(start) else {}
    except (OSError, ValueError, AttributeError):
        return {}
    return settings if isinstance(settings, dict) else {}

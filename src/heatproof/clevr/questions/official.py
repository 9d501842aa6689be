"""Templates in CLEVR's own JSON form, read from a folder that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from heatproof.clevr.json_files import read_json
from heatproof.clevr.questions.templates import Node, Template, check
from heatproof.errors import HeatproofError

T = TypeVar("T")

FOLDERS = {"simple": "CLEVR_unique_templates", "complex": "CLEVR_1.0_templates"}
"""Where CLEVR-XAI keeps the templates of its two sets."""

BESIDE = {"metadata.json", "properties.json", "synonyms.json"}
"""Files that lie beside templates and are none."""


def load_templates(folder: Path, question_set: str) -> list[Template]:
    """The templates of a folder: either it holds the template files itself, or CLEVR-XAI's folder for the set."""
    if not folder.is_dir():
        raise HeatproofError(f"{folder} is no folder. Give the folder that holds the template files (*.json).")
    inner = folder / FOLDERS[question_set]
    files = _template_files(inner if inner.is_dir() else folder)
    if not files:
        raise HeatproofError(
            f"{folder} holds no templates. Expected *.json files in it, or in its folder {FOLDERS[question_set]}."
        )
    return [template for file in files for template in _read_family(file)]


def load_synonyms(folder: Path) -> dict[str, tuple[str, ...]] | None:
    """Synonyms that lie in the folder of templates or beside it; None if there are none."""
    for place in (folder, folder.resolve().parent):
        path = place / "synonyms.json"
        if path.is_file():
            synonyms = read_json(path)
            if not isinstance(synonyms, dict) or not all(
                isinstance(words, list) and words and all(isinstance(word, str) for word in words)
                for words in synonyms.values()
            ):
                raise HeatproofError(f"{path}: must map each word to a list of words.")
            return {word: tuple(words) for word, words in synonyms.items()}
    return None


def _template_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.json")) if path.name not in BESIDE]


def _read_family(path: Path) -> list[Template]:
    entries = read_json(path)
    if not isinstance(entries, list):
        raise HeatproofError(f"{path}: a template file is a list of templates.")
    return [_read_template(entry, path, index) for index, entry in enumerate(entries)]


def _read_template(entry: Any, path: Path, index: int) -> Template:
    name = f"{path}, template {index}"
    try:
        nodes = tuple(
            Node(
                _are(str, [node["type"]])[0],
                _are(int, node["inputs"]),
                _are(str, node.get("side_inputs", [])),
            )
            for node in entry["nodes"]
        )
        names, types = ([parameter[key] for parameter in entry["params"]] for key in ("name", "type"))
        parameters = dict(zip(_are(str, names), _are(str, types), strict=True))
        constraints = [(constraint["type"], list(constraint["params"])) for constraint in entry["constraints"]]
        texts = _are(str, entry["text"])
    except (KeyError, TypeError, AttributeError) as problem:
        raise HeatproofError(
            f"{name}: needs 'text', 'nodes' (type, inputs), 'params' (name, type) and 'constraints' (type, params); "
            f"problem with {problem}."
        ) from problem
    blank, different = set(), set()
    for kind, named in constraints:
        if kind == "NULL" and len(named) == 1 and isinstance(named[0], str):
            blank.add(named[0])
        elif kind == "OUT_NEQ" and len(named) == 2 and all(isinstance(i, int) for i in named):
            different.add((min(named), max(named)))
        elif kind == "NEQ":
            # CLEVR's generator applies it the wrong way round and no template of CLEVR holds it: nobody can know what
            # the author meant.
            raise HeatproofError(f"{name}: constraint NEQ is not supported; use OUT_NEQ on the nodes' outputs.")
        else:
            raise HeatproofError(
                f"{name}: constraint {kind} {named} is unknown. There is NULL with one parameter "
                "and OUT_NEQ with two nodes."
            )
    return check(Template(path.stem, index, texts, nodes, parameters, frozenset(blank), frozenset(different)), name)


def _are(kind: type[T], values: Any) -> tuple[T, ...]:
    """A list of values of one type."""
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise TypeError(f"{values!r}: not a list of {kind.__name__}")
    return tuple(values)

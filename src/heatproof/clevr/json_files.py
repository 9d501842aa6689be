"""JSON files of a data set, read whole or entry by entry, with errors that name them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from heatproof.errors import HeatproofError

Record: TypeAlias = dict[str, Any]
"""A scene or question as in its JSON file."""

BLOCK = 1 << 20
"""Bytes read at a time."""

BETWEEN = (" ", "\t", "\r", "\n", ",")
"""What may stand between the entries of a JSON list."""


def read_json(path: Path, fix: str = "Make or copy it again.") -> Any:
    """What a JSON file holds; a damaged one is named with the place of the damage, and `fix` says what to do."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as problem:
        raise HeatproofError(f"{path}: {in_words(problem)}. {fix}") from problem


def read_object(path: Path, fix: str = "Make or copy it again.") -> Record:
    """The same for a file that must hold a JSON object."""
    content = read_json(path, fix)
    if not isinstance(content, dict):
        raise HeatproofError(f"{path}: holds no JSON object. {fix}")
    return content


def read_records(
    folder: Path, file: Path, key: str, fields: Mapping[str, type], problems: list[str]
) -> Iterable[Record]:
    """The list under `key` of a JSON file; what is wrong with the file or a record is added to `problems`."""
    shown = file.relative_to(folder)
    try:
        for place, record in enumerate(list_entries(file, key)):
            if not isinstance(record, dict):
                problems.append(f"{shown}: {key}[{place}] is not an object")
                continue
            wrong = [name for name, kind in fields.items() if not isinstance(record.get(name), kind)]
            for name in wrong:
                said = "is missing" if name not in record else f"is not of type {fields[name].__name__}"
                problems.append(f"{shown}: {key}[{place}].{name} {said}")
            if not wrong:
                yield record
    except KeyError:
        problems.append(f"{shown}: holds no list {key!r}")
    except (OSError, ValueError, RecursionError) as problem:
        problems.append(f"{shown}: {in_words(problem)}")


def in_words(problem: Exception) -> str:
    """Why a JSON file could not be read."""
    if isinstance(problem, FileNotFoundError):
        return "missing"
    if isinstance(problem, OSError):
        return f"cannot be read ({problem.strerror or problem})"
    return f"truncated or damaged JSON ({problem})"


def list_entries(file: Path, key: str) -> Iterator[Any]:
    """The entries of the list under `key` of a JSON file, one by one; KeyError if there is no such list."""
    with file.open(encoding="utf-8") as text:
        left = text.read(BLOCK)
        found = re.search(rf'"{key}"\s*:\s*\[', left)
        if found is None:
            content = json.loads(left + text.read())
            if not isinstance(content, dict) or not isinstance(content.get(key), list):
                raise KeyError(key)
            yield from content[key]
            return
        decoder, place = json.JSONDecoder(), found.end()
        while True:
            while left[place : place + 1] in BETWEEN:
                place += 1
            if left.startswith("]", place):
                return
            try:
                entry, place = decoder.raw_decode(left, place)
            except json.JSONDecodeError:
                more = text.read(BLOCK)
                if not more:
                    raise
                left, place = left[place:] + more, 0
                continue
            yield entry


def all_records(entries: object) -> bool:
    """Whether this is a list of JSON objects."""
    return isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)


def list_blocks(path: Path, key: str) -> Iterator[bytes]:
    """A JSON file from where the list under `key` begins, in blocks; all of it if that is not near the beginning."""
    with path.open("rb") as file:
        head = file.read(BLOCK)
        found = re.search(rb'"%s"\s*:\s*\[' % key.encode(), head)
        yield head[found.start() :] if found else head
        while block := file.read(BLOCK):
            yield block


def tail(path: Path, length: int) -> bytes:
    """The last bytes of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - length))
        return file.read()


def ends_like_json(path: Path) -> bool:
    """Whether the last character closes a JSON object: cheap, and tells most interrupted downloads."""
    return tail(path, 64).rstrip().endswith(b"}")

"""Python objects from words: `package.module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError, unknown_name


def names_object(text: str) -> bool:
    """Whether the text has the form of such a reference, rather than of a registered name."""
    place, colon, name = text.rpartition(":")
    return bool(colon) and name.isidentifier() and (place.endswith(".py") or "." in place or place.isidentifier())


def load_object(reference: str) -> Any:
    """The object that `package.module:name` or `file.py:name` refers to."""
    place, _, name = reference.rpartition(":")
    module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    if not hasattr(module, name):
        raise unknown_name(f"name in {place}", name, (known for known in vars(module) if not known.startswith("_")))
    return getattr(module, name)


def load_file(path: Path) -> Any:
    if not path.is_file():
        raise HeatproofError(f"there is no file {path}; write file.py:name with a path from the current folder.")
    key = f"heatproof_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or spec.loader is None:
        raise HeatproofError(f"{path} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module  # dataclasses look their module up while the class is made
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise HeatproofError(f"{path} does not load: {type(problem).__name__}: {problem}") from problem
    return module


def load_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise HeatproofError(f"module {name!r} cannot be imported: {problem}") from problem

"""Python objects from words: `package.module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError, unknown_name

USER = "heatproof_user_"
"""How the names of modules begin that were loaded from files."""


def names_object(text: str) -> bool:
    """Whether the text has the form of such a reference, rather than of a registered name."""
    place, colon, name = text.rpartition(":")
    return bool(colon) and name.isidentifier() and (place.endswith(".py") or "." in place or place.isidentifier())


def load_object(reference: str) -> Any:
    """The object that `package.module:name` or `file.py:name` refers to."""
    if not names_object(reference):
        raise HeatproofError(f"{reference!r} names no Python object; write file.py:name or package.module:name.")
    place, _, name = reference.rpartition(":")
    module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    if not hasattr(module, name):
        raise unknown_name(f"name in {place}", name, (known for known in vars(module) if not known.startswith("_")))
    return getattr(module, name)


def load_file(path: Path) -> Any:
    if not path.is_file():
        raise HeatproofError(f"there is no file {path}; write file.py:name with a path from the current folder.")
    path = path.resolve()
    key = f"{USER}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    stamp = (path.stat().st_mtime_ns, path.stat().st_size)
    if getattr(sys.modules.get(key), "__heatproof_stamp__", None) == stamp:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or spec.loader is None:
        raise HeatproofError(f"{path} cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module  # dataclasses look their module up while the class is made
    try:
        with on_path(path.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        del sys.modules[key]
        raise HeatproofError(f"{path} does not load: {type(problem).__name__}: {problem}") from problem
    vars(module)["__heatproof_stamp__"] = stamp
    return module


def load_module(name: str) -> Any:
    try:
        with on_path(Path.cwd()):
            return importlib.import_module(name)
    except (Exception, SystemExit) as problem:
        raise HeatproofError(f"module {name!r} cannot be imported: {type(problem).__name__}: {problem}") from problem


def user_modules() -> list[Any]:
    """The modules that were loaded from files."""
    return [module for name, module in list(sys.modules.items()) if name.startswith(USER)]


def user_folders() -> list[str]:
    """The folders of these files, which may import from there, and the current one."""
    return list(dict.fromkeys([*(str(Path(module.__file__).parent) for module in user_modules()), str(Path.cwd())]))


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Modules of this folder can be imported too, as if Python had been started there."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))

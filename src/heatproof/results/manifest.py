"""run.json: everything needed to repeat a run and to read its results."""

from __future__ import annotations

import datetime
import functools
import hashlib
import inspect
import json
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heatproof.benchmarks.base import Benchmark
from heatproof.engine.plan import explained_quantity, folder_name
from heatproof.explainers.adapters import FunctionExplainer
from heatproof.explainers.base import Explainer


def make_manifest(benchmark: Benchmark, explainers: Sequence[Explainer], seed: int) -> dict[str, Any]:
    """The content of run.json. Two runs with equal `configuration` have equal scores for equal explainers."""
    configuration = {"benchmark": benchmark.name, "heatproof": version("heatproof"), "seed": seed}
    return {
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["heatproof", *sys.argv[1:]]) if sys.argv[0].endswith("heatproof") else None,
        "title": benchmark.title,
        "paper": benchmark.paper,
        "dataset": benchmark.dataset,
        "metrics": list(benchmark.metrics),
        "columns": [dict(column) for column in benchmark.columns()],
        "configuration": configuration | benchmark.configuration(),
        "options": options_of(benchmark),
        "explainers": [describe(explainer) for explainer in explainers],
        "versions": {"python": platform.python_version()} | {name: version(name) for name in ("torch", "scikit-learn")},
        "machine": f"{platform.system()} {platform.machine()}",
    }


OBJECT = "<Python object>"


def options_of(benchmark: Benchmark) -> dict[str, Any]:
    """The arguments to make the benchmark again, as plain data; a network, say, is only marked as an object."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, Path) else OBJECT

    if not is_dataclass(benchmark):
        return {}
    names = [field.name for field in fields(benchmark) if field.init]
    return {name: json.loads(json.dumps(getattr(benchmark, name), default=plain)) for name in names}


def is_object(option: Any) -> bool:
    """Whether an option from run.json was no plain data, so that it is lost."""
    return OBJECT in (option if isinstance(option, list) else [option])


def describe(explainer: Explainer) -> dict[str, Any]:
    """Everything needed to make the explainer again, as plain data."""
    return {
        "explainer": explainer.label,
        "name": explainer.name,
        "family": explainer.family,
        "target": explained_quantity(explainer),
        "folder": folder_name(explainer),
        "parameters": json.loads(json.dumps(explainer.parameters, default=str)),
        "limits": {f.name: getattr(explainer, f.name) for f in fields(explainer) if not f.compare},
        "source": source_hash(explainer),
    }


UNKNOWN_SOURCE = "unknown"


def source_hash(explainer: Explainer) -> str | None:
    """A hash of the code of a user's explainer, so that a changed one does not pass for its old results.

    None for ours; UNKNOWN_SOURCE where the code cannot be read, which then counts as changed.
    """
    thing: Any = explainer.function if isinstance(explainer, FunctionExplainer) else type(explainer)
    settings = ""
    if isinstance(thing, functools.partial):
        thing, settings = thing.func, f"{thing.args} {thing.keywords}"
    elif not inspect.isroutine(thing) and not isinstance(thing, type):
        thing, settings = type(thing), str(vars(thing) if hasattr(thing, "__dict__") else "")
    if getattr(thing, "__module__", "").startswith("heatproof."):
        return None
    try:
        return hashlib.sha256((inspect.getsource(thing) + settings).encode()).hexdigest()[:16]
    except (OSError, TypeError):  # typed at a prompt: there is no source to read
        return UNKNOWN_SOURCE

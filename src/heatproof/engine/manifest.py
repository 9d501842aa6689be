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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.base import Benchmark
from heatproof.devices import FULL, Precision, title_of
from heatproof.engine.plan import explained_quantity, folder_name
from heatproof.explainers.adapters import FunctionExplainer
from heatproof.explainers.base import Explainer
from heatproof.explainers.base import explainers as registered
from heatproof.run_folder import FORMAT

if TYPE_CHECKING:
    from heatproof.engine.sources import Source

OBJECT = "<Python object>"
UNKNOWN_SOURCE = "unknown"


def make_manifest(
    source: Source,
    name: str,
    seed: int,
    options: Mapping[str, Any],
    probe: Any,
    layers: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """The content of run.json. Two runs with equal `configuration` have equal scores for equal explainers.

    `layers` are those that explainers read, by folder and model.
    """
    configuration = {"benchmark": name, "heatproof": version("heatproof"), "seed": seed} | source.settings
    return {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["heatproof", *sys.argv[1:]]) if sys.argv[0].endswith("heatproof") else None,
        "story": source.story.plain(),
        "configuration": configuration,
        "cases": source.opened.fingerprint,
        "models": dict(source.opened.models),
        "probe": probe,
        "options": dict(options),
        "device": title_of(source.device),
        "precision": source.precision,
        "explainers": [with_layers(entry, (layers or {}).get(entry["folder"])) for entry in source.entries()],
        "versions": versions(),
        "machines": {machine_name(machine): machine for machine in machines(source).values()},
        "said": [],
    }


def with_layers(entry: dict[str, Any], layers: Mapping[str, str] | None) -> dict[str, Any]:
    return entry | {"layers": dict(layers)} if layers else entry


def versions() -> dict[str, str]:
    """Of what scores depend on. Heatmaps made elsewhere are scored without torch, which need not be installed then."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def machines(source: Source) -> dict[str, dict[str, str]]:
    """What the parts of each explainer are made on, by its folder."""
    found = {precision: machine(source.device, precision) for precision in {source.precision, FULL}}
    folders = [entry["folder"] for entry in source.entries()]
    return {folder: found[FULL if folder in source.exact else source.precision] for folder in folders}


def machine(device: str = "cpu", precision: Precision = FULL) -> dict[str, str]:
    """What the last digits of a score hang on: processor, the instructions that torch uses on it, and versions.

    Device and precision stand there where they are not the usual ones.
    """
    found = {"system": f"{platform.system()} {platform.machine()}", "processor": processor()}
    if (title := title_of(device)) != "cpu":
        found["device"] = title
    if precision != FULL:
        found["precision"] = precision
    if "torch" in sys.modules:
        found["instructions"] = sys.modules["torch"].backends.cpu.get_cpu_capability()
    return found | versions()


def processor() -> str:
    """The processor's name as its maker writes it, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def machine_name(description: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:8]


def options_of(benchmark: Benchmark) -> dict[str, Any]:
    """The arguments to make the benchmark again, as plain data; a network, say, is only marked as an object."""

    def plain(value: Any) -> Any:
        return str(value) if isinstance(value, Path) else OBJECT

    return {f.name: json.loads(json.dumps(getattr(benchmark, f.name), default=plain)) for f in fields(benchmark)}


def is_object(option: Any) -> bool:
    """Whether an option from run.json was no plain data, so that it is lost."""
    return OBJECT in (option if isinstance(option, list) else [option])


def describe_all(explainers: Sequence[Explainer]) -> list[dict[str, Any]]:
    """Every explainer as plain data, with a short name that is unique among them."""
    entries = [describe(explainer) for explainer in explainers]
    short = short_names(entries)
    return [entry | {"short": short[entry["explainer"]]} for entry in entries]


def describe(explainer: Explainer) -> dict[str, Any]:
    """Everything needed to make the explainer again, as plain data."""
    return {
        "explainer": explainer.label,
        "name": explainer.name,
        "family": explainer.family,
        "paper": explainer.paper,
        "target": explained_quantity(explainer),
        "folder": folder_name(explainer),
        "parameters": json.loads(json.dumps(explainer.parameters, default=str)),
        "limits": {f.name: getattr(explainer, f.name) for f in fields(explainer) if not f.compare},
        "source": source_hash(explainer),
    } | package_of(explainer)


def package_of(explainer: Explainer) -> dict[str, str]:
    """The package and version that a plug-in's explainer comes from; nothing for others."""
    found = () if explainer.is_ours else registered.plugins()
    return {"package": f"{p.package} {p.version}" for p in found if p.name == explainer.name}  # noqa: B035


def short_names(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The name alone; where two share it, with the parameters in which they differ from each other."""
    alike: dict[str, dict[str, Mapping[str, Any]]] = {}
    for entry in entries:
        alike.setdefault(base_name(entry), {})[entry["explainer"]] = entry["parameters"]
    found: dict[str, str] = {}
    for name, group in alike.items():
        keys = [key for key in next(iter(group.values())) if key != "quantity"]
        differing = [key for key in keys if len({str(given.get(key)) for given in group.values()}) > 1]
        for label, given in group.items():
            written = label.partition(":")[2]
            shown = [f"{key}={given.get(key)}" for key in differing if f"{key}=" in written]
            found[label] = name + (":" + ",".join(shown) if shown else "")
        if len({found[label] for label in group}) < len(group):
            found |= {label: label for label in group}
    return found


def base_name(entry: Mapping[str, Any]) -> str:
    """What an explainer is called before its parameters: `randomised:grad_cam` is a name of its own."""
    if not entry["name"] or not set(entry["parameters"]) <= {"of", "quantity"}:
        return str(entry["name"] if entry["name"] and "of" not in entry["parameters"] else entry["explainer"])
    of = entry["parameters"].get("of", "")
    return f"{entry['name']}:{of.partition(':')[0]}" if of else str(entry["name"])


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

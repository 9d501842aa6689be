"""What an installation has, and what it lacks, as plain data: the first thing that a bug report needs."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from heatproof.devices import DEVICES
from heatproof.downloads import downloads, is_genuine
from heatproof.executors.base import cores
from heatproof.plugins import GROUPS, OFF, plugins_of, problems
from heatproof.registry import Registry
from heatproof.workspace import workspace

REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?$")
EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
FOR_DEVELOPERS = ("dev", "docs", "test")
MODULES = {"scikit-learn": "sklearn", "scikit-image": "skimage", "pillow": "PIL"}
"""Packages that are imported under another name."""

State = Literal["ok", "absent", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and whether that is as it should be.

    `absent` is what can be had and is not needed; `wrong` what must be mended, and `hint` says how.
    """

    topic: str
    name: str
    found: str
    state: State = "ok"
    hint: str = ""


def examine() -> Iterator[Finding]:
    """All findings, topic by topic."""
    yield from the_system()
    yield from the_packages()
    yield from the_devices()
    yield from the_extras()
    yield from the_cache()
    yield from the_plugins()


def the_system() -> Iterator[Finding]:
    place = Path(__file__).parent
    yield Finding("system", "heatproof", f"{metadata.version('heatproof')} in {place}")
    yield Finding("system", "Python", f"{platform.python_version()} in {sys.prefix}")
    yield Finding("system", "platform", f"{platform.system()} {platform.release()} {platform.machine()}")
    yield Finding("system", "cores", f"{cores()} of {os.cpu_count()} may be used")


def requirements(extra: str = "") -> list[tuple[str, str]]:
    """The packages that Heatproof, or this extra of it, asks for, with the versions that it takes."""
    found = []
    for line in metadata.requires("heatproof") or []:
        if parts := REQUIREMENT.match(line):
            name, versions, marker = parts[1], parts[2], parts[3] or ""
            wanted = EXTRA.search(marker)
            if (wanted[1] if wanted else "") == extra and name != "heatproof":
                found.append((name, versions))
    return found


def the_packages() -> Iterator[Finding]:
    """What Heatproof cannot do without: each is imported, because one that is installed may still not load."""
    for name, versions in requirements():
        module = MODULES.get(name, name)
        try:
            importlib.import_module(module)
            yield Finding("packages", name, metadata.version(name))
        except Exception as problem:  # whatever a broken installation raises
            hint = f"pip install '{name}{versions}'"
            yield Finding("packages", name, f"does not load: {type(problem).__name__}: {problem}", "wrong", hint)


def the_devices() -> Iterator[Finding]:
    for kind, count in DEVICES.items():
        try:
            number = count()
        except Exception as problem:
            yield Finding("devices", kind, f"cannot be asked: {problem}", "wrong", "see the packages above")
            continue
        yield Finding("devices", kind, str(number), "ok" if number else "absent", "" if number else "runs take the CPU")


def the_extras() -> Iterator[Finding]:
    extras = sorted(set(metadata.metadata("heatproof").get_all("Provides-Extra") or []) - {*FOR_DEVELOPERS})
    for extra in extras:
        present, missing = [], []
        for name, _ in requirements(extra):
            try:
                present.append(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                missing.append(name)
        found = ", ".join([*present, *(f"no {name}" for name in missing)])
        hint = f"pip install 'heatproof[{extra}]'" if missing else ""
        yield Finding("extras", extra, found, "absent" if missing else "ok", hint)


def the_cache() -> Iterator[Finding]:
    """The cache folder, and what is published elsewhere and kept there."""
    folder = workspace()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(there, os.W_OK):
        hint = "name a folder that you may write to by the environment variable HEATPROOF_HOME"
        yield Finding("cache", "folder", f"{folder} cannot be written", "wrong", hint)
    else:
        held = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        free = shutil.disk_usage(there).free
        yield Finding("cache", "folder", f"{folder}, {held / 10**6:,.1f} MB in it, {free / 10**9:,.0f} GB free")
    for name, wanted in downloads.items():
        here = is_genuine(wanted.path, wanted)
        damaged = wanted.path.exists() and not here
        found = "damaged" if damaged else "here" if here else "not downloaded"
        state: State = "wrong" if damaged else "ok" if here else "absent"
        yield Finding("cache", name, found, state, "" if here else f"heatproof fetch {name}")


def the_plugins() -> Iterator[Finding]:
    from heatproof.benchmarks import benchmarks
    from heatproof.explainers import explainers
    from heatproof.metrics import metrics
    from heatproof.pooling import poolings

    if os.environ.get(OFF):
        yield Finding("plug-ins", OFF, os.environ[OFF])
    registries: tuple[Registry[Any], ...] = (explainers, metrics, poolings, benchmarks)
    for group, registry in zip(GROUPS, registries, strict=True):
        len(registry)  # loads all of them
        for plugin in plugins_of(group):
            said = next((problem for problem in problems() if plugin.title in problem), "")
            found = f"{plugin.kind} of {plugin.package} {plugin.version}"
            yield Finding("plug-ins", plugin.name, found, "wrong" if said else "ok", said)

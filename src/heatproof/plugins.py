"""Packages that add explainers, metrics, poolings or benchmarks, found by their entry points.

A package says in its pyproject.toml what it adds, and installing it is all that a user does:

    [project.entry-points."heatproof.explainers"]
    squared_gradient = "my_package:SquaredGradient"

Nothing of a plug-in is imported before its name, or a list of all names, is asked for. One that is broken costs itself:
whoever asks for it by name gets an error that says why, and everybody else goes on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from heatproof.errors import HeatproofError

GROUPS = ("heatproof.explainers", "heatproof.metrics", "heatproof.poolings", "heatproof.benchmarks")
OFF = "HEATPROOF_PLUGINS"
"""The environment variable that leaves plug-ins out where it is `off`."""


@dataclass(frozen=True)
class Plugin:
    """One entry point: a thing of a package, by the name that it wants to have."""

    group: str
    name: str
    package: str
    version: str
    entry: metadata.EntryPoint

    @property
    def kind(self) -> str:
        return self.group.removeprefix("heatproof.").removesuffix("s")

    @property
    def title(self) -> str:
        return f"plug-in {self.kind} {self.name!r} of {self.package} {self.version}"

    def load(self) -> Any:
        """What the entry point names; whatever a foreign package raises is one sentence."""
        try:
            return self.entry.load()
        except (Exception, SystemExit) as problem:
            raise HeatproofError(f"{self.title} does not load: {type(problem).__name__}: {problem}") from problem


@cache
def plugins_of(group: str) -> tuple[Plugin, ...]:
    """The plug-ins that are installed, in the order of their packages' names."""
    if os.environ.get(OFF, "").lower() in ("off", "0", "no"):
        return ()
    found = [
        Plugin(
            group, entry.name, entry.dist.name if entry.dist else "?", entry.dist.version if entry.dist else "", entry
        )
        for entry in metadata.entry_points(group=group)
    ]
    return tuple(sorted(found, key=lambda plugin: (plugin.package.lower(), plugin.name)))


_problems: dict[tuple[str, str, str], str] = {}


def note_problem(plugin: Plugin, problem: str) -> None:
    """Remember why a plug-in is left out."""
    _problems[plugin.group, plugin.package, plugin.name] = problem


def problems() -> Sequence[str]:
    """Why plug-ins were left out so far, a sentence each."""
    return list(_problems.values())


def forget() -> None:
    """Look for plug-ins anew, as after an installation."""
    plugins_of.cache_clear()
    _problems.clear()

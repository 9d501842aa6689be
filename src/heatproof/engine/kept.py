"""Heatmaps that a run has kept as a source of rows: the same explainers, scored once more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from heatproof.benchmarks.base import OpenedMasks
from heatproof.benchmarks.kept import KeptRun
from heatproof.engine.plan import Task, Unit
from heatproof.engine.sources import Result, Source
from heatproof.engine.stored import masked_examples, score_stored
from heatproof.executors.base import Failure
from heatproof.run_folder import Arrays


@dataclass(frozen=True, eq=False)
class Kept(Source):
    """Score heatmaps that a run has kept; `usual` are the specifications that have the paper's parameters."""

    opened: OpenedMasks
    run: KeptRun
    usual: Collection[str] = ()

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"heatmaps": self.run.together.stamp}

    @property
    def published(self) -> Mapping[str, str]:
        return {entry["explainer"]: entry["name"] for entry in self.run.entries if entry["explainer"] in self.usual}

    def entries(self) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self.run.entries]

    def units(self) -> list[Unit]:
        return [
            Unit(entry["folder"], entry["explainer"], entry["target"], chunk)
            for entry in self.run.entries
            for chunk in self.opened.chunks()
        ]

    def compute(self, task: Task) -> list[Result | Failure]:
        (unit,) = task.units
        return [score_stored(self.opened, self.run.heatmaps[unit.folder], unit)]

    def examples(self) -> Arrays:
        return masked_examples(self.opened)

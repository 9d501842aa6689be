"""A run from its source to its tables: plan, do what is missing, finish. Here alone is a run folder written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heatproof.benchmarks.base import Opened
from heatproof.engine.finish import finish
from heatproof.engine.local import Failure, run_units
from heatproof.engine.manifest import machine, machine_name, make_manifest
from heatproof.engine.plan import Unit
from heatproof.engine.resume import go_on, probe
from heatproof.engine.sources import Explaining, Result, Source
from heatproof.lazy import pl
from heatproof.progress import Progress, silent
from heatproof.run_folder import RunFolder


def run_source(
    source: Source,
    folder: RunFolder,
    *,
    name: str,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    resume: bool = True,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Do what the folder lacks of a run of benchmark `name`, make its tables, and return the leaderboard.

    A folder whose run had another configuration is an error that says what differs; nothing in it is touched.
    """
    if isinstance(source, Explaining):
        source.check()
    probed = probe(source.opened) if isinstance(source.opened, Opened) else {}
    manifest = make_manifest(source, name, seed, options or {}, probed)
    if folder.has_run and resume:
        manifest = go_on(folder, manifest, source, progress)
    elif folder.has_run:
        folder.clear()
    folder.write_manifest(manifest)
    here = machine_name(machine())

    def deliver(unit: Unit, outcome: Result | Failure) -> None:
        if isinstance(outcome, Result):
            folder.write_part(unit.folder, unit.chunk, outcome.rows, outcome.heatmaps, here)
        else:
            folder.write_failure(unit.folder, unit.chunk, failure_of(unit, outcome))

    missing = [unit for unit in source.units() if not folder.has(unit.folder, unit.chunk)]
    run_units(missing, source.compute, deliver, progress)
    return finish(folder, source, manifest, progress)


def failure_of(unit: Unit, failure: Failure) -> dict[str, Any]:
    return {
        "explainer": unit.explainer,
        "target": unit.target,
        "model": unit.chunk.model,
        "chunk": unit.chunk.stem,
        "cases": unit.chunk.cases,
        "message": failure.message,
        "details": failure.details,
    }

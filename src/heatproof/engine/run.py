"""A run from its source to its tables: plan, do what is missing, finish. Here alone is a run folder written."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from heatproof.engine.estimate import expected_seconds
from heatproof.engine.finish import finish
from heatproof.engine.layers import LayersRead, layers_read
from heatproof.engine.manifest import machine_name, make_manifest
from heatproof.engine.meter import Meter
from heatproof.engine.plan import Unit
from heatproof.engine.precision import settle_precision
from heatproof.engine.resume import go_on, identity_hash, probe, remove_damaged_sections
from heatproof.engine.settling import Settling, UntilSettled
from heatproof.engine.sources import Explaining, Result, Source
from heatproof.errors import HeatproofError
from heatproof.executors import Failure
from heatproof.executors.base import Enough
from heatproof.executors.choice import Execution
from heatproof.executors.in_process import InProcess
from heatproof.executors.set_up import give_memory_back
from heatproof.executors.threads import side_by_side
from heatproof.lazy import pl
from heatproof.progress import Progress, silent
from heatproof.run_folder import RunFolder

LOCAL = Execution("local")


def run_source(
    source: Source,
    folder: RunFolder,
    *,
    name: str,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    resume: bool = True,
    how: Execution = LOCAL,
    progress: Progress = silent,
    until: UntilSettled | None = None,
) -> pl.DataFrame:
    """Do what the folder lacks of a run of benchmark `name`, make its tables, and return the leaderboard.

    With `until`, only as much as settles the order of the methods.

    A folder whose run had another configuration is an error that says what differs; nothing in it is touched.
    """
    probed: dict[str, Any] = {}
    layers: LayersRead = {}
    said: list[str] = []
    if isinstance(source, Explaining):
        source.check()
        source, said = settle_precision(source, progress)
        probed, layers = probe(source), layers_read(source)
    manifest = make_manifest(source, name, seed, options or {}, probed, layers)
    if folder.holds_run and resume:
        manifest = go_on(folder, manifest, source, progress)
        said += remove_damaged_sections(folder)
    elif folder.holds_run:
        folder.clear()
    manifest["said"] = list(dict.fromkeys([*manifest["said"], *said]))
    folder.write_manifest(manifest)
    folder.begin(identity_hash(manifest), {unit.folder for unit in source.units()})
    settling = Settling.of(source, folder, until, seed) if until and isinstance(source, Explaining) else None
    if settling is not None:
        tasks = settling.missing()
    else:
        wanted = source.units()
        tasks = source.tasks([unit for unit in wanted if not folder.has(unit.folder, unit.chunk, source.keep_all)])
    meter = Meter(tasks, progress)

    def deliver(place: int, outcome: list[Result | Failure] | Failure) -> None:
        units = tasks[place].units
        outcomes = [outcome] * len(units) if isinstance(outcome, Failure) else outcome
        for unit, result in zip(units, outcomes, strict=True):
            if isinstance(result, Failure):
                folder.write_failure(unit.folder, unit.chunk, failure_of(unit, result))
                continue
            here = machine_name(result.machine)
            if here not in manifest["machines"]:
                manifest["machines"][here] = dict(result.machine)
                folder.write_manifest(manifest)
            folder.write_part(unit.folder, unit.chunk, result.rows, result.heatmaps, here)
        meter.finished(place, failed=sum(isinstance(result, Failure) for result in outcomes))
        if settling is not None and settling.arrived(units):
            raise Enough

    threads = 1
    if tasks:
        start = time.perf_counter()
        executor = how.executor(lambda: expected_seconds(source, tasks))
        if not isinstance(executor, InProcess):
            threading.Thread(target=source.opened.load_libraries, daemon=True).start()
        usage = executor.run(source, tasks, deliver, meter.look)
        manifest["cost"] = asdict(usage) | {"seconds": time.perf_counter() - start}
        threads = max(1, usage.processes - 1)
    if settling is not None:
        manifest["settled"] = settling.told()
        folder.write_manifest(manifest)
    else:
        require_all(folder, wanted)
    give_memory_back()
    with side_by_side(threads):
        return finish(folder, source, manifest, progress)


def require_all(folder: RunFolder, units: Sequence[Unit]) -> None:
    """Every unit must have left its rows, or why there are none: a table of what others have left would be wrong."""
    if lost := [unit for unit in units if not folder.is_accounted_for(unit.folder, unit.chunk)]:
        raise HeatproofError(
            f"{len(lost):,} of {len(units):,} parts have vanished from {folder.folder} since they were written"
            f" ({folder.part(lost[0].folder, lost[0].chunk)}); run again to compute them anew."
        )


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

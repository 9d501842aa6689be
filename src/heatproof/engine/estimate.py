"""About how much work a run is, quickly: enough to know whether workers are worth it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from heatproof.engine.plan import Task
from heatproof.engine.sources import Explaining, Source
from heatproof.executors.set_up import one_thread
from heatproof.explainers.guards import untouched
from heatproof.lazy import torch

STORED = 2e-3
"""Seconds to read and score a stored heatmap, about."""
UNKNOWN = 50
"""Passes of an explainer that does not say how many it makes, about."""
ENOUGH = 0.02
"""Seconds of a pass that are long enough to go by."""


def expected_seconds(source: Source, tasks: Sequence[Task]) -> float:
    """About how long tasks take on one core: enough to know whether workers are worth it."""
    if not isinstance(source, Explaining):
        return STORED * sum(task.cases for task in tasks)
    per_pass = {name: seconds_per_pass(source, name) for name in {task.units[0].chunk.model for task in tasks}}
    seconds = 0.0
    for task in tasks:
        unit = task.units[0]
        unknown = source.by_folder[unit.folder].cost == "unknown"
        seconds += unit.chunk.cases * (UNKNOWN if unknown else unit.passes) * per_pass[unit.chunk.model]
    return seconds


def seconds_per_pass(source: Explaining, model: str) -> float:
    """Of one row. The first pass warms up, and counts only if it is long; short ones are timed with more rows."""
    network, batch = source.model(model), source.placement.batch(source.probe_batch[:1])
    seconds = 0.0
    for rows, enough in ((1, 50 * ENOUGH), (1, ENOUGH), (8, ENOUGH), (64, 0.0)):
        context = [tensor.expand(rows, *tensor.shape[1:]) for tensor in batch.context]
        start = time.perf_counter()
        with one_thread(), torch.no_grad(), untouched(network):
            network(batch.inputs.expand(rows, *batch.inputs.shape[1:]), *context)
        seconds = (time.perf_counter() - start) / rows
        if seconds * rows > enough:
            break
    return seconds

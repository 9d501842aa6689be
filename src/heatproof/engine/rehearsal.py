"""A run is rehearsed: a little of everything that it does is tried and measured, and nothing of it kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heatproof.cases import Batch
from heatproof.engine.calibrate import Sample, memory_missed, part_of, sampled
from heatproof.engine.closing import Closing, ClosingCost, closing_cost
from heatproof.engine.estimate import expected_seconds
from heatproof.engine.forecast import Forecast, Memory, Tried
from heatproof.engine.plan import Task
from heatproof.engine.precision import settle_precision
from heatproof.engine.sources import Explaining
from heatproof.executors.base import CannotSendError
from heatproof.executors.choice import Execution
from heatproof.executors.memory import held_now, most_memory
from heatproof.executors.packing import pack
from heatproof.executors.set_up import keep_memory, one_thread
from heatproof.executors.start import load_libraries, start_of_process
from heatproof.explainers.guards import untouched
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import torch
from heatproof.progress import Progress, silent

SEEN_AT_ONCE = 16
"""Cases that go through a model together to be timed, unless that is too short."""
LONG_PASS = 0.2
"""CPU seconds of a pass that are long enough to go by."""


def rehearse(
    opened: Callable[[], Explaining],
    closing: Closing,
    how: Execution,
    opens_all: bool = False,
    progress: Progress = silent,
) -> Forecast:
    """What the run would cost. `opens_all`: `opened()` has opened all that the run would open."""
    begun = start_of_process()
    load_libraries()
    clock = time.process_time()
    with one_thread():  # several would wait for each other, and that would be counted
        source = opened()
        source.check()
        source, _ = settle_precision(source, progress)
        units = source.units()
        tasks = source.tasks(units)
    opening = time.process_time() - clock
    workers, shared = workers_and_arrays(source, tasks, how)
    if workers:
        keep_memory()  # as workers do
    looked = Looks(source)
    if not opens_all:
        with one_thread():
            seconds = looked.seconds + looked.seconds_per_pass()
        opening += sum(chunk.cases for chunk in source.opened.chunks()) * seconds
    before = held_now()
    with one_thread():
        tried, missed = try_all(source, tasks, looked.batches, progress)
    held = Memory(before, held_now(), 0, missed, shared)
    end, notes = ClosingCost(0.0, 0), list[str]()
    try:
        end = closing_cost(source, units, closing)
    except Exception as problem:  # scores that are not those of its explainers may be too much for a benchmark
        notes.append(f"Tables and page could not be tried and are not counted: {type(problem).__name__}: {problem}")
    held = replace(held, most=most_memory())
    return Forecast(workers, begun, opening, looked.seconds, tried, tasks, end, held, notes, source.opened.ahead)


def workers_and_arrays(source: Explaining, tasks: Sequence[Task], how: Execution) -> tuple[int, int]:
    """How many workers the run would have, and the bytes of the arrays that they share."""
    workers = min(how.workers(lambda: expected_seconds(source, tasks)), len(tasks))
    if not workers:
        return 0, 0
    try:
        return workers, sum(pack(source, how.ship).lengths)
    except CannotSendError:
        if how.engine != "auto":
            raise
        return 0, 0


@dataclass
class Looks:
    """The first chunk of each part of the cases, and the CPU seconds that it takes to load and to see a case."""

    source: Explaining
    batches: dict[str, Batch] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        opened, start = self.source.opened, time.process_time()
        for chunk in opened.chunks():
            part = part_of(chunk, list(opened.counts))
            if part not in self.batches:
                self.batches[part] = opened.load(chunk)
        self.seconds = (time.process_time() - start) / sum(map(len, self.batches.values()))

    def seconds_per_pass(self) -> float:
        """Of a case through the model's quickest form; the first one is slow, and counts only if it is long."""
        name = self.source.opened.chunks()[0].model
        model = self.source.placement.model(self.source.opened.form(name, make_explainer("gradient")))
        batch = self.source.placement.batch(next(iter(self.batches.values())))
        seconds, shown = 0.0, batch
        for rows in (1, SEEN_AT_ONCE, len(batch)):
            shown = batch[:rows]
            start = time.process_time()
            with torch.no_grad(), untouched(model):
                model(shown.inputs, *shown.context).sum().item()  # waits for devices that work on by themselves
            seconds = time.process_time() - start
            if seconds > LONG_PASS:
                break
        return seconds / len(shown)


def try_all(
    source: Explaining, tasks: Sequence[Task], batches: Mapping[str, Batch], progress: Progress
) -> tuple[list[Tried], int]:
    """A sample of every explainer; and the bytes that whole batches need, where smaller ones were tried."""
    together: dict[tuple[str, ...], dict[str, list[Task]]] = {}
    for task in tasks:
        folders, part = tuple(unit.folder for unit in task.units), part_of(task.units[0].chunk, list(batches))
        together.setdefault(folders, {}).setdefault(part, []).append(task)
    found, missed = [], 0
    for place, (folders, parts) in enumerate(together.items()):
        progress(f"trying: {next(iter(parts.values()))[0].short}", place, len(together))
        samples = {}
        for part, (task, *_) in parts.items():
            sample = samples[part] = sampled(source, task, batches[part][: task.units[0].chunk.cases])
            if isinstance(sample, Sample):
                missed = max(missed, memory_missed(source, task, sample, batches[part]))
        found.append(Tried(parts, samples, source.by_folder[folders[0]].cost != "unknown"))
    progress("trying: done", len(together), len(together))
    return found, missed

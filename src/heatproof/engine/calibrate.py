"""What a task costs: its first cases are really explained and scored, as many as a second has room for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from heatproof.cases import Batch, Chunk
from heatproof.engine.plan import Task
from heatproof.engine.sources import Explaining
from heatproof.executors.base import Failure, attempt
from heatproof.explainers.base import SampledExplainer
from heatproof.progress import listening

ENOUGH = 1.0
"""CPU seconds of a sample that are long enough to go by."""
LONG = 5.0
"""CPU seconds after which a case is stopped, where its explainer tells how far it is."""


@dataclass(frozen=True)
class Sample:
    """What was tried of a task.

    cases     that were explained and scored; a part of one, if it was stopped
    per_case  CPU seconds of each
    first     what the first took beyond that (libraries that are loaded, layers that are looked for), which every
              process pays once
    failure   why one of its units fails; empty if none does
    """

    cases: float
    per_case: float
    first: float = 0.0
    failure: str = ""


class Enough(BaseException):
    """A case has gone on for long enough. Not an Exception, so that nobody takes it for a failure."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction


def sampled(source: Explaining, task: Task, batch: Batch) -> Sample | Failure:
    """Try the first case, then as many of the batch as are worth it; `batch` is that of the task's chunk."""
    first = tried(source, task, batch[:1])
    if isinstance(first, Failure) or first.cases * first.per_case > LONG:
        return first
    at_once = min(len(batch), 1 if goes_in_blocks(source, task) else source.batch_size)
    cases = 1
    while True:
        found = tried(source, task, batch[:cases])
        if isinstance(found, Failure):
            return found
        more = min(len(batch), worth_trying(found.per_case, at_once))
        if more < 2 * cases and (more <= cases or more < len(batch)):
            return replace(found, first=max(0.0, first.per_case - found.per_case))
        cases = more


def worth_trying(per_case: float, at_once: int) -> int:
    """How many cases to try: a second's worth; all that go at once, whose memory tells, unless that takes long."""
    cases = int(ENOUGH / max(per_case, 1e-9))
    return max(cases, at_once) if at_once * per_case <= LONG else cases


def goes_in_blocks(source: Explaining, task: Task) -> bool:
    """Whether an explainer needs as much memory for one case as for many."""
    return isinstance(source.by_folder[task.units[0].folder], SampledExplainer)


def tried(source: Explaining, task: Task, batch: Batch) -> Sample | Failure:
    """Explain and score these cases in the place of the task's."""
    with instead(source, task, batch) as smaller:
        start = time.process_time()

        def look(fraction: float) -> None:
            if time.process_time() - start > LONG:
                raise Enough(fraction)

        fraction = 1.0
        try:
            with listening(look):
                outcome = attempt(source.compute, smaller)
        except Enough as enough:
            fraction, outcome = enough.fraction, []
        seconds = time.process_time() - start
        if isinstance(outcome, Failure):
            return outcome
        wrong = [one for one in outcome if isinstance(one, Failure)]
        if wrong and len(wrong) == len(outcome):
            return wrong[0]
        cases = fraction * len(batch)
        return Sample(cases, seconds / cases, failure=wrong[0].message if wrong else "")


@contextmanager
def instead(source: Explaining, task: Task, batch: Batch) -> Iterator[Task]:
    """The same task about these cases, which count as loaded."""
    chunk = replace(task.units[0].chunk, cases=len(batch))
    source.last.clear()
    source.last[chunk] = batch
    yield Task(tuple(replace(unit, chunk=chunk) for unit in task.units))
    source.last.clear()


def part_of(chunk: Chunk, parts: Sequence[str]) -> str:
    """The part of the cases that a chunk is of: parts may be scored in different ways."""
    return next((part for part in parts if part and chunk.name.startswith(f"{part}-")), "")


def memory_missed(source: Explaining, task: Task, sample: Sample, batch: Batch) -> int:
    """What a whole batch needs, in bytes, where the sample was smaller and had to show it."""
    from heatproof.explainers.memory import row_cost

    rows = min(source.batch_size, len(batch))
    if sample.cases >= rows or goes_in_blocks(source, task) or not task.units[0].passes:
        return 0
    explainer = source.by_folder[task.units[0].folder]
    shown = source.placement.batch(batch[:1], source.is_exact(explainer))
    cost = row_cost(source.form(task.units[0].chunk.model, explainer), shown)
    return rows * (4 * cost.inputs + 2 * cost.largest + cost.kept)

"""What a run would cost, from what was measured of it: CPU seconds, and memory of all processes together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heatproof.engine.calibrate import Sample
from heatproof.engine.closing import ClosingCost
from heatproof.engine.plan import Task
from heatproof.executors.base import Failure
from heatproof.executors.memory import Held
from heatproof.executors.set_up import FORKS
from heatproof.executors.start import Start

OWN_AGAIN = 0.4
"""The share of the libraries' memory that a forked worker writes to, which makes it its own."""


@dataclass(frozen=True)
class Estimate:
    """The cost of one explainer: explaining and scoring.

    target   the explained quantities that the same passes serve
    units    of work, each with a part of its own on disk
    passes   of the model for all cases; None where nobody knows, as for a user's function
    tried    cases that were really explained, to know; less than one if a single case takes long
    seconds  CPU seconds
    failure  why it, or one of its quantities, would fail; empty if none does
    """

    explainer: str
    target: str
    units: int
    cases: int
    passes: int | None
    tried: float
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Tried:
    """Tasks that are alike, by the part of the cases that they are about, and a sample of each part."""

    tasks: Mapping[str, Sequence[Task]]
    samples: Mapping[str, Sample | Failure]
    knows_passes: bool = True

    def line(self, processes: int) -> Estimate:
        """What they cost where so many processes do them: each of these begins with every explainer once."""
        every = [task for tasks in self.tasks.values() for task in tasks]
        first = every[0].units[0]
        cases = {part: sum(task.units[0].chunk.cases for task in tasks) for part, tasks in self.tasks.items()}
        good = {part: sample for part, sample in self.samples.items() if isinstance(sample, Sample)}
        failures = [found.message if isinstance(found, Failure) else found.failure for found in self.samples.values()]
        once = min(processes, len(every)) * sum(sample.first for sample in good.values())
        return Estimate(
            first.explainer,
            ", ".join(unit.target for unit in every[0].units),
            sum(len(task.units) for task in every),
            sum(cases.values()),
            first.passes * sum(cases.values()) if self.knows_passes else None,
            sum(sample.cases for sample in good.values()),
            once + sum(cases[part] * sample.per_case for part, sample in good.items()),
            next(filter(None, failures), ""),
        )


@dataclass(frozen=True)
class Memory:
    """Bytes that this process held before and after explaining, and at most.

    missed  what whole batches need, where smaller ones were tried
    shared  arrays that workers have in common
    """

    before: Held
    after: Held
    most: int
    missed: int = 0
    shared: int = 0


@dataclass(frozen=True)
class Forecast:
    """The cost of a run with so many `workers` beside this process, or none; see `with_workers`.

    begun    the start of a process
    opening  CPU seconds
    loading  CPU seconds of a case
    tried    what was tried of each explainer
    tasks    all of them, in their order
    end      parts, tables and page
    held     memory of this process
    notes    what could not be tried, for people
    ahead    CPU seconds of what has to be made before anything is explained, by what it is
    """

    workers: int
    begun: Start
    opening: float
    loading: float
    tried: Sequence[Tried]
    tasks: Sequence[Task]
    end: ClosingCost
    held: Memory
    notes: Sequence[str] = ()
    ahead: Mapping[str, float] = field(default_factory=dict)

    def with_workers(self, workers: int) -> Forecast:
        """The same run with so many workers."""
        return replace(self, workers=min(workers, len(self.tasks)))

    @property
    def processes(self) -> int:
        return 1 + self.workers

    @property
    def starts(self) -> int:
        """How many processes load libraries: forked workers have them from one that loads them for all."""
        return min(self.processes, 2) if FORKS else self.processes

    @property
    def lines(self) -> list[Estimate]:
        """Of the explainers, in the order of the plan."""
        return [tried.line(max(1, self.workers)) for tried in self.tried]

    @property
    def besides(self) -> dict[str, float]:
        """CPU seconds of what is not explaining, by what it is."""
        return {
            f"start of {self.processes} process{'es' * bool(self.workers)}": self.starts * self.begun.cpu_seconds,
            "opening": self.opening,
            **self.ahead,
            "loading": self.loading * cases_loaded(self.tasks, max(1, self.workers)),
            "parts, tables, page": self.end.seconds,
        }

    @property
    def seconds(self) -> float:
        """CPU seconds of everything."""
        return sum(line.seconds for line in self.lines) + sum(self.besides.values())

    @property
    def memory(self) -> int:
        """The most bytes that all processes hold together; code and arrays that they share count once."""
        held = self.held
        if not self.workers:
            return max(held.most, held.before.all + held.missed) + self.end.memory
        code = held.after.files - held.before.files
        libraries = self.begun.memory * (1 + OWN_AGAIN * self.workers if FORKS else self.workers)
        grown = self.workers * max(held.after.own - held.before.own, held.missed)
        at_work = held.before.all + held.shared + code + libraries + grown
        at_the_end = held.before.all + held.most - held.after.all + self.end.memory
        return int(max(at_work, at_the_end))


def cases_loaded(tasks: Sequence[Task], processes: int) -> int:
    """How many cases are loaded, where each process keeps the chunk that it loaded last."""
    loaded = 0
    for process in range(processes):
        last = None
        for task in tasks[process::processes]:
            chunk = task.units[0].chunk
            loaded += chunk.cases if chunk != last else 0
            last = chunk
    return loaded

"""Where tasks are done: as the user says, or as it is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.executors.base import CannotSendError, Deliver, Executor, Usage, Watch, Work, cores
from heatproof.executors.set_up import FORKS

Engine = Literal["auto", "local", "processes", "ray"]
ENGINES: tuple[str, ...] = get_args(Engine)
WORTH_IT = 6.0
"""Seconds of work from which on processes are worth their start, which takes two."""


@dataclass(frozen=True)
class Execution:
    """How work is done, which changes nothing of its results.

    engine   local: in this process. processes: on the cores of this machine. ray: on a cluster. auto: processes where
             the work is worth it, else local
    jobs     tasks at once; by default the cores that this process may use, or those of the cluster
    address  of the Ray cluster
    ship     folders whose files are sent along, for machines that do not have them
    gpus     how many GPUs of the cluster a task takes
    """

    engine: Engine = "auto"
    jobs: int | None = None
    address: str | None = None
    ship: Sequence[Path] = ()
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise unknown_name("engine", self.engine, ENGINES)
        if self.jobs is not None:
            require_whole("jobs", self.jobs, 1)
        if self.engine != "ray" and (self.address is not None or self.ship):
            raise HeatproofError("address and ship are about a cluster; give engine ray (--engine ray) with them.")

    def executor(self, seconds: Callable[[], float]) -> Executor:
        """What does the tasks; `seconds()` says how much work they are, where that decides."""
        from heatproof.executors.in_process import InProcess

        if self.engine == "ray":
            from heatproof.executors.cluster import Cluster

            return Cluster(self.address, self.jobs, self.ship, self.gpus)
        workers = self.workers(seconds)
        if not workers:
            return InProcess()
        if self.engine == "processes":
            from heatproof.executors.processes import Processes

            return Processes(workers)
        return WhereItCan(workers)

    def workers(self, seconds: Callable[[], float]) -> int:
        """How many other processes do the tasks; none where this one does. Of a cluster: as if it were this machine."""
        if self.engine in ("processes", "ray"):
            return self.jobs or cores()
        if self.engine == "local" or self.jobs == 1 or seconds() < WORTH_IT:
            return 0
        jobs = self.jobs or cores()  # asked last: it loads what little work need not wait for
        return jobs if jobs > 1 else 0

    def expect_much(self) -> None:
        """There will be enough to do for workers: let libraries be loaded for them while the work is being opened."""
        if FORKS and self.engine != "ray" and self.workers(lambda: WORTH_IT) > 1:
            from heatproof.executors.forked import TO_EXPLAIN, start_server

            start_server(TO_EXPLAIN)

    def shipping(self, *folders: Path) -> Execution:
        """The same, with these folders sent along where the work is done on other machines."""
        return replace(self, ship=(*self.ship, *folders)) if self.engine == "ray" else self


AUTO = Execution()
_opening: ContextVar[Execution] = ContextVar("opening", default=AUTO)


@contextmanager
def opening_with(how: Execution) -> Iterator[None]:
    """While this holds, `opening_execution` is this one: for what is opened, whose functions take no execution."""
    token = _opening.set(how)
    try:
        yield
    finally:
        _opening.reset(token)


def opening_execution() -> Execution:
    """How work is done that a benchmark has to do before anything is explained."""
    return _opening.get()


@dataclass(frozen=True)
class WhereItCan:
    """Worker processes, or this one if the work cannot be sent to others."""

    jobs: int

    def run(self, work: Work, tasks: Sequence[Any], deliver: Deliver, watch: Watch) -> Usage:
        from heatproof.executors.in_process import InProcess
        from heatproof.executors.processes import Processes

        try:
            return Processes(self.jobs).run(work, tasks, deliver, watch)
        except CannotSendError:
            return InProcess().run(work, tasks, deliver, watch)

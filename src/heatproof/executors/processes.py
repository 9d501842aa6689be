"""Tasks in worker processes of this machine, each with one thread."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from heatproof.executors.base import Deliver, Enough, Failure, Usage, Watch, Work, attempt, lacks_memory
from heatproof.executors.interrupts import interrupts_held
from heatproof.executors.memory import held_together, resident
from heatproof.executors.packing import pack, unpack
from heatproof.executors.set_up import FORKS, ONE_THREAD, set_up_worker
from heatproof.lazy import np
from heatproof.progress import listening
from heatproof.workspace import is_alive

LOOKS = 0.2
"""Seconds between two looks at how far tasks are."""
WEIGHED = 1.2
"""Memory is weighed when it has grown by this much; until then what it grows by counts as pages of its own."""
SHARED = re.compile(r"heatproof-(\d+)-shared-.*")
"""Name of the folder that workers of a process share, with its number; everybody may write beside it."""
DIED = "the process that worked on it died, twice; out of memory? Fewer jobs take less, and in a run smaller batches."


@dataclass(frozen=True)
class Processes:
    """`jobs` workers. They open the work once, and share its arrays. One that dies costs the time of its task."""

    jobs: int

    def run(self, work: Work, tasks: Sequence[Any], deliver: Deliver, watch: Watch) -> Usage:
        with shared_folder() as folder:
            place = pack((work, list(tasks))).write(folder)
            fractions = np.lib.format.open_memmap(folder / "fractions.npy", "w+", np.float32, (len(tasks),))
            fractions[:] = -1
            return Shift(self.jobs, place, folder / "fractions.npy", fractions, deliver, watch).work(len(tasks))


@dataclass
class Shift:
    """Workers at work on one set of tasks."""

    jobs: int
    place: Path
    fractions_file: Path
    fractions: Any
    deliver: Deliver
    watch: Watch
    running: dict[Future[Any], int] = field(default_factory=dict)
    suspects: deque[int] = field(default_factory=deque)
    cpu: dict[int, float] = field(default_factory=dict)
    memory: int = 0
    resident: int = 0
    weighed: int = 0

    def work(self, count: int) -> Usage:
        with suppress(Enough):
            self.work_through(deque(range(count)))
        return Usage(sum(self.cpu.values()), self.memory, self.jobs + 1)

    def work_through(self, waiting: deque[int]) -> None:
        """Do what waits, then alone what is suspected of having killed a worker, or lacked memory beside others."""
        from joblib.externals.loky.process_executor import BrokenProcessPool

        suspects = self.suspects
        while waiting or suspects:
            # A task in whose time a worker died is done again with no other beside it, so that it is known whose doing
            # it was.
            alone = bool(suspects)
            try:
                with self.workers(1 if alone else min(self.jobs, len(waiting))) as pool:
                    if alone:
                        self.go_through(pool, deque([suspects[0]]), 1, alone)
                        suspects.popleft()
                    else:
                        self.go_through(pool, waiting, 2 * self.jobs + 1)  # none waits for us
            except BrokenProcessPool:
                if alone:
                    self.deliver(suspects.popleft(), Failure(DIED))
                else:
                    under_way = sorted(self.running.values())
                    begun = [task for task in under_way if self.fractions[task] >= 0] or under_way
                    suspects.extend(begun)
                    waiting.extendleft(task for task in reversed(under_way) if task not in begun)
                self.running.clear()

    @contextmanager
    def workers(self, count: int) -> Iterator[Any]:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        told = (os.getpid(), self.fractions_file.parent)
        start = {"context": process_context(), "env": ONE_THREAD, "initializer": set_up_worker, "initargs": told}
        pool = ProcessPoolExecutor(count, **start)
        done = False
        try:
            yield pool
            done = True
        finally:
            if not done:
                forget_waiting(pool)
            pool.shutdown(wait=True, kill_workers=not done)

    def go_through(self, pool: Any, waiting: deque[int], most: int, alone: bool = False) -> None:
        """Keep `most` tasks under way until there is none left; a worker's death raises."""
        while waiting or self.running:
            while waiting and len(self.running) < most:
                with interrupts_held():
                    future = pool.submit(compute, self.place, self.fractions_file, waiting[0])
                self.running[future] = waiting.popleft()
            finished, _ = wait(self.running, LOOKS, FIRST_COMPLETED)
            for future in finished:
                outcome, process, seconds = future.result()
                self.cpu[process] = seconds
                task = self.running.pop(future)
                if lacks_memory(outcome) and not alone:
                    self.suspects.append(task)
                else:
                    self.deliver(task, outcome)
            self.look(pool)

    def look(self, pool: Any) -> None:
        started = {task: float(self.fractions[task]) for task in self.running.values()}
        self.watch({task: fraction for task, fraction in started.items() if fraction >= 0})
        processes = [os.getpid(), *server(), *pool._processes]
        now = resident(processes)
        if now > WEIGHED * self.resident:
            self.resident, self.weighed = now, held_together(processes)
        self.memory = max(self.memory, self.weighed + now - self.resident)


def forget_waiting(pool: Any) -> None:
    """Take back what no worker has been given: loky's thread would look for it among tasks that it has just dropped."""
    with suppress(Empty):
        while True:
            pool._work_ids.get_nowait()


_opened: dict[Path, tuple[Work, Sequence[Any]]] = {}
"""What this worker works on."""


def compute(place: Path, fractions_file: Path, task: int) -> tuple[Any, int, float]:
    """In a worker: what a task gives, with the worker's number and its CPU seconds so far."""
    fractions = np.load(fractions_file, mmap_mode="r+")
    fractions[task] = 0  # first of all: a process that dies of opening the work has begun it too
    if place not in _opened:
        _opened.clear()
        _opened[place] = unpack(place)
    work, tasks = _opened[place]

    def reached(fraction: float) -> None:
        fractions[task] = fraction

    with listening(reached):
        outcome = attempt(work.compute, tasks[task])
    return outcome, os.getpid(), time.process_time()


def process_context() -> Any:
    """Where workers come from; None is loky's own way, a fresh interpreter for each."""
    if not FORKS:
        return None
    from heatproof.executors.forked import forked_context

    return forked_context()


def server() -> list[int]:
    """The process that workers are forked from, where there is one."""
    if not FORKS:
        return []
    from heatproof.executors.forked import server

    return server()


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder for what workers share, gone afterwards; those that killed runs left behind go too."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob("heatproof-*"):
        if (named := SHARED.fullmatch(left.name)) and not is_alive(int(named[1])):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"heatproof-{os.getpid()}-shared-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

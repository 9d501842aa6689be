"""How far a run is: in seconds of work, as finished tasks have taught."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from heatproof.engine.plan import Task
from heatproof.progress import Progress

UNTAUGHT = 1e-3
"""Seconds per pass until a task has finished."""


class Meter:
    """Watches the tasks of a run. The work that is left is weighed by what tasks of its explainer took so far."""

    def __init__(self, tasks: Sequence[Task], progress: Progress) -> None:
        self.tasks, self.progress = tasks, progress
        self.began = time.monotonic()
        self.started: dict[int, float] = {}
        self.total: Counter[str] = Counter()
        for task in tasks:
            self.total[task.explainer] += task.weight
        self.done: Counter[str] = Counter()
        self.took: dict[str, float] = dict.fromkeys(self.total, 0.0)
        self.cases = 0
        self.failed = 0

    def finished(self, place: int, failed: int) -> None:
        """A task has come to its end; so many of its units failed."""
        task, now = self.tasks[place], time.monotonic()
        self.done[task.explainer] += task.weight
        self.took[task.explainer] += now - self.started.pop(place, now)
        self.cases += task.cases
        self.failed += failed
        self.look({})

    def look(self, running: Mapping[int, float]) -> None:
        """Say how far it is: what is done, and how much of what runs now."""
        now = time.monotonic()
        for place in running:
            self.started.setdefault(place, now)
        seconds = {name: weight * self.per_pass(name) for name, weight in self.total.items()}
        done = sum(self.done[name] * self.per_pass(name) for name in self.total)
        for place, fraction in running.items():
            task = self.tasks[place]
            done += fraction * task.weight * self.per_pass(task.explainer)
        self.progress(f"explaining: {self.words(running, now)}", done, sum(seconds.values()))

    def per_pass(self, explainer: str) -> float:
        """Seconds for a pass of this explainer, or of any where it has not finished a task yet."""
        if self.took[explainer] > 0:
            return self.took[explainer] / self.done[explainer]
        whole = sum(self.done.values())
        return sum(self.took.values()) / whole if whole and sum(self.took.values()) > 0 else UNTAUGHT

    def words(self, running: Mapping[int, float], now: float) -> str:
        """What runs now, the rate, and how many failed."""
        at_work = list(dict.fromkeys(self.tasks[place].short for place in running or self.started))
        said = [", ".join(at_work[:2]) + (" ..." if len(at_work) > 2 else "") if at_work else "done"]
        explained = self.cases + sum(fraction * self.tasks[place].cases for place, fraction in running.items())
        if explained and now > self.began:
            said.append(f"{explained / (now - self.began):.3g} cases/s")
        if self.failed:
            said.append(f"{self.failed} failed")
        return ", ".join(said)

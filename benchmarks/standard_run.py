"""The whole standard run of SVEA in CPU seconds, and the share of each stage.

CPU time throughout: on a busy machine the clock on the wall tells how busy the others are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import heatproof
from benchmarks.workloads import cpu_seconds
from heatproof import mnist1d
from heatproof.benchmarks.svea import OpenedSvea, Svea
from heatproof.explainers.base import Explainer


@dataclass
class Clock:
    """CPU seconds by stage. A stage within another counts for itself only, so the stages add up to no more than all."""

    spent: dict[str, float] = field(default_factory=dict)
    within: list[float] = field(default_factory=list)
    """For each stage that is running, the seconds of the stages within it that have ended."""

    def timed(self, work: Callable[..., Any], stage: Callable[[Any], str]) -> Callable[..., Any]:
        """The same method; its time is added to the stage that `stage` names for its object."""

        @wraps(work)
        def measured(owner: Any, *args: Any, **options: Any) -> Any:
            self.within.append(0.0)
            start = time.process_time()
            try:
                return work(owner, *args, **options)
            finally:
                seconds = time.process_time() - start
                name = stage(owner)
                self.spent[name] = self.spent.get(name, 0.0) + seconds - self.within.pop()
                if self.within:
                    self.within[-1] += seconds

        return measured


STAGES: tuple[tuple[type, str, Callable[[Any], str]], ...] = (
    (Explainer, "__call__", lambda explainer: f"explaining: {explainer.label}"),
    (Svea, "open", lambda _: "data and network"),
    (OpenedSvea, "score", lambda _: "Drop, Increase, mass, rank, pointing"),
    (OpenedSvea, "summarise", lambda _: "ROE tests (linear SVMs)"),
)
"""The methods that are measured, and what their time is shown as."""


def measure(benchmark: Svea) -> tuple[float, dict[str, float]]:
    """CPU seconds of a run, and of each of its stages."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for owner, method, stage in STAGES:
            stack.enter_context(patch.object(owner, method, clock.timed(getattr(owner, method), stage)))
        total = cpu_seconds(lambda: heatproof.run(benchmark, out=Path(folder) / "run"))
    return total, clock.spent | {"parts, intervals, tables and page": total - sum(clock.spent.values())}


def main() -> None:
    total, stages = measure(Svea())
    print(f"standard run of SVEA, {sum(map(len, mnist1d.make())):,} signals, both targets: {total:.1f} CPU seconds")
    for stage, seconds in sorted(stages.items(), key=lambda item: -item[1]):
        print(f"{seconds:8.2f} s {seconds / total:6.1%}  {stage}")

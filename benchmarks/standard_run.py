"""The whole standard run of SVEA in CPU seconds, and the share of each stage.

CPU time throughout: on a busy machine the clock on the wall tells how busy the others are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial, wraps
from math import ceil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

import heatproof
from benchmarks.workloads import cpu_seconds, signals
from heatproof.benchmarks.svea import OpenedSvea, Svea
from heatproof.cases import Batch
from heatproof.executors.set_up import keep_memory
from heatproof.explainers.base import Explainer, SampledExplainer, Size
from heatproof.explainers.memory import RowCost, row_cost
from heatproof.explainers.spec import make_explainer

SIGNALS = 5000


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
    (Explainer, "guarded", lambda explainer: f"explaining: {explainer.label}"),
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
        total = cpu_seconds(lambda: heatproof.run(benchmark, out=Path(folder) / "run", engine="local"))
    return total, clock.spent | {"parts, intervals, tables and page": total - sum(clock.spent.values())}


TARGETS = 2
CANNOT_BE_SAVED = {"rise": 1, "integrated_gradients": TARGETS, "smoothgrad": TARGETS}
"""How often the passes of these must be made: RISE's serve both targets, gradients are of one."""


def bare() -> float:
    """CPU seconds of the network alone for the passes that cannot be saved, in blocks as large as ours."""
    model, batch = signals(SIGNALS)
    cost = row_cost(model, batch[:1])
    return sum(cpu_seconds(partial(passes, model, batch, cost, *item)) for item in CANNOT_BE_SAVED.items())


def passes(model: nn.Module, batch: Batch, cost: RowCost, spec: str, times: int) -> None:
    """All passes of one explainer; a forward and a backward one count as two."""
    explainer = make_explainer(spec)
    assert isinstance(explainer, SampledExplainer)
    rows = min(explainer.rows, cost.rows(explainer.memory, explainer.gradients))
    inputs = batch.inputs.repeat(ceil(rows / len(batch)), 1, 1)[:rows].contiguous()
    variants = explainer.passes(Size((), ())) // (2 if explainer.gradients else 1)
    for _ in range(round(times * len(batch) * variants / rows)):
        with torch.set_grad_enabled(explainer.gradients):
            outputs = model(inputs.requires_grad_(explainer.gradients))
            if explainer.gradients:
                torch.autograd.grad(outputs[:, 0].sum(), inputs)


def main() -> None:
    keep_memory()  # as the command line does
    total, stages = measure(Svea())
    print(f"standard run of SVEA, {SIGNALS:,} signals, both targets: {total:.1f} CPU seconds")
    for stage, seconds in sorted(stages.items(), key=lambda item: -item[1]):
        print(f"{seconds:8.2f} s {seconds / total:6.1%}  {stage}")
    network = bare()
    print(f"the network alone, for the passes that cannot be saved: {network:.1f}, so {total / network:.2f} times that")

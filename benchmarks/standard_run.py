"""The whole standard run of SVEA in CPU seconds, and the share of each stage."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

import heatproof
from benchmarks.workloads import cpu_seconds
from heatproof.benchmarks.svea import Svea


@dataclass(kw_only=True, eq=False)
class TimedSvea(Svea):
    """SVEA that notes how long its own steps take."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def clock(self, stage: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.spent[stage] = self.spent.get(stage, 0.0) + time.process_time() - start

    def prepare(self, *args: Any) -> None:
        with self.clock("data and network"):
            super().prepare(*args)

    def score(self, *args: Any) -> pl.DataFrame:
        with self.clock("Drop, Increase, mass, rank, pointing"):
            return super().score(*args)

    def summarise(self, *args: Any) -> pl.DataFrame:
        with self.clock("ROE tests (linear SVMs)"):
            return super().summarise(*args)


def main() -> None:
    benchmark = TimedSvea()
    with tempfile.TemporaryDirectory() as folder:
        total = cpu_seconds(lambda: heatproof.run(benchmark, out=Path(folder) / "run"))
        table = heatproof.load_run(Path(folder) / "run").leaderboard()
    cases = len(benchmark.train) + len(benchmark.test)
    explained = table.select("explainer", "target", "seconds_per_case").unique().drop_nulls()
    stages = {
        f"explaining: {name}": float(group["seconds_per_case"].sum()) * cases
        for (name,), group in explained.group_by("explainer")
    } | benchmark.spent
    stages["parts, intervals, tables and page"] = total - sum(stages.values())
    print(f"standard run of SVEA, {cases:,} signals, both targets: {total:.1f} CPU seconds")
    for stage, seconds in sorted(stages.items(), key=lambda item: -item[1]):
        print(f"{seconds:8.2f} s {seconds / total:6.1%}  {stage}")

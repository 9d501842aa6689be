"""What a dry run tries, counts and says. How well it predicts is measured by `python -m benchmarks dry-run`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import heatproof
from heatproof import Batch, CaseRandom, Explainer
from heatproof.benchmarks.svea import OpenedSvea, Svea
from heatproof.cases import Chunk
from heatproof.engine import calibrate, rehearsal
from heatproof.engine.calibrate import Sample, sampled
from heatproof.engine.closing import ClosingCost
from heatproof.engine.forecast import Forecast, Memory, Tried, cases_loaded
from heatproof.engine.plan import Task, Unit
from heatproof.engine.sources import Explaining
from heatproof.executors.base import Failure
from heatproof.executors.choice import Execution
from heatproof.executors.memory import Held, held_now
from heatproof.executors.set_up import FORKS
from heatproof.executors.start import Start, start_of_process
from heatproof.explainers.base import SampledExplainer
from heatproof.explainers.spec import make_explainers
from heatproof.progress import part_by_part


def test_every_explainer_is_tried_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(Path(os.environ["HEATPROOF_HOME"]).rglob("*"))
    explainers = "gradient,rise:masks=10,score_cam,random"
    found = heatproof.dry_run("svea", explainers=explainers, limit=100, target="logit", engine="local")
    assert {line.explainer: line.passes for line in found.lines} == {
        "random": 0,
        "gradient": 200,
        "rise:masks=10": 1000,
        "score_cam": 2600,
    }
    assert all(line.seconds > 0 and line.tried > 0 and not line.failure for line in found.lines)
    assert found.processes == 1
    assert found.memory > held_now().all / 2
    assert found.seconds == sum(line.seconds for line in found.lines) + sum(found.besides.values())
    assert list(found.besides) == ["start of 1 process", "opening", "loading", "parts, tables, page"]
    assert not found.notes
    assert list(tmp_path.iterdir()) == []
    assert sorted(Path(os.environ["HEATPROOF_HOME"]).rglob("*")) == before


def test_quantities_that_share_passes_are_counted_once():
    found = heatproof.dry_run("svea", explainers="rise:masks=10,lrp,random", limit=100, target="both", engine="local")
    lines = {(line.explainer, line.target): (line.units, line.cases, line.passes) for line in found.lines}
    assert lines == {
        ("rise:masks=10", "probability, logit"): (4, 100, 1000),
        ("lrp", "probability"): (2, 100, 200),
        ("lrp", "logit"): (2, 100, 200),
        ("random", ""): (2, 100, 0),
    }


def test_a_quantity_that_fails_is_said_though_the_other_does_not(monkeypatch):
    def picky(model, inputs, target):
        if float(model(inputs).detach().sum(1).mean().round(decimals=3)) == 1:
            raise ValueError("no probabilities, please")
        return inputs

    found = heatproof.dry_run("svea", explainers=[picky], limit=50, target="both", engine="local")
    assert any("no probabilities" in line.failure for line in found.lines)
    assert any(line.tried for line in found.lines)


def test_the_plan_is_that_of_the_run():
    (line,) = heatproof.dry_run("svea", explainers="gradient", limit=1000, target="logit", engine="local").lines
    assert (line.units, line.cases) == (3, 1000)


def test_an_explainer_that_fails_costs_its_own_line():
    def bad(model, inputs, target):
        raise ValueError("no idea")

    def slow(model, inputs, target):
        time.sleep(0.001)
        return inputs

    found = heatproof.dry_run("svea", explainers=[bad, slow, "gradient"], limit=50, target="logit", engine="local")
    lines = {line.explainer: line for line in found.lines}
    assert lines["bad"].failure == "ValueError: no idea"
    assert (lines["bad"].seconds, lines["bad"].tried) == (0, 0)
    assert lines["slow"].passes is None  # nobody knows, so it is measured
    assert lines["slow"].tried >= 1
    assert lines["slow"].seconds > 0
    assert lines["gradient"].tried == 50


def test_workers_cost_their_start_and_their_memory():
    one = heatproof.dry_run("svea", explainers="gradient", limit=50, engine="local")
    two = heatproof.dry_run("svea", explainers="gradient", limit=50, engine="processes", jobs=2)
    assert (one.processes, two.processes) == (1, 3)
    begun = start_of_process()
    assert two.with_workers(0).processes == 1
    assert one.besides["start of 1 process"] == begun.cpu_seconds > 0
    assert two.besides["start of 3 processes"] == (2 if FORKS else 3) * begun.cpu_seconds
    assert two.memory >= begun.memory > 0


def test_what_cannot_be_sent_is_done_here_unless_workers_are_wished(monkeypatch):
    held = (line for line in ["nobody", "can", "send", "a", "generator"])

    def mine(model, inputs, target):
        return inputs * bool(held)

    monkeypatch.setattr(rehearsal, "expected_seconds", lambda *_: 100.0)
    assert heatproof.dry_run("svea", explainers=[mine], limit=50, jobs=2).processes == 1
    with pytest.raises(heatproof.HeatproofError, match="cannot be sent"):
        heatproof.dry_run("svea", explainers=[mine], limit=50, engine="processes", jobs=2)


def test_tables_that_cannot_be_tried_are_said(monkeypatch):
    def refuse(self, rows):
        raise KeyError("not all there")

    monkeypatch.setattr(OpenedSvea, "summarise", refuse)
    found = heatproof.dry_run("svea", explainers="gradient", limit=50, target="logit", engine="local")
    assert found.besides["parts, tables, page"] == 0
    assert found.notes == ["Tables and page could not be tried and are not counted: KeyError: 'not all there'"]


def test_only_first_chunks_are_loaded(monkeypatch):
    """A data set may be too large to be read for a dry run, but for what the page would show of it."""
    loaded: list[Chunk] = []
    load = OpenedSvea.load
    monkeypatch.setattr(OpenedSvea, "load", lambda self, chunk: loaded.append(chunk) or load(self, chunk))
    monkeypatch.setattr("heatproof.engine.closing.LOOKED", 0.0)
    heatproof.dry_run("svea", explainers="gradient,rise:masks=10", target="logit", engine="local")
    assert {chunk.name for chunk in loaded} <= {"test-000000", "test-000500", "train-000000"}


# Samples


class Clock:
    """CPU seconds that pass when an explainer says so."""

    now = 0.0

    def process_time(self) -> float:
        return self.now


@dataclass(frozen=True, kw_only=True)
class Timed(Explainer):
    """Takes so many seconds for each case, in ten steps, and more for the first call."""

    clock: Clock = field(compare=False)
    seen: list[int] = field(compare=False)
    per_case: float
    once: float = 0.0

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        self.clock.now += 0.0 if self.seen else self.once
        self.seen.append(len(batch))
        part_by_part(range(10), lambda _: self.step(len(batch)))
        return batch.inputs

    def step(self, cases: int) -> None:
        self.clock.now += self.per_case * cases / 10


@dataclass(frozen=True, kw_only=True)
class InBlocks(Timed, SampledExplainer):
    """The same, of those that need no more memory for more cases."""


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(calibrate, "time", made)
    return made


def sample_of(explainer: Explainer, batch_size: int = 50) -> Sample | Failure:
    source = Explaining(Svea(limit=1000).open(0), [explainer], batch_size=batch_size)
    task = source.tasks(source.units())[0]
    return sampled(source, task, source.loaded(task.units[0].chunk))


def test_a_cheap_explainer_is_tried_on_the_whole_chunk(clock):
    seen: list[int] = []
    found = sample_of(Timed(clock=clock, seen=seen, per_case=0.001, once=2.0))
    assert found == Sample(200, pytest.approx(0.001), pytest.approx(2.0))
    assert seen[:2] == [1, 1]  # the first is not counted
    assert sum(seen[2:]) == 200


def test_a_sample_is_about_a_second(clock):
    seen: list[int] = []
    found = sample_of(InBlocks(clock=clock, seen=seen, per_case=0.12))
    assert found == Sample(8, pytest.approx(0.12), pytest.approx(0))
    assert seen == [1, 1, 8]


def test_or_a_whole_batch_if_that_is_not_long(clock):
    """Its memory is of interest."""
    assert sample_of(Timed(clock=clock, seen=[], per_case=0.12), batch_size=40).cases == 40
    assert sample_of(Timed(clock=clock, seen=[], per_case=0.12), batch_size=50).cases == 8


def test_a_long_case_is_stopped(clock):
    seen: list[int] = []
    assert sample_of(Timed(clock=clock, seen=seen, per_case=20.0)) == Sample(0.3, pytest.approx(20.0))
    assert seen == [1]


def test_a_case_that_is_long_enough_is_not_repeated(clock):
    seen: list[int] = []
    assert sample_of(Timed(clock=clock, seen=seen, per_case=0.1, once=6.0)).cases == 0.1
    assert seen == [1]


def test_parts_of_the_cases_are_told_by_their_names():
    parts = ["test", "train", "train-more"]
    assert calibrate.part_of(Chunk("train-000500", "net", 3), parts) == "train"
    assert calibrate.part_of(Chunk("000500", "net", 3), [""]) == ""


# What follows from samples


def task(explainer: str, chunk: str) -> Task:
    return Task((Unit(explainer, explainer, "", Chunk(chunk, "net", 10), 1),))


def test_explainers_that_take_turns_on_a_chunk_load_it_once_in_each_process():
    tasks = [task(explainer, chunk) for chunk in ("000000", "000010") for explainer in ("a", "b", "c", "d")]
    assert [cases_loaded(tasks, processes) for processes in (1, 2, 4)] == [20, 40, 80]


def made(**given: Any) -> Forecast:
    held = Memory(Held(200, 50), Held(500, 60), most=700)
    tasks = [task("a", f"{place:06d}") for place in range(4)]
    tried = [Tried({"": tasks}, {"": Sample(3, 0.5, first=2.0)})]
    plain = Forecast(0, Start(2.0, 100), 5.0, 0.1, tried, tasks, ClosingCost(1.0, 30), held)
    return replace(plain, **given)


def test_seconds_of_processes_together():
    """Each process starts, loads its cases, and begins with the explainer once."""
    assert made().lines[0].seconds == 40 * 0.5 + 2
    assert made().seconds == 22 + 2 + 5 + 40 * 0.1 + 1
    assert made().with_workers(2).lines[0].seconds == 40 * 0.5 + 2 * 2
    assert made().with_workers(2).besides["start of 3 processes"] == (4 if FORKS else 6)
    assert made().with_workers(100).processes == 5  # there are but four tasks


@pytest.mark.parametrize(("forks", "libraries"), [(False, {1: 100, 2: 200}), (True, {1: 140, 2: 180})])
def test_memory_of_processes_together(monkeypatch, forks, libraries):
    """Forked workers share the libraries, but for two fifths that each writes to."""
    monkeypatch.setattr("heatproof.engine.forecast.FORKS", forks)
    assert made().memory == 730
    assert made().with_workers(2).memory == 250 + 10 + libraries[2] + 2 * 300
    sharing = replace(made().held, shared=5)
    assert made(held=sharing).with_workers(1).memory == 250 + 5 + 10 + libraries[1] + 300
    undersampled = made(held=replace(made().held, missed=1000))
    assert undersampled.memory == 1250 + 30
    assert undersampled.with_workers(2).memory == 250 + 10 + libraries[2] + 2 * 1000
    assert made(end=ClosingCost(1.0, 10**4)).with_workers(2).memory == 250 + 140 + 10**4


def test_whole_batches_need_more_than_a_smaller_sample_shows():
    source = Explaining(Svea(limit=1000).open(0), make_explainers("gradient,rise,random"), batch_size=100)
    by_name = {task.explainer: task for task in source.tasks(source.units())}
    batch = source.loaded(by_name["gradient"].units[0].chunk)
    missed = {name: calibrate.memory_missed(source, one, Sample(10, 0.1), batch) for name, one in by_name.items()}
    assert missed["gradient"] > 0
    assert missed["rise"] == missed["random"] == 0
    assert calibrate.memory_missed(source, by_name["gradient"], Sample(100, 0.1), batch) == 0


@pytest.mark.parametrize(
    ("how", "seconds", "workers"),
    [
        (Execution("local", 4), 1e6, 0),
        (Execution("auto", 4), 1.0, 0),
        (Execution("auto", 4), 1e6, 4),
        (Execution("auto", 1), 1e6, 0),
        (Execution("processes", 3), 0.0, 3),
        (Execution("ray", 3), 0.0, 3),
    ],
)
def test_workers_are_those_that_the_run_would_have(how, seconds, workers):
    assert how.workers(lambda: seconds) == workers

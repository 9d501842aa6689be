"""Where rows come from: explain, then score; heatmaps that are there already are in `stored` and `kept`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from heatproof.benchmarks.base import Opened, OpenedCases, metric_words, score_rows
from heatproof.cases import Batch, Chunk
from heatproof.devices import FULL, Precision
from heatproof.engine.manifest import describe_all, machine, machines
from heatproof.engine.passes import counted_passes
from heatproof.engine.placement import Placement
from heatproof.engine.plan import Task, Unit, folder_name, make_tasks, make_units
from heatproof.errors import HeatproofError
from heatproof.executors.base import Failure, attempt
from heatproof.executors.memory import peak_memory
from heatproof.explainers.base import QUANTITIES, Explainer, ScoreExplainer, Size
from heatproof.lazy import np, pl, torch
from heatproof.metrics.base import Metric, missing_for
from heatproof.metrics.scoring import score_with
from heatproof.pooling import poolings
from heatproof.progress import part
from heatproof.run_folder import Arrays
from heatproof.seeds import CaseRandom
from heatproof.story import Column, Story

VALUES_PASSED = 2**25
"""Input values that go through the network for a chunk: what takes minutes for a case is kept case by case.

With another number the parts of a run folder are other cases, which makes it another format."""
AXES = ("metric", "ground_truth", "pooling")


@dataclass(frozen=True, eq=False)
class Result:
    """What a unit of work gives: score rows, the heatmaps to keep, and on what they were made."""

    rows: pl.DataFrame
    heatmaps: Arrays
    machine: Mapping[str, str] = field(default_factory=machine)


class Source(ABC):
    """The units of a run, and what each gives."""

    opened: OpenedCases
    device: str = "cpu"
    precision: Precision = FULL
    exact: Collection[str] = ()
    keep_all: bool = False

    @property
    def story(self) -> Story:
        return self.opened.story

    @property
    def settings(self) -> dict[str, Any]:
        """What the scores depend on beside cases, models and explainers."""
        return dict(self.opened.settings)

    @property
    def published(self) -> Mapping[str, str]:
        """The explainers that have the paper's parameters: full specification to name."""
        return {}

    @abstractmethod
    def entries(self) -> list[dict[str, Any]]:
        """The explainers as plain data."""

    @abstractmethod
    def units(self) -> list[Unit]:
        """All units, in the order in which they should be done."""

    def tasks(self, units: Sequence[Unit]) -> list[Task]:
        """These units, those that the same work serves together."""
        return make_tasks(units, shared=lambda unit: False)

    @abstractmethod
    def compute(self, task: Task) -> list[Result | Failure]:
        """What each unit of a task gives; whatever this raises is the failure of them all."""

    def __getstate__(self) -> dict[str, Any]:
        """Workers get what it is, not what it remembers."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}  # type: ignore[attr-defined]

    def again(self, unit: Unit, place: int) -> pl.DataFrame | None:
        """The rows of one case of a unit, computed anew; None where this cannot differ."""
        return None

    def examples(self) -> Arrays:
        """Inputs and masks of the story's examples."""
        return {}


@dataclass(frozen=True, eq=False)
class Explaining(Source):
    """Explain each case of a benchmark, then score the relevance.

    keep_all   store every heatmap, not only those of examples
    extra      metrics to score beside the benchmark's own
    device     where models compute; cases, relevance and scores are on the CPU
    precision  what models compute in while they are explained
    exact      the folders of explainers whose models stay in full precision nevertheless
    """

    opened: Opened
    explainers: Sequence[Explainer]
    seed: int = 0
    batch_size: int = 500
    keep_all: bool = False
    extra: Sequence[Metric] = ()
    usual: Collection[str] = ()
    """The full specifications of the benchmark's own explainers, which have the paper's parameters."""
    device: str = "cpu"
    precision: Precision = FULL
    exact: Collection[str] = ()

    def check(self) -> None:
        """Refuse before any long work what cannot be explained or scored."""
        masks = list(self.probe_batch.masks)
        for explainer in self.explainers:
            if problem := explainer.problem_with(masks):
                raise HeatproofError(problem)
        for metric in self.extra:
            if problem := missing_for(metric, masks):
                raise HeatproofError(problem)

    @property
    def story(self) -> Story:
        told = self.opened.story
        if not self.extra:
            return told
        columns = told.columns and tuple(Column(m.name, *self.first_of(m)) for m in self.extra)
        words = metric_words(metric for metric in self.extra if metric.name not in told.metric)
        shown = told.poolings or tuple(self.poolings)
        return replace(told, metrics=(*told.metrics, *words), columns=(*told.columns, *columns), poolings=shown)

    def first_of(self, metric: Metric) -> tuple[str, str]:
        """Ground truth and pooling that the table shows of an extra metric."""
        truth = next(iter(self.probe_batch.masks), "") if "mask" in metric.needs else ""
        return truth, self.poolings[0]

    @property
    def poolings(self) -> Sequence[str]:
        return [name for name in self.opened.story.poolings if name in poolings] or list(poolings)

    @property
    def settings(self) -> dict[str, Any]:
        extra = {"metrics": [metric.name for metric in self.extra]} if self.extra else {}
        return super().settings | extra

    @property
    def published(self) -> Mapping[str, str]:
        ours = [entry for entry in self.entries() if entry["source"] is None]
        return {entry["explainer"]: entry["name"] for entry in ours if entry["explainer"] in self.usual}

    @cached_property
    def by_folder(self) -> dict[str, Explainer]:
        return {folder_name(explainer): explainer for explainer in self.explainers}

    @cached_property
    def made_on(self) -> Mapping[str, Mapping[str, str]]:
        """What parts are made on here, by the explainer's folder."""
        return machines(self)

    @cached_property
    def probe_batch(self) -> Batch:
        """The first cases."""
        chunk = self.opened.chunks()[0]
        return self.loaded(replace(chunk, cases=min(chunk.cases, 4)))

    @cached_property
    def size(self) -> Size:
        """What the number of passes depends on, seen in one pass of the first case."""
        from heatproof.explainers.layers import model_size

        return model_size(self.model(self.opened.chunks()[0].model), self.placement.batch(self.probe_batch[:1]))

    @cached_property
    def placement(self) -> Placement:
        return Placement(self.device, self.precision)

    def model(self, name: str) -> torch.nn.Module:
        """The model of this name, on the run's device."""
        return self.placement.model(self.opened.model(name))

    def form(self, name: str, explainer: Explainer) -> torch.nn.Module:
        """The same in the form that suits an explainer best, and in its precision."""
        return self.placement.model(self.opened.form(name, explainer), self.is_exact(explainer))

    def is_exact(self, explainer: Explainer) -> bool:
        return folder_name(explainer) in self.exact

    @cached_property
    def last(self) -> dict[Chunk, Batch]:
        """The chunk that was loaded last: explainers take turns on it."""
        return {}

    def loaded(self, chunk: Chunk) -> Batch:
        if chunk not in self.last:
            self.last.clear()
            self.last[chunk] = self.opened.load(chunk)
        return self.last[chunk]

    def entries(self) -> list[dict[str, Any]]:
        return describe_all(self.explainers)

    def units(self) -> list[Unit]:
        values = self.probe_batch.inputs[0].numel()

        def pieces(passes: int) -> list[Chunk]:
            return self.opened.chunks(max(1, VALUES_PASSED // (values * (1 + passes))))

        return make_units(self.explainers, pieces, lambda explainer: explainer.passes(self.size))

    def tasks(self, units: Sequence[Unit]) -> list[Task]:
        return make_tasks(units, shared=lambda unit: self.by_folder[unit.folder].shares_passes)

    def compute(self, task: Task) -> list[Result | Failure]:
        try:
            return self.together(task)
        except Exception:
            if len(task.units) == 1:
                raise
        # What is wrong may be with one quantity only.
        return [attempt(lambda unit: self.together(Task((unit,)))[0], unit) for unit in task.units]

    def together(self, task: Task) -> list[Result | Failure]:
        """What each unit gives, by the same passes."""
        first = task.units[0]
        batch = self.loaded(first.chunk)
        explainers = [self.by_folder[unit.folder] for unit in task.units]
        model = self.form(first.chunk.model, explainers[0])
        clock = time.process_time if self.device == "cpu" else time.perf_counter  # what others compute does not count
        start = clock()
        with counted_passes(model) as passes, peak_memory() as peak:
            found = self.relevances(explainers, model, batch)
        cost = passes.alone(clock() - start, len(batch), len(found)) | (
            {"memory": float(peak.bytes)} if peak.first else {}
        )
        judge = self.placement.reached(self.opened.form(first.chunk.model, explainers[0]))
        kept = [i for i, case in enumerate(batch.ids) if self.keep_all or case in self.opened.story.examples]
        results: list[Result | Failure] = []
        for unit, relevance in zip(task.units, found, strict=True):
            scores = pl.concat([self.scores(batch, relevance, judge), cost_rows(batch, cost)], how="diagonal")
            heatmaps = {"ids": np.asarray([batch.ids[i] for i in kept]), **self.stored(relevance[kept])}
            results.append(Result(labelled(scores, unit), heatmaps, self.made_on[unit.folder]))
        return results

    def stored(self, relevance: torch.Tensor) -> Arrays:
        """Relevance as the folder has it: whole where all is kept, and of a sample what people look at."""
        if self.keep_all:
            return {"relevance": relevance.cpu().numpy()}
        return {"heat": relevance.sum(1, keepdim=True).cpu().numpy()}

    def relevance(self, explainer: Explainer, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Relevance of all cases, a few at a time; `model` is what `form` gives."""
        return self.relevances([explainer], model, batch)[0]

    def relevances(self, explainers: Sequence[Explainer], model: torch.nn.Module, batch: Batch) -> list[torch.Tensor]:
        """The same for explainers that differ in the explained quantity only."""
        shown = replace(batch, inputs=batch.inputs.clone())  # one that changes its inputs must not change scores
        first, rng = explainers[0], CaseRandom.of(self.seed, explainers[0])
        quantities = [e.quantity if isinstance(e, ScoreExplainer) else QUANTITIES[0] for e in explainers]
        starts, full = range(0, len(batch), self.batch_size), self.is_exact(first)
        found = []
        for place, start in enumerate(starts):
            with part(place, len(starts)):
                cases = shown[start : start + self.batch_size]
                found.append(self.placement.explain(first, model, cases, rng, full, quantities))
        return [torch.cat(relevance) for relevance in zip(*found, strict=True)]

    def scores(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        rows = [self.opened.score(batch, relevance, model)]
        for metric in self.extra:
            values = score_with(metric, batch, relevance, model, self.poolings)
            rows.append(score_rows(batch, values))
        return pl.concat(rows, how="diagonal")

    def again(self, unit: Unit, place: int) -> pl.DataFrame | None:
        if place >= unit.chunk.cases:
            return None
        batch = self.loaded(unit.chunk)[place : place + 1]
        return labelled(self.explained(self.by_folder[unit.folder], unit.chunk.model, batch), unit)

    def explained(self, explainer: Explainer, model: str, batch: Batch) -> pl.DataFrame:
        """Score rows of some cases under one explainer."""
        relevance = self.relevance(explainer, self.form(model, explainer), batch)
        return self.scores(batch, relevance, self.placement.reached(self.opened.form(model, explainer)))

    def examples(self) -> Arrays:
        wanted = self.opened.story.examples
        places = {case: place for place, case in enumerate(wanted)}
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        there = np.zeros(len(wanted), dtype=np.bool_)
        for chunk in self.opened.chunks_with(list(wanted)) if wanted else ():
            batch = self.loaded(chunk)
            here = [i for i, case in enumerate(batch.ids) if case in places]
            if not here:
                continue
            found = {"inputs": self.opened.as_pictures(batch.inputs[here])}
            found |= {f"mask.{name}": mask[here] for name, mask in batch.masks.items()}
            rows = [places[batch.ids[i]] for i in here]
            there[rows] = True
            for name, values in found.items():
                kept = values.cpu().numpy()
                if name not in arrays:  # at once for all of them: what is kept between batches tears memory up
                    arrays[name] = np.zeros((len(wanted), *kept.shape[1:]), kept.dtype)
                arrays[name][rows] = kept
            del batch, found, values, kept  # before the next is loaded
        if not arrays:
            return {}
        ids = np.asarray([case for case, seen in zip(wanted, there, strict=True) if seen])
        return {"ids": ids} | (arrays if there.all() else {name: kept[there] for name, kept in arrays.items()})


def labelled(rows: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    return rows.with_columns(
        model=pl.lit(unit.chunk.model), explainer=pl.lit(unit.explainer), target=pl.lit(unit.target)
    )


def cost_rows(batch: Batch, cost: dict[str, float]) -> pl.DataFrame:
    """What explaining cost per case, as rows like any score."""
    return pl.concat(
        [
            pl.DataFrame({"case": list(batch.ids), "metric": name, "ground_truth": "", "pooling": "", "value": value})
            for name, value in cost.items()
        ]
    )

"""Heatmaps that were made elsewhere as a source of rows, with floors and ceiling beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heatproof.benchmarks.base import OpenedMasks
from heatproof.benchmarks.floors import FAMILIES, OF_INPUTS, baseline_maps, baselines_for
from heatproof.engine.plan import Task, Unit
from heatproof.engine.sources import Result, Source, labelled
from heatproof.executors.base import Failure
from heatproof.heatmap_files import Heatmaps
from heatproof.lazy import np, pl
from heatproof.run_folder import Arrays


@dataclass(frozen=True, eq=False)
class Stored(Source):
    """Score heatmaps that were made elsewhere, with floors and ceiling beside them.

    `heatmaps` are by what tables call them; a floor of such a name makes room for them.
    """

    opened: OpenedMasks
    heatmaps: Mapping[str, Heatmaps]
    seed: int = 0

    @cached_property
    def baselines(self) -> list[str]:
        first = self.opened.chunks()[0]
        has_inputs, has_truth = (found is not None for found in (self.opened.inputs(first), self.opened.truth(first)))
        found = baselines_for(has_inputs, has_truth, len(self.opened.space_of(first)))
        return [name for name in found if name not in self.heatmaps]

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"heatmaps": " ".join(heatmaps.stamp for heatmaps in self.heatmaps.values())}

    @property
    def published(self) -> Mapping[str, str]:
        """Heatmaps that are called like a method stand beside its published number."""
        return {name: name for name in self.heatmaps}

    def entries(self) -> list[dict[str, Any]]:
        plain: dict[str, Any] = {"parameters": {}, "limits": {}, "source": None}
        families = dict.fromkeys(self.heatmaps, "other") | {name: FAMILIES[name] for name in self.baselines}
        return [
            dict.fromkeys(("explainer", "name", "short", "folder"), name) | {"family": family, "target": "", **plain}
            for name, family in families.items()
        ]

    def units(self) -> list[Unit]:
        names = [*self.heatmaps, *self.baselines]
        return [Unit(name, name, "", chunk) for name in names for chunk in self.opened.chunks()]

    def compute(self, task: Task) -> list[Result | Failure]:
        (unit,) = task.units
        if unit.explainer in self.heatmaps:
            return [score_stored(self.opened, self.heatmaps[unit.explainer], unit)]
        return [self.baseline(unit)]

    def baseline(self, unit: Unit) -> Result:
        """The rows of a floor or the ceiling."""
        opened, cases = self.opened, self.opened.cases(unit.chunk)
        inputs = opened.inputs(unit.chunk) if unit.explainer in OF_INPUTS else None
        truth = opened.truth(unit.chunk) if FAMILIES[unit.explainer] == "ceiling" else None
        maps = baseline_maps(unit.explainer, cases, opened.space_of(unit.chunk), inputs, truth, self.seed)
        rows = opened.score(unit.chunk, np.asarray(maps), [""] * len(cases))
        rows = rows.filter(~pl.col("metric").is_in(opened.of_these_maps))
        return Result(labelled(rows, unit), shown_heat(opened, rows, np.asarray(maps)))

    def examples(self) -> Arrays:
        return masked_examples(self.opened)


def score_stored(opened: OpenedMasks, heatmaps: Heatmaps, unit: Unit) -> Result:
    """The rows of a unit whose heatmaps are on disk, and those of these that the page shows."""
    space = opened.space_of(unit.chunk)
    found = [heatmaps.usable(name, space, opened.size_hint, opened.resizes) for name in opened.cases(unit.chunk)]
    channels = max([len(heatmap) for heatmap, _ in found if heatmap is not None], default=1)
    narrow = opened.keeps_float32 and all(heatmap is None or heatmap.dtype == np.float32 for heatmap, _ in found)
    relevance = np.empty((len(found), channels, *space), dtype=np.float32 if narrow else np.float64)
    for place, (heatmap, _) in enumerate(found):
        if heatmap is None:
            relevance[place] = np.nan
        else:
            relevance[place, : len(heatmap)] = heatmap
            relevance[place, len(heatmap) :] = 0.0
    rows = opened.score(unit.chunk, relevance, [problem for _, problem in found])
    return Result(labelled(rows, unit), shown_heat(opened, rows, relevance, [problem for _, problem in found]))


def shown_heat(
    opened: OpenedMasks, rows: pl.DataFrame, relevance: np.ndarray[Any, Any], problems: Sequence[str] = ()
) -> Arrays:
    """What the page shows of a unit's maps, which are in the order of its rows; none of those with problems."""
    named = rows["case"].unique(maintain_order=True).to_list()
    bad = {case for case, problem in zip(named, problems, strict=False) if problem}
    kept = [i for i, case in enumerate(named) if case in opened.story.examples and case not in bad]
    heat = relevance[kept].sum(1, keepdims=True).astype(np.float32)
    return {"ids": np.asarray([named[i] for i in kept]), "heat": heat}


def masked_examples(opened: OpenedMasks) -> Arrays:
    """Inputs and masks of the story's examples, where there is anything to look at."""
    cases = list(opened.story.examples)
    arrays = opened.shown(cases) if cases else {}
    return {"ids": np.asarray(cases), **arrays} if arrays else {}

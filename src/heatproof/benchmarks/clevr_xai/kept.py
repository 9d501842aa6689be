"""The heatmaps that a run of CLEVR-XAI has kept, with its data set and its network's answers. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from heatproof.benchmarks.clevr_xai.heatmaps import OpenedQuestions, Prediction, open_masks
from heatproof.benchmarks.kept import KeptRun
from heatproof.clevr.release import default_dataset
from heatproof.clevr.shipped import folder_named
from heatproof.errors import HeatproofError
from heatproof.progress import Progress, silent


def open_kept(
    run: KeptRun,
    dataset: Path | None = None,
    questions: str | None = None,
    poolings: Sequence[str] | None = None,
    predictions: Path | None = None,
    progress: Progress = silent,
) -> OpenedQuestions:
    """The questions that a run's heatmaps are about; what is not given is the run's own.

    Every question that has a heatmap counts, as in the run; with `predictions`, those that are answered right.
    """
    if run.benchmark != "clevr-xai":
        raise HeatproofError(
            f"{run.files.folder} is a run of {run.benchmark}; heatmaps of clevr-xai are scored here. For heatmaps of"
            " svea or focus give RUN/heatmaps/EXPLAINER and --benchmark."
        )
    asked, had = str(run.manifest["configuration"]["questions"]), run.manifest["options"]["dataset"]
    if questions not in (None, asked):
        raise HeatproofError(f"{run.files.folder} is about {asked} questions, not about {questions} ones.")
    released = bool(run.manifest["options"].get("as_released"))
    given = folder_named(dataset or had or default_dataset(released))
    if not given.is_dir():
        raise HeatproofError(f"the data set of {run.files.folder}, {given}, is not there; give it with --dataset.")
    opened = open_masks(
        run.together,
        given,
        asked,
        poolings or run.manifest["configuration"]["poolings"],
        predictions,
        progress,
        said=answers_of(run),
        seed=run.seed,
    )
    if opened.fingerprint != run.manifest["cases"] and dataset is None:
        raise HeatproofError(
            f"the data set {given} has changed since {run.files.folder} was made; to score its heatmaps against what"
            f" it is now, give --dataset {given}."
        )
    return replace(opened, models=run.manifest["models"])


def answers_of(run: KeptRun) -> dict[int, Prediction]:
    """What the network of the run answers, as its score rows say."""
    facts = run.facts(("question_index", "predicted", "probability")).drop("case")
    return {index: Prediction(answer, probability) for index, answer, probability in facts.iter_rows()}

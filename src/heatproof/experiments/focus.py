"""The paper's other experiments: where the targets lie, and models without what they learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from heatproof.api import run
from heatproof.errors import unknown_name
from heatproof.experiments.figures import box_plot, histograms
from heatproof.harmless import csv_writer, visible
from heatproof.lazy import pl
from heatproof.models.versions import EVERYTHING, without_draw
from heatproof.mosaics.mosaics import LAYOUTS
from heatproof.mosaics.published import under_paper_pooling
from heatproof.progress import Progress, silent
from heatproof.report.runs import Run
from heatproof.workspace import write_whole

Part = Literal["cascade", "histogram"]
"""Of the test with random weights: block by block, and all at once."""
FIGURES_OF_PARTS = (("randomise", "cascade"), ("histogram", "histogram"))
"""The figure that each part makes."""


def layouts(
    out: Path, explainer: str, seed: int, progress: Progress = silent, **options: Any
) -> dict[str, list[float]]:
    """Focus by layout, one run per layout in a folder of its own; layout.csv and layout.svg."""
    groups: dict[str, list[float]] = {}
    for layout in ("random", *LAYOUTS):
        finished = one_run(out / layout, explainer, seed, progress, layout=layout, **options)
        (groups[layout],) = focus_by_model(finished).values()
    return written(out, "layout", f"Focus of {explainer} by the place of the targets", groups)


def randomisation(
    out: Path, explainer: str, seed: int, progress: Progress = silent, part: Part | None = None, **options: Any
) -> dict[str, list[float]]:
    """Focus of the trained model, of a random one and of the cascade, all draws together.

    randomise.csv, randomise.svg with box plots, and histogram.svg with the trained model beside the random one. One
    `part` alone: the cascade makes randomise.csv and randomise.svg, the histogram histogram.csv and histogram.svg.
    """
    if part is not None and part not in get_args(Part):
        raise unknown_name("part of the test", part, get_args(Part))
    groups: dict[str, list[float]] = {}
    for way, wanted_by in (("all", "histogram"), ("cascade", "cascade")):
        if part in (None, wanted_by):
            finished = one_run(out / way, explainer, seed, progress, randomise=way, **options)
            groups |= focus_by_model(finished)
    trained = next(iter(groups))
    if part != "cascade":
        title = f"Focus of {explainer}: {trained}, trained and random"
        write_text(out / "histogram.svg", histograms(title, {name: groups[name] for name in (trained, EVERYTHING)}))
    if part == "histogram":
        write_groups(out / "histogram.csv", groups)
        return groups
    return written(out, "randomise", f"Focus of {explainer}, weights drawn anew", groups)


def one_run(folder: Path, explainer: str, seed: int, progress: Progress, **options: Any) -> Run:
    """One explainer, by the engine, so that an interrupted experiment goes on where it was."""
    return run(
        "focus",
        explainers=[explainer],
        out=folder,
        seed=seed,
        target="logit",
        progress=progress,
        **options,
    )


def focus_by_model(finished: Run) -> dict[str, list[float]]:
    """Focus of every mosaic under the paper's pooling, by version of the model, the trained one first."""
    rows = under_paper_pooling(finished.scores().filter(pl.col("metric") == "focus"))
    groups: dict[str, list[float]] = {}
    for name in finished.manifest["models"]:
        groups.setdefault(without_draw(name), []).extend(rows.filter(model=name)["value"])
    return groups


def written(out: Path, name: str, title: str, groups: dict[str, list[float]]) -> dict[str, list[float]]:
    write_groups(out / f"{name}.csv", groups)
    write_text(out / f"{name}.svg", box_plot(title, groups))
    return groups


def write_groups(path: Path, groups: Mapping[str, Sequence[float]]) -> None:
    write_whole(path, csv_writer(group_table(groups)))


def group_table(groups: Mapping[str, Sequence[float]]) -> pl.DataFrame:
    """A row per mosaic: its group and its Focus."""
    return pl.concat([pl.DataFrame({"group": key, "focus": values}) for key, values in groups.items()])


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(visible(text), encoding="utf-8"))

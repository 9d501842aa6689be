"""The paper's other experiments: where the targets lie, and models without what they learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heatproof.api import Run, run
from heatproof.experiments.figures import box_plot, histograms
from heatproof.lazy import pl
from heatproof.models.versions import EVERYTHING, without_draw
from heatproof.mosaics.mosaics import LAYOUTS
from heatproof.mosaics.published import under_paper_pooling
from heatproof.progress import Progress, silent
from heatproof.workspace import write_whole


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
    out: Path, explainer: str, seed: int, progress: Progress = silent, **options: Any
) -> dict[str, list[float]]:
    """Focus of the trained model, of a random one and of the cascade, all draws together.

    randomise.csv, randomise.svg with box plots, and histogram.svg with the trained model beside the random one.
    """
    groups: dict[str, list[float]] = {}
    for way in ("all", "cascade"):
        finished = one_run(out / way, explainer, seed, progress, randomise=way, **options)
        groups |= focus_by_model(finished)
    trained = next(iter(groups))
    title = f"Focus of {explainer}: {trained}, trained and random"
    write_text(out / "histogram.svg", histograms(title, {name: groups[name] for name in (trained, EVERYTHING)}))
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
    """Focus of every mosaic under the paper's pooling, by version of the model."""
    rows = under_paper_pooling(finished.scores().filter(pl.col("metric") == "focus"))
    groups: dict[str, list[float]] = {}
    for (name,), group in rows.group_by("model", maintain_order=True):
        groups.setdefault(without_draw(str(name)), []).extend(group["value"])
    return groups


def written(out: Path, name: str, title: str, groups: dict[str, list[float]]) -> dict[str, list[float]]:
    table = pl.concat([pl.DataFrame({"group": key, "focus": values}) for key, values in groups.items()])
    write_whole(out / f"{name}.csv", table.write_csv)
    write_text(out / f"{name}.svg", box_plot(title, groups))
    return groups


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

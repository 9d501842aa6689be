"""The experiments of the Focus paper in Python, in the words of the commands: `heatproof.focus.bias("runs/mine")`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heatproof.experiments.bias import COUNT, Findings, write_bias
from heatproof.experiments.focus import FIGURES_OF_PARTS, Part, group_table, layouts, randomisation
from heatproof.experiments.focus_sections import add_to_page, layout_section, randomise_section, require_focus_run
from heatproof.experiments.table import FocusTable, write_table
from heatproof.lazy import pl
from heatproof.progress import Progress, silent
from heatproof.results.bias import BELOW, LEVEL
from heatproof.results.run import Results

__all__ = ["Findings", "FocusTable", "bias", "layout", "randomise", "table"]


def layout(
    explainer: str = "grad_cam",
    *,
    target: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    out: Path | str = "runs/focus-layout",
    page: Path | str | None = None,
    progress: Progress = silent,
    **options: Any,
) -> pl.DataFrame:
    """Focus with the targets in each of the six places, and at random: a row per mosaic with its group.

    `target` takes mosaics of this class alone; `options` are those of the benchmark (images, model, per_class ...).
    layout.csv and box plots (layout.svg) are in the folder `out`, and what it holds already is not computed again.
    `page` is a run of focus on whose page it shall stand, too.
    """
    if page is not None:
        require_focus_run(Path(page))
    groups = layouts(Path(out), explainer, seed, progress, only=target, device=device, **options)
    if page is not None:
        figure = Path(out) / "layout.svg"
        add_to_page(Path(page), "layout", layout_section(explainer, groups, figure), [figure])
    return group_table(groups)


def randomise(
    explainer: str = "grad_cam",
    *,
    only: Part | None = None,
    target: str | None = None,
    draws: int = 3,
    seed: int = 0,
    device: str = "cpu",
    out: Path | str = "runs/focus-randomise",
    page: Path | str | None = None,
    progress: Progress = silent,
    **options: Any,
) -> pl.DataFrame:
    """Focus of the trained model, of a random one, and with blocks randomised from the top: a row per mosaic.

    `only` one part of it: `cascade` (block by block) or `histogram` (all at once). `target` takes mosaics of this class
    alone; random weights are drawn `draws` times; `options` are those of the benchmark. Tables and figures go to `out`.
    `page` is a run of focus on whose page it shall stand, too.
    """
    options |= {"only": target, "draws": draws, "device": device}
    if page is not None:
        require_focus_run(Path(page))
    groups = randomisation(Path(out), explainer, seed, progress, only, **options)
    if page is not None:
        figures = [Path(out) / f"{name}.svg" for name, part in FIGURES_OF_PARTS if only in (None, part)]
        add_to_page(Path(page), "randomise", randomise_section(explainer, groups, figures), figures)
    return group_table(groups)


def bias(
    run: Results | Path | str,
    explainer: str = "grad_cam",
    *,
    target: str | None = None,
    partner: str | None = None,
    count: int = COUNT,
    names: Mapping[str, str] | Path | str | None = None,
    below: float = BELOW,
    level: float = LEVEL,
    model: Any = None,
    progress: Progress = silent,
) -> Findings:
    """What the model of a run of focus confuses: first as the paper has it, then by a test of ours.

    The pair of the lowest mean Focus, or `target` and `partner`, with `count` of its mosaics and their heatmaps on a
    page for an expert (`Findings.page`); then all pairs whose share is surely `below`, at this `level`. `names` are
    what classes are called: a mapping, or a CSV with label and name. A run whose model was a Python object is given it
    again as `model`, to look at its features. All of it is in the run's folder and on its page.
    """
    folder = run.folder if isinstance(run, Results) else run
    return write_bias(
        folder, explainer, below, level, progress, target=target, partner=partner, count=count, names=names, model=model
    )


def table(*runs: Results | Path | str, out: Path | str = "runs/focus-table", progress: Progress = silent) -> FocusTable:
    """The paper's table from runs of focus: networks by methods, mean (standard deviation), the networks' accuracy.

    The paper's row stands beneath where network and data are its own (`paper_row` of the run). Then how mean Focus
    goes with accuracy over networks: `FocusTable.correlation`, and a plot. The files are in the folder `out`.
    """
    return write_table(runs, out, progress)

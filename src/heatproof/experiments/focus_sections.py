"""Layouts and randomised models as sections of a run's page."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from heatproof.api import load_run
from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.report.sections import write_section
from heatproof.story import Cell, Paragraph, Plate, Section, Table
from heatproof.workspace import whole

Groups = Mapping[str, Sequence[float]]


def require_focus_run(folder: Path) -> None:
    """Find out before any long work whether the page is that of a run of focus."""
    benchmark = load_run(folder).manifest["configuration"]["benchmark"]
    if benchmark != "focus":
        raise HeatproofError(f"{folder} is a run of {benchmark}; give --page the folder of a run of focus.")


def add_to_page(folder: Path, name: str, section: Section, figures: Sequence[Path]) -> Path:
    """Put a section with its figures on the page of a run, and return the page's path."""
    run = load_run(folder)
    place = run.files.path("sections", name)
    for figure in figures:
        with whole(place / figure.name) as temporary:
            shutil.copyfile(figure, temporary)
    write_section(run.files, name, section)
    return run.report()


def layout_section(explainer: str, groups: Groups, figure: Path) -> Section:
    """Focus by the place of the targets: a method that follows the class does not care where they lie."""
    means = {name: mean_of(values) for name, values in groups.items()}
    known = {name: mean for name, mean in means.items() if mean is not None}
    lowest, highest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    said = (
        f"Mean Focus of {explainer} lies between {known[lowest]:.2f} ({lowest}) and {known[highest]:.2f} ({highest})."
        " A heatmap that follows the class has the same Focus wherever the targets lie; one that lies in the middle or"
        " on an edge does not."
    )
    title = f"Where the targets lie: {explainer}"
    return Section(title, [Paragraph(said), group_table("Focus by layout", "layout", groups), drawn([figure])])


def randomise_section(explainer: str, groups: Groups, figures: Sequence[Path]) -> Section:
    """Focus of the trained model beside models without what it learnt."""
    trained, *others = groups
    first, rest = mean_of(groups[trained]), [mean_of(groups[name]) for name in others]
    known = [mean for mean in rest if mean is not None]
    said = f"Mean Focus of {explainer} on the trained model is {in_digits(first)}"
    if known:
        said += f"; with weights drawn anew it is {min(known):.2f} to {max(known):.2f}, where chance is 0.50"
    title = f"Trained against random: {explainer}"
    return Section(
        title,
        [
            Paragraph(f"{said}. What is left without training does not come from what the model has learnt."),
            group_table("Focus of the trained model and of randomised ones", "model", groups),
            drawn(figures),
        ],
    )


def group_table(title: str, head: str, groups: Groups) -> Table:
    """A row per group: how many mosaics, mean, and the middle half."""
    rows = []
    for name, values in groups.items():
        defined = np.asarray(values, dtype=float)
        defined = defined[~np.isnan(defined)]
        mean = mean_of(values)
        levels = np.quantile(defined, (0.25, 0.5, 0.75)) if len(defined) else []
        rows.append(
            (
                name,
                [
                    Cell(str(len(defined)), len(defined)),
                    Cell(in_digits(mean), mean, bar=mean),
                    *(Cell(f"{level:.3f}", float(level)) for level in levels),
                    *[Cell("–")] * (3 - len(levels)),
                ],
            )
        )
    return Table(title, (head, "mosaics", "mean", "lower quartile", "median", "upper quartile"), rows)


def drawn(figures: Sequence[Path]) -> Plate:
    words = "Boxes: the middle half with the median; lines: from the 5th to the 95th percentile; dots: means."
    return Plate("Drawn", words, [(figure.stem, figure.name) for figure in figures])


def mean_of(values: Sequence[float]) -> float | None:
    """The mean of what is defined; None where nothing is."""
    defined = [value for value in values if value == value]
    return sum(defined) / len(defined) if defined else None


def in_digits(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.3f}"

"""What `heatproof focus bias` leaves in a run folder: tables, figure, pictures, and a section of the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heatproof.api import Run
from heatproof.errors import HeatproofError
from heatproof.experiments.figures import pair_matrix
from heatproof.experiments.focus import write_text
from heatproof.experiments.worst import picture_name, write_worst
from heatproof.lazy import pl
from heatproof.progress import Progress, silent
from heatproof.report.sections import write_section
from heatproof.results.bias import (
    BELOW,
    LEAST,
    LEVEL,
    chosen_explainer,
    class_means,
    find_pairs,
    first_model,
    over_all_classes,
    pair_rows,
    tile_shares,
    worst_mosaics,
)
from heatproof.story import Cell, Panel, Paragraph, Section, Table
from heatproof.workspace import write_whole

SHOWN_PAIRS, SHOWN_MOSAICS = 6, 4
"""Found pairs that are shown with pictures, and mosaics of each."""
Row = Mapping[str, Any]


class Findings(NamedTuple):
    """Every pair, the folder of the files, why there are no pictures where there should be some, and a caution."""

    pairs: pl.DataFrame
    folder: Path
    without_pictures: str | None
    follows_class: bool
    """Whether Focus over all classes is surely above chance, so that the heatmaps can be trusted in this."""


def write_bias(
    folder: Path,
    explainer: str = "grad_cam",
    below: float = BELOW,
    level: float = LEVEL,
    progress: Progress = silent,
) -> Findings:
    """What the model confuses, by the heatmaps of a run: tables, figure and pictures in its folder, and on its page.

    sections/EXPLAINER/ holds classes.csv, pairs.csv, matrix.svg, worst.csv with the worst mosaics of the found pairs,
    their pictures, bias.json with the settings, and section.json for the page.
    """
    run = Run(folder)
    entry = chosen_explainer(run, explainer)
    shares = tile_shares(run, entry)
    pairs = pair_rows(shares)
    table = find_pairs(pairs, below, level, progress=progress)
    place = run.files.path("sections", entry["folder"])
    worst = worst_mosaics(pairs, table.filter("found").head(SHOWN_PAIRS), SHOWN_MOSAICS)
    shutil.rmtree(place, ignore_errors=True)
    problem = None
    if len(worst):
        try:
            write_worst(run, entry, worst, place, progress)
        except HeatproofError as error:  # the pairs are found all the same
            problem = str(error)
    classes = class_means(shares)
    write_whole(place / "classes.csv", classes.write_csv)
    write_whole(place / "pairs.csv", table.write_csv)
    write_whole(place / "worst.csv", worst.write_csv)
    write_text(place / "matrix.svg", pair_matrix(table, below))
    settings = {"explainer": entry["explainer"], "target": entry["target"], "model": first_model(run)}
    counts = {"mosaics": len(shares), "without_relevance": int(shares["share_0"].is_nan().sum()), "least": LEAST}
    overall = over_all_classes(shares)
    content = settings | overall | {"below": below, "level": level, "without_pictures": problem} | counts
    write_text(place / "bias.json", json.dumps(content, indent=2) + "\n")
    write_section(run.files, entry["folder"], section(content, table, classes, worst))
    run.report()
    return Findings(table, place, problem, overall["follows_class"])


def section(settings: Row, pairs: pl.DataFrame, classes: pl.DataFrame, worst: pl.DataFrame) -> Section:
    """The page's section on what the model confuses."""
    found = pairs.filter("found")
    shown = [pair for pair in found.iter_rows(named=True) if len(of_pair(worst, pair))]
    blocks: list[Paragraph | Table | Panel] = [Paragraph(how_it_was_found(settings), tone="soft")]
    test = f"(t-test corrected for skewness, level {settings['level']:g}, by Holm's method for {len(pairs)} pairs)"
    if len(found):
        lead = f"{len(found)} of {len(pairs)} pairs found:"
        blocks.append(Paragraph(f"share surely below {percent(settings['below'])} % {test}.", lead, "bad"))
        if not settings["follows_class"]:
            blocks.append(Paragraph(caution(settings), "Caution:", "bad"))
    else:
        said = f"No pair of {len(pairs)} has a share surely below {percent(settings['below'])} % {test}."
        limits = " Biases that these pictures do not show cannot be found with them."
        blocks.append(Paragraph(said + limits, "Nothing found.", "good"))
    if untested := len(pairs.filter(pl.col("n") < settings["least"])):
        few = f"{untested} pair(s) have fewer than {settings['least']} mosaics and were not tested."
        blocks.append(Paragraph(few, tone="soft"))
    blocks += [panel(pair, of_pair(worst, pair)) for pair in shown]
    if settings["without_pictures"]:
        blocks.append(Paragraph(f"Without pictures: {settings['without_pictures']}", tone="soft"))
    if len(found) > len(shown):
        rest = f"The other {len(found) - len(shown)} found pairs are framed below and listed in pairs.csv."
        blocks.append(Paragraph(rest, tone="soft"))
    return Section("What the model confuses", [*blocks, class_table(classes), share_matrix(pairs, settings["below"])])


def how_it_was_found(settings: Row) -> str:
    left_out = f", {settings['without_relevance']} of them without any positive relevance and left out"
    target = f" of the {settings['target']}" if settings["target"] else ""
    return (
        f"Model {settings['model']}, by {settings['explainer']}{target}, {settings['mosaics']} mosaics"
        f"{left_out if settings['without_relevance'] else ''}. A pair's share is the part of the relevance for the"
        " target that lies on its own pictures, out of that on its own and on the other class's, per picture: at 50 %"
        " the model sees as much of the target in the other class as in the target."
    )


def caution(settings: Row) -> str:
    return (
        f"over all classes, Focus is {percent(settings['focus'])} %, not surely above chance"
        f" ({percent(settings['chance'])} %). Either the model confuses this much, or these heatmaps do not follow the"
        " class and lie on what is conspicuous. The pictures tell which; so does another explainer."
    )


def panel(pair: Row, worst: list[Row]) -> Panel:
    """A found pair: its share, where the relevance lies, and its worst mosaics."""
    target, other = pair["target_class"], pair["other_class"]
    share = f"{percent(pair['share'])} % ({percent(pair['share_low'])} to {percent(pair['share_high'])})"
    return Panel(
        title=f"{target} is seen in {other}",
        text=f"Share {share}, corrected {p_value(pair)}, {pair['n']} mosaics. Of all relevance for {target}:",
        parts=[
            (pair["focus"], f"on {target}"),
            (pair["other_part"], f"on {other}"),
            (pair["remaining_part"], "on the rest"),
        ],
        figures=[
            (
                f"{row['case']}: share {percent(row['share'])} %",
                [picture_name("mosaic", row), picture_name("heatmap", row)],
            )
            for row in worst
        ],
    )


def of_pair(worst: pl.DataFrame, pair: Row) -> list[Row]:
    rows = worst.filter(target_class=pair["target_class"], other_class=pair["other_class"])
    return list(rows.iter_rows(named=True))


def class_table(classes: pl.DataFrame) -> Table:
    rows = [
        (
            row["target_class"],
            [
                Cell(f"{100 * row['focus']:.1f}", row["focus"], bar=row["focus"]),
                Cell(f"{100 * row['focus_low']:.1f} to {100 * row['focus_high']:.1f}", row["focus_low"]),
                Cell(str(row["n"]), row["n"]),
            ],
        )
        for row in classes.iter_rows(named=True)
    ]
    return Table("Focus by target class", ["target", "Focus", "95 % interval", "mosaics"], rows)


def share_matrix(pairs: pl.DataFrame, below: float) -> Table:
    """The share of every pair: the target in the row, the other class in the column."""
    cells = {(row["target_class"], row["other_class"]): row for row in pairs.iter_rows(named=True)}
    names = sorted({name for pair in cells for name in pair})

    def cell(row: Row | None) -> Cell:
        if row is None:
            return Cell()
        gap = row["share"] - below
        interval = f"{percent(row['share_low'])} to {percent(row['share_high'])}"
        title = f"{interval}, Focus {percent(row['focus'])}, n = {row['n']}, corrected {p_value(row)}"
        shade = gap / below if gap < 0 else gap / (1 - below)
        return Cell(percent(row["share"]), title=title, shade=shade, framed=row["found"])

    rows = [(target, [cell(cells.get((target, other))) for other in names]) for target in names]
    note = "Percent; the target in the row, the other class in the column."
    note += f" Red: below {percent(below)}. Framed: surely so."
    return Table("Share of each pair", ["", *names], rows, matrix=True, note=note)


def percent(share: float) -> str:
    return f"{100 * share:.0f}"


def p_value(row: Row) -> str:
    return "p < 0.001" if row["p_corrected"] < 0.001 else f"p = {row['p_corrected']:.2g}"

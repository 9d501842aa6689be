"""The poster beside a run as files and as a section of the run's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heatproof.benchmarks.kept import find_kept
from heatproof.errors import HeatproofError
from heatproof.experiments.poster import PARTS, TITLES, Claim, as_printed, claims, poster_table
from heatproof.experiments.rest import REACHED, reach, takers
from heatproof.harmless import csv_writer
from heatproof.lazy import pl
from heatproof.progress import Progress, silent
from heatproof.report.runs import Run
from heatproof.report.sections import write_section
from heatproof.story import Cell, Panel, Paragraph, Section, Table
from heatproof.workspace import write_whole

NAME = "poster"
OTHER_NETWORK = "The poster's numbers are about another network and CLEVR-XAI's 39,761 questions."


@dataclass(frozen=True, eq=False)
class Beside:
    """A run beside the poster.

    model    the network that was explained; `short` are names of explainers for people
    table    `poster_table`; `claims` what it says of the poster's claims
    reach    how near each method comes to 1, and where the rest lies
    takers   which other objects take it, empty if `without` says why that cannot be told
    """

    model: str
    short: Mapping[str, str]
    table: pl.DataFrame
    claims: Sequence[Claim]
    reach: pl.DataFrame
    takers: pl.DataFrame
    without: str
    place: Path


def write_poster(folder: Path, dataset: Path | None = None, progress: Progress = silent) -> Beside:
    """Put a run beside the poster: poster.csv, reach.csv and takers.csv in sections/poster, and the page's section."""
    run = Run(folder)
    table = poster_table(run)
    near = reach(run)
    taken, without = pl.DataFrame(), ""
    try:
        kept = find_kept(folder)
        assert kept is not None
        methods = set(near["explainer"])
        chosen = [entry for entry in kept.entries if entry["explainer"] in methods]
        taken = takers(kept.only(chosen), dataset, progress)
    except HeatproofError as problem:  # all else is told by the scores
        without = str(problem)
    place = run.files.path("sections", NAME)
    beside = Beside(next(iter(run.manifest["models"])), run.short, table, claims(table), near, taken, without, place)
    for name, frame in (("poster", table), ("reach", near), ("takers", taken)):
        if len(frame):
            write_whole(place / f"{name}.csv", csv_writer(frame))
    write_section(run.files, NAME, section(beside))
    run.report()
    return beside


def lines(beside: Beside) -> list[tuple[str, list[str]]]:
    """A row per method: for each of the poster's columns ours, then the poster's."""
    rows: dict[str, dict[str, list[str]]] = {}
    for row in beside.table.iter_rows(named=True):
        ours = as_printed(row["mean"], row["std"], row["median"])
        theirs = as_printed(row["poster_mean"], row["poster_std"], row["poster_median"])
        rows.setdefault(row["method"], {})[row["subset"]] = [ours, theirs]
    return [
        (TITLES[method], [text for part in PARTS for text in found.get(part, ["–", "–"])])
        for method, found in rows.items()
    ]


def heads(beside: Beside) -> list[str]:
    counts = dict(beside.table.group_by("subset").agg(pl.col("n").max()).iter_rows())
    return [head for part, words in PARTS.items() for head in (f"{words}, n {counts.get(part, 0)}", "poster")]


def reach_grid(beside: Beside) -> list[tuple[str, list[str]]]:
    """A row per method, in percent."""
    return [
        (
            beside.short.get(explainer, explainer),
            [f"{n:,}", *("–" if share is None else f"{100 * share:.1f}" for share in shares)],
        )
        for explainer, n, *shares in beside.reach.iter_rows()
    ]


REACH_HEADS = ("questions", "mean", f"at least {REACHED}", "highest", "on other objects", "between objects")


def takers_grid(beside: Beside) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Kinds of other objects as columns: the share of relevance that each takes; its pixels in the last row."""
    kinds = beside.takers["kind"].unique(maintain_order=True).to_list()
    rows = [
        (beside.short.get(str(explainer), str(explainer)), [f"{100 * share:.0f}" for share in group["taken"]])
        for (explainer,), group in beside.takers.group_by("explainer", maintain_order=True)
    ]
    first = beside.takers[: len(kinds)]
    return kinds, [*rows, ("their pixels", [f"{100 * share:.0f}" for share in first["pixels"]])]


def section(beside: Beside) -> Section:
    """The page's section."""
    blocks: list[Paragraph | Table | Panel] = [Paragraph(OTHER_NETWORK, tone="soft")]
    rows = [(name, [Cell(text) for text in cells]) for name, cells in lines(beside)]
    note = "Mean (standard deviation) median, as the poster prints them; pos_l2_norm_sq against single_object."
    blocks.append(Table("Mass accuracy in the poster's columns", ["method", *heads(beside)], rows, note=note))
    for claim in beside.claims:
        tone = "good" if claim.here.startswith("holds:") else "bad" if claim.here.startswith("does not") else ""
        blocks.append(
            Paragraph(f"Here it {claim.here}. On the poster's own numbers it {claim.there}.", f"{claim.text}:", tone)
        )
    near = [(name, [Cell(text) for text in texts]) for name, texts in reach_grid(beside)]
    said = (
        f"Percent. At least {REACHED}: the share of questions with such a score. What does not lie on the asked object"
    )
    said += " lies on other objects, or between objects."
    blocks.append(Table("Can a method reach 1.0?", ["method", *REACH_HEADS], near, note=said))
    if beside.without:
        blocks.append(Paragraph(f"Which other objects take the rest cannot be told: {beside.without}", tone="soft"))
    else:
        kinds, grid = takers_grid(beside)
        cells = [(name, [Cell(text) for text in texts]) for name, texts in grid]
        note = "Percent of the relevance that lies on other objects than the asked one; below, these objects' pixels."
        blocks.append(Table("Which objects take the rest", ["method", *kinds], cells, note=note))
    return Section("Beside the poster", blocks)

"""What `heatproof focus bias` leaves in a run folder: tables, pictures, a page for an expert, a section of the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError, require_whole
from heatproof.experiments.bias_pictures import (
    blocks,
    cases_to_show,
    drawing_pictures,
    write_crops,
    write_tables,
)
from heatproof.experiments.bias_words import lowest_panel, reach_words, section, sheet
from heatproof.experiments.figures import pair_matrix
from heatproof.experiments.focus import write_text
from heatproof.experiments.worst import look_up, numbered_name, plain_name, write_named, write_worst
from heatproof.harmless import csv_writer
from heatproof.lazy import pl
from heatproof.mosaics.pictures import read_table
from heatproof.progress import Progress, silent
from heatproof.report.runs import Run
from heatproof.report.sections import write_section
from heatproof.report.sheet import write_sheet
from heatproof.results.bias import (
    BELOW,
    LEAST,
    LEVEL,
    chosen_explainer,
    class_means,
    find_pairs,
    first_model,
    lowest_pair,
    over_all_classes,
    pair_mosaics,
    pair_rows,
    partner_means,
    tile_shares,
    worst_mosaics,
)
from heatproof.results.bias_pictures import Drawn, tile_draws
from heatproof.results.bias_reach import Reach, means_with_reach, pairs_with_reach, reach_of
from heatproof.workspace import write_whole

COUNT = 8
"""Mosaics of the lowest pair that are shown."""
SHOWN_PAIRS, SHOWN_MOSAICS = 6, 4
"""Found pairs that are shown with pictures, and mosaics of each."""
PAGE = "pair.html"


@dataclass(frozen=True, eq=False)
class Findings:
    """What the model confuses.

    classes            mean Focus of each target class, lowest first
    target, partner    the pair that is shown: the lowest, unless another was asked for
    partners           mean Focus of the target beside each other class, lowest first
    mosaics            the shown mosaics of the pair, lowest Focus first
    pairs              every pair in our test, lowest share first; `found` where it is surely low
    folder             of the files
    page               for an expert; None where there can be no pictures
    without_pictures   why, then
    follows_class      whether Focus over all classes is surely above chance, so that heatmaps can be trusted in this
    reach, reached     how many pairs were tested and what could have been seen, in numbers and in words
    drawn              which single pictures and groups draw relevance; None where the run does not say what lies where
    """

    classes: pl.DataFrame
    target: str
    partner: str
    partners: pl.DataFrame
    mosaics: pl.DataFrame
    pairs: pl.DataFrame
    folder: Path
    page: Path | None
    without_pictures: str | None
    follows_class: bool
    reach: Reach
    reached: str
    drawn: Drawn | None = None


def write_bias(
    folder: Path | str,
    explainer: str = "grad_cam",
    below: float = BELOW,
    level: float = LEVEL,
    progress: Progress = silent,
    *,
    target: str | None = None,
    partner: str | None = None,
    count: int = COUNT,
    names: Mapping[str, str] | Path | str | None = None,
    model: Any = None,
) -> Findings:
    """What the model confuses, by the heatmaps of a run: tables and pictures in its folder, and on its page.

    sections/EXPLAINER/ holds classes.csv, partners.csv, pairs.csv, matrix.svg, pictures.csv and groups.csv with what
    single pictures draw, worst.csv with the worst mosaics of the found pairs, their pictures, bias.json with the
    settings, and section.json for the page. TARGET-beside-PARTNER/ in it holds the page for an expert, its pictures,
    and mosaics.csv; those of other pairs stay. `model` is the network of a run that was given one as a Python object:
    its features tell what sets pictures apart.
    """
    require_whole("count", count, 1)
    run = Run(folder)
    entry = chosen_explainer(run, explainer)
    called = read_names(names)
    shares = with_names(tile_shares(run, entry), called)
    pairs = pair_rows(shares)
    table = pairs_with_reach(find_pairs(pairs, below, level, progress=progress), pairs, below, level)
    classes = means_with_reach(class_means(shares), pairs.unique("case"), level)
    given = (called.get(name, name) if name else None for name in (target, partner))
    first, second = lowest_pair(pairs, classes, *given)
    partners = means_with_reach(partner_means(pairs, first), pairs.filter(target_class=first), level)
    every = pair_mosaics(pairs, first, second)
    mosaics = every.head(count).join(shares.drop("target_class"), on="case", maintain_order="left")
    worst = worst_mosaics(pairs, table.filter("found").head(SHOWN_PAIRS), SHOWN_MOSAICS)

    low_pairs = table.filter("found").select("target_class", "other_class").rows()
    drawn = drawing_pictures(run, shares, progress, low_pairs, model)
    pictured = {} if drawn is None else cases_to_show(drawn, tile_draws(shares))

    place = run.files.path("sections", entry["folder"])
    beside = place / plain_name(first, "beside", second)
    clear(place, beside)
    problem = None
    crops: dict[tuple[str, str], list[str]] = {}
    try:
        looked_at = {case for seen in pictured.values() for case, _ in seen}
        shown = look_up(run, entry, {*mosaics["case"], *worst["case"], *looked_at}, progress, called)
        crops = write_crops(shown, pictured, place)
        write_worst(shown, worst, place)
        write_named(shown, mosaics, beside)
    except HeatproofError as error:  # the pairs are found all the same
        problem = str(error)

    overall, reach = over_all_classes(shares), reach_of(pairs, table, below, level)
    settings = (
        {name: entry[name] for name in ("explainer", "target", "folder")}
        | {"model": first_model(run)}
        | overall
        | {"below": below, "level": level, "without_pictures": problem}
        | {"mosaics": len(shares), "without_relevance": int(shares["share_0"].is_nan().sum()), "least": LEAST}
        | {"per_class": ceil(len(shares) / shares["target_class"].n_unique()), "reach": asdict(reach)}
        | {"lowest_target": first, "lowest_partner": second, "is_lowest": target is None and partner is None}
    )
    for name, frame in (("classes", classes), ("partners", partners), ("pairs", table), ("worst", worst)):
        write_whole(place / f"{name}.csv", csv_writer(frame))
    write_text(place / "matrix.svg", pair_matrix(table, below))
    write_text(place / "bias.json", json.dumps(settings, indent=2) + "\n")
    panel = lowest_panel(settings, mosaics, len(every), beside.name)
    said = section(settings, reach, table, classes, partners, worst, panel)
    if drawn is not None:
        write_tables(drawn, place)
    page = None
    if problem is None:
        write_whole(beside / "mosaics.csv", csv_writer(with_files(mosaics)))
        line = next(table.filter(target_class=first, other_class=second).iter_rows(named=True), None)
        about = f"run {run.folder.name}, seed {run.manifest['configuration']['seed']}, {run.manifest['created'][:10]}"
        page = write_sheet(beside / PAGE, sheet(settings, line, classes, partners, mosaics, len(every)), about)
    write_section(run.files, entry["folder"], replace(said, blocks=[*said.blocks, *blocks(drawn, crops)]))
    run.report()
    return Findings(
        classes,
        first,
        second,
        partners,
        mosaics,
        table,
        place,
        page,
        problem,
        bool(overall["follows_class"]),
        reach,
        reach_words(reach, settings["per_class"]),
        drawn,
    )


def with_files(mosaics: pl.DataFrame) -> pl.DataFrame:
    """The shown mosaics with the names of their pictures."""
    rows = list(enumerate(mosaics.iter_rows(named=True), 1))
    kinds = ("mosaic", "heatmap")
    return mosaics.with_columns(pl.Series(kind, [numbered_name(i, kind, row) for i, row in rows]) for kind in kinds)


def read_names(names: Mapping[str, str] | Path | str | None) -> dict[str, str]:
    """What classes are called: a mapping, or a CSV with columns label and name. No two may have one name."""
    if names is None:
        return {}
    if isinstance(names, Mapping):
        found, where = dict(names), "names"
    else:
        found = {row["label"]: row["name"] for row in read_table(Path(names), ("label", "name"))}
        where = str(names)
    twice = sorted({name for name in found.values() if list(found.values()).count(name) > 1})
    if twice or "" in found.values():
        said = f"{twice[0]!r} is the name of two classes" if twice and twice[0] else "a class has an empty name"
        raise HeatproofError(f"{where}: {said}; give each its own.")
    return found


def with_names(shares: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """The classes of mosaics by what they are called."""
    columns = [name for name in shares.columns if name == "target_class" or name.startswith("label_")]
    known = {label for name in columns for label in shares[name]}
    if taken := sorted({names[label] for label in known & set(names)} & (known - set(names))):
        raise HeatproofError(f"names: {taken[0]!r} is another class already; give each its own name.")
    return shares.with_columns(pl.col(columns).replace(dict(names))) if names else shares


def clear(place: Path, pair: Path) -> None:
    """Remove what an earlier call has left, but for the pages of other pairs."""
    shutil.rmtree(pair, ignore_errors=True)
    for path in place.glob("*"):
        if path.is_file():
            path.unlink()

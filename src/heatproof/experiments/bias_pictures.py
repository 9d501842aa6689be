"""Pictures that draw relevance for a class that is not theirs, with what they look like and where it lies on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.experiments.bias_features import features_of
from heatproof.experiments.worst import Shown, as_image, plain_name, save
from heatproof.harmless import csv_writer
from heatproof.lazy import np, pl
from heatproof.mosaics.facts import picture_facts
from heatproof.mosaics.pictures import Fit, tile
from heatproof.progress import Progress
from heatproof.report.gallery import overlay
from heatproof.results.bias_features import Look
from heatproof.results.bias_pictures import (
    LEAST_PICTURES,
    MORE,
    RATE,
    Drawn,
    find_pictures_that_draw,
    tile_draws,
    with_looks,
)
from heatproof.story import Cell, Panel, Paragraph, Table
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.results.run import Results

SHOWN = 8
"""Pictures that are shown."""
LISTED = 20
"""Pictures in the page's table; the file has them all."""
MOSAICS_EACH = 3
"""Mosaics over which the heat on a picture is averaged."""
WHAT = (
    "The part of the relevance for a class that lies on one picture of another class, averaged over the mosaics that"
    " show it. Pictures differ in that by nature; named are groups that a simple fact sets apart and that draw surely"
    f" more than {MORE:g} times what the rest of their class draws, and single pictures beyond the spread of their"
    f" class (false discovery rate {RATE:.0%} over all that was tested)."
)


def drawing_pictures(
    run: Results,
    shares: pl.DataFrame,
    progress: Progress,
    low_pairs: Collection[tuple[str, str]] = (),
    model: Any = None,
) -> Drawn | None:
    """What pictures draw; None where the run does not say which pictures lie where, or they cannot be read.

    The network is looked into only where pictures are named; `model` is one that was given as a Python object.
    """
    columns = [name for name in shares.columns if name.startswith("picture_")]
    files = sorted({file for name in columns for file in shares[name]}) if columns else []
    if not files or not all(Path(file).is_file() for file in files) or tile_draws(shares).is_empty():
        return None
    side, fit = run.manifest["configuration"]["tile"], run.manifest["configuration"]["fit"]
    drawn = find_pictures_that_draw(shares, facts_of(files, side, fit, progress), low_pairs=low_pairs)
    pairs = drawn.pictures.filter("named").select("target_class", "other_class").unique()
    wanted = sorted(set(drawn.pictures.join(pairs, on=["target_class", "other_class"])["picture"]))
    if not wanted:
        return drawn
    try:
        return with_looks(drawn, features_of(run, wanted, progress, model))
    except HeatproofError as problem:  # the pictures are named all the same
        return replace(drawn, unseen=str(problem))


def facts_of(files: list[str], side: int, fit: Fit, progress: Progress) -> dict[str, dict[str, float]]:
    found = {}
    for done, file in enumerate(files):
        progress("looking at pictures", done, len(files))
        found[file] = picture_facts(tile(Path(file), side, fit))
    progress("looking at pictures", len(files), len(files))
    return found


def named_first(drawn: Drawn) -> pl.DataFrame:
    """Named pictures, then the others, those that draw most first."""
    return drawn.pictures.sort("named", "draw", "picture", descending=[True, True, False])


def cases_to_show(drawn: Drawn, tiles: pl.DataFrame) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """By target and picture: some mosaics that show it, and on which tile."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for row in named_first(drawn).filter("named").head(SHOWN).iter_rows(named=True):
        seen = tiles.filter(target_class=row["target_class"], picture=row["picture"]).head(MOSAICS_EACH)
        found[row["target_class"], row["picture"]] = seen.select("case", "tile").rows()
    return found


def write_crops(
    shown: Mapping[str, Shown], wanted: Mapping[tuple[str, str], list[tuple[str, int]]], place: Path
) -> dict[tuple[str, str], list[str]]:
    """Each picture, and the mean heat on it, as files in the folder; by target and picture."""
    made = {}
    for number, (key, seen) in enumerate(wanted.items(), 1):
        crops = [crop(shown[case], cell) for case, cell in seen]
        pixels = crops[0][0]
        heat = np.mean([relevance for _, relevance in crops], axis=0)
        images = {"picture": pixels, "heat": overlay(pixels.transpose(2, 0, 1), heat)}
        names = []
        for kind, image in images.items():
            name = plain_name("draws", f"{number:02d}", Path(key[1]).stem, kind) + ".webp"
            save(as_image(image), place / name)
            names.append(name)
        made[key] = names
    return made


def crop(shown: Shown, cell: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """A tile of a mosaic: its pixels, and its relevance as part of all positive relevance."""
    grid = shown.mosaic.grid
    side = len(shown.pixels) // grid
    top, left = (side * number for number in divmod(cell, grid))
    rows, columns = slice(top, top + side), slice(left, left + side)
    whole = float(np.maximum(shown.relevance, 0).sum()) or 1.0
    return shown.pixels[rows, columns], shown.relevance[rows, columns] / whole


def write_tables(drawn: Drawn, place: Path) -> None:
    write_whole(place / "pictures.csv", csv_writer(named_first(drawn)))
    members = drawn.groups["members"].list.join("; ") if len(drawn.groups) else pl.Series([], dtype=pl.Utf8)
    write_whole(place / "groups.csv", csv_writer(drawn.groups.with_columns(members=members)))


def blocks(drawn: Drawn | None, crops: Mapping[tuple[str, str], list[str]]) -> list[Paragraph | Table | Panel]:
    """What the page says of single pictures."""
    if drawn is None:
        said = "This run does not say which picture lies in which tile, or the pictures are no longer there."
        return [Paragraph(said, "Single pictures.", "soft")]
    found = drawn.groups.filter("found")
    named = drawn.pictures.filter("named")
    made: list[Paragraph | Table | Panel] = [Paragraph(WHAT, "Single pictures.")]
    if uneven := unevenly(drawn):
        made.append(Paragraph(uneven, tone="soft"))
    if named.is_empty():
        made.append(Paragraph(reach(drawn), "No picture and no group is named."))
    else:
        lead = f"{counted(len(named), 'picture')} named, {counted(len(found) + len(drawn.whole), 'group')} found."
        words = [*map(whole_words, drawn.whole.iter_rows(named=True))]
        words += map(group_words, found.head(3).iter_rows(named=True))
        words += [look_words(*pair, look) for pair, look in list(drawn.looks.items())[:3]]
        made.append(Paragraph(" ".join(words), lead, "bad"))
        if drawn.unseen:
            made.append(Paragraph(f"Without a look at the network's own features: {drawn.unseen}", tone="soft"))
    if crops:
        figures = [(f"{Path(file).name}, for {target}", names) for (target, file), names in crops.items()]
        text = "Each picture, and the mean heat on it over some of its mosaics (red: what spoke for the target)."
        made.append(Panel("Pictures that draw most", text, figures=figures))
    if len(found):
        rows = [
            (f"{row['target_class']} in {row['other_class']}: {row['fact']}", group_cells(row))
            for row in found.head(LISTED).iter_rows(named=True)
        ]
        heads = ["group", "pictures", "draws, %", "rest draws, %", "corrected p"]
        made.append(Table("Groups that draw surely more", heads, rows, note="All splits are in groups.csv."))
    listed = [
        (Path(row["picture"]).name, picture_cells(row)) for row in named_first(drawn).head(LISTED).iter_rows(named=True)
    ]
    heads = ["picture", "class", "draws relevance for", "draws, %", "95 % interval", "mosaics", "named for"]
    made.append(Table("Pictures by what they draw", heads, listed, note="All pictures are in pictures.csv."))
    return made


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def unevenly(drawn: Drawn) -> str:
    """What to do where some pictures are in more mosaics than others; empty where all are in equally many."""
    fewest, most = int(drawn.pictures["mosaics"].min()), int(drawn.pictures["mosaics"].max())  # type: ignore[arg-type]
    if fewest == most:
        return ""
    return (
        f"Pictures of other classes are in {fewest} to {most} mosaics of a target here. A run with --preset bias, or"
        " --design balanced, shows each equally often, and tells more with as many mosaics."
    )


def whole_words(row: Mapping[str, Any]) -> str:
    told = ""
    if row["fact"]:
        told = (
            f" What tells them from the pictures of {row['target_class']} best is {row['fact']}"
            f" (area under the ROC curve {row['apart']:.2f})."
        )
    return (
        f"The whole class {row['other_class']} draws relevance for {row['target_class']}: a picture of it"
        f" {100 * row['draw']:.0f} %, one of {row['target_class']} itself {100 * row['rest_draw']:.0f} %.{told}"
    )


def look_words(target: str, other: str, look: Look) -> str:
    """How named pictures lie in the network's own features, in words."""
    return (
        f"In the network's own features the {look.pictures} pictures of {other} fall into two groups (two means);"
        f" {look.inside} of the {look.named} named for {target} lie in one, which has {look.group} pictures."
        f" {look.neighbours} of the {look.named} have another named one as their nearest neighbour, by chance"
        f" {look.chance:.0f} would."
    )


def group_words(row: Mapping[str, Any]) -> str:
    return (
        f"{row['pictures']} pictures of {row['other_class']} with {row['fact']} draw {100 * row['draw']:.0f} % of the"
        f" relevance for {row['target_class']} each, the other {row['rest']} draw {100 * row['rest_draw']:.0f} %."
    )


def group_cells(row: Mapping[str, Any]) -> list[Cell]:
    return [
        Cell(str(row["pictures"]), row["pictures"]),
        Cell(f"{100 * row['draw']:.1f}", row["draw"], bar=row["draw"]),
        Cell(f"{100 * row['rest_draw']:.1f}", row["rest_draw"], bar=row["rest_draw"]),
        Cell(f"{row['p_corrected']:.2g}", row["p_corrected"]),
    ]


def picture_cells(row: Mapping[str, Any]) -> list[Cell]:
    return [
        Cell(row["other_class"]),
        Cell(row["target_class"]),
        Cell(f"{100 * row['draw']:.1f}", row["draw"], bar=row["draw"]),
        Cell(interval_words(row), row["draw_low"]),
        Cell(str(row["mosaics"]), row["mosaics"]),
        Cell(row["why"]),
    ]


def interval_words(row: Mapping[str, Any]) -> str:
    low, high = row["draw_low"], row["draw_high"]
    return "–" if np.isnan(low) else f"{100 * max(low, 0):.1f} to {100 * min(high, 1):.1f}"


def reach(drawn: Drawn) -> str:
    """What could have been seen, in words."""
    finite = [ratio for ratio in drawn.visible.values() if np.isfinite(ratio)]
    if not finite:
        return f"No class has the {LEAST_PICTURES} pictures that a test takes, so nothing was tested."
    return (
        f"Had half the pictures of a class drawn {np.median(finite):.1f} times what the others draw (median over"
        " pairs), that would have been found four times of five."
    )

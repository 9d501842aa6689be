"""What is said of a model's pairs of classes: the section of the run's page, and the page for an expert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, TypeAlias

from heatproof.experiments.worst import numbered_name, picture_name
from heatproof.lazy import pl
from heatproof.results.bias import LEAST
from heatproof.results.bias_reach import Reach
from heatproof.story import Cell, Panel, Paragraph, Plate, Section, Table

Row: TypeAlias = Mapping[str, Any]
Block: TypeAlias = Paragraph | Table | Panel | Plate

DIFFERENCE = (
    "The paper takes the lowest pair and leaves it to an expert what it means. A lowest pair there is in every network,"
    " a fair one too. The test asks another thing: is more of the target seen in the other class than in the target"
    " itself, beyond what chance does among all these pairs?"
)
SHARE = (
    "A pair's share is the part of the relevance for the target that lies on its own pictures, out of that on its own"
    " and on the other class's, per picture: at 50 % the model sees as much of the target in the other class as in the"
    " target."
)
LIMITS = (
    "What the test cannot say: that there is no bias. It sees none where the target's own pictures carry the feature"
    " too, where a pair has few mosaics, or where the network sees something of the target in the other class, but less"
    " than in the target. So a low Focus without a found pair is still one for the expert: the network may know the"
    " class poorly, or by the wrong things."
)


def reach_words(reach: Reach, per_class: int) -> str:
    """What the test could have seen, and how many mosaics it takes; `per_class` are those of each target class."""
    usual = f"{reach.usual:g} mosaic{'s' if reach.usual != 1 else ''}"
    needed = f"{reach.needed:,} of each pair (about {ceil(per_class * reach.grow):,} of each class, --per-class)"
    about = "at worst" if reach.at_worst else "some"
    find = f"to find a pair with a share of {percent(reach.sought)} %, four times of five, takes {about} {needed}"
    if not reach.tested:
        first = ceil(per_class * reach.first)
        return (
            f"With {usual} of a pair (median) no bias could have been seen, of whatever size. A test takes {LEAST} of a"
            f" pair, that is about {first:,} of each class; {find}."
        )
    if reach.seen is None:
        return f"With {usual} of a pair (median) not even a share of 0 % would mostly have been found; {find}."
    seen = f"a share of {percent(reach.seen)} % or less would have been found four times of five"
    more = "" if reach.usual >= reach.needed else f"; {find}"
    return f"With {usual} of a pair (median) {seen}{more}."


def section(
    settings: Row,
    reach: Reach,
    pairs: pl.DataFrame,
    classes: pl.DataFrame,
    partners: pl.DataFrame,
    worst: pl.DataFrame,
    lowest: Panel,
) -> Section:
    """The page's section on what the model confuses: first as the paper has it, then our test."""
    found = pairs.filter("found")
    shown = [pair for pair in found.iter_rows(named=True) if len(of_pair(worst, pair))]
    target = settings["lowest_target"]
    blocks: list[Block] = [
        Paragraph(how_it_was_found(settings), tone="soft"),
        focus_table("Focus by target class", "target", classes),
        focus_table(f"Focus of {target} beside each other class", "partner", partners),
        lowest,
    ]
    tests = f"{reach.tested} pair{'' if reach.tested == 1 else 's'}"
    test = f"(t-test corrected for skewness, level {settings['level']:g}, by Holm's method for {tests})"
    seen = reach_words(reach, settings["per_class"])
    blocks += [Paragraph(f"{DIFFERENCE} {SHARE}", "Our test.")]
    if len(found):
        lead = f"{len(found)} of {reach.tested} tested pairs found:"
        blocks.append(Paragraph(f"share surely below {percent(settings['below'])} % {test}.", lead, "bad"))
        if not settings["follows_class"]:
            blocks.append(Paragraph(caution(settings), "Caution:", "bad"))
    elif reach.tested:
        said = f"No pair of {reach.tested} has a share surely below {percent(settings['below'])} % {test}. {seen}"
        blocks.append(Paragraph(said, "Nothing found.", "" if reach.untested else "good"))
    else:
        said = f"None of {reach.pairs} pairs has the {settings['least']} mosaics that a test takes. {seen}"
        blocks.append(Paragraph(said, "Nothing tested.", "bad"))
    blocks.append(Paragraph(LIMITS, tone="soft"))
    if reach.tested and reach.untested:
        few = (
            f"{reach.untested} of {reach.pairs} pairs have fewer than {settings['least']} mosaics and were not tested."
        )
        blocks.append(Paragraph(few, tone="soft" if len(found) else "bad"))
    blocks += [panel(pair, of_pair(worst, pair)) for pair in shown]
    if settings["without_pictures"]:
        blocks.append(Paragraph(f"Without pictures: {settings['without_pictures']}", tone="soft"))
    if len(found) > len(shown):
        rest = f"The other {len(found) - len(shown)} found pairs are framed below and listed in pairs.csv."
        blocks.append(Paragraph(rest, tone="soft"))
    return Section("What the model confuses", [*blocks, share_matrix(pairs, settings["below"])])


def sheet(
    settings: Row, pair: Row | None, classes: pl.DataFrame, partners: pl.DataFrame, mosaics: pl.DataFrame, of_all: int
) -> Section:
    """The page for an expert: what is asked, the mosaics of the pair, where it stands among others, what the test says.

    `mosaics` have the tiles' classes and shares beside the rows of the pair; `pair` is its line of the test.
    """
    target, partner = settings["lowest_target"], settings["lowest_partner"]
    asked = (
        f"Each mosaic below is made of several pictures. Those of {target} have a green frame, those of {partner} an"
        f" orange one. A network, {settings['model']}, was asked where it sees {target}, and {settings['explainer']}"
        " has marked in red what spoke for it. All the red should lie in the green frames. The part that does is called"
        f" Focus; a heatmap that knows nothing has {percent(settings['chance'])} %."
    )
    question = (
        f"What is there in the orange frames, under the red, that makes the network think of {target}? An object, a"
        " background, a colour, a text? Where that is no part of the class itself, the network has learnt a bias from"
        " its training pictures, and pictures of the one without the other would mend it. Nothing is an answer too:"
        " every network has a pair of the lowest Focus, and where little red lies in the orange frames, there is little"
        " to explain."
    )
    shown = (
        f"{len(mosaics)} of {of_all} mosaics, lowest Focus first"
        if len(mosaics) < of_all
        else (f"All {of_all} mosaics, lowest Focus first" if of_all > 1 else "The only mosaic")
    )
    plates = [plate(place, row) for place, row in enumerate(mosaics.iter_rows(named=True), 1)]
    return Section(
        f"{target}, seen beside {partner}",
        [
            Paragraph(asked),
            Paragraph(question, "For you to judge.", "good"),
            *([] if settings["follows_class"] else [Paragraph(caution(settings), "Caution:", "bad")]),
            Paragraph(f"{shown}. {standing(settings, classes, partners)}", tone="soft"),
            *plates,
            focus_table(f"Focus of {target} beside each other class", "partner", partners),
            focus_table("Focus by target class", "target", classes),
            Paragraph(tested(settings, pair), "What a test of this pair says.", ""),
            Paragraph(LIMITS, tone="soft"),
        ],
    )


def standing(settings: Row, classes: pl.DataFrame, partners: pl.DataFrame) -> str:
    """Where a pair stands among classes and partners, in words."""
    target, partner = settings["lowest_target"], settings["lowest_partner"]
    place = classes["target_class"].to_list().index(target)
    focus = classes["focus"][place]
    rank = "the lowest" if place == 0 else f"number {place + 1} from below"
    beside = partners["other_class"].to_list().index(partner)
    second = "the lowest" if beside == 0 else f"number {beside + 1} from below"
    return (
        f"Mean Focus of {target} is {percent(focus)} %, {rank} of {len(classes)} classes; beside {partner} it is"
        f" {percent(partners['focus'][beside])} %, {second} of {len(partners)} partners."
    )


def plate(place: int, row: Row) -> Plate:
    """One mosaic of the pair."""
    tiles = [(row[f"label_{i}"], row[f"share_{i}"]) for i in range(sum(name.startswith("label_") for name in row))]
    part = {row["target_class"]: 1, row["other_class"]: 2}
    cells = [Cell(f"{percent(share)} %", title=label, part=part.get(label, 3)) for label, share in tiles]
    grid = round(len(tiles) ** 0.5)
    return Plate(
        title=f"{place}. Focus {percent(row['focus'])} %",
        text=f"Mosaic {row['case']}: {percent(row['other_part'])} % of the relevance lies on {row['other_class']}.",
        pictures=[
            ("the mosaic", numbered_name(place, "mosaic", row)),
            (f"red: what spoke for {row['target_class']}", numbered_name(place, "heatmap", row)),
        ],
        places=[cells[start : start + grid] for start in range(0, len(cells), grid)],
        heading="what lies where, and its part of the relevance",
    )


def tested(settings: Row, pair: Row | None) -> str:
    """What the test says of one pair."""
    if pair is None:
        return "Nothing: no mosaic has relevance on its pictures."
    beside = f"{SHARE} Here it is {percent(pair['share'])} %"
    if pair["n"] < settings["least"]:
        return f"{beside}, of {pair['n']} mosaic(s), which are too few for a test."
    span = f"({percent(pair['share_low'])} to {percent(pair['share_high'])} %, {pair['n']} mosaics)"
    verdict = "surely below" if pair["found"] else "not surely below"
    return f"{beside} {span}, {verdict} {percent(settings['below'])} % (corrected {p_value(pair)})."


def lowest_panel(settings: Row, mosaics: pl.DataFrame, of_all: int, folder: str) -> Panel:
    """The mosaics of the lowest pair, or of the one that was asked for, on the run's page."""
    target, partner = settings["lowest_target"], settings["lowest_partner"]
    means = mosaics.select("focus", "other_part", "remaining_part").mean().row(0)
    page = f" sections/{settings['folder']}/{folder}/ in the run's folder holds a page of these to hand to an expert."
    shown = f"{len(mosaics)} of {of_all} mosaics, lowest Focus first.{page if not settings['without_pictures'] else ''}"
    return Panel(
        title=f"{'Lowest Focus' if settings['is_lowest'] else 'As asked'}: {target} beside {partner}",
        text=f"{shown} Of all relevance for {target} in them:",
        parts=parts_of(means, target, partner),
        figures=[
            (
                f"{row['case']}: Focus {percent(row['focus'])} %",
                [f"{folder}/{numbered_name(place, kind, row)}" for kind in ("mosaic", "heatmap")],
            )
            for place, row in enumerate(mosaics.iter_rows(named=True), 1)
        ],
    )


def parts_of(shares: Sequence[float], target: str, other: str) -> list[tuple[float, str]]:
    """Where the relevance lies; without the rest, where a mosaic shows these two classes alone."""
    parts = list(zip(shares, (f"on {target}", f"on {other}", "on the rest"), strict=True))
    return parts if shares[2] > 0 else parts[:2]


def how_it_was_found(settings: Row) -> str:
    left_out = f", {settings['without_relevance']} of them without any positive relevance and left out"
    target = f" of the {settings['target']}" if settings["target"] else ""
    return (
        f"Model {settings['model']}, by {settings['explainer']}{target}, {settings['mosaics']} mosaics"
        f"{left_out if settings['without_relevance'] else ''}. As the paper does it: classes by their mean Focus,"
        " lowest first; for the lowest, the class beside which it is lowest; and the mosaics of that pair."
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
        parts=parts_of([pair[name] for name in ("focus", "other_part", "remaining_part")], target, other),
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


def focus_table(title: str, head: str, means: pl.DataFrame) -> Table:
    """Mean Focus by what the first column names, lowest first. One mosaic has no interval."""
    rows = []
    for name, n, focus, low, high, visible in means.iter_rows():
        span = f"{100 * low:.1f} to {100 * high:.1f}" if n > 1 else "–"
        gap = "–" if visible is None else f"{100 * visible:.1f}"
        cells = [Cell(f"{100 * focus:.1f}", focus, bar=focus), Cell(span, low), Cell(str(n), n), Cell(gap, visible)]
        rows.append((name, cells))
    note = (
        "Visible gap: how many points the true Focus must lie from a value, such as chance, for so many mosaics to"
        " tell, four times of five."
    )
    return Table(title, [head, "Focus", "95 % interval", "mosaics", "visible gap"], rows, note=note)


def share_matrix(pairs: pl.DataFrame, below: float) -> Table:
    """The share of every pair: the target in the row, the other class in the column."""
    cells = {(row["target_class"], row["other_class"]): row for row in pairs.iter_rows(named=True)}
    names = sorted({name for pair in cells for name in pair})

    def cell(row: Row | None) -> Cell:
        if row is None:
            return Cell()
        gap = row["share"] - below
        interval = f"{percent(row['share_low'])} to {percent(row['share_high'])}, " if row["n"] > 1 else ""
        title = f"{interval}Focus {percent(row['focus'])}, n = {row['n']}, corrected {p_value(row)}{visible(row)}"
        shade = gap / below if gap < 0 else gap / (1 - below)
        return Cell(percent(row["share"]), title=title, shade=shade, framed=row["found"])

    rows = [(target, [cell(cells.get((target, other))) for other in names]) for target in names]
    note = "Percent; the target in the row, the other class in the column."
    note += f" Red: below {percent(below)}. Framed: surely so."
    return Table("Share of each pair", ["", *names], rows, matrix=True, note=note)


def percent(share: float) -> str:
    return f"{100 * share:.0f}"


def visible(row: Row) -> str:
    """What a test of so many mosaics would have shown."""
    if row["p_corrected"] is None:
        return ""
    return f"; would have been found at {percent(row['visible'])} or less" if row["visible"] else "; hardly to be found"


def p_value(row: Row) -> str:
    if row["p_corrected"] is None:
        return "p: none, not tested"
    return "p < 0.001" if row["p_corrected"] < 0.001 else f"p = {row['p_corrected']:.2g}"

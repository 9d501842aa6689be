"""`heatproof compare ...`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heatproof.cli.terminal import Cell, say, show_table

if TYPE_CHECKING:
    from heatproof.report.runs import Comparison


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs; the others are compared with the first.", metavar="RUN")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.csv and compare.html. Default: runs/compare-RUN-RUN.")
    ] = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="End with code 1 if any method is surely worse than in the first."),
    ] = False,
) -> None:
    """Compare runs of one benchmark: what is better, what is worse, and what cannot be told apart.

    Differences are computed case by case. Statements about methods hold at 5 % for all of them together: Fisher's
    randomisation test with Holm's correction. Runs of `heatproof evaluate` count as runs of their benchmark.

    Examples:

    heatproof compare runs/before runs/after

    heatproof compare runs/released runs/mine --fail-on-regression

    heatproof compare runs/evaluate-mine runs/evaluate-theirs --out runs/mine-and-theirs
    """
    from heatproof.api import compare as put_side_by_side
    from heatproof.cli.bars import bars
    from heatproof.errors import HeatproofError
    from heatproof.report.compare import TABLE
    from heatproof.results.compare_words import sentences

    with bars() as progress:
        found = put_side_by_side(runs, progress=progress)
    names = [name.replace("/", "-") for name in found.runs]
    folder = out or Path("runs") / "-".join(["compare", *names])
    page = found.write(folder)
    say("percent, mean ± half the 95 % interval; differences in points, bold where sure", style="dim")
    show_comparison(found)
    for sentence in (*sentences(found), *found.notes):
        say(sentence)
    say(f"page   {page}\ntable  {folder / TABLE}")
    if fail_on_regression and found.tested.is_empty():
        raise HeatproofError("nothing could be compared, so a regression could not have been seen; see above why.")
    if fail_on_regression and not found.regressions.is_empty():
        raise typer.Exit(1)


def show_comparison(found: Comparison) -> None:
    """A table for each metric; differences that are sure in bold."""
    from rich.text import Text

    from heatproof.report.compare import has_targets, panels

    targets = has_targets(found)
    heads = ["explainer", *(["explained"] if targets else [])]
    first = len(heads)
    for place, name in enumerate(found.runs):
        heads += [name, f"minus {found.first}", f"{name} is"] if place else [name]
    words = [first + 3 * place for place in range(1, len(found.runs))]
    for panel in panels(found):
        rows = []
        for explainer, target, sides in panel.rows:
            cells: list[Cell] = [explainer, target] if targets else [explainer]
            for place, side in enumerate(sides):
                cells.append(side.cell.text if side.cell else "–")
                if place and side.change:
                    style = "bold" if side.change.is_sure else ""
                    cells += [Text(side.change.text, style), Text(side.change.said, style)]
                elif place:
                    cells += ["–", ""]
            rows.append(cells)
        numbers = [place for place in range(first, len(heads)) if place not in words]
        show_table(heads, rows, title=panel.title, right=numbers, names=first)

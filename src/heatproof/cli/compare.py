"""`heatproof compare ...`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs, the one to compare with first.", metavar="RUN...")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.csv and compare.html. Default: runs/compare-RUN-RUN.")
    ] = None,
) -> None:
    """Put runs of one benchmark side by side, with differences case by case.

    Runs of `heatproof evaluate` count as runs of clevr-xai.

    Examples:

    heatproof compare runs/before runs/after

    heatproof compare runs/evaluate-mine runs/evaluate-theirs --out runs/mine-and-theirs
    """
    from rich.console import Console

    from heatproof.api import compare as put_side_by_side
    from heatproof.cli.bars import bars
    from heatproof.report.compare import TABLE, terminal

    with bars() as progress:
        found = put_side_by_side(runs, progress=progress)
    names = [name.replace("/", "-") for name in found.runs]
    folder = out or Path("runs") / "-".join(["compare", *names])
    page = found.write(folder)
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print("[dim]percent, mean ± half the 95 % interval; differences in points, bold where clear of zero[/dim]")
    for table in terminal(found):
        console.print(table)
    for note in found.notes:
        console.print(note, highlight=False)
    console.print(f"page   {page}", highlight=False, soft_wrap=True)
    console.print(f"table  {folder / TABLE}", highlight=False, soft_wrap=True)

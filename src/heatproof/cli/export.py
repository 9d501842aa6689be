"""`heatproof export ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.cli.terminal import say

ROE = "roe"


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN")],
    to: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="markdown, latex (booktabs, graphicx), csv, json: the table, ready for a paper. bibtex: the"
            " references. roe, of a run of svea: the regions of explanation as data sets.",
        ),
    ] = "markdown",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; of roe a folder, RUN/roe by default. Default: print it."),
    ] = None,
) -> None:
    """Export the results of a run: a table for a paper, its references, or regions of explanation.

    The table has the mean and half the 95 % interval, the best method in bold, a letter for each group of methods
    that cannot be told apart, a dagger where a method is no better than a floor, and the paper's number.

    `--to roe` writes the SVEA paper's D_g, an .npz for each explainer, with x (N, region), y, starts, split and case;
    training signals come first.

    Examples:

    heatproof export runs/svea-standard --to latex --out table.tex

    heatproof export runs/svea-standard --to bibtex --out references.bib

    heatproof export runs/svea-standard --to roe
    """
    if to == ROE:
        export_regions(run, out)
        return
    from heatproof.api import load_run
    from heatproof.errors import unknown_name
    from heatproof.results.export import FORMATS
    from heatproof.workspace import write_whole

    if to not in FORMATS:
        raise unknown_name("kind of export", to, [*FORMATS, ROE])
    text = load_run(run).export(to)
    if out is None:
        say(text.removesuffix("\n"))
    else:
        write_whole(out, lambda path: path.write_text(text, encoding="utf-8"))
        say(f"{to}: {out}")


def export_regions(run: Path, out: Path | None) -> None:
    from heatproof.experiments.regions import export as write
    from heatproof.heatmap_files import few

    for made in write(run, ROE, out):
        say(f"{made.path}: {made.regions:,} regions")
        if made.without:
            say(f"  signals without a region, left out: {len(made.without):,} ({few(made.without)})", err=True)
        if not made.is_whole:
            say("  not of all signals of the run: some of its units failed", err=True)

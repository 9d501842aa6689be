"""`heatproof export ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run of svea.", metavar="RUN")],
    to: Annotated[
        str, typer.Option(metavar="KIND", help="What to write: roe, the regions of explanation as data sets.")
    ] = "roe",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the files. Default: RUN/roe.")] = None,
) -> None:
    """What a run found, as files for others: the data set of regions of each explainer (the SVEA paper's D_g).

    An .npz for each, with x (N, 12), y, starts, split and case; training signals come first.

    Example: heatproof export runs/svea-standard --to roe
    """
    from heatproof.experiments.regions import export as write
    from heatproof.heatmap_files import few

    for made in write(run, to, out):
        typer.echo(f"{made.path}: {made.regions:,} regions")
        if made.without:
            typer.echo(f"  signals without a region, left out: {len(made.without):,} ({few(made.without)})", err=True)
        if not made.is_whole:
            typer.echo("  not of all signals of the run: some of its units failed", err=True)

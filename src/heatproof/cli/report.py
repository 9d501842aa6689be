"""`heatproof report ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="The folder of a run, or of several.", metavar="RUN")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The page. Default: report.html in the run's folder, or in that which holds them all."
        ),
    ] = None,
    paper_elsewhere: Annotated[
        bool,
        typer.Option("--paper-elsewhere", help="Print the paper's numbers for another network or other data too."),
    ] = False,
) -> None:
    """Rewrite the page of a run, or write one page for several runs, and print the verdict.

    Examples:

    heatproof report runs/svea-standard

    heatproof report runs/svea-standard runs/focus-quick runs/clevr-xai-quick --out all.html
    """
    from heatproof.api import load_run
    from heatproof.api import report as write
    from heatproof.cli.run import show_run, show_verdicts

    loaded = [load_run(run) for run in runs]
    page = write(loaded, out=out)
    if len(loaded) == 1:
        show_run(loaded[0], paper_elsewhere, page)
    else:
        show_verdicts(loaded, page)

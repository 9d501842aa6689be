"""`heatproof report ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")],
    paper_elsewhere: Annotated[
        bool,
        typer.Option("--paper-elsewhere", help="Print the paper's numbers for another network or other data too."),
    ] = False,
) -> None:
    """Print a run's table and write its page again.

    Example: heatproof report runs/svea-standard
    """
    from heatproof.api import load_run
    from heatproof.cli.run import show_run

    loaded = load_run(run)
    loaded.report()
    show_run(loaded, paper_elsewhere)

"""`heatproof publish ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.cli.terminal import say


def publish(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, of any benchmark.", metavar="RUN")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the site: new, empty, or that of an earlier one.")
    ] = (Path("site")),
) -> None:
    """Write a static web site: an index of runs, their pages, and the numbers as JSON.

    Run again, it replaces its own files and touches nothing else.

    Example: heatproof publish runs/svea-standard runs/focus-quick runs/clevr-xai-quick --out site
    """
    from heatproof.api import publish as make_site

    index = make_site(runs, out)
    say(f"site   {index}")

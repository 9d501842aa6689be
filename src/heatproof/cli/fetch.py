"""`heatproof fetch ...`"""

from __future__ import annotations

from typing import Annotated

import typer

from heatproof.cli.terminal import say


def fetch(
    name: Annotated[str, typer.Argument(help="What to download: relation-network.", metavar="NAME")],
) -> None:
    """Download weights that others publish, once; they are verified and kept in the cache folder.

    Goes on where an interrupted download stopped. HEATPROOF_HOME names another cache folder.

    Examples:

    heatproof fetch relation-network

    heatproof run clevr-xai --dataset data --weights relation-network
    """
    from heatproof.cli.bars import bars
    from heatproof.downloads import downloads
    from heatproof.downloads import fetch as download

    with bars() as progress:
        path = download(name, progress)
    say(f"{path}\n{downloads[name].about}, licence {downloads[name].licence}")

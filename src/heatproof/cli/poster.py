"""`heatproof clevr poster ...`"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from heatproof.cli.bars import bars
from heatproof.cli.terminal import say, show_table


def poster(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs of clevr-xai on simple questions.", metavar="RUN")
    ],
    dataset: Annotated[
        Path | None, typer.Option(help="Their data set, for which objects take the rest. Default: each run's own.")
    ] = None,
) -> None:
    """CLEVR-XAI's poster beside runs: its three columns, its claims, and how near a method can come to 1.0.

    Which objects take the rest is told of runs made with --keep-heatmaps. It becomes a section of each run's page.

    Example: heatproof clevr poster runs/clevr-xai-standard
    """
    from heatproof.experiments.poster_page import (
        OTHER_NETWORK,
        REACH_HEADS,
        heads,
        lines,
        reach_grid,
        takers_grid,
        write_poster,
    )
    from heatproof.run_folder import REPORT

    for run in runs:
        with bars() as progress:
            beside = write_poster(run, dataset, progress)
        say(f"{run}: {beside.model}. {OTHER_NETWORK}")
        print_table("mean (standard deviation) median", ["method", *heads(beside)], lines(beside))
        for claim in beside.claims:
            say(f"{claim.text}\n  here it {claim.here}\n  on the poster's own numbers it {claim.there}")
        print_table("Can a method reach 1.0? (percent)", ["method", *REACH_HEADS], reach_grid(beside))
        if beside.without:
            say(f"which objects take the rest cannot be told: {beside.without}")
        else:
            kinds, grid = takers_grid(beside)
            print_table("which other objects take the rest (percent of it)", ["method", *kinds], grid)
        say(f"tables {beside.place}\npage   {run / REPORT}")


def print_table(title: str, heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> None:
    beside = [place for place, head in enumerate(heads) if head == "poster"]
    show_table(heads, ((name, *cells) for name, cells in rows), title=title, right=range(1, len(heads)), beside=beside)

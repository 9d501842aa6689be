"""`heatproof clevr remove`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.clevr.words import Intervention
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.run import Address, EngineOption, Jobs, going_on_said
from heatproof.cli.terminal import say


def remove(
    dataset: Annotated[Path, typer.Argument(help="The folder of a data set, or shipped.", metavar="DATASET")],
    intervene: Annotated[
        Intervention,
        typer.Option(
            metavar="NAME",
            help="remove: without the object. hide: painted over with the empty room. recolour, rematerial: with"
            " another colour or material.",
        ),
    ] = "remove",
    limit: Annotated[int | None, typer.Option(min=1, help="So many scenes only.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write. Default: DATASET/interventions, the only place where heatproof run clevr-removal and"
            " heatproof clevr effects look (for shipped, the cache).",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Size of the pictures. Default: the data set's.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Light paths per pixel. Default: the data set's, or 64.")
    ] = None,
    denoise: Annotated[
        bool | None,
        typer.Option("--denoise/--no-denoise", help="Default: as the data set, or where pyoidn is installed."),
    ] = None,
    jobs: Jobs = None,
    engine: EngineOption = "auto",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Every picture once more without each of its objects: same camera, lamps and random streams.

    If it is interrupted, the same command resumes it. Pictures of other settings are made again.

    Examples:

    heatproof clevr remove data --jobs 2

    heatproof clevr remove shipped --intervene recolour
    """
    from itertools import islice

    from heatproof.clevr.changed_pictures import folder_of, look_of, make_changed, wanted_of
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.ground_truth import parse_size
    from heatproof.clevr.shipped import folder_named
    from heatproof.executors.choice import Execution

    opened = open_dataset(folder_named(dataset))
    look = look_of(opened, samples, denoise, None if size is None else parse_size(size))
    wanted = wanted_of(islice(opened.scenes.values(), limit), intervene)
    folder = out or folder_of(opened)
    with going_on_said(folder), bars(quiet) as progress:
        made = make_changed(wanted, folder, look, Execution(engine, jobs, address), progress)
    each = f", {made.cpu_seconds / made.made:.2f} each" if made.made else ""
    say(
        f"{folder}: {made.made:,} pictures made in {made.cpu_seconds:.1f} CPU seconds{each}; {made.there:,} were there."
    )

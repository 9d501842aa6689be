"""`heatproof evaluate ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.benchmarks.elsewhere import Elsewhere
from heatproof.clevr.words import QuestionSet
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.run import Jobs, Resume, going_on_said, show_run
from heatproof.cli.terminal import say
from heatproof.metrics.understandability import WindowRule


def evaluate(
    heatmaps: Annotated[
        Path,
        typer.Argument(
            help="Folder of CASE.npy, a .npz, a .zarr or .h5 group; SVEA, Focus: also a .npy in the order of cases;"
            " or a run with kept heatmaps.",
            metavar="HEATMAPS",
        ),
    ],
    dataset: Annotated[
        Path | None,
        typer.Option(help="CLEVR-XAI: folder of the data set with questions and masks. Default: the run's."),
    ] = None,
    questions: Annotated[
        QuestionSet | None,
        typer.Option(metavar="NAME", help="CLEVR-XAI: simple or complex questions. Default: the run's, or simple."),
    ] = None,
    poolings: Annotated[
        str | None, typer.Option(metavar="LIST", help="Poolings to score. Default: all ten; SVEA: sum_pos,sum_abs.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="CLEVR-XAI: answers as JSON, with probabilities or without; only heatmaps of right ones are scored."
            " SVEA: probabilities or classes (.npy, .npz)."
        ),
    ] = None,
    benchmark: Annotated[
        Elsewhere, typer.Option(metavar="NAME", help="clevr-xai, svea or focus: what the heatmaps are about.")
    ] = "clevr-xai",
    mosaics: Annotated[Path | None, typer.Option(help="Focus: the CSV of `heatproof focus mosaics`.")] = None,
    masked_outputs: Annotated[
        Path | None,
        typer.Option(help="SVEA: probabilities for the signals of `heatproof svea masked-inputs`, for Drop, Increase."),
    ] = None,
    window: Annotated[
        WindowRule | None, typer.Option(metavar="NAME", help="SVEA: clipped (default) or literal, as in a run.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the tables call them. Default: the file's name.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/evaluate-HEATMAPS.")] = None,
    resume: Resume = True,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Score heatmaps made elsewhere, in any framework: of a CLEVR-XAI data set, of SVEA's signals, of mosaics.

    Examples:

    heatproof evaluate heatmaps/ --dataset data --predictions answers.json

    heatproof evaluate maps.npz --dataset data --questions complex --poolings l2_norm_sq,max_norm

    heatproof evaluate runs/clevr-xai-quick

    heatproof evaluate maps.npy --benchmark svea --predictions whole.npy --masked-outputs masked.npy

    heatproof evaluate maps/ --benchmark focus --mosaics mosaics/mosaics.csv
    """
    from heatproof.api import evaluate as score
    from heatproof.engine.evaluation import evaluation_folder

    folder = out or evaluation_folder(heatmaps)
    with going_on_said(folder), bars(quiet) as progress:
        run = score(
            heatmaps,
            dataset=dataset,
            questions=questions,
            poolings=None if poolings is None else [word.strip() for word in poolings.split(",") if word.strip()],
            predictions=predictions,
            benchmark=benchmark,
            mosaics=mosaics,
            masked_outputs=masked_outputs,
            window=window,
            name=name,
            out=folder,
            resume=resume,
            jobs=jobs,
            progress=progress,
        )
    for note in run.story.notes:
        say(note)
    show_run(run)

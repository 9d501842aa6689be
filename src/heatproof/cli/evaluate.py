"""`heatproof evaluate ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.benchmarks.clevr_xai.benchmark import QuestionSet
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.run import Jobs, Resume, going_on_said, show_run


def evaluate(
    heatmaps: Annotated[
        Path,
        typer.Argument(
            help="Folder of QUESTION_INDEX.npy, a .npz, a .zarr or .h5 group, or a run with kept heatmaps.",
            metavar="HEATMAPS",
        ),
    ],
    dataset: Annotated[
        Path | None, typer.Option(help="Folder of the data set with questions and masks. Default: the run's.")
    ] = None,
    questions: Annotated[
        QuestionSet | None,
        typer.Option(metavar="NAME", help="Which questions: simple or complex. Default: the run's, or simple."),
    ] = None,
    poolings: Annotated[str | None, typer.Option(metavar="LIST", help="Poolings to score. Default: all ten.")] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help="Answers as JSON, with probabilities or without; only heatmaps of right ones are scored."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the tables call them. Default: the file's name.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/evaluate-HEATMAPS.")] = None,
    resume: Resume = True,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Score heatmaps made elsewhere, in any framework, against a CLEVR-XAI data set.

    Examples:

    heatproof evaluate heatmaps/ --dataset data --predictions answers.json

    heatproof evaluate maps.npz --dataset data --questions complex --poolings l2_norm_sq,max_norm

    heatproof evaluate runs/clevr-xai-quick
    """
    from heatproof.api import evaluate as score
    from heatproof.api import evaluation_folder

    folder = out or evaluation_folder(heatmaps)
    with going_on_said(folder), bars(quiet) as progress:
        run = score(
            heatmaps,
            dataset=dataset,
            questions=questions,
            poolings=None if poolings is None else [word.strip() for word in poolings.split(",") if word.strip()],
            predictions=predictions,
            name=name,
            out=folder,
            resume=resume,
            jobs=jobs,
            progress=progress,
        )
    for note in run.story.notes:
        typer.echo(note)
    show_run(run)

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
        list[Path],
        typer.Argument(
            help="Folder of CASE.npy, a .npz, a .zarr or .h5 group; SVEA, Focus: also a .npy in the order of cases;"
            " or a run with kept heatmaps. With --masks several, which are compared case by case.",
            metavar="HEATMAPS",
        ),
    ],
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="CLEVR-XAI: folder of the data set with questions and masks, or shipped. Default: the run's."
        ),
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
        Elsewhere | None,
        typer.Option(
            metavar="NAME",
            help="clevr-xai, svea, focus or masks: what the heatmaps are about. Default: masks with --masks, else"
            " clevr-xai.",
        ),
    ] = None,
    masks: Annotated[
        Path | None,
        typer.Option(help="Masks: folder with a mask picture per image, .npz of arrays, COCO's .json, VOC's folder."),
    ] = None,
    object_value: Annotated[
        int | None, typer.Option(metavar="N", help="Masks: value of the object in mask pictures. Default: 255.")
    ] = None,
    background_value: Annotated[
        int | None, typer.Option(metavar="N", help="Masks: value of the background. Default: 0.")
    ] = None,
    void_value: Annotated[
        int | None, typer.Option(metavar="N", help="Masks: value of pixels that count neither way.")
    ] = None,
    boxes: Annotated[bool, typer.Option("--boxes", help="Masks: take bounding boxes as masks (COCO, VOC).")] = False,
    tolerance: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Masks: pixels that a maximum may lie beside the mask (pointing game)."),
    ] = None,
    resize: Annotated[
        bool, typer.Option("--resize", help="Masks: bring heatmaps of another size to that of their mask.")
    ] = False,
    mosaics: Annotated[Path | None, typer.Option(help="Focus: the CSV of `heatproof focus mosaics`.")] = None,
    masked_outputs: Annotated[
        Path | None,
        typer.Option(help="SVEA: probabilities for the signals of `heatproof svea masked-inputs`, for Drop, Increase."),
    ] = None,
    window: Annotated[
        WindowRule | None, typer.Option(metavar="NAME", help="SVEA: clipped (default) or literal, as in a run.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the tables call them, with commas between. Default: the file's name.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/evaluate-HEATMAPS.")] = None,
    resume: Resume = True,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Score heatmaps from any framework: for pictures with masks, CLEVR-XAI, SVEA's signals or mosaics.

    Examples:

    heatproof evaluate vendor_a/ vendor_b/ vendor_c.npz --masks masks/

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
            masks=masks,
            object_value=object_value,
            background_value=background_value,
            void_value=void_value,
            boxes=boxes,
            tolerance=tolerance,
            resize=resize,
            name=name,
            out=folder,
            resume=resume,
            jobs=jobs,
            progress=progress,
        )
    for note in run.story.notes:
        say(note)
    show_run(run)

"""`heatproof clevr answer ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.clevr.words import QuestionSet
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.terminal import show_table


def answer(
    dataset: Annotated[
        Path, typer.Argument(help="Folder with pictures and questions (ours or CLEVR-XAI's release), or shipped.")
    ],
    questions: Annotated[
        QuestionSet, typer.Option(help="simple: about one object. complex: CLEVR's own kinds.", metavar="NAME")
    ] = "complex",
    model: Annotated[
        str | None,
        typer.Option(
            help="scene_logic (or scene_logic:softness=2), film_vqa, relation-network, or file.py:factory. Default: the"
            " one that ships for these questions."
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights of that network, as for heatproof run clevr-xai.")
    ] = None,
    untrained: Annotated[
        int | None,
        typer.Option(help="With random weights of this seed instead, for comparison.", metavar="SEED"),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many questions only.")] = None,
    quiet: Quiet = False,
) -> None:
    """How many questions a network answers right, by family and by what they ask for; beside it, what guessing gets.

    Guessing gives the answer that is right most often among questions that ask for the same (a number, a colour).

    Examples:

    heatproof clevr answer held-out --questions complex

    heatproof clevr answer held-out --questions complex --untrained 1
    """
    from heatproof.benchmarks.clevr_xai.accuracy import accuracy
    from heatproof.benchmarks.clevr_xai.benchmark import open_network
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.shipped import folder_named
    from heatproof.models.vqa import with_random_weights

    network = open_network(weights, model, questions)
    if untrained is not None:
        network = with_random_weights(network, untrained)
    with bars(quiet) as progress:
        scores = accuracy(network, open_dataset(folder_named(dataset)).questions(questions)[:limit], progress)
    rows = [
        (name, f"{s.questions:,}", f"{s.right:,}", f"{s.right / s.questions:.1%}", f"{s.guessed / s.questions:.1%}")
        for name, s in scores.items()
    ]
    show_table(["questions", "asked", "right", "share", "by guessing"], rows, title=network.name, right=range(1, 5))

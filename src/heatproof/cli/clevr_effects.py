"""`heatproof clevr effects`"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from heatproof.clevr.words import QuestionSet
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.terminal import say, show_table
from heatproof.lazy import pl


def effects(
    dataset: Annotated[
        Path | None, typer.Argument(help="The folder of a data set. Default: shipped, 60 scenes.", metavar="DATASET")
    ] = None,
    questions: Annotated[
        QuestionSet, typer.Option("--set", metavar="NAME", help="simple: about one object. complex: CLEVR's own kinds.")
    ] = "simple",
    weights: Annotated[
        Path | None,
        typer.Option(help="relation-network or the file of its weights. Default: a network that ships."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Your own network: my_net.py:factory.")] = None,
    intervene: Annotated[
        Literal["remove", "hide"],
        typer.Option(metavar="NAME", help="remove: without the object. hide: painted over with the empty room."),
    ] = "remove",
    scenes: Annotated[int | None, typer.Option(min=1, help="So many scenes only.", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many questions only.", show_default=False)] = None,
    by: Annotated[
        Literal["asks", "family"],
        typer.Option(metavar="NAME", help="asks: by what questions ask for. family: by their family of templates."),
    ] = "asks",
    show: Annotated[int, typer.Option(min=0, help="Print so many questions whose mask is not the truth.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Write every question's objects and effects there, as CSV.", show_default=False)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Do masks tell the truth? The effect of every object on the answer, against the objects that masks mark.

    An effect is what the logit of the network's answer loses when the object is taken out of the scene, with its shadow
    and reflections, or painted over (--intervene hide); sizes count, not signs. Marked above: the mean effect of the
    objects that a mask marks is larger than that of the others; each above: every one of them has a larger effect than
    every other. Intervals are 95 %, over pictures. What can be asked of a network is what a reasoner without mistakes
    does, to whom an object matters if the right answer is another one without it, or the question then has none.

    Examples:

    heatproof clevr effects

    heatproof clevr effects data --set complex --weights relation-network --out effects.csv
    """
    from heatproof.benchmarks.clevr_removal import ClevrRemoval
    from heatproof.benchmarks.clevr_removal.effects import LEAST
    from heatproof.experiments.effects import HIDING, measure_truth, write_truth

    recipe = ClevrRemoval(
        dataset=dataset,
        questions=questions,
        intervene=intervene,
        weights=weights,
        model=model,
        scenes=scenes,
        limit=limit,
    )
    with bars(quiet) as progress:
        truth = measure_truth(recipe, progress)
    if out is not None:
        write_truth(truth, out)
    asked = truth.objects["question_index"].n_unique()
    say(f"{truth.network}: {asked:,} {questions} questions, {truth.accuracy:.1%} answered right", style="bold")
    heads = (
        *("mask", "questions", "n", "largest marked", "most support marked", "by chance", "marked above", "each above"),
        *("effects on marked", "median marked", "unmarked"),
    )
    figures = list(truth.table(by=by).iter_rows(named=True))
    if not figures:
        say(
            "No question can be judged: either its mask marks all objects or none, or no object changes the logit by"
            f" {LEAST['logit']:g} or more."
        )
        return
    show_table(heads, [cells(row) for row in figures], right=range(2, len(heads)))
    for row in figures:
        if row["questions_of"] == "all":
            say(without_mistakes(row))
    uncovers = intervene == "remove"  # what is painted over leaves all that it hides where it is: out of sight
    for kind in [name.removeprefix("in_") for name in truth.objects.columns if name.startswith("in_")]:
        failed = truth.failures(kind)
        hiding = failed.filter(pl.col("uncovers") >= HIDING)
        told = f"{kind}: for {len(failed):,} questions an unmarked object has the largest effect"
        if uncovers:
            told += f"; for {len(hiding):,} of them it hides a marked one, of which at least {HIDING:.0%} more is seen"
            told += " without it"
        say(f"{told}.")
        for row in failed.head(show).iter_rows(named=True):
            more = f"; {row['uncovers']:.0%} more of it is seen" if uncovers else ""
            say(
                f"{kind}: {row['question']} {row['answer']} (the network: {row['predicted']}, {row['picture']}):"
                f" {row['unmarked']} {row['unmarked_effect']:.2f}, marked {', '.join(row['marked'])}"
                f" {row['marked_effect']:.2f}{more}"
            )


def without_mistakes(row: Mapping[str, Any]) -> str:
    """What effects with their sign say, what a reasoner without mistakes has, and the network where that one has it."""

    def has(name: str) -> str:
        share = row[f"{name}_where_right"]
        return f"{row[f'right_{name}']:.1%}" + ("" if share is None else f" (there, the network: {share:.1%})")

    told = f"{row['mask']}: marked above, effects with their sign: {row['support_above']:.1%}; a reasoner that makes no"
    return f"{told} mistake: marked above {has('above')}, each above {has('each')}."


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    def share(name: str) -> str:
        return f"{row[name]:.1%} ({row[f'{name}_low']:.1%} to {row[f'{name}_high']:.1%})"

    def size(name: str) -> str:
        return f"{row[name]:.2f} ({row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f})"

    return (
        row["mask"],
        row["questions_of"],
        f"{row['questions']:,}",
        share("hit"),
        share("support"),
        f"{row['chance']:.1%}",
        share("above"),
        share("each"),
        share("on_marked"),
        size("marked"),
        size("unmarked"),
    )

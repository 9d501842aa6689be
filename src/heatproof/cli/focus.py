"""`heatproof focus ...`: the paper's other experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from heatproof.benchmarks.focus import Focus
from heatproof.cli.benchmark_options import with_options
from heatproof.cli.run import DeviceOption, Seed
from heatproof.cli.terminal import say, show_table
from heatproof.run_folder import REPORT

if TYPE_CHECKING:
    from heatproof.experiments.bias import Findings
    from heatproof.lazy import pl

app = typer.Typer(
    help="Focus: mosaics, layouts, randomised models, biases, and the paper's table.", no_args_is_help=True
)

Method = Annotated[str, typer.Option(metavar="NAME", help="The explainer.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")]
OnPage = Annotated[
    Path | None, typer.Option("--page", metavar="RUN", help="A run of focus on whose page it shall stand, too.")
]
Part = Literal["cascade", "histogram"]
TABLE_FILES = (
    ("table", "table.csv"), ("table", "table.md"), ("table", "correlation.csv"), ("figure", "accuracy.svg"),
)  # fmt: skip
LISTED = 10
"""Classes that are printed; the tables have them all."""
OF_THE_MODEL = ("model", "trust", "weights", "labels", "mean", "std", "randomise", "draws", "paper_row", "mosaics")
"""Options of the benchmark that mosaics alone do not have."""


@app.command()
def objects(
    out: Annotated[Path, typer.Argument(help="Folder to make: a folder per class.")],
    per_class: Annotated[int, typer.Option(min=1, help="Pictures of each class.")] = 40,
    split: Annotated[
        str, typer.Option(help="Name of a draw; those of different names have nothing in common.")
    ] = "test",
    side: Annotated[int, typer.Option(min=16, help="Side of a picture in pixels.")] = 64,
    seed: Seed = 0,
) -> None:
    """Pictures of single objects, class = material and shape, for classifiers to be tried on; 0.1 seconds each.

    With its defaults it makes the pictures that ship. objects.png shows them all. Needs pyoidn, the denoiser.

    Example: heatproof focus objects pictures --split mine --per-class 100
    """
    from heatproof.clevr.objects import SHEET, render_objects, write_pictures, write_sheet
    from heatproof.cli.bars import bars
    from heatproof.errors import HeatproofError

    if out.exists() and any(out.iterdir()):
        raise HeatproofError(f"{out} is not empty; choose another folder.")
    with bars() as progress:
        made = render_objects(split, per_class, side=side, seed=seed, denoise=True, progress=progress)
    write_pictures(made, out)
    write_sheet(made, out / SHEET)
    say(f"{out}: {per_class} pictures of each of {len(made)} classes")


def mosaics(options: dict[str, Any], seed: Seed = 0, out: Out = Path("mosaics")) -> None:
    """Mosaics as PNG files with a CSV in the original's columns, for `heatproof run focus --mosaics`.

    Example: heatproof focus mosaics --images photos --per-class 100 --out mosaics
    """
    from heatproof.cli.bars import bars
    from heatproof.mosaics.datasets import with_paper_count
    from heatproof.mosaics.mosaics import check_files, write_mosaics

    recipe = Focus(**with_paper_count(options), model=None)  # which plays no part here
    found, _ = recipe.draw(seed)
    side, fit = recipe.shape()
    with bars() as progress:
        check_files(found, side, fit, progress)
        path = write_mosaics(found, out, side, fit, progress)
    say(f"{path}: {len(found)} mosaics")


def layout(
    options: dict[str, Any],
    explainer: Method = "grad_cam",
    seed: Seed = 0,
    device: DeviceOption = "cpu",
    target: Annotated[
        str | None, typer.Option("--target", "--only", metavar="CLASS", help="Mosaics of this target class alone.")
    ] = None,
    out: Out = Path("runs/focus-layout"),
    page: OnPage = None,
) -> None:
    """Focus with the targets in each of the six places, and at random: CSV and box plots.

    Example: heatproof focus layout --explainer lrp:composite=focus --target metal_cube
    """
    from heatproof.cli.bars import bars
    from heatproof.focus import layout as place_targets

    with bars() as progress:
        table = place_targets(
            explainer, target=target, seed=seed, device=device, out=out, page=page, progress=progress, **options
        )
    finish(table, out / "layout.csv", [out / "layout.svg"], page)


def randomise(
    options: dict[str, Any],
    explainer: Method = "grad_cam",
    seed: Seed = 0,
    device: DeviceOption = "cpu",
    only: Annotated[
        Part | None,
        typer.Option(metavar="PART", help="cascade (block by block) or histogram (all at once) alone."),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="CLASS", help="Mosaics of this target class alone.")] = None,
    draws: Annotated[int, typer.Option(metavar="N", help="Times that random weights are drawn.")] = 3,
    out: Out = Path("runs/focus-randomise"),
    page: OnPage = None,
) -> None:
    """Focus of the trained model, of a random one, and with blocks randomised from the top: CSV and figures.

    A convolution with its batch norm is one block.

    Example: heatproof focus randomise --images photos --model my_net.py:build --labels labels.csv --draws 1
    """
    from heatproof.cli.bars import bars
    from heatproof.experiments.focus import FIGURES_OF_PARTS
    from heatproof.focus import randomise as without_training

    with bars() as progress:
        table = without_training(
            explainer,
            only=only,
            target=target,
            draws=draws,
            seed=seed,
            device=device,
            out=out,
            page=page,
            progress=progress,
            **options,
        )
    figures = [out / f"{name}.svg" for name, part in FIGURES_OF_PARTS if only in (None, part)]
    finish(table, out / ("histogram.csv" if only == "histogram" else "randomise.csv"), figures, page)


app.command()(with_options(mosaics, Focus, OF_THE_MODEL))
app.command()(with_options(layout, Focus, ("layout", "only", "randomise", "draws", "paper_row", "mosaics")))
app.command()(with_options(randomise, Focus, ("layout", "only", "randomise", "draws", "paper_row", "mosaics")))


@app.command()
def bias(
    run: Annotated[Path, typer.Argument(help="Folder of a run of focus.")],
    explainer: Annotated[str, typer.Option(help="Whose heatmaps to go by: one of the run.")] = "grad_cam",
    target: Annotated[
        str | None, typer.Option(metavar="CLASS", help="The class to look at. Default: that of the lowest mean Focus.")
    ] = None,
    partner: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="The class beside it. Default: that beside which Focus is lowest."),
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", help="Mosaics of the pair to show, lowest Focus first.")] = 8,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What classes are called on pages: a CSV with label, name.")
    ] = None,
    below: Annotated[float, typer.Option(help="In the test, a pair is low below this share.")] = 0.5,
    level: Annotated[float, typer.Option(help="Level of significance of the test, after correction.")] = 0.05,
) -> None:
    """What the model confuses: first as the paper has it, then by a test of ours.

    Classes by their mean Focus; for the lowest, the partner beside which it is lowest; the mosaics of that pair with
    their heatmaps, as pictures and on a page to hand to an expert. Then a test of all pairs: CSV, matrix, and a section
    of the run's page.

    Examples:

    heatproof focus bias runs/focus-standard

    heatproof focus bias runs/focus-standard --target metal_cube --partner rubber_cube --count 20
    """
    from heatproof.cli.bars import bars
    from heatproof.focus import bias as look_for_bias

    with bars() as progress:
        found = look_for_bias(
            run,
            explainer,
            target=target,
            partner=partner,
            count=count,
            names=names,
            below=below,
            level=level,
            progress=progress,
        )
    show_means("Focus by target class, lowest first", found.classes)
    show_means(f"Focus of {found.target} beside each other class, lowest first", found.partners)
    say(f"shown: {len(found.mosaics)} mosaics of {found.target} beside {found.partner}, lowest Focus first")
    if found.page is not None:
        say(f"for an expert {found.page}")
    show_test(found, explainer, below)
    show_pictures(found)
    if found.without_pictures:
        say(f"without pictures: {found.without_pictures}", err=True)
    say(f"tables {', '.join(str(found.folder / f'{name}.csv') for name in ('classes', 'partners', 'pairs'))}")
    say(f"matrix {found.folder / 'matrix.svg'}\npage   {run / REPORT}")


def show_pictures(found: Findings) -> None:
    """Which single pictures and groups draw relevance for a class that is not theirs."""
    from heatproof.experiments.bias_pictures import (
        counted,
        group_words,
        look_words,
        named_first,
        reach,
        unevenly,
        whole_words,
    )

    if found.drawn is None:
        say("pictures: this run does not say which picture lies in which tile; heatproof run focus does")
        return
    groups, named = found.drawn.groups.filter("found"), named_first(found.drawn).filter("named")
    if uneven := unevenly(found.drawn):
        say(uneven)
    if named.is_empty():
        say(f"pictures: none is named. {reach(found.drawn)}")
        return
    say(f"pictures: {counted(len(named), 'picture')} named, {counted(len(groups) + len(found.drawn.whole), 'group')}")
    for row in found.drawn.whole.iter_rows(named=True):
        say(f"  {whole_words(row)}")
    for row in groups.head(LISTED).iter_rows(named=True):
        say(f"  {group_words(row)}")
    for (target, other), look in found.drawn.looks.items():
        say(f"  {look_words(target, other, look)}")
    if found.drawn.unseen:
        say(f"  without a look at the network's own features: {found.drawn.unseen}")
    for row in named.head(LISTED).iter_rows(named=True):
        share = f"{100 * row['draw']:.0f} % of the relevance for {row['target_class']}"
        say(f"  {Path(row['picture']).name:<30} {share} ({row['other_class']}, {row['mosaics']} mosaics)")
    say(f"tables {found.folder / 'pictures.csv'}, {found.folder / 'groups.csv'}")


def show_means(title: str, means: pl.DataFrame) -> None:
    """Mean Focus by class, the first ones."""
    say(title)
    for name, n, focus, low, high, visible in means.head(LISTED).iter_rows():
        span = f" ({low:.2f} to {high:.2f})" if n > 1 else ""
        gap = "" if visible is None else f", visible gap {visible:.2f}"
        say(f"  {name:<30} {focus:.2f}{span}, n = {n}{gap}")
    if len(means) > LISTED:
        say(f"  and {len(means) - LISTED} more")


def show_test(found: Findings, explainer: str, below: float) -> None:
    """What the test says, and what it does not: what was not tested, and what could not have been seen."""
    low, reach = found.pairs.filter("found"), found.reach
    if not reach.tested:
        say(f"test: none of {reach.pairs} pairs has mosaics enough for a test, so nothing was tested", style="bold")
        say(f"  {found.reached}")
        return
    untested = f"; {reach.untested} more have too few mosaics and were not tested" if reach.untested else ""
    say(f"test: {len(low)} of {reach.tested} pairs have a share significantly below {below}{untested}")
    for row in low.iter_rows(named=True):
        say(
            f"  {row['target_class']} is seen in {row['other_class']}: share {row['share']:.2f}"
            f" ({row['share_low']:.2f} to {row['share_high']:.2f}), Focus {row['focus']:.2f}, n = {row['n']},"
            f" corrected p = {row['p_corrected']:.2g}"
        )
    say(f"  {found.reached}")
    if low.is_empty():
        say("  this does not say that there is no bias: see the mosaics")
    elif not found.follows_class:
        say(
            f"caution: over all classes, Focus of {explainer} is not above chance. Either the model confuses this much,"
            " or these heatmaps do not follow the class and lie on what is conspicuous: try another explainer.",
            err=True,
        )


@app.command()
def table(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs of focus, one or more per network.", metavar="RUN")
    ],
    out: Out = Path("runs/focus-table"),
) -> None:
    """The paper's Table 1 from runs: networks by methods, their accuracy, and whether Focus goes with it.

    Mean (standard deviation) of Focus under the paper's pooling, mean accuracy per class on single pictures, and the
    paper's row beneath where network and data are its own (`heatproof run focus --paper-row`). Runs of one network on
    the same pictures that have no method in common are one row.

    Example: heatproof focus table runs/alexnet runs/alexnet-lime runs/vgg16 --out runs/focus-table
    """
    from heatproof.cli.bars import bars
    from heatproof.experiments.table import correlation_words
    from heatproof.focus import table as make_table

    with bars() as progress:
        made = make_table(*runs, out=out, progress=progress)
    heads, *lines = made.lines()
    names = ("\n".join(words for words in line[:2] if words) for line in lines)
    show_table(("", *names), zip(heads[2:], *(line[2:] for line in lines), strict=True))
    say("correlation of mean Focus with accuracy over networks (Pearson; Spearman), and in the paper's table")
    for line in made.correlation.iter_rows(named=True):
        say(f"  {line['method']}\n    here {correlation_words(line, '')}; paper {correlation_words(line, 'paper_')}")
    for note in made.notes:
        say(note, err=True)
    say("\n".join(f"{kind:<6} {out / name}" for kind, name in TABLE_FILES))


@app.command("planted-bias")
def planted_bias(
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, ...: each its own pictures, weights and mosaics.")] = 10,
    features: Annotated[str, typer.Option(help="What is planted: colour, object, or both with a comma.")] = (
        "colour,object"
    ),
    in_target_too: Annotated[
        bool, typer.Option("--in-target-too", help="Judge on cubes that carry the feature too: not to be found.")
    ] = False,
    device: DeviceOption = "cpu",
    out: Out = Path("runs/focus-planted-bias"),
) -> None:
    """The bias finder on classifiers with a bias that was planted, and on fair ones: a table of what it names.

    Each seed and feature renders pictures and trains two classifiers, which takes minutes.

    Example: heatproof focus planted-bias --seeds 1 --features colour
    """
    from heatproof.cli.bars import bars
    from heatproof.experiments.planted import rates, row_line, validate

    with bars() as progress:
        named = [name.strip() for name in features.split(",")]
        rows = validate(out, named, seeds, progress, in_target_too=in_target_too, device=device)
    for line in (*map(row_line, rows), *rates(rows)):
        say(line)
    say(f"table  {out / 'planted-bias.csv'}")


@app.command("planted-photos")
def planted_photos(
    images: Annotated[Path, typer.Option(metavar="DIR", help="Photographs of two classes, a folder per class.")],
    weights: Annotated[Path, typer.Option(metavar="FILE", help="Convolutions of the network (features.*).")],
    model: Annotated[str, typer.Option(help="Whose convolutions: alexnet or vgg16.")] = "alexnet",
    cues: Annotated[str, typer.Option(help="What is planted: square, frame, grey, with commas.")] = "square,frame,grey",
    carried: Annotated[str, typer.Option(help="Parts of the second class that carry the cue.")] = "1,0.5,0.2",
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, ...: each its own split, cues and mosaics.")] = 1,
    fair_seeds: Annotated[int | None, typer.Option(help="Seeds of fair twins. Default: as many.")] = None,
    judged: Annotated[int, typer.Option(help="Held-out pictures of each class.")] = 60,
    tile: Annotated[int, typer.Option(min=64, help="Side of a picture in pixels.")] = 224,
    out: Out = Path("runs/focus-planted-photos"),
) -> None:
    """The bias finder on photographs with cues that were planted, and on fair twins: a table of what it names.

    Example: heatproof focus planted-photos --images dogs_vs_cats --weights alexnet_features.pt
    """
    from heatproof.cli.bars import bars
    from heatproof.errors import HeatproofError
    from heatproof.experiments.planted_photos import row_line, validate

    try:
        parts = [float(word) for word in carried.split(",")]
    except ValueError as problem:
        raise HeatproofError(f"--carried must be numbers with commas between, got {carried!r}.") from problem
    with bars() as progress:
        rows = validate(
            images, model, weights, out, cues=[cue.strip() for cue in cues.split(",")], carried=parts, seeds=seeds,
            fair_seeds=fair_seeds, judged=judged, side=tile, progress=progress,
        )  # fmt: skip
    for row in rows:
        say(row_line(row))
    say(f"table  {out / 'planted-photos.csv'}")


def finish(table: pl.DataFrame, path: Path, figures: Sequence[Path], page: Path | None) -> None:
    """Print the means, and where the files are."""
    from math import nan

    for group in table["group"].unique(maintain_order=True):
        defined = table.filter(group=group)["focus"].drop_nans().to_list()
        mean = sum(defined) / len(defined) if defined else nan
        say(f"{group:<40} mean {mean:.3f}  n {len(defined)}")
    say(f"table  {path}")
    for figure in figures:
        say(f"figure {figure}")
    if page is not None:
        say(f"page   {page / REPORT}")

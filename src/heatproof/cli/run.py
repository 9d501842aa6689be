"""`heatproof run ...`"""

from __future__ import annotations

import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heatproof.cli import focus as focus_options
from heatproof.cli.focus import Seed
from heatproof.engine.store import default_folder

if TYPE_CHECKING:
    from heatproof.engine.estimate import Estimate
    from heatproof.results.run import Run

app = typer.Typer(help="Run a benchmark: from nothing to a table and a page.", no_args_is_help=True)


class Preset(str, Enum):
    quick = "quick"
    standard = "standard"
    paper = "paper"


class Target(str, Enum):
    probability = "probability"
    logit = "logit"
    log_probability = "log_probability"
    both = "both"


class Questions(str, Enum):
    simple = "simple"
    complex = "complex"


class Window(str, Enum):
    clipped = "clipped"
    literal = "literal"


# Options that every benchmark has.
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Keep what the folder holds already, or compute it again.")
]
KeepHeatmaps = Annotated[
    bool, typer.Option("--keep-heatmaps", help="Store every heatmap, not only the page's examples.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what the run would cost; run nothing.")]


@app.command()
def svea(
    preset: Annotated[
        Preset,
        typer.Option(metavar="NAME", help="quick: 1,000 signals. standard: all 5,000. paper: all, on three networks."),
    ] = Preset.standard,
    explainers: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Such as 'rise, smoothgrad:samples=50, my_method.py:explain'. Default: SVEA's own."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/svea-PRESET.")] = None,
    seed: Seed = 0,
    limit: Annotated[int | None, typer.Option(help="Use about this many signals only.")] = None,
    resume: Resume = True,
    target: Annotated[
        Target,
        typer.Option(
            metavar="SCORE",
            help="probability (as the paper), logit, log_probability or both.",
        ),
    ] = Target.both,
    model_seeds: Annotated[
        int | None, typer.Option(help="Explain this many networks, trained from seeds 1, 2, ...; shows their spread.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights (.npz, .pt) for the paper's network.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Your own network (B,1,40) -> (B,10): my_net.py:factory or package:factory."),
    ] = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Train networks even where trained ones ship with Heatproof.")
    ] = False,
    window: Annotated[
        Window,
        typer.Option(
            metavar="RULE",
            help="clipped or literal: where the region of explanation begins; literal: equation 1 as printed.",
        ),
    ] = Window.clipped,
    batch_size: Annotated[int, typer.Option(help="Signals explained at a time; bounds memory, not results.")] = 500,
    keep_heatmaps: KeepHeatmaps = False,
    dry_run: DryRun = False,
) -> None:
    """SVEA: short signals, a shallow network; about a minute on a laptop.

    Examples:

    heatproof run svea --preset quick

    heatproof run svea --explainers rise:masks=1000,gradient --target logit

    heatproof run svea --explainers gradient,my_method.py:explain --out runs/mine

    heatproof run svea --model my_net.py:build
    """
    options: dict[str, Any] = {
        "limit": limit,
        "weights": weights,
        "model": model,
        "model_seeds": model_seeds,
        "retrain": retrain or None,
        "window": window.value,
    }
    shared = {"explainers": explainers, "preset": preset.value, "target": target.value, "batch_size": batch_size}
    how = {"seed": seed, "resume": resume, "keep_heatmaps": keep_heatmaps}
    run_or_estimate("svea", out or default_folder("svea", preset.value), shared | options, how, dry_run)


@app.command("clevr-xai")
def clevr_xai(
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Folder with pictures, questions and masks: ours or CLEVR-XAI's release. Default: 60 scenes that ship."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="relation-network (after heatproof fetch relation-network) or its file. Default: a network that ships."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Your own network, as a heatproof.models.vqa.Vqa: my_net.py:factory.")
    ] = None,
    questions: Annotated[
        Questions, typer.Option(metavar="SET", help="simple: about one object. complex: CLEVR's own kinds.")
    ] = Questions.simple,
    preset: Annotated[
        Preset, typer.Option(metavar="NAME", help="quick: 40 questions. standard: 400. paper: CLEVR-XAI's release.")
    ] = Preset.standard,
    explainers: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Such as 'lrp:composite=gamma, smoothgrad:sigma=0.01'. Default: the poster's."
        ),
    ] = None,
    pooling: Annotated[str | None, typer.Option(metavar="LIST", help="Poolings to score. Default: all ten.")] = None,
    every_answer: Annotated[
        bool, typer.Option("--every-answer", help="Explain wrongly answered questions too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/clevr-xai-PRESET.")] = None,
    seed: Seed = 0,
    limit: Annotated[int | None, typer.Option(help="Use the first so many questions only.")] = None,
    resume: Resume = True,
    target: Annotated[
        Target, typer.Option(metavar="SCORE", help="logit, probability, log_probability or both.")
    ] = Target.logit,
    batch_size: Annotated[
        int | None, typer.Option(help="Questions explained at a time; bounds memory, not results.", show_default=False)
    ] = None,
    keep_heatmaps: KeepHeatmaps = False,
    dry_run: DryRun = False,
) -> None:
    """CLEVR-XAI: questions about pictures, with the objects that decide them.

    Examples:

    heatproof run clevr-xai --preset quick

    heatproof run clevr-xai --dataset data --weights relation-network

    heatproof run clevr-xai --dataset data --model my_net.py:build --questions complex
    """
    options: dict[str, Any] = {
        "dataset": None if dataset is None else str(dataset),
        "weights": weights,
        "model": model,
        "questions": questions.value,
        "limit": limit,
        "correct_only": False if every_answer else None,
        "poolings": None if pooling is None else [name.strip() for name in pooling.split(",") if name.strip()],
    }
    shared = {"explainers": explainers, "preset": preset.value, "target": target.value, "batch_size": batch_size}
    how = {"seed": seed, "resume": resume, "keep_heatmaps": keep_heatmaps}
    run_or_estimate("clevr-xai", out or default_folder("clevr-xai", preset.value), shared | options, how, dry_run)


@app.command()
def focus(
    preset: Annotated[
        Preset, typer.Option(metavar="NAME", help="quick, standard, paper: 10, 40, 100 mosaics of each class.")
    ] = Preset.standard,
    explainers: Annotated[
        str | None, typer.Option(metavar="LIST", help="Default: the paper's six, gradient and floors.")
    ] = None,
    images: focus_options.Images = None,
    subset: focus_options.Subset = None,
    mosaics: Annotated[Path | None, typer.Option(help="A CSV of mosaics made before, instead of images.")] = None,
    model: focus_options.Model = None,
    weights: focus_options.Weights = None,
    labels: focus_options.Labels = None,
    mean: focus_options.Mean = None,
    std: focus_options.Std = None,
    mosaics_per_class: Annotated[int | None, typer.Option(help="Mosaics of each target class.")] = None,
    grid: focus_options.Grid = 2,
    targets: focus_options.Targets = 2,
    tile: focus_options.Tile = None,
    fit: focus_options.FitOption = None,
    repeats: focus_options.Repeats = False,
    paper_row: Annotated[str | None, typer.Option(help="Row of the paper's table, such as imagenet/vgg16.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/focus-PRESET.")] = None,
    seed: Seed = 0,
    limit: Annotated[int | None, typer.Option(help="Use this many mosaics only, of all classes evenly.")] = None,
    resume: Resume = True,
    target: Annotated[
        Target, typer.Option(metavar="SCORE", help="logit (as the paper), probability ...")
    ] = Target.logit,
    batch_size: Annotated[
        int | None, typer.Option(help="Mosaics explained at a time; bounds memory, not results.", show_default=False)
    ] = None,
    keep_heatmaps: KeepHeatmaps = False,
    dry_run: DryRun = False,
) -> None:
    """Focus: does relevance for a class lie on its pictures in a mosaic?

    Examples:

    heatproof run focus --preset quick

    heatproof run focus --images photos --model my_net.py:build --labels labels.csv
    """
    given = focus_options.classifier_options(images, subset, model, weights, labels, mean, std, tile, fit)
    options: dict[str, Any] = given | {
        "mosaics": mosaics,
        "mosaics_per_class": mosaics_per_class,
        "grid": grid,
        "targets": targets,
        "repeats": repeats,
        "paper_row": paper_row,
        "limit": limit,
        "mosaic_seed": seed,
    }
    shared = {"explainers": explainers, "preset": preset.value, "target": target.value, "batch_size": batch_size}
    how = {"seed": seed, "resume": resume, "keep_heatmaps": keep_heatmaps}
    run_or_estimate("focus", out or default_folder("focus", preset.value), shared | options, how, dry_run)


@app.command("all")
def everything(
    preset: Annotated[
        Preset, typer.Option(metavar="NAME", help="quick (minutes) or standard, of every benchmark.")
    ] = Preset.quick,
    out: Annotated[Path, typer.Option(help="Folder of the runs, one each: BENCHMARK-PRESET.")] = Path("runs"),
    seed: Seed = 0,
    resume: Resume = True,
    dry_run: DryRun = False,
) -> None:
    """Every benchmark on what ships with Heatproof, one after the other.

    Example: heatproof run all --preset standard
    """
    from heatproof.benchmarks import benchmarks

    failed = False
    for name in benchmarks:
        folder = out / default_folder(name, preset.value).name
        what: dict[str, Any] = {"preset": preset.value} | ({"mosaic_seed": seed} if name == "focus" else {})
        if dry_run:
            typer.echo(name)
        try:
            run_or_estimate(name, folder, what, {"seed": seed, "resume": resume}, dry_run)
        except typer.Exit as end:
            if end.exit_code != 2:
                raise
            failed = True  # some unit of this benchmark; the others can still run
    if failed:
        raise typer.Exit(2)


def run_or_estimate(benchmark: str, folder: Path, what: dict[str, Any], how: dict[str, Any], dry_run: bool) -> None:
    """Run, or only say what a run would cost, which does not depend on how it is done."""
    if dry_run:
        show_estimate(benchmark, what)
    else:
        run_and_show(benchmark, folder, what | how)


def run_and_show(benchmark: str, folder: Path, arguments: dict[str, Any]) -> None:
    """Run with progress bars, print the table, and end with code 2 if any unit failed."""
    from heatproof.api import run
    from heatproof.progress import bars

    try:
        with bars() as progress:
            finished = run(benchmark, out=folder, progress=progress, **arguments)
    except KeyboardInterrupt:
        again = shlex.join(["heatproof", *(word for word in sys.argv[1:] if word != "--no-resume")])
        typer.echo(f"\nStopped. What is computed is kept in {folder}; go on with:\n  {again}", err=True)
        raise typer.Exit(130) from None
    show_run(finished)
    if finished.failures():
        raise typer.Exit(2)


def show_run(run: Run) -> None:
    """The tables, the failures and where to look next."""
    from rich.console import Console

    from heatproof.report.page import REPORT
    from heatproof.results.tables import failure_lines, terminal

    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(f"[bold]{run.manifest['title']}[/bold]")
    console.print("[dim]percent, mean ± half the 95 % interval; floors, ceiling and raw input below the methods[/dim]")
    for table in terminal(run):
        console.print(table)
    failed = failure_lines(run)
    if failed:
        typer.echo(f"{len(failed)} unit(s) failed; everything else is kept. Run again to try them once more:", err=True)
        for line in failed:
            typer.echo(f"  {line}", err=True)
    console.print(f"page   {run.folder / REPORT}", highlight=False, soft_wrap=True)
    console.print(f"table  {run.folder / 'leaderboard.csv'}", highlight=False, soft_wrap=True)


def show_estimate(benchmark: str, arguments: dict[str, Any]) -> None:
    """The cost of a run, explainer by explainer."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from heatproof.api import dry_run
    from heatproof.progress import bars

    with bars() as progress:
        lines: list[Estimate] = dry_run(benchmark, progress=progress, **arguments)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("explainer", "target"):
        table.add_column(name, overflow="fold")
    for name in ("units", "cases", "passes", "seconds", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line.explainer,
            line.target,
            f"{line.units:,}",
            f"{line.cases:,}",
            "?" if line.passes is None else f"{line.passes:,}",
            "?" if line.passes is None else f"{line.seconds:.1f}",
            f"{line.memory / 2**20:.0f} MB",
        )
    table.add_section()
    table.add_row(
        "total",
        "",
        f"{sum(line.units for line in lines):,}",
        "",
        f"{sum(line.passes or 0 for line in lines):,}",
        f"{sum(line.seconds for line in lines):.0f}",
        f"{max(line.memory for line in lines) / 2**20:.0f} MB",
    )
    Console().print(table)
    typer.echo("Seconds from one timed pass on this machine; memory is the peak of inputs and activations.")
    typer.echo("Nothing was explained and nothing was written.")

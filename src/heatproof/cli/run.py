"""`heatproof run ...`: a command for each benchmark."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heatproof.benchmarks import Benchmark, benchmarks
from heatproof.cli.benchmark_options import add_commands, group_of, with_options
from heatproof.explainers.base import Target
from heatproof.run_folder import REPORT, default_folder

if TYPE_CHECKING:
    from heatproof.api import Run
    from heatproof.engine.estimate import Estimate


# Options that every run has.
Explainers = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Such as 'rise, smoothgrad:samples=50, my_method.py:explain'. Default: the benchmark's own.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Metrics to score beside the benchmark's own, such as mine.py:metric."),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of all random draws.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the run. Default: runs/BENCHMARK-PRESET.")]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Keep what the folder holds already, or compute it again.")
]
TargetOption = Annotated[
    Target | None,
    typer.Option(
        metavar="SCORE", help="What is explained: probability, logit, log_probability or both. Default: as the paper."
    ),
]
BatchSize = Annotated[
    int | None, typer.Option(metavar="N", help="Cases explained at a time; bounds memory, not results.")
]
KeepHeatmaps = Annotated[
    bool, typer.Option("--keep-heatmaps", help="Store every heatmap, not only the page's examples.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what the run would cost; run nothing.")]


def preset_option(benchmark: type[Benchmark]) -> Any:
    """The presets of a benchmark, the standard one by default."""
    text = benchmark.preset_help or f"A set of options: {', '.join(benchmark.presets)}."
    return Annotated[str, typer.Option(metavar="NAME", help=text)]


def make_command(name: str, benchmark: type[Benchmark]) -> Callable[..., None]:
    Preset = preset_option(benchmark)  # noqa: N806

    def command(
        options: dict[str, Any],
        preset: Preset = "standard",  # type: ignore[valid-type]
        explainers: Explainers = None,
        metrics: Metrics = None,
        out: Out = None,
        seed: Seed = 0,
        resume: Resume = True,
        target: TargetOption = None,
        batch_size: BatchSize = None,
        keep_heatmaps: KeepHeatmaps = False,
        dry_run: DryRun = False,
    ) -> None:
        what = options | {
            "explainers": explainers,
            "preset": preset,
            "target": target,
            "batch_size": batch_size,
            "seed": seed,
        }
        how = {"resume": resume, "keep_heatmaps": keep_heatmaps, "metrics": metrics}
        run_or_estimate(name, out or default_folder(name, preset), what, how, dry_run)

    command.__annotations__["preset"] = Preset
    return with_options(command, benchmark)


app = typer.Typer(
    help="Run a benchmark: from nothing to a table and a page. Yours too: heatproof run my_benchmark.py:MyBenchmark",
    no_args_is_help=True,
    cls=group_of(make_command),
)
add_commands(app, make_command)


@app.command("all")
def everything(
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="quick (minutes) or standard, of every benchmark.")
    ] = "quick",
    explainers: Explainers = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the runs, one each: BENCHMARK-PRESET.")] = Path(
        "runs"
    ),
    seed: Seed = 0,
    resume: Resume = True,
    dry_run: DryRun = False,
) -> None:
    """Every benchmark on what ships with Heatproof, one after the other.

    Example: heatproof run all --preset standard
    """
    failed = False
    for name in benchmarks:
        folder = out / default_folder(name, preset).name
        if dry_run:
            typer.echo(name)
        try:
            what = {"preset": preset, "explainers": explainers, "seed": seed}
            run_or_estimate(name, folder, what, {"resume": resume}, dry_run)
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


def show_run(run: Run, elsewhere: bool = False) -> None:
    """The tables, the failures and where to look next."""
    from rich.console import Console

    from heatproof.results.tables import failure_lines, terminal

    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(f"[bold]{run.story.title}[/bold]")
    console.print("[dim]percent, mean ± half the 95 % interval; floors, ceiling and raw input below the methods[/dim]")
    for table in terminal(run, console.width, elsewhere):
        console.print(table)
    for note in run.manifest["said"]:
        typer.echo(f"note: {note}", err=True)
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

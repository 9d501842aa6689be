"""`heatproof run ...`: a command for each benchmark."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heatproof.benchmarks import Benchmark, benchmarks
from heatproof.cli import exit_code
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.benchmark_options import add_commands, group_of, with_options
from heatproof.cli.terminal import say, show_table
from heatproof.devices import FULL, Precision
from heatproof.executors.choice import Engine
from heatproof.explainers.base import Target
from heatproof.harmless import visible
from heatproof.results.sequential import MARGIN
from heatproof.run_folder import REPORT, RunFolder, default_folder

if TYPE_CHECKING:
    from rich.console import Console

    from heatproof.engine.forecast import Forecast
    from heatproof.report.runs import Run
    from heatproof.results.tables import Board


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
    typer.Option(metavar="LIST", help="Further metrics to score, such as mine.py:metric."),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of all random draws.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the run. Default: runs/BENCHMARK-PRESET.")]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Keep the results already in the folder, or compute them again.")
]
TargetOption = Annotated[
    Target | None,
    typer.Option(
        metavar="SCORE", help="What is explained: probability, logit, log_probability or both. Default: the paper's."
    ),
]
BatchSize = Annotated[
    int | None, typer.Option(metavar="N", help="Cases explained at a time; bounds memory, not results.")
]
KeepHeatmaps = Annotated[
    bool, typer.Option("--keep-heatmaps", help="Store every heatmap, not only the page's examples.")
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Number of processes. Default: one per available core; 1: only this process."),
]
EngineOption = Annotated[
    Engine,
    typer.Option(
        metavar="NAME",
        help="Where to run: local (this process), processes, ray (a cluster), or auto: processes if that pays off.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address of the Ray cluster: auto, or ray://HOST:10001. Default: one on this machine."
    ),
]
Ship = Annotated[bool, typer.Option("--ship", help="Send --dataset or --images along to the machines of the cluster.")]
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="NAME", help="Device for the networks: auto, cpu, cuda, cuda:1 ... or mps."),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        metavar="NAME",
        help="float32, float16 or bfloat16, for those explainers whose scores it does not change.",
    ),
]
UntilSettledOption = Annotated[
    bool,
    typer.Option("--until-settled", help="Stop as soon as the order of the methods is settled at 95 %."),
]
Margin = Annotated[
    float,
    typer.Option(metavar="X", help="With --until-settled: methods that surely differ by less than this need no order."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Try a few cases, print the estimated cost of the run, and keep nothing.")
]


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
        jobs: Jobs = None,
        engine: EngineOption = "auto",
        address: Address = None,
        ship: Ship = False,
        quiet: Quiet = False,
        device: DeviceOption = "cpu",
        precision: PrecisionOption = FULL,
        until_settled: UntilSettledOption = False,
        margin: Margin = MARGIN,
        dry_run: DryRun = False,
    ) -> None:
        what = options | {
            "explainers": explainers,
            "preset": preset,
            "target": target,
            "batch_size": batch_size,
            "seed": seed,
            "device": device,
            "precision": precision,
        }
        where = {"jobs": jobs, "engine": engine, "address": address, "ship": ship}
        how: dict[str, Any] = {"resume": resume, "keep_heatmaps": keep_heatmaps, "metrics": metrics} | where
        how |= {"until_settled": until_settled, "margin": margin}
        folder = out or default_folder(benchmark.called(options) if benchmark.name else name, preset)
        run_or_estimate(name, folder, what, how, dry_run, quiet)

    command.__annotations__["preset"] = Preset
    return with_options(command, benchmark)


app = typer.Typer(
    help="Run a benchmark and write its table and page; also your own: heatproof run my_benchmark.py:MyBenchmark",
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
    jobs: Jobs = None,
    engine: EngineOption = "auto",
    address: Address = None,
    quiet: Quiet = False,
    device: DeviceOption = "cpu",
    precision: PrecisionOption = FULL,
    until_settled: UntilSettledOption = False,
    margin: Margin = MARGIN,
    dry_run: DryRun = False,
) -> None:
    """SVEA, Focus, CLEVR-XAI and masks on what ships with Heatproof, one after the other, and one page over them all.

    All other benchmarks (removal, twins, those of plug-ins) are run by their names.

    Example: heatproof run all --preset standard
    """
    from heatproof.api import load_run, report

    failed = False
    done: list[Run] = []
    for name, options in every_variant():
        called = benchmarks[name].called(options)
        folder = out / default_folder(called, preset).name
        if dry_run:
            say(called)
        try:
            what = {"preset": preset, "explainers": explainers, "seed": seed, "device": device, "precision": precision}
            what |= options
            how: dict[str, Any] = {"resume": resume, "jobs": jobs, "engine": engine, "address": address}
            how |= {"until_settled": until_settled, "margin": margin}
            run_or_estimate(name, folder, what, how, dry_run, quiet)
        except typer.Exit as end:
            if end.exit_code != 2:
                raise
            failed = True  # some unit of this benchmark; the others can still run
        if not dry_run and RunFolder(folder).has_run:
            done.append(load_run(folder))
    if done:
        show_verdicts(done, report(done, out=out / REPORT))
    if failed:
        raise typer.Exit(2)


def every_variant() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The benchmarks that `run all` runs and their variants: the name, and the options that make the variant."""
    for name, recipe in benchmarks.own().items():
        if recipe.with_all:
            yield name, {}
            yield from ((name, options) for options in recipe.variants.values())


def run_or_estimate(
    benchmark: str, folder: Path, what: dict[str, Any], how: dict[str, Any], dry_run: bool, quiet: bool
) -> None:
    """Run, or only say what a run would cost."""
    if dry_run:
        matters = {name: how.get(name) for name in ("metrics", "jobs", "engine")}
        show_forecast(benchmark, what | matters, quiet)
    else:
        run_and_show(benchmark, folder, what | how, quiet)


def run_and_show(benchmark: str, folder: Path, arguments: dict[str, Any], quiet: bool) -> None:
    """Run with progress bars, print the table, and end with code 2 if any unit failed."""
    from heatproof.api import run

    with going_on_said(folder), bars(quiet) as progress:
        finished = run(benchmark, out=folder, progress=progress, **arguments)
    show_run(finished)
    if finished.failures():
        raise typer.Exit(2)


def cost_line(cost: Mapping[str, Any]) -> str:
    """What the last go at a run took."""
    processes = "1 process" if cost["processes"] == 1 else f"{cost['processes']} processes"
    memory = f", at most {cost['memory'] / 10**9:.2f} GB" if cost["memory"] else ""
    return f"explained in {cost['seconds']:.1f} s, {cost['cpu_seconds']:.1f} CPU seconds{memory} in {processes}"


@contextmanager
def going_on_said(folder: Path) -> Iterator[None]:
    """Who is interrupted says how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        again = shlex.join(["heatproof", *(word for word in sys.argv[1:] if word != "--no-resume")])
        say(f"\nStopped. What is made is kept in {folder}; go on with:\n  {again}", err=True)
        raise typer.Exit(exit_code(stop)) from None


@contextmanager
def nothing_kept_said() -> Iterator[None]:
    """Who interrupts an estimate is not told to go on: nothing of it is kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        say("\nStopped. Nothing of an estimate is kept; the same command begins anew.", err=True)
        raise typer.Exit(exit_code(stop)) from None


def show_run(run: Run, elsewhere: bool = False, page: Path | None = None) -> None:
    """The tables, the failures, the verdict and where to look next."""
    from heatproof.results.tables import boards, failure_lines, silent_lines

    say(run.story.title, style="bold")
    say("percent, mean ± half the 95 % interval; floors, ceiling and raw input below the methods", style="dim")
    for board in boards(run):
        show_board(board, elsewhere)
    for line in silent_lines(run):
        say(line)
    if settled := run.manifest.get("settled"):
        say(settled["text"])
    for note in run.manifest["said"]:
        say(f"note: {note}", err=True)
    failed = failure_lines(run)
    if failed:
        say(f"{len(failed)} unit(s) failed; everything else is kept. Run again to try them once more:", err=True)
        for line in failed:
            say(f"  {line}", err=True)
    if cost := run.manifest.get("cost"):
        say(cost_line(cost), style="dim")
    say(f"table  {run.folder / 'leaderboard.csv'}")
    for sentence in run.verdict.sentences:
        say(sentence)
    say(f"page   {page or run.folder / REPORT}")


def show_board(board: Board, elsewhere: bool = False, on: Console | None = None) -> None:
    """A table of scores: floors and ceiling are dimmed, and a paper's number stays with its metric."""
    from rich.text import Text

    columns = board.columns(elsewhere)
    heads = ["explainer", *(head for head, _ in columns)]
    papers = {number for number, head in enumerate(heads) if head.startswith("paper")}
    rows = []
    for line in board.lines:
        cells = [line.short, *(text(line) for _, text in columns)]
        rows.append(
            [
                Text(visible(cell), "dim" if line.is_baseline else "cyan" if number in papers else "")
                for number, cell in enumerate(cells)
            ]
        )
    show_table(heads, rows, title=board.heading, right=range(1, len(heads)), beside=papers, on=on)


def show_verdicts(runs: Sequence[Run], page: Path) -> None:
    """What the page over several runs says: the sentences of each, those across them, and where it is."""
    from heatproof.results.across import across_sentences, run_names

    named = dict(zip(run_names(runs), runs, strict=True))
    for name, run in named.items():
        say(f"\n{name}")
        for sentence in run.verdict.sentences:
            say(f"  {sentence}")
    if said := across_sentences(named):
        say("\nAcross runs")
        for sentence in said:
            say(f"  {sentence}")
    say(f"\npage   {page}")


def show_forecast(benchmark: str, arguments: dict[str, Any], quiet: bool) -> None:
    """The cost of a run, explainer by explainer."""
    from heatproof.api import dry_run

    with nothing_kept_said(), bars(quiet) as progress:
        found: Forecast = dry_run(benchmark, progress=progress, **arguments)
    rows: list[tuple[str, ...] | None] = [
        (
            line.explainer,
            line.target,
            f"{line.cases:,}",
            "?" if line.passes is None else f"{line.passes:,}",
            f"{line.tried:.2g}" if line.tried < 1 else f"{line.tried:,.0f}",
            "fails" if line.failure else f"{line.seconds:,.1f}",
        )
        for line in found.lines
    ]
    sums = [(name, *[""] * 4, f"{seconds:,.1f}") for name, seconds in found.besides.items()]
    rows += [None, *sums, None, ("total", *[""] * 4, f"{found.seconds:,.1f}")]
    show_table(("explainer", "target", "cases", "passes", "tried", "CPU s"), rows, right=range(2, 6))
    for line in found.lines:
        if line.failure:
            say(f"{line.explainer} would fail: {line.failure}")
    processes = "one process" if found.processes == 1 else f"{found.processes} processes"
    for note in found.notes:
        say(note)
    units = sum(line.units for line in found.lines)
    say(f"{units:,} units of work, at most {found.memory / 10**9:.2f} GB of memory in {processes}.")
    say("Measured on the cases that were tried; tables and page too. Nothing was kept.")

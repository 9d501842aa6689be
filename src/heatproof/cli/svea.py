"""`heatproof svea ...`: what SVEA has beside its run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.cli.bars import Quiet
from heatproof.cli.run import Seed
from heatproof.cli.terminal import say, show_table
from heatproof.metrics.understandability import WindowRule

app = typer.Typer(
    help="SVEA: masked signals for a network in another framework, and other classifiers.", no_args_is_help=True
)


@app.command("masked-inputs")
def masked(
    heatmaps: Annotated[Path, typer.Argument(help="As for heatproof evaluate --benchmark svea.", metavar="HEATMAPS")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .npz to write.")] = Path("masked-inputs.npz"),
    window: Annotated[
        WindowRule, typer.Option(metavar="NAME", help="clipped or literal: where a region begins.")
    ] = "clipped",
) -> None:
    """The test signals with zeros outside each heatmap's region of explanation: `test` (N, 40) in a .npz.

    The probabilities that your network gives them, in their order, are what `heatproof evaluate --benchmark svea
    --masked-outputs` takes.

    Example: heatproof svea masked-inputs maps.npy --out masked-inputs.npz
    """
    from heatproof.benchmarks.svea.heatmaps import masked_inputs
    from heatproof.heatmap_files import few

    count, problems = masked_inputs(heatmaps, out, window)
    say(f"{out}: {count:,} signals")
    if problems:
        say(f"without a region, all zero: {len(problems):,} ({few(problems, '; ')})", err=True)


@app.command()
def classifiers(
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as CSV.")] = None,
    quiet: Quiet = False,
) -> None:
    """How well classifiers of different kinds know MNIST-1D, as Figure 3 of the paper: trained now, but for the CNN.

    Example: heatproof svea classifiers --out classifiers.csv
    """
    from heatproof.cli.bars import bars
    from heatproof.experiments.classifiers import judge_classifiers

    with bars(quiet) as progress:
        found = judge_classifiers(seed, out, progress)
    rows = [
        (
            one.classifier,
            f"{one.accuracy:.1%}",
            f"{one.ci_low:.1%} to {one.ci_high:.1%}",
            "" if one.paper is None else f"{one.paper:.1%}",
            f"{one.parameters:,}",
            f"{one.seconds:.1f}",
        )
        for one in found
    ]
    heads = ("classifier", "accuracy", "95 % interval", "paper", "parameters", "CPU s")
    show_table(heads, rows, right=range(1, len(heads)))
    if out is not None:
        say(f"table  {out}")

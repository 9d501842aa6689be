"""`heatproof show ...`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heatproof.cli.run import Target


def show(
    benchmark: Annotated[
        str, typer.Argument(help="The benchmark whose case is shown: svea, focus, clevr-xai.", metavar="BENCHMARK")
    ],
    case: Annotated[str, typer.Option(help="The case by its name, such as test-0007.")],
    explainers: Annotated[
        str | None, typer.Option(metavar="LIST", help="As in `heatproof run`. Default: the benchmark's own.")
    ] = None,
    target: Annotated[Target, typer.Option(metavar="NAME", help="What is explained.")] = Target.logit,
    out: Annotated[Path, typer.Option(help="The picture to write, an SVG file.")] = Path("case.svg"),
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
) -> None:
    """Draw one case under many explainers.

    Example: heatproof show svea --case test-0007 --explainers gradient,grad_cam,lrp,rise --out case.svg
    """
    from heatproof.api import show as draw
    from heatproof.progress import bars

    with bars() as progress:
        path = draw(benchmark, case, explainers=explainers, target=target.value, out=out, seed=seed, progress=progress)
    typer.echo(f"picture: {path}")

"""`heatproof show ...`: a command for each benchmark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from heatproof.benchmarks import Benchmark
from heatproof.cli.benchmark_options import add_commands, group_of, with_options
from heatproof.cli.run import Explainers, Seed, TargetOption


def make_command(name: str, benchmark: type[Benchmark]) -> Callable[..., None]:
    def command(
        options: dict[str, Any],
        case: Annotated[str, typer.Option(help="The case by its name, such as test-0007; an unknown one names some.")],
        explainers: Explainers = None,
        target: TargetOption = "logit",
        out: Annotated[Path, typer.Option(metavar="FILE", help="The picture to write, an SVG file.")] = Path(
            "case.svg"
        ),
        seed: Seed = 0,
    ) -> None:
        from heatproof.api import show as draw
        from heatproof.progress import bars

        with bars() as progress:
            path = draw(
                name,
                case,
                explainers=explainers,
                target=target or "logit",
                out=out,
                seed=seed,
                progress=progress,
                **options,
            )
        typer.echo(f"picture: {path}")

    shown = with_options(command, benchmark)
    shown.__doc__ = (
        f"Draw one case of {name} under many explainers.\n\n"
        f"Example: heatproof show {name} --case CASE --explainers gradient,grad_cam,lrp,rise --out case.svg"
    )
    return shown


app = typer.Typer(
    help="Draw one case of a benchmark under many explainers.", no_args_is_help=True, cls=group_of(make_command)
)
add_commands(app, make_command)

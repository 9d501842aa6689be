"""`heatproof show ...`: a command for each benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heatproof.benchmarks import Benchmark
from heatproof.cli.benchmark_options import add_commands, group_of, with_options
from heatproof.cli.run import DeviceOption, Explainers, Seed, TargetOption

if TYPE_CHECKING:
    from heatproof.explainers.layers import Layer


def make_command(name: str, benchmark: type[Benchmark]) -> Callable[..., None]:
    def command(
        options: dict[str, Any],
        case: Annotated[
            str | None, typer.Option(help="The case by its name, such as test-0007; an unknown one names some.")
        ] = None,
        explainers: Explainers = None,
        target: TargetOption = "logit",
        out: Annotated[Path, typer.Option(metavar="FILE", help="The picture to write, an SVG file.")] = Path(
            "case.svg"
        ),
        seed: Seed = 0,
        device: DeviceOption = "cpu",
        layers: Annotated[
            bool,
            typer.Option("--layers", help="List the layers that class activation maps can read, and draw nothing."),
        ] = False,
    ) -> None:
        from heatproof.api import benchmark_layers
        from heatproof.api import show as draw
        from heatproof.cli.bars import bars

        if layers:
            with bars() as progress:
                found = benchmark_layers(name, seed=seed, progress=progress, **options)
            show_layers(found)
            return
        if case is None:
            raise typer.BadParameter("say which case to draw, or take --layers.", param_hint="--case")
        with bars() as progress:
            path = draw(
                name,
                case,
                explainers=explainers,
                target=target or "logit",
                out=out,
                seed=seed,
                device=device,
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


def show_layers(found: Mapping[str, Sequence[Layer]]) -> None:
    """A table for each network; one for all that have the same layers."""
    from heatproof.cli.catalogue import show as show_table

    alike: dict[tuple[Layer, ...], list[str]] = {}
    for model, layers in found.items():
        alike.setdefault(tuple(layers), []).append(model)
    for layers, models in alike.items():
        rows = [
            (
                layer.name,
                " x ".join(map(str, (layer.channels, *layer.extent))),
                "all" if layer.passed_by_all else "a part",
                "automatic" if layer.automatic else "",
            )
            for layer in layers
        ]
        show_table((f"layer of {', '.join(models)}", "maps", "gradient", ""), rows)


app = typer.Typer(
    help="Draw one case of a benchmark under many explainers.", no_args_is_help=True, cls=group_of(make_command)
)
add_commands(app, make_command)

"""`heatproof show ...`: a command for each benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heatproof.benchmarks import Benchmark
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.benchmark_options import add_commands, group_of, with_options
from heatproof.cli.run import DeviceOption, Explainers, Seed, TargetOption, preset_option
from heatproof.cli.terminal import say, show_table
from heatproof.engine.wanted import CANDIDATES, COUNT, Pick

if TYPE_CHECKING:
    from heatproof.explainers.conservation import Level
    from heatproof.explainers.layers import Layer


def make_command(name: str, benchmark: type[Benchmark]) -> Callable[..., None]:
    Preset = preset_option(benchmark)  # noqa: N806

    def command(
        options: dict[str, Any],
        case: Annotated[
            str | None, typer.Option(help="The case by its name, such as test-0007; an unknown one names some.")
        ] = None,
        cases: Annotated[str | None, typer.Option(metavar="LIST", help="Several cases, a row each.")] = None,
        pick: Annotated[
            Pick | None,
            typer.Option(
                metavar="NAME",
                help="Pick cases: right or wrong (what the model makes of them), best or worst (the score of the first"
                " explainer).",
            ),
        ] = None,
        count: Annotated[int | None, typer.Option(metavar="N", help=f"Cases to pick. Default: {COUNT}.")] = None,
        candidates: Annotated[
            int, typer.Option(metavar="N", help="Cases that are explained to find the best or the worst.")
        ] = CANDIDATES,
        preset: Preset = "standard",  # type: ignore[valid-type]
        explainers: Explainers = None,
        target: TargetOption = "logit",
        out: Annotated[
            Path, typer.Option(metavar="FILE", help="The picture to write: its name ends in .svg, .pdf or .png.")
        ] = Path("case.svg"),
        seed: Seed = 0,
        quiet: Quiet = False,
        device: DeviceOption = "cpu",
        layers: Annotated[
            bool,
            typer.Option("--layers", help="List the layers that class activation maps can read, and draw nothing."),
        ] = False,
        check_conservation: Annotated[
            bool,
            typer.Option(
                "--check-conservation",
                help="List how much relevance of LRP there is at each layer, for the case, and draw nothing.",
            ),
        ] = False,
    ) -> None:
        from heatproof.api import benchmark_layers, case_conservation
        from heatproof.api import show as draw

        if layers:
            with bars(quiet) as progress:
                found = benchmark_layers(name, seed=seed, progress=progress, **options)
            show_layers(found)
            return
        named = [case] if case is not None else [word.strip() for word in (cases or "").split(",") if word.strip()]
        if case is not None and cases is not None:
            raise typer.BadParameter("give either --case or --cases, not both.", param_hint="--case")
        if not named and pick is None:
            raise typer.BadParameter(
                "say which case to draw, or take --layers; --cases draws several, --pick picks some.",
                param_hint="--case",
            )
        if check_conservation:
            if len(named) != 1 or pick is not None:
                raise typer.BadParameter("give one case with --check-conservation.", param_hint="--case")
            with bars(quiet) as progress:
                levels = case_conservation(
                    name, named[0], explainers=explainers, seed=seed, progress=progress, **options
                )
            show_conservation(levels)
            return
        said: list[str] = []
        with bars(quiet) as progress:
            path = draw(
                name,
                named,
                pick=pick,
                count=count,
                candidates=candidates,
                preset=preset,
                explainers=explainers,
                target=target or "logit",
                out=out,
                seed=seed,
                device=device,
                progress=progress,
                say=said.append,
                **options,
            )
        for line in (*said, f"picture: {path}"):
            say(line)

    command.__annotations__["preset"] = Preset
    shown = with_options(command, benchmark)
    shown.__doc__ = (
        f"Draw cases of {name} under many explainers, as one picture.\n\n"
        "Examples:\n\n"
        f"heatproof show {name} --case CASE --explainers gradient,grad_cam,lrp,rise --out case.svg\n\n"
        f"heatproof show {name} --pick worst --count 3 --explainers lrp,grad_cam --out worst.pdf"
    )
    return shown


def show_layers(found: Mapping[str, Sequence[Layer]]) -> None:
    """A table for each network; one for all that have the same layers."""
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


def show_conservation(found: Mapping[str, Sequence[Level]]) -> None:
    """A table for each explainer, from the score down."""
    for explainer, levels in found.items():
        rows = [
            (level.layer, *(f"{value:.5g}" for value in (level.relevance, level.biases, level.elsewhere)))
            for level in levels
        ]
        show_table((f"layer under {explainer}", "relevance", "taken by biases", "elsewhere"), rows)


app = typer.Typer(
    help="Draw cases of a benchmark under many explainers.", no_args_is_help=True, cls=group_of(make_command)
)
add_commands(app, make_command)

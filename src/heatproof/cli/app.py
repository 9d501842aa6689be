"""The commands, put together."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from heatproof.cli import (
    catalogue,
    clevr,
    compare,
    doctor,
    evaluate,
    export,
    fetch,
    focus,
    publish,
    report,
    run,
    show,
    svea,
    train,
)

ORDER = (
    *("run", "show", "list", "evaluate", "compare", "report", "export", "publish"),
    *("clevr", "focus", "svea", "train", "fetch", "doctor"),
)
"""Commands as people need them, the first first."""


class InOrder(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=[*ORDER, *super().list_commands(ctx)].index)


app = typer.Typer(
    name="heatproof",
    cls=InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Heatproof puts heatmaps to the proof: attribution methods, judged where the right answer is known.",
    epilog="Start with: heatproof run svea --preset quick",
)
app.add_typer(run.app, name="run")
app.add_typer(catalogue.app, name="list")
app.add_typer(train.app, name="train")
app.add_typer(clevr.app, name="clevr")
app.add_typer(focus.app, name="focus")
app.add_typer(svea.app, name="svea")
app.add_typer(show.app, name="show")
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("publish")(publish.publish)
app.command("fetch")(fetch.fetch)
app.command("doctor")(doctor.doctor)


def show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("heatproof"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Options before any command."""

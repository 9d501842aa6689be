"""report.html: everything on one page that works offline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.report.examples import example_strip
from heatproof.report.figures import dot_plot
from heatproof.report.sections import read_sections
from heatproof.results.tables import Board, Line, boards, failure_lines, grids, ranked, silent_lines
from heatproof.run_folder import REPORT
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from heatproof.results.run import Results


def write_report(run: Results) -> Path:
    """Write the page of a run into its folder, and return its path."""
    shown = boards(run)
    lines, metrics = every_line(shown), shown[0].metrics
    text = (
        templates()
        .get_template("report.html.j2")
        .render(
            manifest=run.manifest,
            story=run.story,
            notes=(*run.story.notes, *silent_lines(run)),
            boards=shown,
            lines=lines,
            targets=any(line.target for line in lines),
            baselines=any(line.is_baseline for line in lines),
            costs=any(line.seconds is not None for line in lines),
            metrics=metrics,
            referenced={name for board in shown for name in board.referenced},
            elsewhere={name for board in shown for name in board.referenced_elsewhere},
            plots=[(metric, dot_plot(shown, metric)) for metric in metrics],
            tiles=tiles(shown),
            strip=example_strip(run, lines, [board.target for board in shown if board.target]),
            grids=grids(run),
            sections=[*run.story.sections, *read_sections(run.files)],
            failures=failure_lines(run),
            style=static("report.css"),
            script=static("report.js"),
        )
    )
    path = run.folder / REPORT
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def templates() -> Environment:
    """The pages' templates; what they are given is escaped, and what they miss is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("heatproof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["breakable"] = breakable
    environment.globals["layers_text"] = layers_text
    return environment


def breakable(name: str) -> Markup:
    """A long name that may go on in a new line behind its commas, colons and underscores."""
    from markupsafe import Markup, escape

    return Markup(re.sub("([,:_])", r"\1<wbr>", str(escape(name))))


def layers_text(layers: Mapping[str, str]) -> str:
    """The layer that an explainer read, or those of each model where they differ."""
    if len(set(layers.values())) == 1:
        return next(iter(layers.values()))
    return "; ".join(f"{layer} in {model}" for model, layer in layers.items())


def static(name: str) -> str:
    return resources.files("heatproof.report").joinpath(f"static/{name}").read_text(encoding="utf-8")


def every_line(shown: list[Board]) -> list[Line]:
    """The methods of all boards, best first, then the baselines, which are the same on every board."""
    unique = {(line.explainer, line.target): line for board in shown for line in board.lines if not line.is_baseline}
    methods = list(unique.values())
    return [*ranked(methods, shown[0].metrics), *(line for line in shown[0].lines if line.is_baseline)]


def tiles(shown: list[Board]) -> list[tuple[str, str, str]]:
    """The few numbers to see first: title, number, whose it is. The first metric speaks for all."""
    metric = shown[0].metrics[0].name
    found = []
    for board in shown:
        methods = [line for line in board.lines if not line.is_baseline and metric in line.cells]
        if methods:
            found.append(
                (
                    f"best, {board.target}" if board.target else "best",
                    methods[0].cells[metric].text,
                    methods[0].short,
                )
            )
    for family, words in (("floor", "knows nothing of the model"), ("ceiling", "the true mask")):
        lines = [line for line in shown[0].lines if line.family == family and metric in line.cells]
        if lines:
            found.append((family, lines[0].cells[metric].text, f"{lines[0].short}: {words}"))
    return found

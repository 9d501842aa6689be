"""report.html: everything on one page that works offline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl
from heatproof.metrics import metrics
from heatproof.report.bias import biases
from heatproof.report.figures import dot_plot, signal
from heatproof.report.gallery import overlay, picture, small
from heatproof.results.tables import Board, Line, boards, failure_lines, grids, heading, ranked
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from heatproof.results.run import Run

REPORT = "report.html"


def write_report(run: Run) -> Path:
    """Write the page of a run into its folder, and return its path."""
    shown = boards(run)
    lines, names = every_line(shown), shown[0].metrics
    text = (
        templates()
        .get_template("report.html.j2")
        .render(
            manifest=run.manifest,
            boards=shown,
            lines=lines,
            targets=any(line.target for line in lines),
            baselines=any(line.is_baseline for line in lines),
            costs=any(line.seconds is not None for line in lines),
            metrics=[metrics[name] for name in names],
            headings={name: heading(name) for name in names},
            referenced={name for board in shown for name in board.referenced},
            plots=[(metrics[name], dot_plot(shown, name)) for name in names],
            tiles=tiles(shown),
            strip=example_strip(run, shown),
            grids=grids(run),
            pictures=picture_strip(run, shown),
            biases=biases(run.folder),
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
    return environment


def breakable(name: str) -> Markup:
    """A long name that may go on in a new line behind its commas, colons and underscores."""
    from markupsafe import Markup, escape

    return Markup(re.sub("([,:_])", r"\1<wbr>", str(escape(name))))


def static(name: str) -> str:
    return resources.files("heatproof.report").joinpath(f"static/{name}").read_text(encoding="utf-8")


def every_line(shown: list[Board]) -> list[Line]:
    """The methods of all boards, best first, then the baselines, which are the same on every board."""
    unique = {(line.explainer, line.target): line for board in shown for line in board.lines if not line.is_baseline}
    methods = list(unique.values())
    return [*ranked(methods, shown[0].metrics), *(line for line in shown[0].lines if line.is_baseline)]


def tiles(shown: list[Board]) -> list[tuple[str, str, str]]:
    """The few numbers to see first: title, number, whose it is. The first metric speaks for all."""
    metric = shown[0].metrics[0]
    found = []
    for board in shown:
        methods = [line for line in board.lines if not line.is_baseline and metric in line.cells]
        if methods:
            found.append(
                (
                    f"best, {board.target}" if board.target else "best",
                    methods[0].cells[metric].text,
                    methods[0].explainer,
                )
            )
    for family, words in (("floor", "knows nothing of the model"), ("ceiling", "the true mask")):
        lines = [line for line in shown[0].lines if line.family == family and metric in line.cells]
        if lines:
            found.append((family, lines[0].cells[metric].text, f"{lines[0].explainer}: {words}"))
    return found


@dataclass(frozen=True)
class Strip:
    """Example signals under every explainer: a column per case, a row per explainer."""

    model: str
    targets: list[str]
    heads: list[tuple[Any, Any]]
    """Label and predicted class of each case."""
    rows: list[tuple[Line, list[Markup]]]


def example_strip(run: Run, shown: list[Board]) -> Strip | None:
    """The kept examples, by label, in the order of the table; None where a run has none."""
    kept = run.store.examples()
    if not kept:
        return None
    ids = kept["ids"].tolist()
    truth = next(array for name, array in kept.items() if name.startswith("mask."))
    if kept["inputs"].ndim != 3:
        return None
    regions = run.score_rows().where(pl.col("case").is_in(ids) & (pl.col("metric") == "roe_start"))
    if regions.is_empty():
        return None
    regions = regions.filter(pl.col("model") == regions["model"][0])
    facts = {row["case"]: row for row in regions.iter_rows(named=True)}
    order = sorted((i for i, case in enumerate(ids) if case in facts), key=lambda i: facts[ids[i]]["label"])
    length = run.manifest["configuration"]["roe_length"]
    starts = {(row["explainer"], row["target"], row["case"]): row["value"] for row in regions.iter_rows(named=True)}
    folders = {(entry["explainer"], entry["target"]): entry["folder"] for entry in run.manifest["explainers"]}

    def drawing(line: Line, heat: dict[str, Any], i: int) -> Markup:
        start = starts.get((line.explainer, line.target, ids[i]))
        relevance = heat[ids[i]].sum(0) if ids[i] in heat else None
        return signal(kept["inputs"][i, 0], relevance, truth[i], None if start is None else (int(start), length))

    rows = []
    for line in every_line(shown):
        if (line.explainer, line.target) in folders:
            heat = run.store.heatmaps(folders[line.explainer, line.target], regions["model"][0])
            rows.append((line, [drawing(line, heat, i) for i in order]))
    return Strip(
        model=regions["model"][0],
        targets=[board.target for board in shown if board.target],
        heads=[(facts[ids[i]]["label"], facts[ids[i]]["predicted"]) for i in order],
        rows=rows,
    )


@dataclass(frozen=True)
class PictureStrip:
    """Example pictures under every explainer: a column per case, a row per explainer, each an image address."""

    heads: list[str]
    inputs: list[str]
    rows: list[tuple[Line, list[str]]]


def picture_strip(run: Run, shown: list[Board]) -> PictureStrip | None:
    """The kept pictures with their heatmaps, in the order of the table; None where a run has none."""
    kept = run.store.examples()
    if not kept or kept["inputs"].ndim != 4:
        return None
    ids = kept["ids"].tolist()
    folders = {(entry["explainer"], entry["target"]): entry["folder"] for entry in run.manifest["explainers"]}
    model = run.leaderboard()["model"][0]
    rows = []
    for line in every_line(shown):
        if (line.explainer, line.target) in folders:
            heat = run.store.heatmaps(folders[line.explainer, line.target], model)
            drawn = [small(overlay(kept["inputs"][i], heat[c].sum(0))) if c in heat else "" for i, c in enumerate(ids)]
            rows.append((line, drawn))
    heads = kept["titles"].tolist() if "titles" in kept else ids
    return PictureStrip(heads, [small(picture(entry)) for entry in kept["inputs"]], rows)

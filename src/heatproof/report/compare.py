"""compare.html: runs side by side, on one page that works offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.report.page import static, templates
from heatproof.results.columns import VARIANT
from heatproof.results.compare import in_words
from heatproof.results.tables import Cell, first_shown
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from heatproof.results.compare import Comparison


TABLE, PAGE = "compare.csv", "compare.html"


def write_comparison(found: Comparison, folder: Path | str) -> Path:
    """Write compare.csv and compare.html into a folder, and return the page's path."""
    place = Path(folder)
    if place.is_dir() and any(place.iterdir()) and not (place / TABLE).is_file():
        raise HeatproofError(f"{place} is not empty and holds no comparison; choose a new folder with --out.")
    write_whole(place / TABLE, found.table.write_csv)
    return write_page(found, place / PAGE)


@dataclass(frozen=True)
class Change:
    """The difference of a run to the first, in points of percent, and the interval that it lies in."""

    mean: float
    low: float
    high: float
    cases: int
    against: str

    @property
    def is_clear(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    @property
    def text(self) -> str:
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"


@dataclass(frozen=True)
class Side:
    """One run's part of a row."""

    cell: Cell | None
    change: Change | None


@dataclass(frozen=True)
class Panel:
    """One metric (with its ground truth and pooling): a row per explainer (or pair compared), a side per run."""

    title: str
    metric: str
    rows: tuple[tuple[str, str, tuple[Side, ...]], ...]


def panels(found: Comparison) -> list[Panel]:
    """The metrics that the first run's table shows, best explainer first."""
    first = found.runs[found.first]
    shown = found.table.filter(first_shown(first))
    words = {label: short for run in found.runs.values() for label, short in run.short.items()}
    made = []
    for variant, group in shown.group_by(*VARIANT, maintain_order=True):
        metric, *axes = (str(word) for word in variant)
        compared: dict[str, list[dict[str, Any]]] = {}
        for line in group.iter_rows(named=True):
            compared.setdefault(line["against"] or in_words((line["explainer"], line["target"])), []).append(line)
        rows = []
        for lines in compared.values():
            by_run = {line["run"]: line for line in lines}
            sides = tuple(read_side(by_run.get(name)) for name in found.runs)
            named = [(words.get(line["explainer"], line["explainer"]), line["target"]) for line in lines]
            explainer, target = (" · ".join(dict.fromkeys(filter(None, column))) for column in zip(*named, strict=True))
            rows.append((explainer, target, sides))
        about = ", ".join(word for word in axes if word)
        heading = first.story.metric[metric].heading + (f" ({about})" if about else "")
        made.append(Panel(heading, metric, tuple(rows)))
    return made


def read_side(line: dict[str, Any] | None) -> Side:
    if line is None or line["mean"] is None:
        return Side(None, None)
    cell = Cell(
        line["mean"], line["ci_low"], line["ci_high"], line["n"], undefined=line["undefined"], whole=line["mean_all"]
    )
    if line["difference"] is None:
        return Side(cell, None)
    numbers = (line["difference"], line["difference_low"], line["difference_high"], line["cases"])
    return Side(cell, Change(*numbers, line["against"]))


def has_targets(found: Comparison) -> bool:
    """Whether any run says what was explained."""
    return bool((found.table["target"] != "").any())


def write_page(found: Comparison, path: Path) -> Path:
    """Write the page, and return its path."""
    text = (
        templates()
        .get_template("compare.html.j2")
        .render(
            title=found.runs[found.first].story.title,
            names=list(found.runs),
            runs={name: run.manifest for name, run in found.runs.items()},
            panels=panels(found),
            targets=has_targets(found),
            notes=found.notes,
            style=static("report.css"),
            script=static("report.js"),
        )
    )
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def terminal(found: Comparison) -> list[RenderableType]:
    """The same as tables for a terminal; differences that are clear in bold."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    tables: list[RenderableType] = []
    targets = has_targets(found)
    for panel in panels(found):
        table = Table(title=panel.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("explainer", no_wrap=True)
        if targets:
            table.add_column("explained")
        for place, name in enumerate(found.runs):
            table.add_column(escape(name), justify="right")
            if place:
                table.add_column(f"minus {escape(found.first)}", justify="right")
        for explainer, target, sides in panel.rows:
            cells = [escape(explainer)] + [target] * targets
            for place, side in enumerate(sides):
                cells.append(side.cell.text if side.cell else "–")
                if place:
                    said = side.change.text if side.change else "–"
                    cells.append(f"[bold]{said}[/bold]" if side.change and side.change.is_clear else said)
            table.add_row(*cells)
        tables.append(table)
    return tables

"""compare.html: runs side by side, on one page that works offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.harmless import csv_writer
from heatproof.report.page import page_parts, templates
from heatproof.results.columns import VARIANT
from heatproof.results.compare import BETTER, WORSE, in_words
from heatproof.results.compare_words import sentences
from heatproof.results.tables import Cell
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from heatproof.results.compare import Comparison


TABLE, PAGE = "compare.csv", "compare.html"


def write_comparison(found: Comparison, folder: Path | str) -> Path:
    """Write compare.csv and compare.html into a folder, and return the page's path."""
    place = Path(folder)
    if place.is_dir() and any(place.iterdir()) and not (place / TABLE).is_file():
        raise HeatproofError(f"{place} is not empty and holds no comparison; choose a new folder with --out.")
    write_whole(place / TABLE, csv_writer(found.table))
    return write_page(found, place / PAGE)


@dataclass(frozen=True)
class Change:
    """The difference of a run to the first, the interval that it lies in, and what is said of it, if it was tested."""

    mean: float
    low: float | None
    high: float | None
    cases: int
    against: str
    superior: float
    p: float | None
    said: str

    @property
    def is_sure(self) -> bool:
        """Whether it is surely better or worse."""
        return self.said in (BETTER, WORSE)

    @property
    def text(self) -> str:
        if self.low is None or self.high is None:
            return f"{100 * self.mean:+.1f}"
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"

    @property
    def about(self) -> str:
        """What it rests on."""
        p = "" if self.p is None else f", p {'< 0.001' if self.p < 0.001 else f'= {self.p:.2g}'} after Holm"
        return f"{self.cases} cases, against {self.against}, better on {100 * self.superior:.0f} % of them{p}"


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
    shown = found.table.filter(first.story.shown)
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
    said = (line["against"], line["superior"], line["p_adjusted"], line["said"] or "")
    return Side(cell, Change(*numbers, *said))


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
            sentences=list(sentences(found)),
            **page_parts(),
        )
    )
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path

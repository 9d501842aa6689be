"""The leaderboard as people read it: one line per explainer, in percent, floors and ceiling beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl
from heatproof.metrics import metrics
from heatproof.pooling import poolings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from heatproof.results.run import Run

TARGET_TITLES = {
    "probability": "Explaining the probability (as published)",
    "logit": "Explaining the logit",
    "log_probability": "Explaining the log-probability",
}
BASELINE_FAMILIES = ("floor", "ceiling", "raw")


@dataclass(frozen=True)
class Cell:
    """A mean with its interval, and the paper's number where there is one; all fractions."""

    mean: float
    low: float
    high: float
    n: int
    reference: float | None

    @property
    def text(self) -> str:
        return f"{100 * self.mean:.1f} ±{50 * (self.high - self.low):.1f}"

    @property
    def reference_text(self) -> str:
        return "" if self.reference is None else f"{100 * self.reference:.1f}"


@dataclass(frozen=True)
class Line:
    """An explainer (for one explained quantity) and its scores by metric."""

    explainer: str
    target: str
    family: str
    cells: dict[str, Cell]
    seconds: float | None
    passes: float | None

    @property
    def is_baseline(self) -> bool:
        """Whether it knows nothing of the model: a floor, the ceiling, or no explainer at all."""
        return self.family in BASELINE_FAMILIES and not self.target


@dataclass(frozen=True)
class Board:
    """The lines of one explained quantity, best first, then the baselines that know nothing of the model."""

    target: str
    title: str
    model: str
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def referenced(self) -> tuple[str, ...]:
        """The metrics for which the paper has numbers on this board."""
        return tuple(
            metric
            for metric in self.metrics
            if any(
                line.cells[metric].reference is not None
                for line in self.lines
                if metric in line.cells and not line.is_baseline
            )
        )

    def texts(self, line: Line) -> list[str]:
        """The cells of a line, each followed by the paper's number where the board has any for that metric."""
        found = []
        for metric in self.metrics:
            cell = line.cells.get(metric)
            found.append(cell.text if cell else "–")
            if metric in self.referenced:
                found.append(cell.reference_text if cell else "")
        return found


def boards(run: Run) -> list[Board]:
    """One board per explained quantity. Several models are shown by their mean, poolings by the first of the run."""
    lines_of_all = shown_lines(run)
    model = lines_of_all["model"][0]
    shown = lines_of_all.filter(first_shown(run))
    names = tuple(metric for metric in run.manifest["metrics"] if metric in shown["metric"])
    families = {entry["explainer"]: entry["family"] for entry in run.manifest["explainers"]}
    lines = [
        read_line(str(explainer), str(target), families.get(str(explainer), "raw"), group)
        for (explainer, target), group in shown.group_by("explainer", "target", maintain_order=True)
    ]
    baselines = ranked([line for line in lines if line.is_baseline], names)
    methods = [line for line in lines if not line.is_baseline]
    targets = [target for target in TARGET_TITLES if any(line.target == target for line in lines)]
    return [
        Board(
            target,
            TARGET_TITLES.get(target, "Scores"),
            model,
            names,
            (*ranked([line for line in methods if line.target in (target, "")], names), *baselines),
        )
        for target in (targets or [""])
    ]


def shown_lines(run: Run) -> pl.DataFrame:
    """The leaderboard's lines over all cases, of the sum of its models or of the only one."""
    table = run.leaderboard()
    models = table["model"].unique(maintain_order=True).to_list()
    summed = [model for model in models if model.startswith("mean of ")]
    return table.filter((pl.col("model") == (summed or models)[0]) & (pl.col("subset") == "all"))


def first_shown(run: Run) -> pl.Expr:
    """Which lines of the leaderboard the boards show: the run's own choice, or the first of its poolings."""
    columns = run.manifest.get("columns")
    if columns:
        return pl.any_horizontal(
            pl.all_horizontal(*[pl.col(axis) == value for axis, value in column.items()]) for column in columns
        )
    pooling = next(iter(run.manifest["configuration"].get("poolings", [""])))
    return pl.col("pooling").is_in(["", pooling])


@dataclass(frozen=True)
class Grid:
    """The means of one metric along one more axis: a row per explainer, a column per value of the axis."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


GRID_AXES = {"pooling": "by pooling", "ground_truth": "by ground truth", "subset": "by part of the questions"}


def grids(run: Run) -> list[Grid]:
    """For each column that the boards show, the tables along the axes that have more than one value."""
    found = []
    table = run.leaderboard()
    for column in run.manifest.get("columns") or ():
        here = {**column, "subset": "all"}
        for axis, words in GRID_AXES.items():
            fixed = [pl.col(name) == value for name, value in here.items() if name != axis]
            lines = table.filter(pl.all_horizontal(fixed))
            heads = tuple(lines[axis].unique(maintain_order=True).to_list())
            if axis == "pooling":
                heads = tuple(sorted(heads, key=[*poolings, *heads].index))
            if len(heads) < 2:
                continue
            rows = [
                (str(explainer), tuple(mean_text(group, axis, head) for head in heads))
                for (explainer,), group in lines.group_by("explainer", maintain_order=True)
            ]
            kept = ", ".join(here[name] for name in GRID_AXES if name != axis and here[name] not in ("", "all"))
            found.append(Grid(f"{metrics[column['metric']].title} {words} ({kept})", heads, tuple(rows)))
    return found


def mean_text(group: pl.DataFrame, axis: str, value: str) -> str:
    """The mean in percent, with the paper's number behind it where there is one."""
    rows = group.filter((pl.col(axis) == value) & pl.col("mean").is_not_null())
    if rows.is_empty():
        return "–"
    row = rows.row(0, named=True)
    published = "" if row["reference"] is None else f" ({100 * row['reference']:.0f})"
    return f"{100 * row['mean']:.1f}{published}"


def read_line(explainer: str, target: str, family: str, group: pl.DataFrame) -> Line:
    rows = [row for row in group.iter_rows(named=True) if row["mean"] is not None]
    cells = {r["metric"]: Cell(r["mean"], r["ci_low"], r["ci_high"], r["n"], r["reference"]) for r in rows}
    first: dict[str, Any] = group.row(0, named=True)
    return Line(explainer, target, family, cells, first["seconds_per_case"], first["passes_per_case"])


def ranked(lines: Sequence[Line], names: Sequence[str]) -> list[Line]:
    """Best first by the first metric that a line has a score for; lines without one last."""

    def rank(line: Line) -> tuple[int, float]:
        for place, name in enumerate(names):
            if name in line.cells:
                sign = -1 if metrics[name].higher_is_better else 1
                return place, sign * line.cells[name].mean
        return len(names), 0.0

    return sorted(lines, key=rank)


def heading(metric: str) -> str:
    """The metric's title with the direction in which it is better."""
    return f"{metrics[metric].title} {'↑' if metrics[metric].higher_is_better else '↓'}"


def failure_lines(run: Run) -> list[str]:
    """One line per failed unit."""
    return [
        f"{f['explainer']}{' (' + f['target'] + ')' if f['target'] else ''}, {f['chunk']}: {f['message']}"
        for f in run.failures()
    ]


def markdown(run: Run) -> str:
    """leaderboard.md."""
    parts = [f"# {run.manifest['title']}\n", *(f"{note}\n" for note in run.manifest["notes"])]
    for board in boards(run):
        parts.append(f"## {board.title}\n")
        parts.append(
            f"Model: {board.model}. Percent, mean ± half the 95 % interval; “paper” is the published number.\n"
        )
        head, rule = ["explainer"], ["---"]
        for metric in board.metrics:
            head += [heading(metric)] + ["paper"] * (metric in board.referenced)
            rule += ["---:"] * (1 + (metric in board.referenced))
        rows = [head, rule]
        for line in board.lines:
            name = "`" + line.explainer.replace("|", "\\|").replace("`", "'") + "`"
            rows.append([f"*{name}*" if line.is_baseline else name, *board.texts(line)])
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n")
    for grid in grids(run):
        parts.append(f"## {grid.title}\n")
        parts.append("Percent, means; the published number in brackets.\n")
        lines = [["explainer", *grid.heads], ["---", *["---:"] * len(grid.heads)]]
        lines += [["`" + name.replace("|", "\\|") + "`", *cells] for name, cells in grid.rows]
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n")
    failed = failure_lines(run)
    if failed:
        parts.append("## Not computed\n")
        parts.append("\n".join(f"- {line}" for line in failed) + "\n")
    return "\n".join(parts)


def terminal(run: Run) -> list[RenderableType]:
    """The boards as tables for a terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    tables: list[RenderableType] = []
    for board in boards(run):
        table = Table(title=board.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("explainer", no_wrap=True)
        for metric in board.metrics:
            table.add_column(heading(metric), justify="right", min_width=10)
            if metric in board.referenced:
                table.add_column("paper", justify="right", style="cyan")
        for line in board.lines:
            style = "dim" if line.is_baseline else None
            table.add_row(escape(line.explainer), *board.texts(line), style=style)
        tables.append(table)
    return tables

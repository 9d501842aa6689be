"""The leaderboard as people read it: one line per explainer, in percent, floors and ceiling beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl
from heatproof.story import MetricWords, Panel, Paragraph, Plate, Table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from heatproof.results.run import Results

TARGET_TITLES = {
    "probability": "Explaining the probability",
    "logit": "Explaining the logit",
    "log_probability": "Explaining the log-probability",
}
AROUND = 3
"""Blanks around a column of a table in a terminal."""
BASELINE_FAMILIES = ("floor", "ceiling", "raw")


@dataclass(frozen=True)
class Cell:
    """A mean with its interval, and the paper's number where there is one; all fractions.

    `elsewhere` is the paper's number for another network or other data. Of a single case there is no interval.
    `undefined` is the share of unusable maps, and `whole` the mean that counts each of them as a uniform map; it ranks.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    reference: float | None = None
    elsewhere: float | None = None
    undefined: float = 0.0
    whole: float = math.nan

    @property
    def text(self) -> str:
        around = "" if self.low is None or self.high is None else f" ±{50 * (self.high - self.low):.1f}"
        return f"{100 * self.mean:.1f}{around}{self.silence}"

    @property
    def about(self) -> str:
        """The interval in percent, and how many scores it rests on."""
        around = [] if self.low is None or self.high is None else [f"{100 * self.low:.1f} to {100 * self.high:.1f}"]
        return ", ".join([*around, f"n = {self.n}{self.silence}"])

    @property
    def silence(self) -> str:
        """How many maps had no score, where any had none."""
        return f" ({in_percent(self.undefined)} undefined)" if self.undefined else ""

    @property
    def misleads(self) -> bool:
        """Whether the mean of what is defined differs from that of all maps by more than its interval."""
        return self.low is not None and self.high is not None and not self.low <= self.whole <= self.high

    @property
    def reference_text(self) -> str:
        return "" if self.reference is None else f"{100 * self.reference:.1f}"

    @property
    def elsewhere_text(self) -> str:
        return "" if self.elsewhere is None else f"{100 * self.elsewhere:.1f}"


@dataclass(frozen=True)
class Line:
    """An explainer (for one explained quantity) and its scores by metric; `short` is what people read."""

    explainer: str
    short: str
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
    metrics: tuple[MetricWords, ...]
    lines: tuple[Line, ...]

    @property
    def referenced(self) -> tuple[str, ...]:
        """The metrics for which the paper has numbers about this network and data."""
        return self.having(lambda cell: cell.reference)

    @property
    def referenced_elsewhere(self) -> tuple[str, ...]:
        """The metrics for which it has numbers about others."""
        return self.having(lambda cell: cell.elsewhere)

    def having(self, number: Callable[[Cell], float | None]) -> tuple[str, ...]:
        methods = [line for line in self.lines if not line.is_baseline]
        return tuple(
            metric.name
            for metric in self.metrics
            if any(number(line.cells[metric.name]) is not None for line in methods if metric.name in line.cells)
        )

    def columns(self, elsewhere: bool = False) -> list[tuple[str, Callable[[Line], str]]]:
        """Heading and text of each column: a metric, and the paper's number behind it where there is any.

        `elsewhere` adds the paper's numbers for another network or other data.
        """
        found: list[tuple[str, Callable[[Line], str]]] = []
        for metric in self.metrics:
            found.append((metric.heading, cell_text(metric.name, "text", "–")))
            if metric.name in self.referenced:
                found.append(("paper", cell_text(metric.name, "reference_text")))
            if elsewhere and metric.name in self.referenced_elsewhere:
                found.append(("paper, other network", cell_text(metric.name, "elsewhere_text")))
        return found


def in_percent(share: float) -> str:
    """A share in whole percent, and never as none or all where it is neither."""
    return "<1 %" if 0 < share < 0.01 else ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def cell_text(metric: str, kind: str, otherwise: str = "") -> Callable[[Line], str]:
    """What a line's cell says; `otherwise` where there is none."""
    return lambda line: str(getattr(line.cells[metric], kind)) if metric in line.cells else otherwise


def boards(run: Results) -> list[Board]:
    """One board per explained quantity. Several models are shown by their mean, poolings by the first of the run."""
    lines_of_all = shown_lines(run)
    model = lines_of_all["model"][0]
    shown = lines_of_all.filter(first_shown(run))
    found = tuple(metric for metric in run.story.metrics if metric.name in shown["metric"])
    families = {entry["explainer"]: entry["family"] for entry in run.manifest["explainers"]}
    lines = [
        read_line(str(explainer), run.short.get(str(explainer), str(explainer)), str(target), families, group)
        for (explainer, target), group in shown.group_by("explainer", "target", maintain_order=True)
    ]
    baselines = ranked([line for line in lines if line.is_baseline], found)
    methods = [line for line in lines if not line.is_baseline]
    targets = [target for target in TARGET_TITLES if any(line.target == target for line in lines)]
    return [
        Board(
            target,
            target_title(target, run.story.words.as_published if len(targets) > 1 else ""),
            model,
            found,
            (*ranked([line for line in methods if line.target in (target, "")], found), *baselines),
        )
        for target in (targets or [""])
    ]


def target_title(target: str, published: str) -> str:
    """What a board is called; where there are several, the one of the paper says so."""
    return TARGET_TITLES.get(target, "Scores") + (" (as published)" if target and target == published else "")


def shown_lines(run: Results) -> pl.DataFrame:
    """The leaderboard's lines over all cases, of the sum of its models or of the only one."""
    table = run.leaderboard()
    models = table["model"].unique(maintain_order=True).to_list()
    summed = [model for model in models if model.startswith("mean of ")]
    return table.filter((pl.col("model") == (summed or models)[0]) & (pl.col("subset") == "all"))


def first_shown(run: Results) -> pl.Expr:
    """Which lines of the leaderboard the boards show: the run's own choice, or the first of its poolings."""
    if run.story.columns:
        return pl.any_horizontal(column.condition for column in run.story.columns)
    return pl.col("pooling").is_in(["", *run.story.poolings[:1]])


@dataclass(frozen=True)
class Grid:
    """The means of one metric along one more axis: a row per explainer, a column per value of the axis."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def grids(run: Results) -> list[Grid]:
    """For each column that the boards show, the tables along the axes that have more than one value."""
    axes = {
        "pooling": "by pooling",
        "ground_truth": "by ground truth",
        "subset": f"by part of the {run.story.words.cases}",
    }
    found = []
    table = run.leaderboard()
    for column in run.story.columns:
        here = {**vars(column), "subset": "all"}
        for axis, words in axes.items():
            fixed = [pl.col(name) == value for name, value in here.items() if name != axis]
            lines = table.filter(pl.all_horizontal(fixed))
            heads = tuple(lines[axis].unique(maintain_order=True).to_list())
            if axis == "pooling":
                heads = tuple(sorted(heads, key=[*run.story.poolings, *heads].index))
            if len(heads) < 2:
                continue
            rows = [
                (run.short.get(str(explainer), str(explainer)), tuple(mean_text(group, axis, head) for head in heads))
                for (explainer,), group in lines.group_by("explainer", maintain_order=True)
            ]
            kept = ", ".join(here[name] for name in axes if name != axis and here[name] not in ("", "all"))
            found.append(Grid(f"{run.story.metric[column.metric].title} {words} ({kept})", heads, tuple(rows)))
    return found


def mean_text(group: pl.DataFrame, axis: str, value: str) -> str:
    """The mean in percent, with the paper's number behind it where there is one."""
    rows = group.filter((pl.col(axis) == value) & pl.col("mean").is_not_null())
    if rows.is_empty():
        return "–"
    row = rows.row(0, named=True)
    published = "" if row["reference"] is None else f" ({100 * row['reference']:.0f})"
    return f"{100 * row['mean']:.1f}{published}"


def read_line(explainer: str, short: str, target: str, families: Mapping[str, str], group: pl.DataFrame) -> Line:
    rows = [row for row in group.iter_rows(named=True) if row["mean"] is not None]
    cells = {
        r["metric"]: Cell(
            r["mean"],
            r["ci_low"],
            r["ci_high"],
            r["n"],
            r["reference"],
            r["reference_elsewhere"],
            r["undefined"],
            r["mean_all"],
        )
        for r in rows
    }
    first: dict[str, Any] = group.row(0, named=True)
    family = families.get(explainer, "raw")
    return Line(explainer, short, target, family, cells, first["seconds_per_case"], first["passes_per_case"])


def ranked(lines: Sequence[Line], metrics: Sequence[MetricWords]) -> list[Line]:
    """Best first by the first metric that a line has a score for; lines without one last."""

    def rank(line: Line) -> tuple[int, float]:
        for place, metric in enumerate(metrics):
            if metric.name in line.cells:
                sign = -1 if metric.higher_is_better else 1
                return place, sign * line.cells[metric.name].whole
        return len(metrics), 0.0

    return sorted(lines, key=rank)


def silent_lines(run: Results) -> list[str]:
    """A sentence for each explainer whose means are others once the maps count that it did not make."""
    found = []
    for board in boards(run):
        for line in board.lines:
            cells = [(metric.title, line.cells[metric.name]) for metric in board.metrics if metric.name in line.cells]
            other = [(title, cell) for title, cell in cells if cell.misleads]
            if other:
                share = in_percent(max(cell.undefined for _, cell in other))
                means = ", ".join(f"{title} {100 * c.whole:.1f} instead of {100 * c.mean:.1f}" for title, c in other)
                found.append(
                    f"{line.short}{f' ({line.target})' if line.target else ''}: {share} of its maps are undefined."
                    f" Counted as uniform maps, they give {means}; this is what ranks it."
                )
    return list(dict.fromkeys(found))


def failure_lines(run: Results) -> list[str]:
    """One line per failed unit."""
    return [
        f"{f['explainer']}{' (' + f['target'] + ')' if f['target'] else ''}, {f['chunk']}: {f['message']}"
        for f in run.failures()
    ]


def markdown(run: Results) -> str:
    """leaderboard.md."""
    parts = [f"# {run.story.title}\n", *(f"{note}\n" for note in (*run.story.notes, *silent_lines(run)))]
    for board in boards(run):
        parts.append(f"## {board.title}\n")
        parts.append(
            f"Model: {board.model}. Percent, mean ± half the 95 % interval; “paper” is the published number.\n"
        )
        columns = board.columns()
        rows = [["explainer", *(head for head, _ in columns)], ["---", *["---:"] * len(columns)]]
        for line in board.lines:
            name = code(line.short)
            rows.append([f"*{name}*" if line.is_baseline else name, *(text(line) for _, text in columns)])
        parts.append(in_pipes(rows))
    for grid in grids(run):
        parts.append(f"## {grid.title}\n")
        parts.append("Percent, means; the published number in brackets.\n")
        rows = [["explainer", *grid.heads], ["---", *["---:"] * len(grid.heads)]]
        parts.append(in_pipes(rows + [[code(name), *cells] for name, cells in grid.rows]))
    for section in run.story.sections:
        parts += [f"## {section.title}\n", *(block_text(block) for block in section.blocks)]
    if longer := {short: label for label, short in run.short.items() if short != label}:
        parts.append("## Explainers in full\n")
        parts.append("\n".join(f"- {code(short)}: {code(label)}" for short, label in longer.items()) + "\n")
    failed = failure_lines(run)
    if failed:
        parts.append("## Not computed\n")
        parts.append("\n".join(f"- {line}" for line in failed) + "\n")
    return "\n".join(parts)


def block_text(block: Paragraph | Table | Panel | Plate) -> str:
    """A block of a section, as leaderboard.md has it; of a panel or a plate, what it says."""
    if isinstance(block, Paragraph):
        return f"**{block.lead}** {block.text}\n" if block.lead else f"{block.text}\n"
    if isinstance(block, (Panel, Plate)):
        return f"### {block.title}\n\n{block.text}\n"
    heads = [list(block.heads), ["---", *["---:"] * (len(block.heads) - 1)]]
    table = in_pipes([*heads, *([name, *(cell.text for cell in cells)] for name, cells in block.rows)])
    return f"### {block.title}\n\n{table}" + (f"\n{block.note}\n" if block.note else "")


def in_pipes(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def code(name: str) -> str:
    return "`" + name.replace("|", "\\|").replace("`", "'") + "`"


def terminal(run: Results, width: int, elsewhere: bool = False) -> list[RenderableType]:
    """The boards as tables for a terminal; where it is narrow, one below the other with a few columns each."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    tables: list[RenderableType] = []
    for board in boards(run):
        names = max([len(line.short) for line in board.lines] + [len("explainer")])
        for part, columns in enumerate(that_fit(board, width - names - AROUND, elsewhere)):
            title = board.title if part == 0 else None
            table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
            table.add_column("explainer", no_wrap=True)
            for head, _ in columns:
                is_paper = head.startswith("paper")
                table.add_column(head, justify="right", style="cyan" if is_paper else None)
            for line in board.lines:
                style = "dim" if line.is_baseline else None
                table.add_row(escape(line.short), *(text(line) for _, text in columns), style=style)
            tables.append(table)
    return tables


def that_fit(board: Board, room: int, elsewhere: bool) -> list[list[tuple[str, Callable[[Line], str]]]]:
    """The board's columns in groups that fit beside the names; a paper's number stays with its metric."""
    groups: list[list[tuple[str, Callable[[Line], str]]]] = [[]]
    used = 0
    for head, text in board.columns(elsewhere):
        words = max(map(len, head.split()))  # a heading may go over two lines, a number may not
        wide = AROUND + max([words, *(len(text(line)) for line in board.lines)])
        if groups[-1] and used + wide > room and not head.startswith("paper"):
            groups.append([])
            used = 0
        groups[-1].append((head, text))
        used += wide
    return groups

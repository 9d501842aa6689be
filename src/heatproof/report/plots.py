"""Plots with a row for each explainer, as SVG text: scores and skill with intervals, distributions, ranks in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from heatproof.story import MetricWords

if TYPE_CHECKING:
    from heatproof.results.tables import Board, Cell
    from heatproof.results.verdict import Judged

WIDTH, ROW, PAD, BOTTOM = 480.0, 24.0, 14.0, 26.0
LETTER, SMALL, SHARE = 8.1, 6.6, 0.46
"""Room for a letter of a label in any common font, for one of two lines, and the part of the width that labels take."""
STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Axis:
    """From value to place; `percent` where values are fractions that people read in percent."""

    low: float
    high: float
    step: float
    left: float
    right: float
    percent: bool = True

    def __call__(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [self.low + self.step * k for k in range(round((self.high - self.low) / self.step) + 1)]

    def text(self, value: float) -> str:
        return f"{round(100 * value if self.percent else value, 6):g}"


def round_axis(values: Iterable[float], left: float, right: float, percent: bool = True, zero: bool = True) -> Axis:
    """An axis over all values, with round ticks, six at most beside the first; it begins at 0 unless told otherwise."""
    found = [value for value in values if value == value]
    lowest = min([*found, 0.0] if zero or not found else found)
    highest = max([*found, 0.05] if zero or not found else found)
    span = max(highest - lowest, 1e-3 * max(abs(lowest), abs(highest), 1e-3))
    power = 10.0 ** floor(log10(span / 6))
    step = next(factor * power for factor in STEPS if factor * power * 6 >= span - 1e-9)
    low, high = step * floor(lowest / step + 1e-9), step * ceil(highest / step - 1e-9)
    return Axis(low, high if high > low else low + step, step, left, right, percent)


@dataclass(frozen=True)
class Label:
    """What stands before a row: a name as people read it, and in full."""

    name: str
    full: str = ""
    is_baseline: bool = False


def label_room(labels: Sequence[Label]) -> float:
    """How wide the column of the labels is."""
    longest = max([len(label.name) for label in labels], default=0)
    return min(12 + LETTER * longest, SHARE * WIDTH)


def fits(name: str, room: float) -> bool:
    """Whether a name fits one line of the usual size."""
    return len(name) <= int((room - 12) / LETTER)


def label_lines(name: str, room: float) -> list[str]:
    """A name in one line or two, broken behind a comma, colon or underscore; what is longer still ends in dots."""
    if fits(name, room):
        return [name]
    letters = max(4, int((room - 12) / SMALL))
    lines = [""]
    for piece in re.findall(r"[^,:_ ]*[,:_ ]?", name):
        if len(lines) < 2 and lines[-1] and len(lines[-1]) + len(piece) > letters:
            lines.append("")
        lines[-1] += piece
    return [line if len(line) <= letters else line[: letters - 1] + "…" for line in lines]


@dataclass(frozen=True)
class Rows:
    """A frame with a row per label under one axis."""

    labels: Sequence[Label]
    axis: Axis
    title: str
    right: float = PAD

    @property
    def bottom(self) -> float:
        return PAD + ROW * len(self.labels) + self.gap

    @property
    def gap(self) -> float:
        """Room for the line between methods and baselines."""
        return 10.0 if any(label.is_baseline for label in self.labels) else 0.0

    def y(self, place: int) -> float:
        return PAD + ROW * place + ROW / 2 - 6 + (self.gap if self.labels[place].is_baseline else 0.0)

    def drawn(self, parts: Iterable[str], mark: float | None = None) -> Markup:
        """The frame with its rows; `mark` is a value with a line of its own."""
        found = [
            f'<svg class="plot" viewBox="0 0 {WIDTH:g} {self.bottom + BOTTOM:g}" role="img"'
            f' aria-label="{escape(self.title)}">'
        ]
        for tick in self.axis.ticks:
            x = self.axis(tick)
            found.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{PAD - 8:g}" y2="{self.bottom:g}"/>')
            found.append(f'<text class="tick" x="{x:.1f}" y="{self.bottom + 16:g}">{self.axis.text(tick)}</text>')
        if mark is not None and self.axis.low <= mark <= self.axis.high:
            x = self.axis(mark)
            found.append(f'<line class="rule strong" x1="{x:.1f}" x2="{x:.1f}" y1="{PAD - 8:g}" y2="{self.bottom:g}"/>')
        for place, label in enumerate(self.labels):
            found += self.label(place, label)
        return Markup("".join([*found, *parts, "</svg>"]))  # texts are escaped where they are put in  # nosec B704

    def label(self, place: int, label: Label) -> list[str]:
        y, room = self.y(place), self.axis.left
        found = []
        if label.is_baseline and (place == 0 or not self.labels[place - 1].is_baseline) and place:
            found.append(f'<line class="rule" x1="0" x2="{WIDTH:g}" y1="{y - 16:.1f}" y2="{y - 16:.1f}"/>')
        kind = "label baseline" if label.is_baseline else "label"
        tip = f"<title>{escape(label.full)}</title>" if label.full not in ("", label.name) else ""
        lines = label_lines(label.name, room)
        for number, line in enumerate(lines):
            shift = 4 + 10 * (number - (len(lines) - 1) / 2)
            small = "" if fits(label.name, room) else " two"
            found.append(
                f'<text class="{kind}{small}" x="{room - 10:.1f}" y="{y + shift:.1f}">{tip}{escape(line)}</text>'
            )
        return found


def dot(x: float, y: float, kind: str) -> str:
    """A mark that differs by the explained quantity in shape as well as in colour."""
    if kind == "logit":
        return f'<path class="point" d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"/>'
    if kind == "log_probability":
        return f'<rect class="point" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def span(axis: Axis, y: float, value: float, low: float | None, high: float | None, kind: str, tip: str) -> str:
    """A point in its interval, with words for whoever points at it."""
    first, last = (value if end is None else min(max(end, axis.low), axis.high) for end in (low, high))
    return (
        f'<g class="dot {escape(kind)}">'
        f'<line x1="{axis(first):.1f}" x2="{axis(last):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f"{dot(axis(min(max(value, axis.low), axis.high)), y, kind)}<title>{escape(tip)}</title></g>"
    )


@dataclass(frozen=True)
class PlotRow:
    """An explainer with its cell per explained quantity."""

    label: Label
    cells: dict[str, Cell]


def plot_rows(boards: Sequence[Board], metric: MetricWords) -> list[PlotRow]:
    """Explainers with a score in `metric`: methods best first, then baselines best first."""
    found: dict[str, PlotRow] = {}
    for board in boards:
        for line in board.lines:
            if metric.name in line.cells:
                label = Label(line.short, line.explainer, line.is_baseline)
                found.setdefault(line.explainer, PlotRow(label, {})).cells[line.target] = line.cells[metric.name]

    def place(row: PlotRow) -> tuple[bool, float]:
        means = [cell.whole for cell in row.cells.values()]
        return row.label.is_baseline, -max(means) if metric.higher_is_better else min(means)

    return sorted(found.values(), key=place)


def dot_plot(boards: Sequence[Board], metric: MetricWords) -> Markup:
    """Means with intervals of one metric: colour and shape say what is explained, a bar is the paper's number."""
    rows = plot_rows(boards, metric)
    cells = [cell for row in rows for cell in row.cells.values()]
    drawn = [value for cell in cells for value in (cell.mean, cell.low, cell.high, cell.reference) if value is not None]
    return in_rows(rows, drawn, f"{metric.title} of each explainer", score_of)


def skill_plot(boards: Sequence[Board], metric: MetricWords) -> Markup | None:
    """Skill with intervals: 0 is the best floor, 1 the ceiling. None where there is no scale."""
    rows = [row for row in plot_rows(boards, metric) if any(cell.skill is not None for cell in row.cells.values())]
    values = [cell.skill for row in rows for cell in row.cells.values() if cell.skill is not None]
    if not values:
        return None
    return in_rows(rows, [*(max(value, -1.0) for value in values), 0.0, 1.0], "Skill of each explainer", skill_of, 0.0)


def in_rows(
    rows: Sequence[PlotRow],
    values: Sequence[float],
    title: str,
    draw: Callable[[Axis, float, PlotRow, str, Cell], str],
    mark: float | None = None,
) -> Markup:
    """Rows of points; those of several quantities stand one below the other in their row."""
    labels = [row.label for row in rows]
    frame = Rows(labels, round_axis(values, label_room(labels), WIDTH - PAD, percent=mark is None), title)
    parts = []
    for place, row in enumerate(rows):
        shift = 4.0 if len(row.cells) > 1 else 0.0
        for step, (target, cell) in enumerate(row.cells.items()):
            parts.append(draw(frame.axis, frame.y(place) + (2 * step - 1) * shift, row, target, cell))
        reference = next((cell.reference for cell in row.cells.values() if cell.reference is not None), None)
        if reference is not None and mark is None:
            tip = f"<title>paper: {100 * reference:.1f} %</title>"
            parts.append(
                f'<path class="paper" d="M{frame.axis(reference):.1f} {frame.y(place) - 8:.1f}v16">{tip}</path>'
            )
    return frame.drawn(parts, mark)


def score_of(axis: Axis, y: float, row: PlotRow, target: str, cell: Cell) -> str:
    kind = kind_of(row, target)
    return span(
        axis, y, cell.mean, cell.low, cell.high, kind, f"{told(row, target)}: {100 * cell.mean:.1f} % ({cell.about})"
    )


def skill_of(axis: Axis, y: float, row: PlotRow, target: str, cell: Cell) -> str:
    if cell.skill is None:
        return ""
    kind = kind_of(row, target)
    return span(
        axis, y, cell.skill, cell.skill_low, cell.skill_high, kind, f"{told(row, target)}: skill {cell.skill_text}"
    )


def kind_of(row: PlotRow, target: str) -> str:
    return "baseline" if row.label.is_baseline or not target else target


def told(row: PlotRow, target: str) -> str:
    return f"{row.label.name} {target}".strip()


@dataclass(frozen=True)
class Spread:
    """How the scores of an explainer lie: the least, the 20th percentile, the median, the 80th, the most; the mean."""

    label: Label
    target: str
    levels: tuple[float, float, float, float, float]
    mean: float


def box_plot(title: str, spreads: Sequence[Spread]) -> Markup:
    """A box per explainer as the papers draw them: from the 20th to the 80th percentile, the median as a line."""
    labels = [spread.label for spread in spreads]
    values = [level for spread in spreads for level in spread.levels]
    frame = Rows(labels, round_axis(values, label_room(labels), WIDTH - PAD), title)
    parts = []
    for place, spread in enumerate(spreads):
        least, first, middle, last, most = (frame.axis(level) for level in spread.levels)
        y, kind = frame.y(place), "baseline" if spread.label.is_baseline else spread.target or "baseline"
        tip = (
            f"{spread.label.name} {spread.target}".strip()
            + f": median {100 * spread.levels[2]:.1f} %, {100 * spread.levels[1]:.1f} to {100 * spread.levels[3]:.1f} %"
            f" in three of five, mean {100 * spread.mean:.1f} %"
        )
        parts.append(
            f'<g class="box {escape(kind)}"><line x1="{least:.1f}" x2="{most:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<rect x="{first:.1f}" y="{y - 7:.1f}" width="{max(last - first, 1):.1f}" height="14"/>'
            f'<line class="median" x1="{middle:.1f}" x2="{middle:.1f}" y1="{y - 7:.1f}" y2="{y + 7:.1f}"/>'
            f'<circle cx="{frame.axis(spread.mean):.1f}" cy="{y:.1f}" r="3"/><title>{escape(tip)}</title></g>'
        )
    return frame.drawn(parts)


def rank_plot(judged: Judged) -> Markup:
    """Critical differences: the mean rank of each method over cases, and bars over those that cannot be told apart."""
    methods = judged.methods
    labels = [Label(entrant.short, entrant.explainer) for entrant in methods]
    groups = grouped([entrant.groups for entrant in methods])
    taken = PAD + 12 * len(groups)
    ranks = [entrant.mean_rank or 1.0 for entrant in methods]
    last = max(2, ceil(max(ranks)))
    step = 1 if last <= 7 else 2 if last <= 14 else 5
    axis = Axis(1.0, 1.0 + step * ceil((last - 1) / step), step, label_room(labels), WIDTH - taken, percent=False)
    frame = Rows(labels, axis, "Mean rank of each method, and groups that cannot be told apart")
    parts = []
    for place, (entrant, rank) in enumerate(zip(methods, ranks, strict=True)):
        tip = f"{entrant.short}: mean rank {rank:.2f} over {judged.cases} cases"
        parts.append(span(axis, frame.y(place), rank, None, None, entrant.target or "baseline", tip))
    for number, (letter, bars) in enumerate(groups.items()):
        x = WIDTH - taken + 14 + 12 * number
        drawn = "".join(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(first) - 7:.1f}" y2="{frame.y(last) + 7:.1f}"/>'
            for first, last in bars
        )
        under = frame.y(bars[-1][1]) + 19
        parts.append(f'<g class="group">{drawn}<text class="tick" x="{x:.1f}" y="{under:.1f}">{letter}</text></g>')
    return frame.drawn(parts)


def grouped(letters: Sequence[str]) -> Mapping[str, Sequence[tuple[int, int]]]:
    """By the letter of each group: the first and the last row of its bars; a row that is not of the group parts two."""
    found: dict[str, list[tuple[int, int]]] = {}
    for place, mine in enumerate(letters):
        for letter in mine:
            bars = found.setdefault(letter, [])
            if bars and bars[-1][1] == place - 1:
                bars[-1] = (bars[-1][0], place)
            else:
                bars.append((place, place))
    return found

"""Drawings for the page, as SVG text: dot plots with intervals, and signals with their heatmaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from heatproof.lazy import np
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.results.tables import Board, Cell

ROW, LABEL, WIDTH, PAD = 24, 212, 640, 16
SHADES = 8
"""Steps of colour strength in a heatmap; one path each keeps the page small."""


def dot_plot(boards: Sequence[Board], metric: MetricWords) -> Markup:
    """Means with intervals of one metric: a row per explainer, a colour per quantity, a bar for the paper's."""
    methods, baselines = plot_rows(boards, metric)
    rows = methods + baselines
    top = axis_end([cell for row in rows for cell in row.cells.values()])
    height = PAD + ROW * len(rows) + 26 + (10 if baselines else 0)

    def x(value: float) -> float:
        return LABEL + (WIDTH - LABEL - PAD) * value / top

    parts = [f'<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(metric.title)}">']
    bottom = height - 26
    step = 0.1 if top <= 0.6 else 0.2
    for value in (step * i for i in range(round(top / step) + 1)):
        parts.append(f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{PAD - 8}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x(value):.1f}" y="{bottom + 16}">{100 * value:.0f}</text>')
    for place, row in enumerate(rows):
        is_baseline = place >= len(methods)
        y = PAD + ROW * place + ROW / 2 - 6 + (10 if is_baseline else 0)
        if is_baseline and place == len(methods):
            parts.append(f'<line class="rule" x1="0" x2="{WIDTH}" y1="{y - 16:.1f}" y2="{y - 16:.1f}"/>')
        kind = "label baseline" if is_baseline else "label"
        tip = f"<title>{escape(row.full)}</title>" if row.full != row.name else ""
        parts.append(f'<text class="{kind}" x="{LABEL - 10}" y="{y + 4:.1f}">{tip}{escape(short(row.name))}</text>')
        shift = 3.5 if len(row.cells) > 1 else 0.0
        for step, (target, cell) in enumerate(row.cells.items()):
            parts.append(dot(x, cell, y + (2 * step - 1) * shift, target or "baseline", row.name))
        reference = next((cell.reference for cell in row.cells.values() if cell.reference is not None), None)
        if reference is not None:
            tip = f"<title>paper: {100 * reference:.1f} %</title>"
            parts.append(f'<path class="paper" d="M{x(reference):.1f} {y - 8:.1f}v16">{tip}</path>')
    parts.append("</svg>")
    return Markup("".join(parts))


@dataclass(frozen=True)
class PlotRow:
    """An explainer, by its short name and in full, with its cell per explained quantity."""

    name: str
    full: str
    cells: dict[str, Cell]


def plot_rows(boards: Sequence[Board], metric: MetricWords) -> tuple[list[PlotRow], list[PlotRow]]:
    """Explainers with a score in `metric`: methods and baselines, best first."""
    methods: dict[str, PlotRow] = {}
    baselines: dict[str, PlotRow] = {}
    for board in boards:
        for line in board.lines:
            if metric.name in line.cells:
                rows = baselines if line.is_baseline else methods
                row = rows.setdefault(line.explainer, PlotRow(line.short, line.explainer, {}))
                row.cells[line.target] = line.cells[metric.name]

    def best(row: PlotRow) -> float:
        means = [cell.whole for cell in row.cells.values()]
        return -max(means) if metric.higher_is_better else min(means)

    return sorted(methods.values(), key=best), sorted(baselines.values(), key=best)


def dot(x: Any, cell: Cell, y: float, kind: str, name: str) -> str:
    tip = f"{name} {kind}: {100 * cell.mean:.1f} % ({cell.about})"
    low, high = (cell.mean if bound is None else bound for bound in (cell.low, cell.high))
    return (
        f'<g class="dot {escape(kind)}">'
        f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<circle cx="{x(cell.mean):.1f}" cy="{y:.1f}" r="4"/><title>{escape(tip)}</title></g>'
    )


def axis_end(cells: Sequence[Cell]) -> float:
    """A round number at or above everything drawn: tenths up to 0.6, then fifths."""
    highest = max([cell.high or cell.mean for cell in cells] + [cell.reference or 0.0 for cell in cells] + [0.05])
    tenths = ceil(highest * 10 - 1e-9)
    return (tenths if tenths <= 6 else 2 * ceil(tenths / 2)) / 10


def short(name: str, letters: int = 28) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def signal(
    values: NDArray[Any], heat: NDArray[Any] | None, truth: NDArray[Any] | None, mark: tuple[int, int] | None
) -> Markup:
    """A signal over its heatmap (red for, blue against), its true mask below, a marked (start, length) boxed."""
    n = len(values)
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    line = " ".join(f"{i + 0.5:g},{34 - 26 * (float(v) - low) / span:.1f}" for i, v in enumerate(values))
    parts = [f'<svg class="signal" viewBox="0 0 {n} 44" preserveAspectRatio="none">']
    if heat is not None:
        parts += shades(heat)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for start, stop in () if truth is None else spans(truth):
        parts.append(f'<rect class="truth" x="{start}" y="40" width="{stop - start}" height="3"/>')
    if mark is not None:
        start, length = mark
        parts.append(f'<rect class="mark" x="{start}" y="0.5" width="{length}" height="37"/>')
    parts.append("</svg>")
    return Markup("".join(parts))


def shades(heat: NDArray[Any]) -> list[str]:
    """Background cells whose strength follows |relevance| / its maximum."""
    parts = []
    for kind, strength, stretches in levels(heat):
        cells = "".join(f"M{start} 0h{stop - start}v38h-{stop - start}z" for start, stop in stretches)
        parts.append(f'<path class="{kind}" fill-opacity="{strength:.2f}" d="{cells}"/>')
    return parts


def levels(heat: NDArray[Any]) -> list[tuple[str, float, list[tuple[int, int]]]]:
    """Kind, strength and stretches of each step of |relevance| / its maximum; none where that is not finite or 0."""
    peak = float(np.abs(heat).max())
    if not isfinite(peak) or peak == 0:
        return []
    steps = np.rint(SHADES * heat / peak).astype(int)
    return [
        ("for" if step > 0 else "against", abs(step) / SHADES, spans(steps == step))
        for step in sorted(set(steps.tolist()) - {0})
    ]


def spans(flags: NDArray[Any]) -> list[tuple[int, int]]:
    """Start and stop of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]

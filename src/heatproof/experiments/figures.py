"""Figures of Focus as SVG that stands on its own: box plots and the matrix of class pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from heatproof.lazy import np, pl
from heatproof.report.svg import document

if TYPE_CHECKING:
    from numpy.typing import NDArray

LABEL, WIDTH, ROW, CELL = 230, 520, 26, 46
BINS, BARS, POINTS = 25, 120, 201
"""Bins of a histogram, its height, and the points of the line over it."""
SIDE, COLOURS = 380, ("#1d6fa5", "#d1495b", "#2a9d5c", "#e09f1f", "#7a5195", "#3fb5b5", "#8c6d46", "#5b6875")
"""Side of a scatter plot, and the colours of its groups; more groups begin again."""
AT_ONCE = 1000
"""Values that a density is summed over at once."""


def box_plot(title: str, groups: Mapping[str, Sequence[float]]) -> str:
    """A box per group from 0 to 1: quartiles, median, the 5th and 95th percentiles; 0.5 marked, the mean as a dot."""
    parts = [f'<text class="title" x="0" y="14">{escape(title)}</text>']
    bottom = 34 + ROW * len(groups)
    for tenth in range(0, 11, 5):
        x = LABEL + WIDTH * tenth / 10
        parts.append(f'<line x1="{x}" x2="{x}" y1="26" y2="{bottom}" stroke="#d5dbe1"/>')
        parts.append(f'<text class="soft" x="{x}" y="{bottom + 16}" text-anchor="middle">{tenth / 10}</text>')
    for place, (name, values) in enumerate(groups.items()):
        y = 34 + ROW * place
        parts.append(f'<text x="0" y="{y + 14}">{escape(name)}</text>')
        defined = np.asarray(values, dtype=float)
        defined = defined[~np.isnan(defined)]
        if not len(defined):
            continue
        levels = np.quantile(defined, (0.05, 0.25, 0.5, 0.75, 0.95))
        low, first, middle, third, high = LABEL + WIDTH * levels
        mean = LABEL + WIDTH * defined.mean()
        parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 10}" y2="{y + 10}" stroke="#5b6875"/>')
        parts.append(f'<rect x="{first:.1f}" y="{y + 2}" width="{third - first:.1f}" height="16" fill="#cfe0f5"/>')
        parts.append(f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{y + 2}" y2="{y + 18}" stroke="#1c2733"/>')
        tip = f"mean {defined.mean():.3f}, n = {len(defined)}"
        parts.append(
            f'<circle cx="{mean:.1f}" cy="{y + 10}" r="3.5" fill="#d6453d"><title>{escape(tip)}</title></circle>'
        )
        parts.append(f'<text class="soft" x="{LABEL + WIDTH + 8}" y="{y + 14}">{defined.mean():.3f}</text>')
    return document(LABEL + WIDTH + 60, bottom + 24, parts)


def histograms(title: str, groups: Mapping[str, Sequence[float]]) -> str:
    """A histogram per group from 0 to 1 with its density as a line, one below the other; 0.5 marked.

    Heights are shares of the group; the density is scaled to a bin, so that bars and line have one scale.
    """
    parts = [f'<text class="title" x="0" y="14">{escape(title)}</text>']
    places = np.linspace(0.0, 1.0, POINTS)
    shares, lines, means = {}, {}, {}
    for name, values in groups.items():
        defined = np.asarray(values, dtype=float)
        defined = defined[~np.isnan(defined)]
        counts, _ = np.histogram(defined, BINS, (0.0, 1.0))
        shares[name] = counts / max(1, len(defined))
        lines[name] = density(defined, places) / BINS
        means[name] = f"mean {defined.mean() if len(defined) else np.nan:.3f}"
    most = max(float(heights.max()) for found in (shares, lines) for heights in found.values()) or 1.0
    for place, name in enumerate(groups):
        base = 34 + (BARS + ROW) * place + BARS
        parts.append(f'<text x="0" y="{base - 18}">{escape(name)}</text>')
        parts.append(f'<text class="soft" x="0" y="{base - 2}">{means[name]}, n = {len(groups[name]):,}</text>')
        for number, height in enumerate(BARS * shares[name] / most):
            x = LABEL + WIDTH * number / BINS
            box = f'x="{x:.1f}" y="{base - height:.1f}" width="{WIDTH / BINS - 1:.1f}" height="{height:.1f}"'
            parts.append(f'<rect {box} fill="#7aa6d8"/>')
        if lines[name].any():
            points = zip(LABEL + WIDTH * places, base - BARS * lines[name] / most, strict=True)
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline class="line density" points="{path}"/>')
        parts.append(f'<line x1="{LABEL}" x2="{LABEL + WIDTH}" y1="{base}" y2="{base}" stroke="#5b6875"/>')
        for tenth in range(0, 11, 5):
            x = LABEL + WIDTH * tenth / 10
            parts.append(f'<line x1="{x}" x2="{x}" y1="{base - BARS}" y2="{base}" stroke="#d5dbe1"/>')
            parts.append(f'<text class="soft" x="{x}" y="{base + 16}" text-anchor="middle">{tenth / 10}</text>')
    return document(LABEL + WIDTH + 60, 34 + (BARS + ROW) * len(groups), parts)


def density(values: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaussian kernel density of the values at these places, as wide as Scott's rule says: std * n^(-1/5).

    Zero where there is none: for fewer than two values, or if all are the same.
    """
    if len(values) < 2 or np.ptp(values) < 1e-9:
        return np.zeros(len(places))
    width = values.std(ddof=1) * len(values) ** -0.2
    found = np.zeros(len(places))
    for some in np.array_split(values, -(-len(values) // AT_ONCE)):
        found += np.exp(-(((places[:, None] - some) / width) ** 2) / 2).sum(1)
    scaled: NDArray[np.float64] = found / (len(values) * width * (2 * np.pi) ** 0.5)
    return scaled


@dataclass(frozen=True)
class Dots:
    """A group of a scatter plot: points (x, y, words), hollow ones of somebody else, and lines under its name."""

    name: str
    points: Sequence[tuple[float, float, str]]
    hollow: Sequence[tuple[float, float, str]] = ()
    said: Sequence[str] = ()


def scatter(title: str, across: str, groups: Sequence[Dots]) -> str:
    """Points of several groups, from the tenth below the lowest to the tenth above the highest; 0.5 of Focus marked.

    What belongs together stands above one another, so that the highest point is named for all.
    """
    every = [point for group in groups for point in (*group.points, *group.hollow)] or [(0.0, 0.0, ""), (1.0, 1.0, "")]
    (left, right), (bottom, top) = ((tenth(min(values), floor), tenth(max(values), ceil)) for values in axes(every))
    parts = [f'<text class="title" x="0" y="14">{escape(title)}</text>']

    def place(x: float, y: float) -> tuple[float, float]:
        return 50 + SIDE * (x - left) / (right - left), 34 + SIDE * (top - y) / (top - bottom)

    for step in range(round(10 * left), round(10 * right) + 1):
        x, y = place(step / 10, bottom)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="34" y2="{y:.1f}" stroke="#d5dbe1"/>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{step / 10}</text>')
    for step in range(round(10 * bottom), round(10 * top) + 1):
        x, y = place(left, step / 10)
        colour = "#5b6875" if step == 5 else "#d5dbe1"
        parts.append(f'<line x1="{x:.1f}" x2="{x + SIDE:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>')
        parts.append(f'<text class="soft" x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{step / 10}</text>')
    parts.append(f'<text x="{50 + SIDE / 2}" y="{34 + SIDE + 36}" text-anchor="middle">{escape(across)}</text>')
    line = 40
    for number, group in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        for points, look in (
            (group.hollow, f'fill="none" stroke="{colour}" opacity="0.6"'),
            (group.points, f'fill="{colour}"'),
        ):
            for *point, words in points:
                x, y = place(*point)
                tip = f"{group.name}, {words}: {point[1]:.3f} at {point[0]:.3f}"
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {look}><title>{escape(tip)}</title></circle>')
        parts.append(f'<circle cx="{SIDE + 118}" cy="{line - 4}" r="4.5" fill="{colour}"/>')
        for words, kind in ((group.name, ""), *((words, ' class="soft"') for words in group.said)):
            parts.append(f'<text{kind} x="{SIDE + 130}" y="{line}">{escape(words)}</text>')
            line += 16
        line += 8
    highest: dict[tuple[float, str], float] = {}
    for x, y, words in (point for group in groups for point in group.points):
        highest[x, words] = max(y, highest.get((x, words), y))
    for (x, words), y in highest.items():
        left_edge, upper = place(x, y)
        parts.append(
            f'<text class="soft" x="{left_edge:.1f}" y="{upper - 8:.1f}" text-anchor="middle">{escape(words)}</text>'
        )
    parts.append(f'<text class="soft" x="{SIDE + 130}" y="{line}">hollow: the paper\'s networks</text>')
    return document(SIDE + 130 + 340, max(line, 34 + SIDE + 40), parts)


def axes(points: Sequence[tuple[float, float, str]]) -> tuple[list[float], list[float]]:
    return [x for x, _, _ in points], [y for _, y, _ in points]


def tenth(value: float, rounded: Callable[[float], int]) -> float:
    return rounded(10 * value + (0.01 if rounded is ceil else -0.01)) / 10


def pair_matrix(pairs: pl.DataFrame, below: float) -> str:
    """The share of every target (row) and other class (column): red below `below`, blue above, found ones framed."""
    classes = sorted({*pairs["target_class"], *pairs["other_class"]})
    cells = {(row["target_class"], row["other_class"]): row for row in pairs.iter_rows(named=True)}
    label = 24 + 8 * max(map(len, classes))
    top = 40 + 6 * max(map(len, classes))
    title = f"share of the target (rows) beside each other class (columns); framed: surely below {below:g}"
    parts = [f'<text class="title" x="0" y="14">{escape(title)}</text>']
    for place, name in enumerate(classes):
        x, y = label + CELL * place, top + CELL * place
        parts.append(f'<text transform="translate({x + 28},{top - 8}) rotate(-45)">{escape(name)}</text>')
        parts.append(f'<text x="0" y="{y + 28}">{escape(name)}</text>')
        for column, other in enumerate(classes):
            if (name, other) in cells:
                parts += matrix_cell(cells[name, other], below, label + CELL * column, y)
    return document(max(label + CELL * len(classes) + top, 8 * len(title)), top + CELL * len(classes), parts)


def matrix_cell(pair: Mapping[str, Any], below: float, x: float, y: float) -> list[str]:
    """One square of the matrix with its number."""
    colour, strength = shade(pair["share"], below)
    edge = ' stroke="#1c2733" stroke-width="3"' if pair["found"] else ""
    p = "not tested" if pair["p_corrected"] is None else f"p = {pair['p_corrected']:.2g}"
    tip = f"{pair['target_class']} beside {pair['other_class']}: n = {pair['n']}, {p}"
    return [
        f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="{colour}" fill-opacity="{strength:.2f}"'
        f"{edge}><title>{escape(tip)}</title></rect>",
        f'<text x="{x + CELL // 2}" y="{y + 28}" text-anchor="middle">{pair["share"]:.2f}</text>',
    ]


def shade(share: float, below: float) -> tuple[str, float]:
    """Red where the share is low, blue where it is not; the stronger the further from `below`."""
    if share < below:
        return "#d6453d", (below - share) / below
    return "#3567c4", (share - below) / (1 - below)

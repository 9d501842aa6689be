"""Figures of Focus as SVG that stands on its own: box plots and the matrix of class pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import escape

from heatproof.lazy import np, pl
from heatproof.report.gallery import document

LABEL, WIDTH, ROW, CELL = 230, 520, 26, 46


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


def pair_matrix(pairs: pl.DataFrame, classes: Sequence[str]) -> str:
    """The pair's share for every target (row) and other class (column): red below 0.5, blue above, found ones boxed."""
    cells = {(row["target_class"], row["other"]): row for row in pairs.iter_rows(named=True)}
    top = 120
    parts = ['<text class="title" x="0" y="14">share of the target; 0.5: as much on the other class</text>']
    for place, name in enumerate(classes):
        x, y = LABEL + CELL * place, top + CELL * place
        parts.append(f'<text transform="translate({x + 28},{top - 8}) rotate(-45)">{escape(name)}</text>')
        parts.append(f'<text x="0" y="{y + 28}">{escape(name)}</text>')
        for column, other in enumerate(classes):
            row = cells.get((name, other))
            if row is None:
                continue
            colour = "#d6453d" if row["share"] < 0.5 else "#3567c4"
            box = f'x="{LABEL + CELL * column}" y="{y}" width="{CELL - 2}" height="{CELL - 2}"'
            edge = ' stroke="#1c2733" stroke-width="3"' if row["found"] else ""
            strength = min(1.0, 2 * abs(row["share"] - 0.5))
            parts.append(f'<rect {box} fill="{colour}" fill-opacity="{strength:.2f}"{edge}/>')
            middle = LABEL + CELL * column + CELL // 2
            parts.append(f'<text x="{middle}" y="{y + 28}" text-anchor="middle">{row["share"]:.2f}</text>')
    return document(LABEL + CELL * len(classes) + 60, top + CELL * len(classes), parts)

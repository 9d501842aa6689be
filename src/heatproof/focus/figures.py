"""Figures of Focus as SVG that stands on its own: box plots and the matrix of class pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import escape

from heatproof.lazy import np, pl
from heatproof.report.gallery import document

LABEL, WIDTH, ROW, CELL = 230, 520, 26, 46
BINS, BARS = 25, 120
"""Bins of a histogram, and its height."""


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
    """A histogram per group from 0 to 1, one below the other; 0.5 marked. Heights are shares of the group."""
    parts = [f'<text class="title" x="0" y="14">{escape(title)}</text>']
    shares = {}
    for name, values in groups.items():
        defined = np.asarray(values, dtype=float)
        defined = defined[~np.isnan(defined)]
        counts, _ = np.histogram(defined, BINS, (0.0, 1.0))
        shares[name] = (counts / max(1, len(defined)), f"mean {defined.mean() if len(defined) else np.nan:.3f}")
    most = max(float(share.max()) for share, _ in shares.values()) or 1.0
    for place, (name, (share, mean)) in enumerate(shares.items()):
        base = 34 + (BARS + ROW) * place + BARS
        parts.append(f'<text x="0" y="{base - 18}">{escape(name)}</text>')
        parts.append(f'<text class="soft" x="0" y="{base - 2}">{mean}, n = {len(groups[name]):,}</text>')
        for number, height in enumerate(BARS * share / most):
            x = LABEL + WIDTH * number / BINS
            box = f'x="{x:.1f}" y="{base - height:.1f}" width="{WIDTH / BINS - 1:.1f}" height="{height:.1f}"'
            parts.append(f'<rect {box} fill="#7aa6d8"/>')
        parts.append(f'<line x1="{LABEL}" x2="{LABEL + WIDTH}" y1="{base}" y2="{base}" stroke="#5b6875"/>')
        for tenth in range(0, 11, 5):
            x = LABEL + WIDTH * tenth / 10
            parts.append(f'<line x1="{x}" x2="{x}" y1="{base - BARS}" y2="{base}" stroke="#d5dbe1"/>')
            parts.append(f'<text class="soft" x="{x}" y="{base + 16}" text-anchor="middle">{tenth / 10}</text>')
    return document(LABEL + WIDTH + 60, 34 + (BARS + ROW) * len(groups), parts)


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

"""Signals with their heatmaps for the page, as SVG text."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHADES = 8
"""Steps of colour strength in a heatmap; one path each keeps the page small."""


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
    return Markup("".join(parts))  # numbers and our own tags  # nosec B704


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

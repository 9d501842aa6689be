"""Score against cost, and how orders agree, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from heatproof.report.plots import PAD, WIDTH, Label, Rows, dot, label_room, round_axis, span
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from heatproof.results.agreement import Agreement
    from heatproof.results.verdict import Entrant, Judged

HEIGHT, LEFT, RIGHT, BELOW = 290.0, 40.0, 26.0, 40.0
CELL, LETTER = 32.0, 8.1
WIDEST = 0.42
"""Part of the width that names beside a matrix may take."""
SQUARE = 14
"""Readings up to which a matrix can be read."""


def pareto_plot(judged: Judged, metric: MetricWords) -> Markup | None:
    """Score against the cost of a case, on a logarithmic scale; those that nobody beats in both are named and joined.

    None where costs are not known.
    """
    priced = [entrant for entrant in judged.methods if entrant.seconds]
    if len(priced) < 2:
        return None
    tens = [log10(cost(entrant)) for entrant in priced]
    first, last = floor(min(tens)), ceil(max(tens))
    last += first == last
    across = WIDTH - LEFT - RIGHT
    up = round_axis([entrant.mean for entrant in priced], HEIGHT - BELOW, PAD, zero=False)

    def x(entrant: Entrant) -> float:
        return LEFT + across * (log10(cost(entrant)) - first) / (last - first)

    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(metric.title)} against'
        f' the time per case; the best for what they cost: {escape(names_of(priced))}">'
    ]
    for power in range(first, last + 1):
        place = LEFT + across * (power - first) / (last - first)
        parts.append(f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{PAD:g}" y2="{HEIGHT - BELOW:g}"/>')
        parts.append(f'<text class="tick" x="{place:.1f}" y="{HEIGHT - BELOW + 16:g}">{time_text(power)}</text>')
    for tick in up.ticks:
        parts.append(
            f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        )
        parts.append(f'<text class="tick end" x="{LEFT - 6:g}" y="{up(tick) + 4:.1f}">{up.text(tick)}</text>')
    parts.append(f'<text class="tick" x="{LEFT + across / 2:.1f}" y="{HEIGHT - 8:g}">time per case</text>')
    front = sorted((entrant for entrant in priced if entrant.is_pareto), key=cost)
    steps = "".join(f"{'L' if number else 'M'}{x(e):.1f} {up(e.mean):.1f}" for number, e in enumerate(front))
    parts.append(f'<path class="front" d="{steps}"/>')
    for entrant in priced:
        parts.append(point(entrant, x(entrant), up(entrant.mean)))
    parts += labels([(entrant, x(entrant), up(entrant.mean)) for entrant in front])
    return Markup("".join([*parts, "</svg>"]))  # texts are escaped where they are put in  # nosec B704


def cost(entrant: Entrant) -> float:
    return max(entrant.seconds or 0.0, 1e-9)


def names_of(priced: Sequence[Entrant]) -> str:
    return ", ".join(entrant.short for entrant in priced if entrant.is_pareto)


def time_text(power: int) -> str:
    """A power of ten seconds as people say it."""
    unit, shift = ("s", 0) if power >= 0 else ("ms", 3) if power >= -3 else ("µs", 6)
    return f"{10 ** (power + shift):,} {unit}"


def point(entrant: Entrant, x: float, y: float) -> str:
    kind = f"{entrant.target or 'baseline'}{'' if entrant.is_pareto else ' beaten'}"
    passes = "" if entrant.passes is None else f", {entrant.passes:.0f} passes"
    tip = f"{entrant.short}: {100 * entrant.mean:.1f} % for {1000 * cost(entrant):.3g} ms{passes}"
    return f'<g class="dot {escape(kind)}">{dot(x, y, entrant.target)}<title>{escape(tip)}</title></g>'


def labels(points: Sequence[tuple[Entrant, float, float]]) -> list[str]:
    """Names beside their points, on the side that has room; one that would lie over another goes below its point."""
    found, taken = [], list[tuple[float, float, float]]()
    for entrant, x, y in points:
        wide = LETTER * len(entrant.short)
        is_right = x + 10 + wide <= WIDTH
        left = x + 9 if is_right else max(2.0, x - 9 - wide)
        for down in (4.0, 18.0, -10.0, 32.0):
            if y + down > 12 and all(
                abs(y + down - other) > 12 or left > end or left + wide < start for start, end, other in taken
            ):
                break
        taken.append((left, left + wide, y + down))
        anchor, place = ("start", x + 9) if is_right else ("end", x - 9)
        if not is_right and x - 9 - wide < 2:
            anchor, place = "middle", WIDTH / 2
        where = f'x="{place:.1f}" y="{y + down:.1f}" text-anchor="{anchor}"'
        found.append(f'<text class="name" {where}>{escape(entrant.short)}</text>')
    return found


def agreement_matrix(agreement: Agreement, title: str) -> Markup:
    """Rank correlation of each two readings: blue agree, orange contradict; each square has its number."""
    names = list(agreement.readings)
    letters = max(len(name) for name in names) + 3
    room = min(LETTER * letters + 8, WIDEST * WIDTH)
    side = min(CELL, (WIDTH - room - PAD) / len(names))
    height = 20 + side * len(names) + 6
    tip = f"{title}: mean rank correlation {agreement.mean:.2f}, least between {' and '.join(agreement.apart)}"
    parts = [f'<svg class="plot matrix" viewBox="0 0 {WIDTH:g} {height:.1f}" role="img" aria-label="{escape(tip)}">']
    fits = int((room - 8) / LETTER)
    for row, name in enumerate(names):
        y = 20 + side * row
        text = f"{row + 1} {name}"
        shown = text if len(text) <= fits else text[: fits - 1] + "…"
        parts.append(
            f'<text class="label" x="{room - 8:.1f}" y="{y + side / 2 + 4:.1f}"><title>{escape(name)}</title>'
            f"{escape(shown)}</text>"
        )
        parts.append(f'<text class="tick" x="{room + side * (row + 0.5):.1f}" y="14">{row + 1}</text>')
        for column, value in enumerate(agreement.matrix[row]):
            if value is None:
                continue
            kind = "agree" if value >= 0 else "contradict"
            x = room + side * column
            said = f"{name} and {names[column]}: {value:.2f}"
            parts.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}"'
                f' fill-opacity="{0.5 * abs(value):.2f}"><title>{escape(said)}</title></rect>'
            )
            if side >= 20:
                parts.append(
                    f'<text class="number" x="{x + side / 2:.1f}" y="{y + side / 2 + 4:.1f}">{number(value)}</text>'
                )
    return Markup("".join([*parts, "</svg>"]))  # texts are escaped where they are put in  # nosec B704


def agreement_rows(agreement: Agreement, title: str) -> Markup:
    """Rank correlation of every other reading with the first: what is left of a matrix that would be too large."""
    first, *others = agreement.readings
    known = [(Label(name), value) for name, value in zip(others, agreement.matrix[0][1:], strict=True)]
    labels = [label for label, _ in known]
    values = [value for _, value in known if value is not None]
    frame = Rows(labels, round_axis([*values, 0.0, 1.0], label_room(labels), WIDTH - PAD, percent=False), title)
    parts = [
        span(frame.axis, frame.y(place), value, None, None, "logit", f"{first} and {label.name}: {value:.2f}")
        for place, (label, value) in enumerate(known)
        if value is not None
    ]
    return frame.drawn(parts, 0.0)


def number(value: float) -> str:
    """A correlation in few letters: .94, -.3, 1."""
    return "1" if value > 0.995 else f"{value:.2f}".replace("0.", ".", 1)

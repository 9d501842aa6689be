"""Drawings as SVG that stands on its own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from heatproof.lazy import np
from heatproof.report.drawing import FONTS, MARGIN, SHAPES, Drawing, Panel, Part, Picture, Point, Shape, Text

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAMILY = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def svg(drawing: Drawing) -> str:
    title = f"<title>{escape(drawing.title)}</title>" if drawing.title else ""
    return document(drawing.width, drawing.height, [title, *map(element, drawing.parts)])


def element(part: Part) -> str:
    if isinstance(part, Panel):
        return "<g>" + "".join(map(element, part.parts)) + "</g>"
    if isinstance(part, Text):
        return text(part)
    return shape(part) if isinstance(part, Shape) else image(part)


def text(part: Text) -> str:
    kind = f' class="{part.kind}"' if part.kind else ""
    anchor = f' text-anchor="{part.anchor}"' if part.anchor != "start" else ""
    tip = f"<title>{escape(part.full)}</title>" if part.full not in ("", part.text) else ""
    return f'<text{kind} x="{part.x:g}" y="{part.y:g}"{anchor}>{tip}{escape(part.text)}</text>'


def shape(part: Shape) -> str:
    """One path for all lines."""
    drawn = "".join(path(points) + "z" * part.closed for points in part.paths)
    opacity = f' fill-opacity="{part.strength:.2f}"' if part.strength < 1 else ""
    return f'<path class="{part.kind}"{opacity} d="{drawn}"/>'


def path(points: Sequence[Point]) -> str:
    """A line from point to point; steps to the side, up and down in few letters."""
    steps = [f"M{number(points[0][0])} {number(points[0][1])}"]
    for (before, above), (x, y) in pairwise(points):
        if y == above:
            steps.append(f"H{number(x)}")
        elif x == before:
            steps.append(f"V{number(y)}")
        else:
            steps.append(f"L{number(x)} {number(y)}")
    return "".join(steps)


def number(value: float) -> str:
    return f"{round(value, 2):g}"


def image(part: Picture) -> str:
    enlarged = part.pixels.shape[1] < 2 * part.width
    rendering = ' style="image-rendering:pixelated"' if enlarged else ""
    place = f'x="{part.x:g}" y="{part.y:g}" width="{part.width:g}" height="{part.height:g}"'
    return f'<image {place} preserveAspectRatio="none"{rendering} href="{png(part.pixels)}"/>'


def style_sheet() -> str:
    """The kinds of text and shapes as rules of CSS."""
    rules = []
    for kind, font in FONTS.items():
        weight = "600 " if font.bold else ""
        rules.append(
            f"text{'.' + kind if kind else ''} {{ font: {weight}{font.size:g}px {FAMILY}; fill: {font.colour}; }}"
        )
    for kind, style in SHAPES.items():
        stroke = (
            f" stroke: {style.stroke}; stroke-width: {style.width:g}; stroke-linejoin: round;" if style.stroke else ""
        )
        rules.append(f".{kind} {{ fill: {style.fill or 'none'};{stroke} }}")
    return "\n".join(rules)


def document(width: float, height: float, parts: Sequence[str]) -> str:
    """Elements on a white ground, with the margin around."""
    across, down = f"{width + 2 * MARGIN:g}", f"{height + MARGIN:g}"
    left, top, size = -MARGIN, -MARGIN // 2, f'width="{across}" height="{down}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {across} {down}" {size}>'
    back = f'<rect x="{left}" y="{top}" {size} fill="#fff"/>'
    return "\n".join([head, f"<style>\n{style_sheet()}\n</style>", back, *filter(None, parts), "</svg>\n"])


def png(pixels: NDArray[Any]) -> str:
    """Pixels (H, W, 3) between 0 and 1 as a data address."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.rint(255 * pixels).astype("uint8")).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

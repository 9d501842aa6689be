"""A drawing as plain data: text, shapes and pictures, measured from the top left; `svg`, `pdf`, `raster` write it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

INK, SOFT = "#1c2733", "#5b6875"
MARGIN = 12
"""Empty space around a drawing."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Style:
    """How a kind of shape is drawn; empty colours for nothing."""

    fill: str = ""
    stroke: str = ""
    width: float = 1.0


@dataclass(frozen=True)
class Font:
    """How a kind of text is drawn."""

    size: float = 12
    colour: str = INK
    bold: bool = False


SHAPES = {
    "line": Style(stroke=INK, width=1.3),
    "for": Style(fill="#d6453d"),
    "against": Style(fill="#3567c4"),
    "truth": Style(fill="#2c8f58"),
    "casing": Style(stroke="#ffffff", width=3.4),
    "outline": Style(stroke="#14713f", width=1.5),
    "mark": Style(stroke=INK, width=1.5),
    "frame": Style(stroke="#d5dbe1"),
    "axis": Style(stroke="#8a96a3", width=0.8),
}
"""An outline is drawn twice, the casing below: on dark pictures one sees that, on light ones the outline."""
FONTS = {
    "": Font(),
    "title": Font(bold=True),
    "soft": Font(colour=SOFT),
    "tick": Font(size=10, colour=SOFT),
}


@dataclass(frozen=True)
class Text:
    """A line of text whose baseline begins, has its middle, or ends at (x, y); `full` is what it is short for."""

    x: float
    y: float
    text: str
    kind: str = ""
    anchor: Literal["start", "middle", "end"] = "start"
    full: str = ""


@dataclass(frozen=True)
class Shape:
    """Lines through points, each closed or open, all drawn alike; `strength` is the opacity of what they enclose."""

    kind: str
    paths: Sequence[Sequence[Point]]
    closed: bool = True
    strength: float = 1.0


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels (H, W, 3) between 0 and 1."""

    x: float
    y: float
    width: float
    height: float
    pixels: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Panel:
    """What belongs together: one case under one explainer."""

    parts: Sequence[Text | Shape | Picture]


Part: TypeAlias = "Text | Shape | Picture | Panel"


@dataclass(frozen=True, eq=False)
class Drawing:
    """Parts on a white ground; the margin is around width and height. `title` is for those who list files."""

    width: float
    height: float
    parts: Sequence[Part]
    title: str = ""

    def flat(self) -> Iterator[Text | Shape | Picture]:
        """All parts without panels, in the order in which they are drawn."""
        for part in self.parts:
            if isinstance(part, Panel):
                yield from part.parts
            else:
                yield part


def box(kind: str, x: float, y: float, width: float, height: float) -> Shape:
    return Shape(kind, [[(x, y), (x + width, y), (x + width, y + height), (x, y + height)]])


# Helvetica's own, in thousandths of the size; Arial and Liberation Sans have the same.
WIDTHS = dict(zip(map(chr, range(32, 127)), (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
), strict=True))  # fmt: skip
BOLD = 1.12
"""How much wider bold text may be."""


def text_width(text: str, kind: str = "") -> float:
    """How wide a line is; letters that are not in the table count as wide ones."""
    font = FONTS[kind]
    return sum(WIDTHS.get(letter, 1000) for letter in text) * font.size / 1000 * (BOLD if font.bold else 1.0)


def shortened(text: str, width: float, kind: str = "") -> str:
    """The text, or as much of it as fits, and dots."""
    if text_width(text, kind) <= width:
        return text
    while text and text_width(text + "…", kind) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def wrapped(text: str, width: float, kind: str = "", most: int = 3) -> list[str]:
    """The text in lines that fit, at most so many; broken at spaces, or within a word after a sign such as , : _ /."""
    lines: list[str] = []
    line = ""
    for piece in pieces(text):
        if line and text_width((line + piece).rstrip(), kind) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece.lstrip() if not line else piece
    lines.append(line.rstrip())
    if len(lines) > most:
        lines = [*lines[: most - 1], " ".join(lines[most - 1 :])]
    return [shortened(line, width, kind) for line in lines]


def pieces(text: str) -> list[str]:
    """Where a text may be broken; each piece has what follows it up to the next."""
    found = [""]
    for letter in text:
        found[-1] += letter
        if letter in " ,:_/-":
            found.append("")
    return [piece for piece in found if piece]

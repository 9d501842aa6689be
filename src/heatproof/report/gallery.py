"""Cases under many explainers, as one drawing: one case at leisure, several as a grid."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from math import sqrt
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.report.drawing import Drawing, Panel, Part, Picture, Point, Shape, Text, box, text_width, wrapped
from heatproof.report.figures import levels, spans
from heatproof.report.outlines import outlines
from heatproof.story import Case, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINE, GAP = 15, 14
"""Height of a line of text, and space between panels."""
LABEL, STRIP, STRIP_HEIGHT = 190, 520, 42
"""One signal: the explainers' names at the left, a strip for each."""
ACROSS, CELL_HEIGHT = 1040, 56
"""Several signals: the columns share this width."""
TICKS = 44
"""Space for the numbers at the left of a signal."""
TILE, PER_ROW = 150, 5
LEAST_COLUMN, LEAST_WIDTH = 90, 300
FULL = 0.99
"""Heat at this quantile, of those pixels that have any, and above is drawn in full colour."""


def gallery(cases: Sequence[Case], words: Words | None = None, heading: str = "") -> Drawing:
    """Inputs and, under each explainer's name, their relevance: red for the class, blue against it.

    Channels are added up. Each heatmap is scaled by itself: a signal's by its largest value, a picture's so that a
    hundredth of its pixels has the full colour.
    """
    for case in cases:
        require_drawable(case.inputs.ndim - 1)
    draw = {(True, True): strips, (True, False): signal_grid, (False, True): tiles, (False, False): picture_grid}
    page = draw[cases[0].is_signal, len(cases) == 1](cases, heading)
    page.key(cases, words or Words())
    return Drawing(page.width, page.y, page.parts, heading or cases[0].title)


def require_drawable(dimensions: int) -> None:
    if dimensions not in (1, 2):
        raise HeatproofError(
            f"a picture can be drawn of signals and of pictures, not of {dimensions} space dimensions."
        )


class Page:
    """Parts that are put one below the other."""

    def __init__(self, width: float, heading: str) -> None:
        self.width = max(width, LEAST_WIDTH)
        self.y = 0.0
        self.parts: list[Part] = []
        if heading:
            self.text(heading, "soft")

    def text(self, words: str, kind: str) -> None:
        """Lines over the whole width, and a little space."""
        for line in wrapped(words, self.width, kind, most=6):
            self.y += LINE
            self.parts.append(Text(0, self.y, line, kind))
        self.y += LINE / 2

    def heads(self, names: Mapping[str, str], left: float, step: float, width: float) -> None:
        """The names of columns; those with fewer lines stand as low as the others."""
        lines = {name: wrapped(name, width) for name in names}
        rows = max(map(len, lines.values()))
        for place, (name, shown) in enumerate(lines.items()):
            for line, text in enumerate(shown, rows - len(shown) + 1):
                self.parts.append(Text(left + step * place, self.y + LINE * line, text, full=names[name]))
        self.y += LINE * rows + LINE / 2

    def key(self, cases: Sequence[Case], words: Words) -> None:
        """What colours and lines mean, of those that are there."""
        heats = [heat.sum(0) for case in cases for heat in case.heatmaps.values()]
        entries = [("for", words.favour)] if any((heat > 0).any() for heat in heats) else []
        entries += [("against", words.against)] if any((heat < 0).any() for heat in heats) else []
        if any(has_truth(case) for case in cases):
            entries.append(("truth" if cases[0].is_signal else "outline", words.truth))
        if any(case.marks for case in cases):
            entries.append(("mark", words.mark))
        x = 0.0
        self.y += LINE
        for kind, meaning in entries:
            wide = 18 + text_width(meaning, "tick") + GAP
            if x and x + wide - GAP > self.width:
                x, self.y = 0.0, self.y + LINE
            self.parts += swatch(kind, x, self.y)
            self.parts.append(Text(x + 18, self.y, meaning, "tick"))
            x += wide
        self.y += LINE / 2


def swatch(kind: str, x: float, y: float) -> list[Shape]:
    if kind == "truth":
        return [box(kind, x, y - 5, 12, 3)]
    drawn = box(kind, x, y - 8, 12, 9)
    return [Shape("casing", drawn.paths), drawn] if kind == "outline" else [drawn]


def has_truth(case: Case) -> bool:
    return case.truth is not None and bool(case.truth.any())


def explainers(case: Case) -> dict[str, str]:
    """The names of a case's explainers, and what each is short for."""
    return {name: case.full.get(name, name) for name in case.heatmaps}


def named(case: Case, name: str, full: str, width: float, most: int = 3) -> list[Text]:
    """The lines of an explainer's name, and what is wrong with its heatmap, to be put in their places."""
    lines = [Text(0, 0, line, full=full) for line in wrapped(name, width, most=most)]
    problem = remark(case, name if name in case.heatmaps else None)
    return [*lines, Text(0, 0, problem, "tick")] if problem else lines


# Signals


def strips(cases: Sequence[Case], heading: str) -> Page:
    """One signal: a row for each explainer."""
    (case,) = cases
    page = Page(LABEL + STRIP, heading)
    page.text(case.title, "title")
    for place, (name, full) in enumerate(explainers(case).items()):
        shown = named(case, name, full, LABEL - TICKS - 4, most=2)
        for line, text in enumerate(shown):
            y = page.y + STRIP_HEIGHT / 2 + 4 + LINE * (line - (len(shown) - 1) / 2)
            page.parts.append(replace(text, y=y))
        if place == 0:
            page.parts += value_axis(case, LABEL, page.y, STRIP_HEIGHT)
        page.parts.append(signal_panel(case, name, LABEL, page.y, STRIP, STRIP_HEIGHT))
        page.y += STRIP_HEIGHT + GAP
    page.parts += place_axis(case, LABEL, page.y - GAP + 4, STRIP)
    page.y += LINE / 2
    return page


def signal_grid(cases: Sequence[Case], heading: str) -> Page:
    """A row for each signal, a column for each explainer."""
    names = explainers(cases[0])
    width = min(max(round(ACROSS / len(names)), 110), 420)
    page = Page(TICKS + (width + GAP) * len(names) - GAP, heading)
    page.heads(names, TICKS, width + GAP, width)
    for case in cases:
        page.text(case.title, "title")
        page.parts += value_axis(case, TICKS, page.y, CELL_HEIGHT)
        for place, name in enumerate(names):
            x = TICKS + (width + GAP) * place
            page.parts.append(signal_panel(case, name, x, page.y, width, CELL_HEIGHT))
            page.parts += place_axis(case, x, page.y + CELL_HEIGHT + 4, width)
            page.parts += below(remark(case, name), x, page.y + CELL_HEIGHT + LINE + 12, width)
        page.y += CELL_HEIGHT + LINE + GAP + 4
    return page


def signal_panel(case: Case, name: str, x: float, y: float, width: float, height: float) -> Panel:
    """The signal over its heat, the true mask as a bar below, a marked stretch boxed."""
    heat = case.heatmaps[name].sum(0)
    step = width / len(heat)
    parts: list[Text | Shape | Picture] = [
        Shape(
            kind, [box(kind, x + step * a, y, step * (b - a), height).paths[0] for a, b in stretches], strength=strength
        )
        for kind, strength, stretches in levels(heat)
    ]
    parts.append(box("frame", x, y, width, height))
    low, high = case.inputs.min(), case.inputs.max()
    scale = (height - 8) / float((high - low) or 1.0)
    lines = [
        [(x + step * (i + 0.5), y + height - 4 - scale * float(v - low)) for i, v in enumerate(channel)]
        for channel in case.inputs
    ]
    parts.append(Shape("line", lines, closed=False))
    if case.truth is not None:
        parts += [box("truth", x + step * a, y + height + 1, step * (b - a), 3) for a, b in spans(case.truth)]
    if name in case.marks:
        start, length = case.marks[name]
        parts.append(box("mark", x + step * start, y, step * length, height))
    return Panel(parts)


def value_axis(case: Case, x: float, y: float, height: float) -> list[Text]:
    """The signal's lowest and highest value."""
    low, high = (f"{float(value):.2g}" for value in (case.inputs.min(), case.inputs.max()))
    return [Text(x - 5, y + 8, high, "tick", "end"), Text(x - 5, y + height, low, "tick", "end")]


def place_axis(case: Case, x: float, y: float, width: float) -> list[Part]:
    """Positions, counted from 0, at round distances."""
    count = case.inputs.shape[1]
    step = width / count
    numbers = range(0, count, round_step(count, width / 40))
    marks: list[list[Point]] = [[(x + step * (i + 0.5), y), (x + step * (i + 0.5), y + 3)] for i in numbers]
    texts = [Text(x + step * (i + 0.5), y + 12, str(i), "tick", "middle") for i in numbers]
    return [Shape("axis", marks, closed=False), *texts]


def round_step(count: int, most: float) -> int:
    """The smallest of 1, 2, 5, 10, 20 ... that leaves at most so many."""
    size = 1
    while True:
        for step in (size, 2 * size, 5 * size):
            if count / step <= most:
                return step
        size *= 10


def remark(case: Case, name: str | None) -> str:
    """What is wrong with a heatmap in which there is nothing to see; empty for others, and for the input."""
    heat = np.zeros(0) if name is None else case.heatmaps[name].sum(0)
    if not np.isfinite(heat).all():
        return "not finite"
    return "" if heat.any() or name is None else "all zero"


def below(words: str, x: float, y: float, width: float) -> list[Text]:
    """A remark in the middle of the space under a panel."""
    return [Text(x + width / 2, y, words, "tick", "middle")] if words else []


# Pictures


def tiles(cases: Sequence[Case], heading: str) -> Page:
    """One picture, then a tile for each explainer, its name below."""
    (case,) = cases
    width, height = tile_size(case, TILE)
    column = max(width, LEAST_COLUMN)
    names = {"input": "input"} | explainers(case)
    page = Page((column + GAP) * min(PER_ROW, len(names)) - GAP, heading)
    page.text(case.title, "title")
    listed = list(names.items())
    for first in range(0, len(listed), PER_ROW):
        lines = 1
        for place, (name, full) in enumerate(listed[first : first + PER_ROW]):
            x = (column + GAP) * place
            page.parts.append(picture_panel(case, None if not first + place else name, x, page.y, width, height))
            shown = named(case, name, full, column)
            lines = max(lines, len(shown))
            page.parts += [replace(text, x=x, y=page.y + height + 1 + LINE * i) for i, text in enumerate(shown, 1)]
        page.y += height + LINE * lines + GAP
    return page


def picture_grid(cases: Sequence[Case], heading: str) -> Page:
    """A row for each picture: itself, and a column for each explainer."""
    names = {"input": "input"} | explainers(cases[0])
    side = TILE if len(names) <= 7 else max(96, (TILE + GAP) * 7 // len(names) - GAP)
    sizes = [tile_size(case, side) for case in cases]
    column = max([LEAST_COLUMN, *(width for width, _ in sizes)])
    page = Page((column + GAP) * len(names) - GAP, heading)
    page.heads(names, 0, column + GAP, column)
    for case, (width, height) in zip(cases, sizes, strict=True):
        page.text(case.title, "title")
        for place, name in enumerate(names):
            x = (column + GAP) * place
            page.parts.append(picture_panel(case, name if place else None, x, page.y, width, height))
            page.parts += below(remark(case, name if place else None), x, page.y + height + 12, width)
        page.y += height + GAP + 4
    return page


def tile_size(case: Case, side: float) -> tuple[float, float]:
    """Width and height with the picture's proportions: a square of `side`, or about as large; neither much longer."""
    height, width = case.inputs.shape[1:]
    wide = min(side * sqrt(width / height), 2.0 * side, 1.6 * side * width / height)
    return round(wide), max(1, round(wide * height / width))


def picture_panel(case: Case, name: str | None, x: float, y: float, width: float, height: float) -> Panel:
    """The picture, or its heat under one explainer; the true mask outlined."""
    heat = None if name is None else case.heatmaps[name].sum(0)
    pixels = picture(case.inputs) if heat is None else overlay(case.inputs, heat)
    parts: list[Text | Shape | Picture] = [Picture(x, y, width, height, pixels), box("frame", x, y, width, height)]
    if case.truth is not None and case.truth.any():
        across, down = width / case.truth.shape[1], height / case.truth.shape[0]
        lines = [[(x + across * a, y + down * b) for a, b in line] for line in outlines(case.truth)]
        parts += [Shape("casing", lines), Shape("outline", lines)]
    return Panel(parts)


def picture(inputs: NDArray[Any]) -> NDArray[Any]:
    """Inputs (C, H, W) as colours (H, W, 3) between 0 and 1; what is not three channels becomes grey."""
    colours = inputs if len(inputs) == 3 else np.repeat(inputs.mean(0, keepdims=True), 3, 0)
    low, high = colours.min(), colours.max()
    scaled: NDArray[Any] = ((colours - low) / ((high - low) or 1.0)).transpose(1, 2, 0)
    return scaled


def overlay(inputs: NDArray[Any], heat: NDArray[Any]) -> NDArray[Any]:
    """The heat over the picture in pale grey; a few pixels of extreme heat do not make the others invisible."""
    grey = 0.6 + 0.4 * picture(inputs).mean(2, keepdims=True)
    heat = np.where(np.isfinite(heat), heat, 0.0)
    size = np.abs(heat)
    peak = np.quantile(size[size > 0], FULL) if (size > 0).any() else 1.0
    strength = np.minimum(size / peak, 1.0)[:, :, None]
    colour = np.where(heat[:, :, None] > 0, [0.84, 0.27, 0.24], [0.21, 0.40, 0.77])
    blended: NDArray[Any] = grey * (1 - strength) + colour * strength
    return blended


def within(inputs: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    """The picture where the mask is, and pale elsewhere."""
    colours = picture(inputs)
    pale = 0.75 + 0.25 * colours.mean(2, keepdims=True)
    shown: NDArray[Any] = np.where(truth[:, :, None], colours, pale)
    return shown


def small(pixels: NDArray[Any]) -> str:
    """Pixels (H, W, 3) between 0 and 1 as a data address, compressed with loss: for pages with many."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.rint(255 * pixels).astype("uint8")).save(file, "WEBP", quality=75)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()

"""Drawings as pixels, by Pillow: drawn larger and shrunk, which smooths edges."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from heatproof.harmless import one_line
from heatproof.lazy import np
from heatproof.report.drawing import BOLD, FONTS, MARGIN, SHAPES, Drawing, Picture, Shape, Text, text_width

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

SCALE, SMOOTH = 2, 2
"""Pixels of the file for a unit of a drawing, and how many times larger it is drawn."""
FONT_FILES = {
    False: ("LiberationSans-Regular.ttf", "arial.ttf", "Arial.ttf", "DejaVuSans.ttf"),
    True: ("LiberationSans-Bold.ttf", "arialbd.ttf", "Arial Bold.ttf", "DejaVuSans-Bold.ttf"),
}
"""Looked for among the system's fonts; where none is there, Pillow's own has the English letters."""


def raster(drawing: Drawing) -> Image:
    from PIL import Image, ImageDraw

    zoom = SCALE * SMOOTH
    size = (round(zoom * (drawing.width + 2 * MARGIN)), round(zoom * (drawing.height + MARGIN)))
    canvas = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(canvas, "RGBA")
    for part in drawing.flat():
        if isinstance(part, Text):
            put_text(draw, part, zoom)
        elif isinstance(part, Shape):
            put_shape(draw, part, zoom)
        else:
            put_picture(canvas, part, zoom)
    return canvas.reduce(SMOOTH)


def place(x: float, y: float, zoom: int) -> tuple[float, float]:
    return zoom * (x + MARGIN), zoom * (y + MARGIN / 2)


def put_text(draw: ImageDraw, part: Text, zoom: int) -> None:
    """No wider than the layout takes it to be, whatever the font is."""
    look = FONTS[part.kind]
    words = one_line(part.text)
    wanted = zoom * text_width(words, part.kind)
    found = font(look.bold, zoom * look.size)
    if (actual := found.getlength(words)) > wanted:
        found = font(look.bold, zoom * look.size * wanted / actual)
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[part.anchor]
    draw.text(place(part.x, part.y, zoom), words, look.colour, found, anchor)


@lru_cache(maxsize=64)
def font(bold: bool, size: float) -> Any:
    from PIL import ImageFont

    for name in FONT_FILES[bold]:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size * (BOLD if bold else 1.0))


def put_shape(draw: ImageDraw, part: Shape, zoom: int) -> None:
    style = SHAPES[part.kind]
    for points in part.paths:
        placed = [place(x, y, zoom) for x, y in points]
        if style.fill:
            draw.polygon(placed, (*rgb(style.fill), round(255 * part.strength)))
        if style.stroke:
            line = [*placed, *placed[:2]] if part.closed else placed
            draw.line(line, style.stroke, round(zoom * style.width), joint="curve")


def rgb(name: str) -> tuple[int, int, int]:
    red, green, blue = (int(name[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def put_picture(canvas: Image, part: Picture, zoom: int) -> None:
    from PIL import Image

    pixels = Image.fromarray(np.rint(255 * part.pixels).astype("uint8"))
    (left, top), (right, bottom) = (
        (round(x), round(y))
        for x, y in (place(part.x, part.y, zoom), place(part.x + part.width, part.y + part.height, zoom))
    )
    size = (max(1, right - left), max(1, bottom - top))
    way = Image.Resampling.NEAREST if size[0] >= pixels.width else Image.Resampling.BOX
    canvas.paste(pixels.resize(size, way), (left, top))

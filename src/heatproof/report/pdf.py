"""Drawings as PDF of one page: text and shapes stay what they are, in Helvetica, which every reader has."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heatproof.harmless import one_line
from heatproof.lazy import np
from heatproof.report.drawing import FONTS, MARGIN, SHAPES, Drawing, Picture, Shape, Text, text_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 0.75
"""Points of a page for a unit of a drawing, as browsers print them."""


def pdf(drawing: Drawing) -> bytes:
    """The file: objects, where each of them begins, and which is the first."""
    parts = list(drawing.flat())
    images = [part for part in parts if isinstance(part, Picture)]
    strengths = sorted({part.strength for part in parts if isinstance(part, Shape)})
    width, height = drawing.width + 2 * MARGIN, drawing.height + MARGIN
    states = " ".join(f"/S{i} << /ca {strength:.3f} >>" for i, strength in enumerate(strengths))
    named = " ".join(f"/I{i} {FIRST_IMAGE + i} 0 R" for i in range(len(images)))
    resources = f"<< /Font << /F0 4 0 R /F1 5 0 R >> /ExtGState << {states} >> /XObject << {named} >> >>"
    box = f"[0 0 {POINTS * width:.2f} {POINTS * height:.2f}]"
    # From here on y grows downwards, as in the drawing.
    start = f"{POINTS} 0 0 {-POINTS} {POINTS * MARGIN:.2f} {POINTS * (height - MARGIN / 2):.2f} cm 1 j"
    numbered = iter(range(len(images)))
    content = "\n".join([start, *(commands(part, strengths, numbered) for part in parts)])
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Resources {resources} /Contents 6 0 R >>".encode(),
        font("Helvetica"),
        font("Helvetica-Bold"),
        stream("", content.encode("cp1252")),
        b"<< /Title (" + literal(drawing.title) + b") /Producer (heatproof) >>",
        *(image(part.pixels) for part in images),
    ]
    return file(objects)


FIRST_IMAGE = 8
"""The number of the first object that is a picture."""


def commands(part: Text | Shape | Picture, strengths: Sequence[float], images: Any) -> str:
    if isinstance(part, Text):
        return text(part)
    if isinstance(part, Shape):
        return shape(part, strengths.index(part.strength))
    # A picture is a unit square whose first row is at the top, where y is 1.
    place = f"{part.width:g} 0 0 {-part.height:g} {part.x:g} {part.y + part.height:g} cm"
    return f"q {place} /I{next(images)} Do Q"


def text(part: Text) -> str:
    look = FONTS[part.kind]
    words = one_line(part.text)
    shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[part.anchor] * text_width(words, part.kind)
    place = f"1 0 0 -1 {part.x - shift:.2f} {part.y:g} Tm"
    shown = literal(words).decode("cp1252")
    return f"BT {colour(look.colour)} rg /F{int(look.bold)} {look.size:g} Tf {place} ({shown}) Tj ET"


def shape(part: Shape, state: int) -> str:
    style = SHAPES[part.kind]
    lines = []
    for points in part.paths:
        (x, y), *rest = points
        lines.append(f"{x:.2f} {y:.2f} m " + "".join(f"{x:.2f} {y:.2f} l " for x, y in rest) + "h" * part.closed)
    look = f"/S{state} gs"
    if style.fill:
        look += f" {colour(style.fill)} rg"
    if style.stroke:
        look += f" {colour(style.stroke)} RG {style.width:g} w"
    end = {(True, False): "f", (False, True): "S", (True, True): "B"}[bool(style.fill), bool(style.stroke)]
    return f"q {look} {' '.join(lines)} {end} Q"


def colour(name: str) -> str:
    """Red, green and blue between 0 and 1, of a colour such as #1c2733."""
    return " ".join(f"{int(name[i : i + 2], 16) / 255:.3f}" for i in (1, 3, 5))


def literal(words: str) -> bytes:
    """Text within brackets; Western European letters only, a question mark for others."""
    kept = words.encode("cp1252", "replace")
    for sign in (b"\\", b"(", b")"):
        kept = kept.replace(sign, b"\\" + sign)
    return kept


def font(name: str) -> bytes:
    return f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()


def image(pixels: NDArray[Any]) -> bytes:
    height, width, _ = pixels.shape
    facts = f"/Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceRGB /BitsPerComponent 8"
    return stream(facts, np.rint(255 * pixels).astype("uint8").tobytes())


def stream(facts: str, content: bytes) -> bytes:
    packed = zlib.compress(content, 9)
    head = f"<< {facts} /Filter /FlateDecode /Length {len(packed)} >>\nstream\n"
    return head.encode() + packed + b"\nendstream"


def file(objects: Sequence[bytes]) -> bytes:
    """Objects, numbered from 1, with the table of where they begin."""
    written = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    starts = []
    for number, content in enumerate(objects, 1):
        starts.append(len(written))
        written += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    size = len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R /Info 7 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(written))
    return written + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end

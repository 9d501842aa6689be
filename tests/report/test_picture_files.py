"""A drawing is the same in every format: checked by readers of their own, and against what is known elsewhere."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from matplotlib import get_data_path
from PIL import Image

from heatproof.errors import HeatproofError
from heatproof.report.drawing import (
    MARGIN,
    WIDTHS,
    Drawing,
    Picture,
    Shape,
    Text,
    box,
    shortened,
    text_width,
    wrapped,
)
from heatproof.report.outlines import outlines
from heatproof.report.pdf import POINTS, pdf
from heatproof.report.picture_files import require_picture_file, write_picture
from heatproof.report.raster import SCALE, raster
from heatproof.report.svg import svg

PIXELS = np.random.default_rng(0).uniform(size=(3, 5, 3))
DRAWING = Drawing(
    200,
    100,
    [
        box("for", 10, 20, 30, 40),
        Shape("line", [[(100, 10), (150, 10)]], closed=False),
        Picture(60, 50, 50, 30, PIXELS),
        Text(5, 95, "a (b) \\ ä → <c>", "title"),
        Text(195, 95, "end", "tick", "end"),
    ],
    title="what (it) is",
)


def is_inside(x: float, y: float, lines: list[list[tuple[int, int]]]) -> bool:
    """Whether a ray to the right crosses lines an odd number of times, edge by edge."""
    crossed = 0
    for line in lines:
        for (x1, y1), (x2, y2) in zip(line, [*line[1:], line[0]], strict=True):
            if (y1 > y) != (y2 > y) and x < x1 + (x2 - x1) * (y - y1) / (y2 - y1):
                crossed += 1
    return crossed % 2 == 1


@pytest.mark.parametrize("seed", range(6))
def test_outlines_enclose_the_mask_and_nothing_else(seed: int) -> None:
    """Reference: the crossing test, for the middle of every pixel of masks with holes and touching corners."""
    mask = np.random.default_rng(seed).uniform(size=(9, 13)) < (seed + 1) / 7
    lines = outlines(mask)
    found = [[is_inside(x + 0.5, y + 0.5, lines) for x in range(13)] for y in range(9)]
    assert (np.array(found) == mask).all()
    for line in lines:
        for a, b, c in zip(line, [*line[1:], line[0]], [*line[2:], *line[:2]], strict=True):
            assert (a[0] == b[0]) != (a[1] == b[1])  # along pixels
            assert (a[0] == b[0]) != (b[0] == c[0])  # and every corner is a turn


def test_simple_outlines() -> None:
    mask = np.zeros((6, 6), dtype=bool)
    assert outlines(mask) == []
    mask[1:4, 2:5] = True
    assert outlines(mask) == [[(2, 1), (5, 1), (5, 4), (2, 4)]]
    mask[2, 3] = False
    assert sorted(map(len, outlines(mask))) == [4, 4]
    assert len(outlines(np.eye(3, dtype=bool))) == 3  # corners do not join


def afm_widths(name: str) -> dict[str, int]:
    """By letter, from lines such as `C 65 ; WX 667 ; N A ; B 14 0 654 718 ;`."""
    text = Path(get_data_path(), "fonts", "pdfcorefonts", f"{name}.afm").read_text(encoding="latin-1")
    return {chr(int(code)): int(width) for code, width in re.findall(r"^C (\d+) ; WX (\d+) ;", text, re.MULTILINE)}


def test_widths_are_helveticas() -> None:
    """Reference: the font's own metrics, as matplotlib ships them; quotes are curly there."""
    normal, bold = afm_widths("Helvetica"), afm_widths("Helvetica-Bold")
    letters = set(WIDTHS) - set("'`")
    assert {letter: normal[letter] for letter in letters} == {letter: WIDTHS[letter] for letter in letters}
    for words in (
        "What is the shape of the green rubber object? sphere, Mass accuracy 94.4 %",
        "There is a tiny thing to the left of it; is it a small ball? yes",
    ):
        exact = sum(bold[letter] for letter in words) * 12 / 1000
        assert exact <= text_width(words, "title") <= 1.15 * exact


def test_lines_fit() -> None:
    words = "integrated_gradients:steps=20,baseline=0.463/0.460/0.453 and more words, ".strip() * 3
    for width in (130, 200, 400):
        lines = wrapped(words, width, most=4)
        assert len(lines) <= 4
        assert all(text_width(line) <= width for line in lines)
        assert words.replace(" ", "").startswith("".join(lines).replace(" ", "").removesuffix("…"))
    assert wrapped("short", 200) == ["short"]
    assert shortened("a long word", 30) == "a l…"
    assert wrapped("", 50) == [""]


def read_pdf(content: bytes) -> dict[int, tuple[str, bytes]]:
    """Objects by number, from where the table says that they are: what stands before a stream, and the stream."""
    start = int(content.rsplit(b"startxref\n", 1)[1].split()[0])
    assert content[start:].startswith(b"xref\n0 ")
    count = int(content[start:].split()[2])
    places = [int(line[:10]) for line in content[start:].splitlines()[3 : 2 + count]]
    found = {}
    for number, place in enumerate(places, 1):
        head = b"%d 0 obj\n" % number
        assert content[place:].startswith(head)
        body = content[place + len(head) : content.index(b"\nendobj\n", place)]
        words, _, stream = body.partition(b"\nstream\n")
        length = re.search(rb"/Length (\d+)", words)
        packed = stream.removesuffix(b"\nendstream")
        assert length is None or int(length[1]) == len(packed)
        found[number] = (words.decode("cp1252"), zlib.decompress(packed) if packed else b"")
    return found


def test_pdf_holds_the_drawing() -> None:
    """Numbers of the page, one point for 4/3 units, y upwards; pixels and text as they are."""
    objects = read_pdf(pdf(DRAWING))
    page = objects[3][0]
    width, height = 200 + 2 * MARGIN, 100 + MARGIN
    assert f"/MediaBox [0 0 {POINTS * width:.2f} {POINTS * height:.2f}]" in page
    lines = objects[6][1].decode("cp1252").splitlines()
    a, b, c, d, left, bottom = map(float, lines[0].split(" cm")[0].split())
    assert (b, c) == (0, 0)
    corners = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+) [ml]", lines[1])]
    assert [(a * x + left, d * y + bottom) for x, y in corners] == [
        (POINTS * (x + MARGIN), pytest.approx(POINTS * (height - MARGIN / 2 - y)))
        for x, y in ((10, 20), (40, 20), (40, 60), (10, 60))
    ]
    assert "0.839 0.271 0.239 rg" in lines[1]  # #d6453d
    assert lines[1].split()[-2] == "f"
    assert lines[2].split()[-2] == "S"
    image, pixels = objects[8]
    assert "/Width 5 /Height 3" in image
    assert pixels == np.rint(255 * PIXELS).astype("uint8").tobytes()
    assert r"(a \(b\) \\ ä ? <c>) Tj" in lines[4]
    end = re.search(r"([\d.]+) 95 Tm", lines[5])
    assert end is not None
    assert float(end[1]) == pytest.approx(195 - text_width("end", "tick"), abs=0.01)
    assert r"/Title (what \(it\) is)" in objects[7][0]


def test_raster_is_the_drawing() -> None:
    """Colours where the drawing has them, twice as large; text is as wide as the layout takes it to be, or narrower."""
    image = np.asarray(raster(DRAWING)).astype(int)
    assert image.shape == (SCALE * (100 + MARGIN), SCALE * (200 + 2 * MARGIN), 3)

    def at(x: float, y: float) -> list[int]:
        return image[round(SCALE * (y + MARGIN / 2)), round(SCALE * (x + MARGIN))].tolist()

    assert at(11, 21) == at(39, 59) == [0xD6, 0x45, 0x3D]
    assert at(8, 18) == at(42, 62) == [255, 255, 255]
    for row in range(3):
        for column in range(5):
            expected = np.rint(255 * PIXELS[row, column])
            assert np.abs(at(60 + 10 * column + 5, 50 + 10 * row + 5) - expected).max() <= 1
    assert (image[:, -SCALE * MARGIN + 4 :] == 255).all()
    dark = (image[SCALE * (85 + MARGIN // 2) :].min(2) < 128).any(0).nonzero()[0]
    assert dark.max() <= SCALE * (195 + MARGIN)
    title = dark[dark < SCALE * (150 + MARGIN)]
    assert title.max() <= SCALE * (5 + text_width(DRAWING.parts[3].text, "title") + MARGIN) + 1


def test_transparent_shapes_blend() -> None:
    half = Drawing(20, 20, [Shape("against", box("against", 0, 0, 20, 20).paths, strength=0.5)])
    expected = np.rint((np.array([0x35, 0x67, 0xC4]) + 255) / 2)
    assert np.abs(np.asarray(raster(half))[20, 30] - expected).max() <= 1
    assert 'fill-opacity="0.50"' in svg(half)
    assert "/ca 0.500" in read_pdf(pdf(half))[3][0]


@pytest.mark.parametrize("name", ["a.svg", "a.pdf", "a.png", "A.PNG"])
def test_the_name_says_the_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / name
    require_picture_file(path)
    write_picture(DRAWING, path)
    start = path.read_bytes()[:8]
    assert start.startswith({"svg": b"<svg", "pdf": b"%PDF-1.4", "png": b"\x89PNG"}[name.lower()[-3:]])
    if name.lower().endswith("png"):
        assert Image.open(path).size == (SCALE * 224, SCALE * 112)
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def test_what_cannot_be_written_is_said_before_any_work(tmp_path: Path) -> None:
    for name in ("a.jpg", "picture", "a.svg.txt"):
        with pytest.raises(HeatproofError, match=rf"{name}.*must end in \.svg, \.pdf, \.png"):
            require_picture_file(tmp_path / name)
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(HeatproofError, match="is a folder; give the picture a name"):
        require_picture_file(tmp_path / "folder.svg")
    (tmp_path / "file").touch()
    with pytest.raises(HeatproofError, match=r"cannot write .*a\.png: .*Choose a folder that you may write to"):
        require_picture_file(tmp_path / "file" / "a.png")

"""Cases under many explainers: the drawing says what the numbers say."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import heatproof
from heatproof.errors import HeatproofError
from heatproof.report.drawing import Drawing, Panel, Shape, Text, text_width
from heatproof.report.gallery import gallery, overlay, round_step, tile_size
from heatproof.report.svg import svg
from heatproof.story import Case, Words

SVG = "{http://www.w3.org/2000/svg}"


def labels(text: str) -> list[str]:
    """What is written in normal size: titles, headings and names."""
    found = ElementTree.fromstring(text).iter(f"{SVG}text")
    return [(element[0].tail if len(element) else element.text) or "" for element in found if not is_small(element)]


def is_small(element: ElementTree.Element) -> bool:
    return element.get("class") == "tick"


def corners(element: ElementTree.Element) -> list[tuple[float, float]]:
    """The points of a path of steps M, L, H and V, all to absolute places."""
    x = y = 0.0
    found = []
    for letter, numbers in re.findall(r"([MLHV])([^MLHVz]+)", element.get("d", "")):
        given = [float(number) for number in numbers.split()]
        x = x if letter == "V" else given[0]
        y = y if letter == "H" else given[-1]
        found.append((x, y))
    return found


def make_case(shape: tuple[int, ...] = (3, 6, 8), names: int = 2, title: str = "a") -> Case:
    rng = np.random.default_rng(0)
    truth = np.zeros(shape[1:], dtype=bool)
    truth[tuple(slice(size // 3, size // 2 + 1) for size in shape[1:])] = True
    heats = {f"method_number_{i}": rng.normal(size=(1, *shape[1:])) for i in range(names)}
    return Case(title, rng.uniform(size=shape), heats, truth)


def test_signals_are_strips(tmp_path: Path) -> None:
    """A row for every explainer, both quantities where both are explained; drawn where the relevance is."""
    path = heatproof.show("svea", "test-0011", explainers=["gradient", "oracle"], target="both", out=tmp_path / "a.svg")
    text = path.read_text(encoding="utf-8")
    names = ["gradient, probability", "gradient, logit", "oracle"]
    assert labels(text) == ["svea test-0011, class 7 explained", *names]
    last = list(ElementTree.fromstring(text).iter(f"{SVG}g"))[-1]
    kinds = {kind: [element for element in last if element.get("class") == kind] for kind in ("truth", "for", "mark")}
    (truth,), (mark,) = kinds["truth"], kinds["mark"]
    left, right = (end(x for x, _ in corners(truth)) for end in (min, max))
    assert kinds["for"]
    for element in kinds["for"]:
        assert all(left <= x <= right for x, _ in corners(element))
    # The region is 12 of 40 points, and the strip 520 wide.
    width = max(x for x, _ in corners(mark)) - min(x for x, _ in corners(mark))
    assert width == pytest.approx(520 * 12 / 40, abs=0.02)


def test_a_mark_is_the_region_that_is_scored(tmp_path: Path) -> None:
    """Where the box begins is `roe_start` of a run's own rows."""
    run = heatproof.run("svea", explainers="gradient", target="logit", limit=60, out=tmp_path / "run")
    starts = run.scores().filter(metric="roe_start")
    case = next(iter(run.story.examples))
    (start,) = starts.filter(case=case)["value"].to_list()
    path = heatproof.show("svea", case, explainers="gradient", limit=60, out=tmp_path / "a.svg")
    (mark,) = [e for e in ElementTree.parse(path).iter(f"{SVG}path") if e.get("class") == "mark"][:1]
    assert min(x for x, _ in corners(mark)) == pytest.approx(190 + 520 * start / 40, abs=0.02)


def test_pictures_are_tiles_red_for_and_blue_against() -> None:
    """The strongest positive pixel is red, the strongest negative one of the same size blue, nothing stays grey."""
    inputs = np.full((3, 6, 8), 0.5)
    heat = np.zeros((1, 6, 8))
    heat[0, 1, 2], heat[0, 4, 5] = 2.0, -2.0
    text = svg(gallery([Case("a < b", inputs, {"grad_cam": heat})]))
    assert labels(text) == ["a < b", "input", "grad_cam"]
    tiles = [element.get("href", "") for element in ElementTree.fromstring(text).iter(f"{SVG}image")]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(tiles[1].split(",")[1]))))
    assert pixels.shape == (6, 8, 3)
    red, blue, grey = pixels[1, 2].astype(int), pixels[4, 5].astype(int), pixels[0, 0]
    assert red[0] > 200 > 80 > red[2]
    assert blue[2] > 180 > 80 > blue[0]
    assert len(set(grey.tolist())) == 1
    assert np.allclose(overlay(inputs, 0 * heat[0]), 0.6)


def test_several_cases_are_rows_and_explainers_columns() -> None:
    """Names stand once, titles over each row; every panel of a column begins at the same x, of a row at the same y."""
    for shape, before in (((3, 6, 8), ["input"]), ((1, 40), [])):
        cases = [make_case(shape, 3, title) for title in ("first", "second")]
        drawing = gallery(cases, heading="how they were picked")
        written = labels(svg(drawing))
        assert written[0] == "how they were picked"
        assert "".join(written[1:-2]) == "".join([*before, *cases[0].heatmaps])
        assert written[-2:] == ["first", "second"]
        panels = [part for part in drawing.parts if isinstance(part, Panel)]
        places = [frame_of(panel) for panel in panels]
        rows, columns = 2, 3 + len(before)
        assert len(places) == rows * columns
        assert len({x for x, *_ in places}) == columns
        assert len({y for _, y, *_ in places}) == rows


def frame_of(panel: Panel) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a panel's frame."""
    (frame,) = [part for part in panel.parts if isinstance(part, Shape) and part.kind == "frame"]
    (points,) = frame.paths
    (left, top), (right, bottom) = points[0], points[2]
    return left, top, right, bottom


def extent(part: Text) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text; letters are not higher than three quarters of the size."""
    shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[part.anchor] * text_width(part.text, part.kind)
    left, size = part.x - shift, 10 if part.kind == "tick" else 12
    return left, part.y - 0.75 * size, left + text_width(part.text, part.kind), part.y


@pytest.mark.parametrize("shape", [(1, 40), (2, 500), (3, 64, 64), (3, 20, 200), (1, 200, 20)])
@pytest.mark.parametrize("names", [1, 4, 12])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_nothing_overlaps_or_is_cut_off(shape: tuple[int, ...], names: int, count: int) -> None:
    """No text lies on another or on a panel, and everything lies within the drawing."""
    long = "What number of objects are either small cyan cubes or tiny things behind the big brown metallic sphere? 3"
    cases = [make_case(shape, names, f"case-{i:06d}: {long}") for i in range(count)]
    first = cases[0].heatmaps
    first["method_number_0"][:] = 0.0  # type: ignore[index]
    words = Words(truth="where the digit's template lies", mark="the region of explanation (ROE)")
    drawing = gallery(
        cases, words, heading="svea: the worst 6 of 50 candidates, evenly from 1,000 cases, by Drop of lrp"
    )
    texts = [extent(part) for part in drawing.flat() if isinstance(part, Text)]
    panels = [frame_of(part) for part in drawing.parts if isinstance(part, Panel)]
    boxes = texts + panels
    for left, top, right, bottom in boxes:
        assert left >= -6
        assert right <= drawing.width + 6
        assert top >= 0
        assert bottom <= drawing.height
    for place, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_names_are_short_and_tell_what_they_are_short_for() -> None:
    name = "integrated_gradients:steps=20,baseline=0.463/0.460/0.453,rule=gauss_legendre,quantity=logit"
    case = Case("a", np.zeros((3, 8, 8)), {"ig": np.ones((1, 8, 8))}, full={"ig": name})
    text = svg(gallery([case]))
    assert f"<title>{name}</title>ig</text>" in text
    shown = labels(svg(gallery([Case("a", np.zeros((3, 8, 8)), {name: np.ones((1, 8, 8))})])))
    assert len(shown) == 5
    assert shown[2] == "integrated_gradients:"
    assert name.startswith("".join(shown[2:]).removesuffix("…"))
    assert shown[-1].endswith("…")


def test_what_cannot_be_seen_is_said() -> None:
    """A map that is all zero or not finite looks like nothing: the drawing says which."""
    for shape in ((1, 40), (3, 8, 8)):
        inputs = np.random.default_rng(0).uniform(size=shape)
        heats = {"zero": np.zeros(shape), "nan": np.full(shape, np.nan), "good": np.ones(shape)}
        for count in (1, 2):
            drawing = gallery([Case("a", inputs, heats)] * count)
            said = [part.text for part in drawing.flat() if isinstance(part, Text)]
            assert said.count("all zero") == said.count("not finite") == count


def test_the_key_explains_what_is_there() -> None:
    words = Words(favour="speaks for", against="speaks against", truth="the truth", mark="the region")
    heat = {"a": np.ones((1, 10))}
    signal, mask = np.arange(10.0)[None], np.arange(10) > 6

    def key(case: Case) -> list[str]:
        return [p.text for p in gallery([case], words).flat() if isinstance(p, Text) and p.kind == "tick"][-4:]

    assert key(Case("x", signal, heat))[-1:] == ["speaks for"]
    assert key(Case("x", signal, heat, mask, {"a": (2, 4)}))[-3:] == ["speaks for", "the truth", "the region"]
    assert key(Case("x", signal, {"a": np.linspace(-1, 1, 10)[None]}, mask & False))[-2:] == [
        "speaks for",
        "speaks against",
    ]


def test_axes_have_round_steps() -> None:
    for count, most in ((40, 13), (40, 3), (500, 8), (7, 20), (10_000, 4)):
        step = round_step(count, most)
        assert str(step).rstrip("0") in ("1", "2", "5")
        assert count / step <= most
        smaller = {"1": step // 2, "2": step // 2, "5": 2 * step // 5}[str(step).rstrip("0")]
        assert step == 1 or count / smaller > most


def test_tiles_keep_proportions_and_stay_small() -> None:
    for height, width in ((64, 64), (40, 400), (400, 40), (3, 1000), (480, 320)):
        across, down = tile_size(Case("a", np.zeros((3, height, width)), {}), 150)
        assert across <= 300
        assert down <= 241
        assert min(across, down) == 1 or across / down == pytest.approx(width / height, rel=0.1)


def test_volumes_cannot_be_drawn() -> None:
    with pytest.raises(HeatproofError, match="not of 3 space dimensions"):
        gallery([Case("a", np.zeros((1, 2, 2, 2)), {})])


def test_a_drawing_without_parts_is_white() -> None:
    assert "<rect" in svg(Drawing(10, 10, []))

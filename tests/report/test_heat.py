"""Relevance as small files. Reference: the relevance itself, and SciPy's rank correlation."""

from __future__ import annotations

from io import BytesIO
from itertools import combinations

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr

from heatproof.report.heat import AGAINST, FOR, STEPS, ZERO, disagreement, flaw, heat_png, letters, shrunk
from heatproof.report.shelf import Shelf, webp


def decoded(png: bytes) -> np.ndarray:
    """The heat that a picture shows, between -1 and 1: its opacity, with the sign of its colour."""
    pixels = np.asarray(Image.open(BytesIO(png)).convert("RGBA")).astype(float)
    red = (pixels[:, :, :3] == FOR).all(2)
    blue = (pixels[:, :, :3] == AGAINST).all(2)
    assert (red | blue).all()
    return np.where(red, 1, -1) * pixels[:, :, 3] / 255


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("shape", [(8, 8), (5, 9), (1, 1)])
def test_a_png_shows_the_relevance_to_one_step(shape, scale):
    heat = np.random.default_rng(3).normal(size=shape) * scale
    peak = np.quantile(np.abs(heat), 0.99)
    assert decoded(heat_png(heat)) == pytest.approx(np.clip(heat / peak, -1, 1), abs=0.5 / STEPS + 1 / 255)


def test_zero_is_not_seen_and_signs_have_their_colours():
    heat = np.array([[2.0, 0.0, -1.0]])
    pixels = np.asarray(Image.open(BytesIO(heat_png(heat))).convert("RGBA"))
    assert tuple(pixels[0, 0]) == (*FOR, 255)
    assert pixels[0, 1, 3] == 0
    assert tuple(pixels[0, 2, :3]) == AGAINST
    assert 0.4 < pixels[0, 2, 3] / 255 < 0.6


@pytest.mark.parametrize("heat", [np.zeros((4, 4)), np.full((4, 4), np.nan), np.full((4, 4), np.inf)])
def test_what_has_nothing_to_show_shows_nothing(heat):
    assert (decoded(heat_png(heat)) == 0).all()
    assert set(letters(heat.ravel())) == {chr(ZERO)}
    assert flaw(heat) == ("not finite" if np.isnan(heat).any() or np.isinf(heat).any() else "all zero")
    assert flaw(heat + np.eye(4)) == ("" if np.isfinite(heat).all() else "not finite")


def test_a_png_is_one_byte_a_pixel_with_its_colours_in_a_palette():
    image = Image.open(BytesIO(heat_png(np.random.default_rng(0).normal(size=(128, 128)))))
    assert image.mode == "P"
    assert len(image.getcolors()) == 2 * STEPS + 1
    smooth = np.add.outer(np.linspace(-1, 1, 128), np.linspace(0, 1, 128))
    assert len(heat_png(smooth)) < 3000


def test_letters_are_steps_of_the_largest():
    heat = np.random.default_rng(1).normal(size=40)
    found = np.array([(ord(letter) - ZERO) / STEPS for letter in letters(heat)])
    assert found == pytest.approx(heat / np.abs(heat).max(), abs=0.5 / STEPS)
    assert not set(letters(heat)) & set("<>&\"'")


def test_smaller_pictures_are_means():
    heat = np.random.default_rng(2).normal(size=(8, 12))
    assert shrunk(heat, 12) is heat
    blocks = heat.reshape(4, 2, 6, 2).mean((1, 3))
    assert shrunk(heat, 6) == pytest.approx(blocks, abs=1e-6)


def test_disagreement_is_that_of_ranks_with_ties():
    random = np.random.default_rng(4)
    maps = np.maximum(random.normal(size=(5, 60)), 0)
    expected = 1 - np.mean([spearmanr(a, b)[0] for a, b in combinations(maps, 2)])
    assert disagreement(maps) == pytest.approx(expected)
    useless = np.stack([np.zeros(60), np.full(60, np.nan)])
    assert disagreement(np.concatenate([maps, useless])) == pytest.approx(expected)
    assert disagreement(maps[:1]) is None
    assert disagreement(useless) is None
    assert disagreement(np.stack([maps[0], 3 * maps[0] + 1])) == pytest.approx(0, abs=1e-9)


def test_the_same_picture_is_stored_once(tmp_path):
    page, folder = Shelf(None), Shelf(tmp_path / "report_files" / "r1")
    first, second = webp(np.zeros((4, 4, 3))), webp(np.ones((4, 4, 3)))
    for shelf in (page, folder):
        assert [shelf.put(content, f"{n}.webp") for n, content in enumerate((first, second, first))] == [0, 1, 0]
    assert page.addresses[0].startswith("data:image/webp;base64,")
    assert folder.addresses == ["report_files/r1/0.webp", "report_files/r1/1.webp"]
    assert (tmp_path / folder.addresses[1]).read_bytes() == second


def test_large_pictures_are_no_longer_than_said():
    assert Image.open(BytesIO(webp(np.zeros((300, 600, 3)), 128))).size == (128, 64)

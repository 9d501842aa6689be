"""One case under many explainers: the drawing says what the numbers say."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import heatproof
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.report.gallery import Case, gallery, overlay

SVG = "{http://www.w3.org/2000/svg}"


def labels(text: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(text).iter(f"{SVG}text")]


def test_signals_are_strips(tmp_path: Path) -> None:
    """A row for every explainer, both quantities where both are explained; drawn where the relevance is."""
    path = heatproof.show("svea", "test-0011", explainers=["gradient", "oracle"], target="both", out=tmp_path / "a.svg")
    text = path.read_text(encoding="utf-8")
    names = ["gradient, probability", "gradient, logit", "oracle"]
    assert labels(text) == ["svea test-0011, class 7 explained", *names]
    last = list(ElementTree.fromstring(text).iter(f"{SVG}svg"))[-1]
    truth = next(element for element in last if element.get("class") == "truth")
    heat = [element for element in last if element.get("class") == "for"]
    assert heat
    start, length = float(truth.get("x", "")), float(truth.get("width", ""))
    for path_element in heat:
        for piece in (path_element.get("d") or "").split("M")[1:]:
            assert start <= float(piece.split()[0]) < start + length


def test_pictures_are_tiles_red_for_and_blue_against() -> None:
    """The strongest positive pixel is red, the strongest negative one of the same size blue, nothing stays grey."""
    inputs = np.full((3, 6, 8), 0.5)
    heat = np.zeros((1, 6, 8))
    heat[0, 1, 2], heat[0, 4, 5] = 2.0, -2.0
    text = gallery(Case("a < b", inputs), {"grad_cam": heat})
    assert labels(text) == ["a < b", "input", "grad_cam"]
    tiles = [element.get("href", "") for element in ElementTree.fromstring(text).iter(f"{SVG}image")]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(tiles[1].split(",")[1]))))
    assert pixels.shape == (6, 8, 3)
    red, blue, grey = pixels[1, 2].astype(int), pixels[4, 5].astype(int), pixels[0, 0]
    assert red[0] > 200 > 80 > red[2]
    assert blue[2] > 180 > 80 > blue[0]
    assert len(set(grey.tolist())) == 1
    assert np.allclose(overlay(inputs, 0 * heat[0]), 0.6)


def test_volumes_cannot_be_drawn() -> None:
    with pytest.raises(HeatproofError, match="not of 3 space dimensions"):
        gallery(Case("a", np.zeros((1, 2, 2, 2))), {})


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    runner = CliRunner()
    with pytest.raises(HeatproofError, match="svea has no case 'test-9999'; its cases are called like"):
        runner.invoke(app, ["show", "svea", "--case", "test-9999"], catch_exceptions=False)
    arguments = ["--case", "test-0001", "--explainers", "lrp", "--out", str(tmp_path / "b.svg")]
    drawn = runner.invoke(app, ["show", "svea", *arguments])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "b.svg").is_file()

"""Layouts and randomised models stand on the page of a run, with their numbers."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import heatproof
from heatproof.errors import HeatproofError
from heatproof.experiments.focus_sections import group_table, layout_section, mean_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("focus") / "r"
    return heatproof.run("focus", explainers=["grad_cam", "random"], per_class=1, out=out)


def test_layouts_are_on_the_page(run, tmp_path):
    table = heatproof.focus.layout("oracle", per_class=1, out=tmp_path / "l", page=run.folder)
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Where the targets lie: oracle" in page
    drawn = base64.b64encode((tmp_path / "l" / "layout.svg").read_bytes()).decode()
    assert f"data:image/svg+xml;base64,{drawn}" in page
    for group in table["group"].unique():
        assert f'<th scope="row">{group}</th>' in page


def test_randomised_models_are_on_the_page(run, tmp_path):
    words = {"per_class": 1, "draws": 1, "only": "histogram"}
    heatproof.focus.randomise("grad_cam", out=tmp_path / "r", page=run.folder, **words)
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Trained against random: grad_cam" in page
    assert "where chance is 0.50" in page


def test_a_run_of_another_benchmark_is_refused_before_any_work(tmp_path):
    other = heatproof.run("svea", explainers=["random"], limit=50, out=tmp_path / "s")
    with pytest.raises(HeatproofError, match="is a run of svea; give --page the folder of a run of focus"):
        heatproof.focus.layout("oracle", out=tmp_path / "l", page=other.folder)
    assert not (tmp_path / "l").exists()


def test_means_leave_out_what_is_undefined(tmp_path):
    values = [0.25, float("nan"), 0.75, 1.0]
    assert mean_of(values) == pytest.approx(np.nanmean(values))
    assert mean_of([float("nan")]) is None
    (name, cells), (_, nothing) = group_table("t", "g", {"a": values, "b": [float("nan")]}).rows
    assert (name, cells[0].text, cells[3].value) == ("a", "3", pytest.approx(np.nanmedian(values)))
    assert [cell.text for cell in nothing] == ["0", "–", "–", "–", "–"]
    said = layout_section("x", {"top": [0.5], "left": [0.9]}, tmp_path / "layout.svg").blocks[0].text
    assert "between 0.50 (top) and 0.90 (left)" in said

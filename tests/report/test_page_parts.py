"""Parts of the page without a browser: axes, labels, data, policy, tables along axes, how a run was made."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import heatproof
from heatproof.api import report
from heatproof.cli.app import app
from heatproof.report.charts import SQUARE, agreement_matrix, agreement_rows
from heatproof.report.how import how_it_was_run
from heatproof.report.page import common_page
from heatproof.report.plots import SMALL, grouped, label_lines, round_axis
from heatproof.report.readings import SCALE, packed, readings, script_safe
from heatproof.results.agreement import Agreement
from heatproof.results.grids import kinds
from heatproof.results.tables import boards


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    explainers = ["gradient", "integrated_gradients:steps=4", "randomised:gradient", "random"]
    return heatproof.run("svea", explainers=explainers, limit=100, out=tmp_path_factory.mktemp("runs") / "svea")


@given(st.lists(st.floats(-1e4, 1e4, allow_subnormal=False), max_size=6), st.booleans())
def test_axes_hold_every_value_between_round_ticks(values, zero):
    axis = round_axis(values, 0.0, 100.0, zero=zero)
    assert all(-1e-6 <= axis(value) <= 100 + 1e-6 for value in values)
    assert 2 <= len(axis.ticks) <= 9
    assert axis(axis.ticks[0]) == pytest.approx(0)
    assert axis(axis.ticks[-1]) == pytest.approx(100)


@given(st.text("abc_:,=", min_size=1, max_size=60))
def test_labels_lose_nothing_that_has_room(name):
    lines = label_lines(name, 200.0)
    assert len(lines) <= 2
    if not any(line.endswith("…") for line in lines):
        assert "".join(lines) == name
    assert all(len(line) <= 188 / SMALL + 1 for line in lines)


def test_groups_are_bars_of_the_rows_that_are_in_them():
    assert grouped(["a", "ab", "b", "", "c", "c"]) == {"a": [(0, 1)], "b": [(1, 2)], "c": [(4, 5)]}
    assert grouped(["a", "b", "ab", "a"]) == {"a": [(0, 0), (2, 3)], "b": [(1, 2)]}


def test_many_readings_stand_each_against_the_first():
    """A matrix of so many would have names over each other."""
    names = ["all", *(f"part:<{k}>" for k in range(1, 20))]
    matrix = [[None if column == 7 else 1 - column / 20 for column in range(20)] for _ in names]
    drawn = agreement_rows(Agreement("subset", names, 5, matrix, 0.5, 0.4, 0.6, 0.1, ("all", "part:<19>")), "Orders")
    assert drawn.count('class="label') == 19
    assert drawn.count('class="dot') == 18, "an order in which all tie has no correlation"
    assert "all and part:&lt;19&gt;: 0.05" in drawn
    assert "<1>" not in drawn


@pytest.mark.parametrize("count", [3, SQUARE])
def test_names_beside_a_matrix_do_not_overlap(count):
    names = [f"class:{n}" for n in range(count)]
    square = [[1.0] * count for _ in names]
    agreement = Agreement("subset", names, 5, square, 0.9, 0.8, 1.0, 0.5, ("class:0", "class:1"))
    drawn = str(agreement_matrix(agreement, "parts"))
    rows = [float(y) for y in re.findall(r'class="label" x="[^"]+" y="([^"]+)"', drawn)]
    ticks = [float(x) for x in re.findall(r'class="tick" x="([^"]+)"', drawn)]
    assert len(rows) == count
    assert min(below - above for above, below in pairwise(rows)) >= 14
    assert min(right - left for left, right in pairwise(ticks)) >= 14
    assert float(drawn.partition('viewBox="0 0 ')[2].split('"')[0].split()[1]) > rows[-1]


def test_parts_of_the_cases_stand_by_kind():
    found = kinds(["all", "large", "objects:3", "objects:4"])
    assert found == {
        "": {"all": "all", "large": "large"},
        "objects": {"all": "all", "3": "objects:3", "4": "objects:4"},
    }


def test_the_data_is_the_leaderboard(run):
    data, table = readings(run, boards(run)), run.leaderboard()
    lines = {name: unpacked(column) for name, column in data["lines"].items()}
    for place, row in enumerate(table.iter_rows(named=True)):
        for axis in ("metric", "ground_truth", "pooling", "subset", "target", "model"):
            assert data[axis][lines[axis][place]] == row[axis]
        assert data["explainers"][lines["explainer"][place]][1] == row["explainer"]
        assert lines["mean"][place] / SCALE == pytest.approx(row["mean"], abs=1e-5)
        whole = lines["mean"][place] if lines["whole"][place] is None else lines["whole"][place]
        assert whole / SCALE == pytest.approx(row["mean_all"], abs=1e-5)


def unpacked(column):
    """As the page's script does it."""
    if isinstance(column, list):
        return column
    values, counts = column["runs"][::2], column["runs"][1::2]
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


@pytest.mark.parametrize("column", [[], [1], [1, 2, 3], [0] * 9, [None, None, None, 4, 4, 4, 4], [1, 1, 2, 2]])
def test_a_column_is_packed_where_that_takes_less(column):
    found = packed(column)
    assert unpacked(found) == column
    assert found == column or len(found["runs"]) < len(column)


def test_nothing_in_the_data_can_end_its_element():
    hostile = {"name": "</script><script>alert(1)</script><!--\u2028"}
    text = script_safe(hostile)
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == hostile


def test_the_policy_names_the_scripts_by_hash(run):
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1).replace("&#39;", "'")
    assert "default-src 'none'" in policy
    for script in re.findall(r"<script>(.*?)</script>", page, re.DOTALL):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy


def test_a_floor_with_a_target_is_a_baseline_on_its_board(run):
    for board in boards(run):
        named = {line.short: line.is_baseline for line in board.lines if line.target in (board.target, "")}
        assert named["randomised:gradient"]
        assert not named["gradient"]
        assert [line.is_baseline for line in board.lines] == sorted(line.is_baseline for line in board.lines)


def test_how_it_was_run_can_be_repeated(run):
    how = how_it_was_run(run)
    assert how.command.startswith("heatproof.run('svea', explainers=['gradient', 'integrated_gradients:steps=4'")
    assert "limit=100" in how.command
    again = eval(how.command[: -len(")")] + ", out=" + repr(str(run.folder)) + ")")
    assert again.leaderboard().equals(run.leaderboard())
    steps = next(used for used in how.explainers if used.short == "integrated_gradients")
    assert "steps=4" in steps.parameters
    assert "Only about 100 of the signals were taken (limit)." in how.missing


def test_the_page_over_several_runs_lies_beside_them(run, toy, tmp_path, monkeypatch):
    small = heatproof.run(toy(), explainers=["gradient", "random"], out=run.folder.parent / "toy")
    assert common_page([run, small]) == run.folder.parent / "report.html"
    assert report([run.folder, small.folder]) == run.folder.parent / "report.html"
    monkeypatch.chdir(run.folder.parent)
    result = CliRunner().invoke(app, ["report", "svea", "toy"], catch_exceptions=False)
    assert result.output.splitlines()[-1] == "page   report.html"
    for sentence in (*run.verdict.sentences, *small.verdict.sentences):
        assert f"  {sentence}" in result.output.splitlines()
    named = CliRunner().invoke(app, ["report", "svea", "--out", str(tmp_path / "x.html")], catch_exceptions=False)
    assert named.output.splitlines()[-1] == f"page   {tmp_path / 'x.html'}"
    assert named.output.splitlines()[-1 - len(run.verdict.sentences) : -1] == list(run.verdict.sentences)


def test_a_line_says_what_the_verdict_says_of_floors(run):
    """Not to beat a floor surely is not yet to be no better than it."""
    for board in boards(run):
        means = {line.short: line.cells["roe_accuracy"].whole for line in board.lines if "roe_accuracy" in line.cells}
        for line in board.lines:
            if line.entrant is not None and (floor := line.entrant.no_better_than):
                ahead = means[line.short] > means[floor]
                assert line.floor == f"{'not surely' if ahead else 'no'} better than {floor}"
            else:
                assert line.floor == ""

"""Tables in a terminal: whatever its width, nothing is cut and nothing is missing."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from heatproof.cli.terminal import say, show_table

words = st.text(st.sampled_from("abcdef_=:"), min_size=1, max_size=14)
cells = st.lists(words, min_size=1, max_size=3).map(" ".join)


def printed(heads, rows, width, **how):
    file = io.StringIO()
    show_table(heads, rows, on=Console(file=file, width=width), **how)
    return file.getvalue()


@given(st.lists(cells, min_size=2, max_size=7), st.data(), st.integers(40, 100))
def test_every_word_is_there_at_any_width(heads, data, width):
    rows = data.draw(st.lists(st.lists(cells, min_size=len(heads), max_size=len(heads)), min_size=1, max_size=5))
    right = data.draw(st.sets(st.integers(1, len(heads) - 1)))
    shown = printed(heads, rows, width, right=right)
    assert "…" not in shown
    found = shown.split()
    for word in " ".join([*heads, *(cell for row in rows for cell in row[1:])]).split():
        assert word in found or len(word) > width // 2
    if all(len(row[place]) <= width // 2 - 4 for row in [heads, *rows] for place in range(len(heads))):
        assert max(map(len, shown.splitlines())) <= width


def test_a_wide_table_is_folded_by_columns_and_names_stay():
    heads = ["name", "kind", *(f"column {k}" for k in range(6))]
    rows = [["first", "x", *["12.3 ±4.5 (22 % undefined)"] * 6], None, ["second", "y", *["1.0"] * 6]]
    shown = printed(heads, rows, 80, right=range(2, 8), names=2, title="A [/bold] title")
    assert "A [/bold] title" in shown
    blocks = shown.count("name")
    assert blocks == shown.count("kind") == shown.count("second") > 1
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("12.3 ±4.5 (22 % undefined)") == 6
    assert printed(heads, rows, 400, right=range(2, 8), names=2).count("name") == 1


def test_say_shows_what_would_be_obeyed(capsys):
    say("a\x1b[2Jb \u202ec\x9bd", style="bold")
    say("a\x1b[2Jb [/bold] \ud800")
    shown = capsys.readouterr().out
    assert "\x1b[2J" not in shown
    assert "a␛[2Jb" in shown
    assert "[/bold] \\ud800" in shown


@pytest.mark.parametrize(
    "words",
    [["list", kind] for kind in ("explainers", "metrics", "poolings", "benchmarks", "models")]
    + [["show", "svea", "--layers"]],
    ids=" ".join,
)
def test_commands_fit_into_80_columns(words):
    """Whole: every word that 200 columns show is there in 80."""

    def run(columns):
        return subprocess.run(
            [sys.executable, "-c", "from heatproof.cli import main; main()", *words],
            capture_output=True, text=True, env=os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1"},
        ).stdout  # fmt: skip

    narrow, wide = run(80), run(200)
    table = [line for line in narrow.splitlines() if not line.startswith(("Parameters", "Any class", "Methods", "In "))]
    assert max(map(len, table)) <= 80
    assert "…" not in narrow
    assert set(wide.replace("─", "").split()) <= set(narrow.replace("─", "").split())


def test_no_number_goes_over_two_lines():
    """A long heading may; it used to squeeze the numbers of the columns beside it."""
    from types import SimpleNamespace

    from heatproof.cli.run import show_board

    line = SimpleNamespace(short="randomised:grad_cam", is_baseline=False)
    columns = [
        ("Focus ↑", lambda _: "100.0 ±0.0"),
        ("Focus, best pooling ↑", lambda _: "67.2 ±10.4"),
        ("skill", lambda _: "-0.04 (-0.18 to 0.00)"),
    ]
    board = SimpleNamespace(lines=[line] * 3, heading="T", columns=lambda _: columns)
    for width in (60, 72, 80, 90, 120):
        file = io.StringIO()
        show_board(board, on=Console(file=file, width=width))
        assert file.getvalue().count("-0.04 (-0.18 to 0.00)") == 3
        assert max(map(len, file.getvalue().splitlines())) <= width

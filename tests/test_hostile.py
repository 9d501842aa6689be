"""Text from data cannot act: no markup, script, terminal escape or formula gets out, through a whole run."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import bibtexparser
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pylatexenc.latex2text import LatexNodes2Text

import heatproof
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.harmless import (
    FORMULA,
    guarded,
    latex,
    markdown_code,
    markdown_text,
    one_line,
    spreadsheet,
    unguarded,
    visible,
)
from heatproof.mosaics.pictures import find_pictures
from hostile import ACTING, CLASSES, EXPLAINER, hostile_run
from tiny_datasets import edit_json, write_world


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATPROOF_HOME", str(tmp_path_factory.mktemp("home")))
        made = hostile_run(tmp_path_factory.mktemp("hostile"))
        heatproof.focus.bias(made.folder, EXPLAINER, below=0.9, level=0.9)
    return made


def command(*words, cwd=None, **env):
    return subprocess.run(
        [sys.executable, "-c", "from heatproof.cli import main; main()", *map(str, words)],
        capture_output=True, text=True, cwd=cwd, env=os.environ | {"NO_COLOR": "1", "COLUMNS": "80"} | env,
    )  # fmt: skip


class Tags(HTMLParser):
    """The tags and attributes of a page as a browser would see them, scripts apart."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.found += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.found += [f"{tag} {value}" for name, value in attrs if name in ("href", "src") and "script" in str(value)]


def read_latex(text):
    """What a reader sees; pylatexenc knows neither \\texttt nor \\textasciigrave."""
    known = text.replace("\\texttt", "\\textit").replace("\\textasciigrave{}", "`")
    return LatexNodes2Text().latex_to_text(known).replace("ˆ", "^").replace("˜", "~").replace("‘", "`")


def assert_harmless_page(text):
    for acting in ACTING:
        assert acting not in text, acting
    tags = Tags()
    tags.feed(text)
    assert tags.found == []


def assert_harmless_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            for cell in row:
                number = cell.lstrip("-").replace(".", "", 1).replace("e-", "", 1)
                assert not cell.startswith(FORMULA) or number.isdigit(), cell
                assert cell == visible(cell)


def test_the_scores_keep_the_names_as_they_are(run):
    assert set(run.scores()["target_class"].drop_nulls()) == set(CLASSES)
    assert EXPLAINER in set(run.leaderboard()["explainer"])
    again = heatproof.load_run(run.folder)
    assert set(again.leaderboard()["explainer"]) == set(run.leaderboard()["explainer"]), (
        "read back from leaderboard.csv"
    )
    assert again.failures() == []


def test_pages(run):
    page = run.report().read_text(encoding="utf-8")
    assert_harmless_page(page)
    assert "&lt;b onmouseover" in page, "it is there, as text"
    sheets = list(run.folder.glob("sections/*/*/pair.html"))
    assert len(sheets) == 1
    assert_harmless_page(sheets[0].read_text(encoding="utf-8"))
    html = run._repr_html_()
    assert_harmless_page(html)
    assert "&lt;b onmouseover" in html


def test_tables_for_spreadsheets(run):
    files = [*run.folder.rglob("*.csv")]
    assert {"leaderboard.csv", "statistics.csv", "pairs.csv", "classes.csv"} <= {path.name for path in files}
    for path in files:
        assert_harmless_csv(path)
    exported = list(csv.DictReader(io.StringIO(run.export("csv"))))
    assert spreadsheet(EXPLAINER) in {row["explainer"] for row in exported}
    assert all(not cell.startswith(("=", "+", "@")) for row in exported for cell in row.values())


@pytest.mark.parametrize("made", ["leaderboard.md", "markdown", "notebook"])
def test_markdown(run, made):
    """Reference: a CommonMark parser with tables and raw HTML. Names come out as code; nothing else is made."""
    if made == "leaderboard.md":
        text = (run.folder / made).read_text(encoding="utf-8")
    else:
        text = run.export("markdown") if made == "markdown" else run._repr_markdown_()
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or []]
    assert not [
        token for token in (*tokens, *inline) if token.type in ("html_block", "html_inline", "link_open", "image")
    ]
    codes = {token.content for token in inline if token.type == "code_inline"}
    assert one_line(EXPLAINER).replace("`", "'") in codes
    heads = [token for token in tokens if token.type == "thead_open"]
    assert heads, "the tables are tables"
    assert visible(text) == text


def test_latex_and_references(run):
    """References: parsers of LaTeX and BibTeX of others."""
    text = run.export("latex")
    assert one_line(EXPLAINER) in read_latex(text)
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    separators = {line.replace(r"\&", "").count("&") for line in rows}
    assert len(separators) == 1, "every row has as many cells"
    for macro in ("\\input", "\\write", "\\csname"):
        assert macro not in text
    library = bibtexparser.parse_string(run.export("bibtex"))
    assert not library.failed_blocks
    assert {
        "ariasduart2022focus",
        "ariasduart2023confusion",
        "cedro2026scaling",
        "simonyan2014saliency",
        "heatproof",
    } == {entry.key for entry in library.entries}


def test_the_terminal(run, tmp_path):
    """Nothing that a terminal obeys, and no error where markup is written in names."""
    shutil.copytree(run.folder, tmp_path / "other")
    for words in (
        ["report", run.folder],
        ["focus", "bias", run.folder, "--explainer", EXPLAINER, "--below", "0.9", "--level", "0.9"],
        ["compare", run.folder, tmp_path / "other", "--out", tmp_path / "compared"],
        ["focus", "table", run.folder, "--out", tmp_path / "table"],
        ["export", run.folder],
        ["publish", run.folder, "--out", tmp_path / "site"],
        ["focus", "bias", run.folder, "--target", "\x1b[2J", "--explainer", EXPLAINER],
    ):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == (2 if "\x1b[2J" in words else 0), done.stderr
        assert "Traceback" not in done.stderr
        for acting in ("\x1b", "\x07", "\u202e"):
            assert acting not in done.stdout + done.stderr, words
    assert_harmless_page((tmp_path / "compared" / "compare.html").read_text(encoding="utf-8"))
    assert_harmless_csv(tmp_path / "compared" / "compare.csv")
    for path in (tmp_path / "site").rglob("*.html"):
        assert_harmless_page(path.read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "site" / "leaderboard.json").read_text())["runs"][0]["tables"]
    llms = (tmp_path / "site" / "llms.txt").read_text(encoding="utf-8")
    assert not [t for t in MarkdownIt("commonmark", {"html": True}).parse(llms) if t.type == "html_block"]


def test_figures_take_any_name(run):
    """matplotlib would read what stands between dollars as a formula."""
    warnings.filterwarnings("ignore", "Glyph", UserWarning)  # of the picture that stands for ESC
    for kind in ("distribution", "ranks", "pareto"):
        run.figure(kind).savefig(io.BytesIO(), format="png")


def test_questions(tmp_path):
    """Question texts of a data set, one of them with half a character, through a scored run."""
    world = write_world(tmp_path / "world", scenes=3, per_image=4)
    texts = ["=1+1", "<script>window.hacked=1</script>?", "[/bold] \x1b[2J?", "half \ud800?"]

    def ask(content):
        for place, question in enumerate(content["questions"]):
            question["question"] = texts[place % len(texts)]

    (file,) = (path for path in world.rglob("*simple*questions*.json"))
    edit_json(file, ask)
    make_masks(open_dataset(world), (24, 24))
    maps = tmp_path / "maps.npz"
    import numpy as np

    index = [question.index for question in open_dataset(world).questions("simple")]
    np.savez(maps, **{str(k): np.random.default_rng(k).random((24, 24)) for k in index})
    done = heatproof.evaluate(maps, dataset=world, out=tmp_path / "r", poolings=["max_norm"], name="=1+1")
    assert set(done.scores()["question"]) == {*texts[:3], "half \\ud800?"}
    assert_harmless_page((done.folder / "report.html").read_text(encoding="utf-8"))
    assert_harmless_csv(done.folder / "leaderboard.csv")
    assert "=1+1" in set(heatproof.load_run(done.folder).leaderboard()["explainer"])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such file names")
def test_folders_whose_names_are_no_text(tmp_path):
    from PIL import Image

    for name in (b"plain", b"half\xff", b"\x1b[2J"):
        folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        folder.mkdir()
        Image.new("RGB", (20, 20)).save(folder / "a.png")
    found = find_pictures(tmp_path)
    assert set(found.classes) == {"plain", "half\\xff", "\x1b[2J"}
    pl.Series(found.classes)  # which takes text only


texts = st.text(st.characters(), max_size=40)


@given(texts)
def test_nothing_hidden_is_left(text):
    """Reference: Python's own idea of what can be printed, but for blanks and what other scripts are joined with."""
    shown = one_line(text)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert all(letter.isprintable() or letter.isspace() or ord(letter) > 0xA0 for letter in shown)
    assert not any(letter in shown for letter in "\n\r\t\x1b\x9b\u202e\u2066")
    assert visible(visible(text)) == visible(text)


@given(texts)
def test_guards_come_off_again(text):
    plain = text.lstrip("'")
    assert unguarded(guarded(plain)) == plain
    assert not guarded(text).startswith(FORMULA)


@given(texts)
def test_markdown_of_any_text_is_that_text(text):
    """Reference: what a CommonMark parser makes of a cell and of a code span."""
    wanted = " ".join(one_line(text).split())
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    table = f"| a | b |\n| --- | --- |\n| x{markdown_text(text)}x | {markdown_code('x' + text)} |\n"
    tokens = parser.parse(table)
    cells = [token for token in tokens if token.type == "inline"][2:]
    assert len(cells) == 2
    first = "".join(child.content for child in cells[0].children)
    assert " ".join(first.split()) == " ".join(f"x{one_line(text)}x".split()) or "&" in text
    assert {child.type for child in cells[0].children} <= {"text", "text_special", "hardbreak", "em_open", "em_close"}
    (code,) = [child for child in cells[1].children if child.type == "code_inline"]
    assert " ".join(code.content.split()) == " ".join(f"x{wanted}".replace("`", "'").split())


@given(st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=40))
def test_latex_of_any_text_is_that_text(text):
    """Reference: pylatexenc, which reads LaTeX; it makes typographic quotes and dashes of some."""
    shown = read_latex("x" + latex(text) + "x")
    typographic = {"``": "“", "''": "”", "---": "—", "--": "–", "`": "‘", "'": "’", "!‘": "¡", "?‘": "¿"}
    expected = f"x{text}x"
    for plain, typed in typographic.items():
        expected, shown = expected.replace(typed, plain), shown.replace(typed, plain)
    assert "".join(shown.split()).replace("`", "'") == "".join(expected.split()).replace("`", "'")

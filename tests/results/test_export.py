"""Tables for papers and their references, against the leaderboard, the verdict, and parsers of others."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys

import bibtexparser
import pytest
from markdown_it import MarkdownIt

import heatproof
from heatproof.benchmarks import benchmarks
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.harmless import latex
from heatproof.metrics import metrics
from heatproof.results.bibliography import accented, reference, references
from heatproof.results.export import stacked
from heatproof.results.tables import Cell


def my_explainer(model, inputs, target):
    return inputs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    chosen = ["gradient", "gradient_x_input", "grad_cam", my_explainer, "random", "input_magnitude", "oracle"]
    out = tmp_path_factory.mktemp("run") / "r"
    return heatproof.run("svea", explainers=chosen, limit=150, out=out, jobs=1)


def lines(run, target, metric):
    board = run.leaderboard().filter(target=target, metric=metric, subset="all", pooling="")
    return {row["explainer"]: row for row in board.iter_rows(named=True)}


def test_numbers_are_the_leaderboards(run):
    rows = list(csv.DictReader(io.StringIO(run.export("csv"))))
    assert {row["explained"] for row in rows} == {"probability", "logit"}
    for row in rows:
        if row["kind"] != "method":
            continue
        for metric in ("roe_accuracy", "drop"):
            there = lines(run, row["explained"], metric)[row["explainer"]]
            assert float(row[metric]) == there["mean"]
            assert float(row[f"{metric}_half_interval"]) == pytest.approx((there["ci_high"] - there["ci_low"]) / 2)
            assert int(row[f"{metric}_n"]) == there["n"]
            published = row[f"{metric}_paper"]
            assert (float(published) if published else None) == there["reference"]


def test_the_best_is_marked_and_groups_are_those_of_the_verdict(run):
    """Methods that share a letter are those of which no pair differs after Holm; the best is the best by the table."""
    tables = {table["explained"]: table for table in json.loads(run.export("json"))["tables"]}
    for judged in run.verdict.contests:
        scores = {
            row["explainer"]: row["scores"][judged.metric]
            for row in tables[judged.target]["rows"]
            if row["kind"] == "method"
        }
        sign = 1 if run.story.metric[judged.metric].higher_is_better else -1
        means = {name: sign * score["mean_all"] for name, score in scores.items()}
        assert {name for name, score in scores.items() if score["best"]} == {
            name for name, mean in means.items() if mean == max(means.values())
        }
        for pair in judged.pairs:
            first, second = judged.entrants[pair.first], judged.entrants[pair.second]
            if first.explainer in scores and second.explainer in scores and pair.adjusted < 0.05:
                shared = set(scores[first.explainer]["groups"]) & set(scores[second.explainer]["groups"])
                assert not shared
        for entrant in judged.methods:
            floors = [place for place, other in enumerate(judged.entrants) if other.family == "floor"]
            place = judged.entrants.index(entrant)
            beats = [
                (pair := judged.pair(place, floor)).adjusted < 0.05 and sign * pair.difference > 0 for floor in floors
            ]
            assert bool(scores[entrant.explainer]["no_better_than"]) == (not all(beats))


def test_markdown_is_a_table_with_one_best_in_each_column(run):
    """Reference: a CommonMark parser."""
    tokens = MarkdownIt("commonmark").enable("table").parse(run.export("markdown"))
    tables = [place for place, token in enumerate(tokens) if token.type == "table_open"]
    assert len(tables) == 2
    body = tokens[tables[0] : tables[1]]
    rows, row = [], None
    for token in body:
        if token.type == "tr_open":
            rows.append(row := [])
        elif token.type == "inline" and row is not None:
            row.append(token)
    heads, *methods = rows[:8]
    assert heads[0].content == "method"
    roe = lines(run, "probability", "roe_accuracy")
    for row in methods:
        name = row[0].content.strip("*`")
        if name in roe:
            assert row[1].content.replace("*", "").startswith(f"{100 * roe[name]['mean']:.1f} ±")
    bold = [[place for place, row in enumerate(methods) if "**" in row[column].content] for column in (1, 3, 5)]
    assert [len(found) for found in bold] == [1, 1, 1]
    assert any("†" in row[1].content for row in methods)


def test_latex_is_whole(run):
    text = run.export("latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert text.count("{") == text.count("}"), "no name has braces here"
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert rule in text
    assert r"\texttt{gradient\_x\_input}" in text
    captions = [line for line in text.splitlines() if r"\caption" in line]
    for words in (
        "mean $\\pm$ half the 95 \\% interval",
        "cannot be told apart",
        "$\\dagger$: not surely better",
        "Bold",
    ):
        assert all(words in caption for caption in captions), words


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex (texlive-latex-base)")
def test_latex_fits_the_page(run, tmp_path):
    """SVEA's table is the widest: six columns, of which three are the paper's."""
    packages = r"\usepackage[utf8]{inputenc}\usepackage{booktabs,graphicx}"
    text = rf"\documentclass{{article}}{packages}\begin{{document}}{run.export('latex')}\end{{document}}"
    (tmp_path / "paper.tex").write_text(text, encoding="utf-8")
    said = subprocess.run(["pdflatex", "-interaction=nonstopmode", "paper.tex"], cwd=tmp_path, capture_output=True)
    assert said.returncode == 0, said.stdout.decode(errors="replace")[-2000:]
    assert b"Overfull" not in said.stdout


def test_latex_has_a_cell_under_every_heading(run):
    for table in run.export("latex").split(r"\toprule")[1:]:
        rows = [line for line in table.split(r"\bottomrule")[0].splitlines() if line.endswith(r" \\")]
        assert len({row.count(" & ") for row in rows}) == 1
    assert stacked("Mass accuracy ↑") == r"\shortstack[r]{Mass accuracy \\ $\uparrow$}"
    assert stacked("Drop_% ↓") == r"Drop\_\% $\downarrow$"


@pytest.mark.parametrize(
    ("ends", "text", "in_latex"),
    [
        ((0.0, 0.1), "0.0 +10.0/−0", r"0.0 +10.0/$\mathord{-}$0"),
        ((0.9, 1.0), "100.0 +0/−10.0", r"100.0 +0/$\mathord{-}$10.0"),
        ((0.3, 0.6), "50.0 ±15.0", r"50.0 $\pm$15.0"),
        ((0.5, 0.5), "50.0 ±0.0", r"50.0 $\pm$0.0"),
        ((None, None), "50.0", "50.0"),
    ],
)
def test_an_interval_of_one_side_says_which(ends, text, in_latex):
    """Half of an interval around a mean at its end would be wrong on both sides."""
    mean = {0.0: 0.0, 0.9: 1.0}.get(ends[0], 0.5)
    assert Cell(mean, *ends, n=20).text == text
    assert latex(text) == in_latex


def test_references_of_what_was_used(run):
    """Reference: a parser of BibTeX."""
    text = run.export("bibtex")
    library = bibtexparser.parse_string(text)
    assert not library.failed_blocks
    keys = {entry.key for entry in library.entries}
    assert {"sattarzadeh2021svea", "selvaraju2017gradcam", "shrikumar2016inputs", "heatproof"} <= keys
    assert "petsiuk2018rise" not in keys
    assert "% my_explainer" in text.partition("No reference is known for")[2]


def test_every_method_metric_and_benchmark_that_names_a_paper_has_a_reference():
    named = {cls.paper for _, cls in explainers.items() if cls.__module__.startswith("heatproof.")}
    named |= {metric.paper for name, metric in metrics.items() if name != "lateness"}
    named |= {cls.paper for _, cls in benchmarks.items() if cls.__module__.startswith("heatproof.")}
    assert {paper for paper in named if paper and reference(paper) is None} == set()


def test_the_bibliography_is_whole():
    keys = [entry["key"] for entry in references()]
    assert len(set(keys)) == len(keys)
    cites = [words for entry in references() for words in entry["cites"]]
    assert len(set(cites)) == len(cites)
    for entry in references():
        assert {"author", "title", "year"} <= set(entry), entry["key"]
        assert entry["year"] in entry["cites"][0]
        family = entry["author"].partition(",")[0]
        assert entry["cites"][0].startswith(family), entry["key"]
    assert accented("Müller, Víctor") == "M{\\\"u}ller, V{\\'i}ctor"


def test_the_command(run, tmp_path):
    def export(*words):
        command = [sys.executable, "-c", "from heatproof.cli import main; main()", "export", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True)

    printed = export(run.folder, "--to", "csv")
    assert printed.stdout == run.export("csv")
    written = export(run.folder, "--to", "latex", "--out", tmp_path / "deep" / "table.tex")
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "deep" / "table.tex").read_text(encoding="utf-8") == run.export("latex")
    wrong = export(run.folder, "--to", "latx")
    assert (wrong.returncode, "Did you mean 'latex'?" in wrong.stderr) == (2, True)
    with pytest.raises(HeatproofError, match="unknown format of a table 'word'"):
        run.export("word")


def test_a_run_that_has_no_verdict_says_so(run, tmp_path):
    import shutil

    shutil.copytree(run.folder, tmp_path / "old")
    (tmp_path / "old" / "verdict.json").unlink()
    old = heatproof.load_run(tmp_path / "old")
    with pytest.raises(HeatproofError, match=r"has no verdict\.json"):
        old.export("latex")
    assert old._repr_html_() is None
    assert old._repr_markdown_() is None


def test_a_run_shows_itself_in_a_notebook(run):
    html, markdown = run._repr_html_(), run._repr_markdown_()
    for sentence in run.verdict.sentences:
        assert sentence.split(":")[0].split("'")[0][:40] in html
        assert sentence[:30] in markdown
    assert html.count("<table>") == 2
    assert "<b>" in html
    assert "<script" not in html

"""The data of the cases explorer. Reference: the run's scores and files, and literal rasterisation."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from benchmarks.many_cases import Discs

import heatproof
from heatproof.report import cases as module
from heatproof.report.cases import explorer, longest_inline, outline_path, script_data
from heatproof.report.page import every_line
from heatproof.results.tables import boards
from run_files import forget


def made(run: heatproof.Run, page: Path | None = None):
    shown = boards(run)
    return explorer(run, every_line(shown), [board.target for board in shown if board.target], "r1", page)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    out = tmp_path_factory.mktemp("run") / "r"
    return heatproof.run(Discs(count=12), explainers="gradient,random,oracle", out=out)


@pytest.fixture(scope="module")
def data(run: heatproof.Run):
    return json.loads(made(run).data)


def test_scores_facts_and_shares_are_those_of_the_run(run, data):
    rows = {(r["explainer"], r["case"], r["metric"]): r for r in run.scores().iter_rows(named=True)}
    names = [metric["name"] for metric in data["metrics"]]
    assert names == ["mass_accuracy", "rank_accuracy"]
    masks = run.files.examples()["mask.disc"]
    for place, case in enumerate(data["cases"]):
        for method, scores in zip(data["methods"], case["scores"], strict=True):
            expected = [rows[method["full"], case["id"], name]["value"] for name in names]
            assert scores == pytest.approx([None if np.isnan(e) else e for e in expected], abs=1e-4)
        row = rows["random", case["id"], names[0]]
        assert case["facts"] == [row["kind"], "right" if row["correct"] else "wrong", f"{row['brightness']:.3g}"]
        assert case["share"] == pytest.approx(masks[place].mean(), abs=1e-4)
        assert case["title"] == run.story.examples[case["id"]]


def test_an_outline_encloses_its_mask():
    """Reference: the even-odd rule at the middle of every pixel, over all upright edges to its left."""
    random = np.random.default_rng(0)
    for mask in (random.random((9, 7)) < 0.5, np.zeros((3, 3), bool), np.ones((2, 4), bool)):
        inside = np.zeros(mask.shape, bool)
        x = y = 0
        for kind, numbers in re.findall(r"([Mhvz])([-\d ]*)", outline_path(mask)):
            if kind == "M":
                x, y = map(int, numbers.split())
                begin = x, y
            elif kind == "h":
                x += int(numbers)
            else:
                assert kind == "v" or begin[0] == x or begin[1] == y, "the way back is along one edge"
                to = y + int(numbers) if kind == "v" else begin[1]
                if kind == "v" or begin[0] == x:
                    inside[min(y, to) : max(y, to), x:] ^= True
                y = to
        assert (inside == mask).all()


@pytest.mark.parametrize(
    "text", ["</script>", "<!--<script>", "a & b", "\u2028\u2029", "ünï ☂", "]]>", "\\u003c", "\x00\x1b[31m"]
)
def test_data_cannot_end_its_element(text):
    written = str(script_data({"text": text}))
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == {"text": text}


def test_pictures_get_smaller_before_they_leave_the_page():
    assert longest_inline(24 * 15, 128, 128) >= 128
    assert longest_inline(24 * 15, 448, 448) == 128
    assert longest_inline(2000 * 15, 128, 128) is None
    assert 64 <= longest_inline(24 * 15, 128, 128, sharing=3) < 128


def test_what_the_page_has_no_room_for_lies_beside_it(run, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    monkeypatch.setattr(module, "INLINE", 0)
    beside = made(run, page)
    assert beside.has_files
    found = json.loads(beside.data)
    named = {address for address in found["files"] if address} | set(
        re.findall(r'href="(page_files/[^"]+)"', strip(beside))
    )
    assert named == {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*") if path.parent.name == "r1"}
    monkeypatch.undo()
    inline = made(run, page)
    assert not inline.has_files
    assert not (tmp_path / "page_files").exists(), "what nobody needs any more is gone"


def strip(shown) -> str:
    return "".join(str(drawing) for _, _, drawings in shown.strip.rows for drawing in drawings)


def test_pictures_of_the_strip_are_in_the_page_once(run, data):
    text = run.report().read_text(encoding="utf-8")
    held = [place for place, address in enumerate(data["files"]) if address is None]
    assert held
    assert sorted({int(n) for n in re.findall(r'data-file="(\d+)"', text)}) == held


def test_a_run_without_maps_has_no_explorer(tmp_path):
    run = heatproof.run(Discs(count=3), explainers="gradient", out=tmp_path / "r")
    forget(run.folder, "heatmaps/gradient")
    assert made(heatproof.load_run(run.folder)) is None
    shutil.rmtree(run.folder / "heatmaps")
    bare = heatproof.load_run(run.folder)
    assert made(bare) is None
    assert 'class="cases"' not in bare.report().read_text(encoding="utf-8")

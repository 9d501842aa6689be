"""Complex questions have four truths: the terminal, leaderboard.md and the page in a browser show them side by side."""

from __future__ import annotations

from typing import Any

import pytest

import heatproof
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.results.tables import boards
from small_vqa import make_vqa

TRUTHS = ("unique", "unique_first_nonempty", "union", "all_objects")
POOLING = "pos_l2_norm_sq"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    made = ClevrXai(model=make_vqa(size=128), questions="complex", correct_only=False, limit=8, poolings=[POOLING])
    explainers = ["gradient", "constant", "oracle:mask=union"]
    return heatproof.run(made, explainers=explainers, out=tmp_path_factory.mktemp("run") / "r")


def test_tables_have_a_column_for_each_truth(run):
    heads = [head for head, _ in boards(run)[0].columns()]
    written = (run.folder / "leaderboard.md").read_text(encoding="utf-8")
    for truth in TRUTHS:
        assert any(head.startswith("Mass accuracy") and head.endswith(f" {truth}") for head in heads)
        assert f"Mass accuracy ↑ {truth}" in written or f"Mass accuracy {truth}" in written


def shown(page: Any) -> dict[str, dict[str, tuple[str, str]]]:
    """What the visible columns of mass accuracy say, by the short name of a line: text and value."""
    script = (
        "const table = document.querySelector('table.board'), heads = [...table.tHead.rows[0].cells];"
        "const of = heads.filter(h => h.dataset.metric === 'mass_accuracy' && !h.hidden);"
        "return [...table.tBodies[0].rows].map(row => [row.cells[0].dataset.value, of.map(h => [h.textContent.trim(),"
        " row.cells[h.cellIndex].textContent.trim(), row.cells[h.cellIndex].dataset.value])])"
    )
    return {name: {head: (text, value) for head, text, value in cells} for name, cells in page.execute_script(script)}


def test_the_page_shows_them_and_filters_take_them_away(browser, run):
    from selenium.webdriver.support.select import Select

    browser.get((run.folder / "report.html").as_uri())
    found = shown(browser)
    table = run.leaderboard().filter(metric="mass_accuracy", pooling=POOLING, subset="all")
    full = {short: label for label, short in run.short.items()}
    for name, cells in found.items():
        assert [head.rpartition(" ")[2] for head in cells] == list(TRUTHS)
        for truth, (_, value) in zip(TRUTHS, cells.values(), strict=True):
            line = table.filter(explainer=full.get(name, name), ground_truth=truth)
            assert float(value) == pytest.approx(line["mean_all"].item(), abs=1e-5)
    browser.execute_script("new Leaderboard(document.querySelector('section.leaderboard')).draw({})")
    again = shown(browser)
    assert {name: [text for text, _ in cells.values()] for name, cells in again.items()} == {
        name: [text for text, _ in cells.values()] for name, cells in found.items()
    }
    Select(browser.find_element("css selector", "select[data-axis=ground_truth]")).select_by_value("union")
    for name, cells in shown(browser).items():
        line = table.filter(explainer=full.get(name, name), ground_truth="union")
        ((_, value),) = cells.values()
        assert float(value) == pytest.approx(line["mean_all"].item(), abs=1e-5)
    head = browser.find_element("css selector", "table.board th[data-column='m:mass_accuracy']")
    assert "unique" not in head.text
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []

"""The page's section on what the model confuses, in a real browser."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import heatproof
from heatproof.experiments.bias import SHOWN_MOSAICS, SHOWN_PAIRS, write_bias

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped classifier, with so loose a limit that pairs are found."""
    out = tmp_path_factory.mktemp("run") / "r"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATPROOF_HOME", str(tmp_path_factory.mktemp("home")))
        heatproof.run("focus", explainers="grad_cam", per_class=12, out=out)
        return write_bias(out, below=0.85, level=0.2).folder


@pytest.fixture
def page(browser: webdriver.Chrome, findings: Path) -> webdriver.Chrome:
    browser.get((findings.parents[1] / "report.html").as_uri())
    return browser


def texts(page: webdriver.Chrome, selector: str) -> list[str]:
    return [element.text for element in page.find_elements("css selector", selector)]


def test_found_pairs_stand_behind_the_lowest_one_with_their_pictures(page, findings):
    every = pl.read_csv(findings / "pairs.csv")
    pairs, tested = every.filter("found"), every["p"].count()
    worst = pl.read_csv(findings / "worst.csv")
    assert f"{len(pairs)} of {tested} tested pairs found" in texts(page, ".further .verdict")[0]
    named = [f"{row['target_class']} is seen in {row['other_class']}" for row in pairs.to_dicts()[:SHOWN_PAIRS]]
    lowest, *found = texts(page, ".further .panel h3")
    assert lowest.startswith("Lowest Focus: ")
    assert found == named
    images = "[...document.querySelectorAll('.further .figures img')]"
    sizes = page.execute_script(f"return {images}.map(image => [image.naturalWidth, image.clientWidth > 60])")
    shown = len(list(findings.glob("*/*.jpg")))
    assert shown > 0
    assert sizes == [[384, True]] * shown + [[128, True]] * 2 * len(worst)
    assert len(worst) <= SHOWN_PAIRS * SHOWN_MOSAICS


def test_the_matrix_shows_every_pair_and_frames_those_found(page, findings):
    pairs = pl.read_csv(findings / "pairs.csv")
    cells = page.find_elements("css selector", ".further .matrix td[class]")
    assert len(cells) == len(pairs)
    assert sorted(int(cell.text) for cell in cells) == sorted(round(100 * share) for share in pairs["share"])
    assert len(page.find_elements("css selector", ".further .matrix .framed")) == pairs["found"].sum()
    assert len(page.find_elements("css selector", ".further .matrix .low")) == (pairs["share"] < 0.85).sum()


def test_bars_of_classes_are_as_long_as_their_focus(page, findings):
    classes, partners = (pl.read_csv(findings / f"{name}.csv") for name in ("classes", "partners"))
    names = [*classes["target_class"], *partners["other_class"]]
    assert texts(page, ".further .sortable tbody th")[: len(names)] == names  # single pictures come behind them
    script = "return [...document.querySelectorAll('.bar')].map(b => b.firstChild.clientWidth / b.clientWidth)"
    assert page.execute_script(script)[: len(names)] == pytest.approx([*classes["focus"], *partners["focus"]], abs=0.02)


@pytest.mark.parametrize("width", [1400, 500])
def test_the_page_for_an_expert_shows_every_mosaic_and_what_lies_where(browser, findings, width):
    (path,) = findings.glob("*/pair.html")
    mosaics = pl.read_csv(path.with_name("mosaics.csv"))
    browser.set_window_size(width, 900)
    browser.get(path.as_uri())
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        browser.set_window_size(1400, 1000)
    images = "[...document.querySelectorAll('.plate img')]"
    sizes = browser.execute_script(f"return {images}.map(image => [image.naturalWidth, image.clientWidth > 200])")
    assert sizes == [[384, True]] * 2 * len(mosaics)
    for plate, row in zip(browser.find_elements("css selector", ".plate"), mosaics.to_dicts(), strict=True):
        cells = [cell.text.split("\n") for cell in plate.find_elements("css selector", ".places td")]
        assert cells == [[row[f"label_{i}"], f"{100 * row[f'share_{i}']:.0f} %"] for i in range(4)]
        green = plate.find_elements("css selector", ".places .part-1")
        assert [cell.text.split("\n")[0] for cell in green] == [row["target_class"]] * 2
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [1400, 500])
def test_nothing_overflows_or_is_loaded(page, width):
    page.set_window_size(width, 900)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        page.set_window_size(1400, 1000)
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []

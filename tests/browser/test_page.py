"""The page in a real browser: it works from the disk, offline, and does what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import heatproof
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.models.vqa import Vqa
from heatproof.pooling import poolings
from tiny_datasets import write_world

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    explainers = ["gradient", "grad_cam", "integrated_gradients:steps=8", "random", "input_magnitude", "oracle", breaks]
    return heatproof.run("svea", explainers=explainers, limit=500, out=tmp_path_factory.mktemp("run") / "r")


def breaks(model: object, inputs: object, target: object) -> object:
    raise RuntimeError("<b>broken</b> & bold")


@pytest.fixture
def page(browser: webdriver.Chrome, run: heatproof.Run) -> webdriver.Chrome:
    browser.get((run.folder / "report.html").as_uri())
    return browser


def texts(page: webdriver.Chrome, selector: str) -> list[str]:
    return [element.text for element in page.find_elements("css selector", selector)]


def test_the_page_is_whole_and_asks_for_nothing(page):
    assert page.title == "SVEA: regions of explanation on MNIST-1D · Heatproof"
    problems = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    assert problems == []
    loaded = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert loaded == [], "the page loads something besides itself"
    assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_every_explainer_has_its_line(page, run):
    names = texts(page, "table.sortable tbody th")
    labels = [e["short"] for e in run.manifest["explainers"] if e["explainer"] != "breaks"]
    assert sorted(names) == sorted([*labels, "raw_input"])


def test_numbers_are_those_of_the_leaderboard(page, run):
    table = run.leaderboard()
    full = {short: label for label, short in run.short.items()}
    for line in page.find_elements("css selector", "table.sortable tbody tr"):
        name = line.find_element("css selector", "th").text
        target = line.find_element("css selector", "td.word").text
        shown = line.find_elements("css selector", "td:not(.word)")[0].get_attribute("data-value")
        rows = table.filter(
            (table["explainer"] == full.get(name, name))
            & (table["target"] == target)
            & (table["metric"] == "roe_accuracy")
        )
        assert float(shown) == pytest.approx(rows["mean"][0])


def test_headings_sort_the_table(page):
    head = next(h for h in page.find_elements("css selector", "table.sortable thead th") if h.text.startswith("Drop"))
    column = head.get_property("cellIndex")

    def values() -> list[float]:
        rows = "[...document.querySelectorAll('table.sortable tbody tr')]"
        script = f"return {rows}.map(row => row.cells[arguments[0]].dataset.value)"
        return [float(value) for value in page.execute_script(script, column) if value]

    head.click()
    assert values() == sorted(values(), reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.click()
    assert values() == sorted(values())
    name = page.find_elements("css selector", "table.sortable thead th")[0]
    name.click()
    names = texts(page, "table.sortable tbody th")
    assert names == sorted(names)


def test_the_switch_shows_one_target_at_a_time(page):
    def visible() -> set[str]:
        rows = page.find_elements("css selector", ".strip tbody tr")
        return {row.get_attribute("data-target") for row in rows if row.is_displayed()}

    assert visible() == {"probability", ""}
    page.find_element("css selector", ".switch button[data-target=logit]").click()
    assert visible() == {"logit", ""}


def test_plots_have_dots_intervals_and_the_papers_marks(page, run):
    plots = page.find_elements("css selector", "svg.plot")
    assert len(plots) == len(run.story.metrics)
    assert len(plots[0].find_elements("css selector", ".dot")) == 3 * 2 + 4
    assert len(plots[0].find_elements("css selector", ".paper")) == 3


def test_signals_show_truth_and_region(page):
    pictures = page.find_elements("css selector", ".strip svg.signal")
    assert len(pictures) == (10 + 5) * (3 * 2 + 3), "the first of each digit, and five that are seen wrong"
    assert page.execute_script("return document.querySelectorAll('.strip .mark').length") == len(pictures)
    assert page.execute_script("return document.querySelectorAll('.strip .truth').length") >= len(pictures)


def test_failures_are_shown_as_text(page):
    section = page.find_element("id", "failures")
    assert "<b>broken</b> & bold" in section.text


@contextmanager
def width(browser: webdriver.Chrome, pixels: int) -> Iterator[None]:
    """A screen of this width, which may be narrower than a window can be."""
    size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert browser.execute_script("return window.innerWidth") == pixels
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def assert_fits(browser: webdriver.Chrome) -> None:
    """The page does not scroll sideways; what is wider scrolls by itself, and its names stay in sight."""
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    overflow = browser.execute_script(
        "const wide = document.documentElement.clientWidth;"
        "const inside = e => e.closest('.scroll, figure') !== null;"
        "return [...document.querySelectorAll('body *')].filter(e => !inside(e) || e.matches('.scroll, figure'))"
        ".filter(e => e.getBoundingClientRect().right > wide + 0.5).map(e => e.outerHTML.slice(0, 80))"
    )
    assert overflow == []
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    names = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].map(e => {"
        "e.scrollLeft = 1e6; const box = e.getBoundingClientRect();"
        "const name = [...e.querySelectorAll('tbody th')].find(head => head.offsetWidth);"
        "const seen = name.getBoundingClientRect(); "
        "return [e.clientWidth, e.scrollWidth > e.clientWidth, seen.left - box.left, seen.width] })"
    )
    for room, scrolls, left, taken in names:
        assert left == pytest.approx(1, abs=1)
        assert taken < 0.6 * room or not scrolls


@pytest.mark.parametrize("pixels", [400, 1280])
def test_no_screen_overflows(page, pixels):
    with width(page, pixels):
        assert_fits(page)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=4, per_image=3)
    make_masks(open_dataset(folder), (32, 32))
    return folder


@pytest.fixture(scope="module")
def pictures(world: Path, tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    """A run on pictures, with all poolings and a long name."""
    torch.manual_seed(0)
    module = Answers().eval()
    network = Vqa("net", module, lambda text: torch.tensor([[len(text)]]), ("red", "cube", "small"), size=32)
    made = ClevrXai(dataset=str(world), model=network, correct_only=False)
    explainers = ["gradient", "integrated_gradients:steps=3,baseline=0.463/0.460/0.453", "random"]
    return heatproof.run(made, explainers=explainers, out=tmp_path_factory.mktemp("pictures") / "r")


class Answers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Conv2d(3, 4, 3, stride=2)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, pictures: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(pictures).relu().mean((2, 3))) + 0 * tokens


@pytest.mark.parametrize("pixels", [400, 1280])
def test_pictures_and_wide_tables_fit(browser, pictures, pixels):
    browser.get((pictures.folder / "report.html").as_uri())
    with width(browser, pixels):
        assert_fits(browser)
        loaded = "return [...document.querySelectorAll('.strip img')].map(e => e.complete && e.naturalWidth)"
        assert browser.execute_script(loaded) == [32] * 4 * (1 + 2 + 3)  # pictures, two true masks, three explainers


def test_tables_of_poolings_sort_by_number(browser, pictures):
    browser.get((pictures.folder / "report.html").as_uri())
    table = browser.find_element("css selector", "#grids table")
    heads = table.find_elements("css selector", "thead th")
    assert [head.text for head in heads] == ["explainer", *poolings]
    heads[1].click()
    shown = [float(row.text) for row in table.find_elements("css selector", "tbody tr td:nth-child(2)")]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("pixels", [400, 1280])
def test_runs_side_by_side_fit(browser, world, tmp_path, pixels):
    for seed, name in enumerate(("mine", "theirs")):
        (tmp_path / name).mkdir()
        for index in range(12):
            np.save(tmp_path / name / f"{index}.npy", np.random.default_rng([seed, index]).normal(size=(3, 32, 32)))
        heatproof.evaluate(tmp_path / name, dataset=world, out=tmp_path / f"run-{name}")
    found = heatproof.compare([tmp_path / "run-mine", tmp_path / "run-theirs"])
    browser.get(found.write(tmp_path / "both").as_uri())
    assert texts(browser, "h2")[:2] == [
        "Mass accuracy ↑ (single_object, pos_l2_norm_sq)",
        "Rank accuracy ↑ (single_object, max_norm)",
    ]
    shown = found.table.filter(run="run-theirs", ground_truth="single_object", metric="mass_accuracy")
    difference = shown.filter(pooling="pos_l2_norm_sq")["difference"].item()
    assert f"{100 * difference:+.1f} (" in texts(browser, "table.sortable tbody td:last-child")[0]
    with width(browser, pixels):
        assert_fits(browser)

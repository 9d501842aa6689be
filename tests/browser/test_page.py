"""The page in a real browser: it works from the disk, offline, and does what it says."""

from __future__ import annotations

import pytest

import heatproof

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
    labels = [e["explainer"] for e in run.manifest["explainers"] if e["explainer"] != "breaks"]
    assert sorted(names) == sorted([*labels, "raw_input"])


def test_numbers_are_those_of_the_leaderboard(page, run):
    table = run.leaderboard()
    for line in page.find_elements("css selector", "table.sortable tbody tr"):
        name = line.find_element("css selector", "th").text
        target = line.find_element("css selector", "td.word").text
        shown = line.find_elements("css selector", "td:not(.word)")[0].get_attribute("data-value")
        rows = table.filter(
            (table["explainer"] == name) & (table["target"] == target) & (table["metric"] == "roe_accuracy")
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
    assert len(plots) == len(run.manifest["metrics"])
    assert len(plots[0].find_elements("css selector", ".dot")) == 3 * 2 + 4
    assert len(plots[0].find_elements("css selector", ".paper")) == 4


def test_signals_show_truth_and_region(page):
    pictures = page.find_elements("css selector", ".strip svg.signal")
    assert len(pictures) == 10 * (3 * 2 + 3)
    assert page.execute_script("return document.querySelectorAll('.strip .roe').length") == len(pictures)
    assert page.execute_script("return document.querySelectorAll('.strip .truth').length") >= len(pictures)


def test_failures_are_shown_as_text(page):
    section = page.find_element("id", "failures")
    assert "<b>broken</b> & bold" in section.text


def test_a_narrow_screen_does_not_overflow(page):
    page.set_window_size(500, 900)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        page.set_window_size(1400, 1000)

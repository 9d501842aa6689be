"""The cases explorer in a real browser, by mouse and by keyboard. Reference: the run's own scores and files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import combinations
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import polars as pl
import pytest
from benchmarks.many_cases import Discs
from PIL import Image

import heatproof
from heatproof.report.page import write_page
from heatproof.results.run import Results

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver import ActionChains, Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

EXPLAINERS = "gradient,gradient_x_input,occlusion,random,oracle"
HOSTILE = ("</script><img src=x onerror=document.title='owned'>", "'\"><b>bold</b>", "<!--<script>{{ 7 * 7 }}")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    """Thirty pictures on two pages, some of them seen wrong."""
    return heatproof.run(Discs(count=30), explainers=EXPLAINERS, out=tmp_path_factory.mktemp("run") / "r")


@pytest.fixture
def page(browser: webdriver.Chrome, run: heatproof.Run) -> webdriver.Chrome:
    return opened(browser, run.folder / "report.html")


def opened(browser: webdriver.Chrome, path: Path, address: str = "") -> webdriver.Chrome:
    """The page as it is when it is opened anew, and no word of trouble from before."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(path.as_uri() + address)
    return browser


def find(page: webdriver.Chrome, selector: str):
    return page.find_element("css selector", selector)


def shown(page: webdriver.Chrome) -> list[str]:
    """The cases of the grid, in their order."""
    return page.execute_script(
        "return [...document.querySelectorAll('.case-grid .case-tile')].map(e => e.dataset.case)"
    )


def field(page: webdriver.Chrome, title: str, inside: str = ".explorer"):
    for label in page.find_elements("css selector", f"{inside} .case-controls label"):
        if label.find_element("css selector", "span").get_property("textContent") == title:
            return label.find_element("css selector", "select, input")
    raise AssertionError(f"there is no {title}")


def choose(page: webdriver.Chrome, title: str, value: str) -> None:
    Select(field(page, title)).select_by_value(value)


def state(page: webdriver.Chrome) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page.current_url).fragment))


def press(page: webdriver.Chrome, *keys: str) -> None:
    ActionChains(page).send_keys(*keys).perform()


def is_open(page: webdriver.Chrome) -> bool:
    return page.execute_script("return document.querySelector('.case-dialog').open")


def title_of(page: webdriver.Chrome) -> str:
    """The case that is opened, by its name."""
    return find(page, ".case-dialog .case-caption").text.split(" · ")[0]


def values(run: heatproof.Run, explainer: str | None, metric: str = "mass_accuracy") -> dict[str, float]:
    """The score of each case, or its mean over methods that are no floors; an undefined one is a uniform map's."""
    rows = run.scores().filter((pl.col("metric") == metric) & (pl.col("pooling") == "sum_abs"))
    chosen = [explainer] if explainer else ["gradient", "gradient_x_input", "occlusion"]
    whole = pl.when(pl.col("value").is_nan()).then("uniform").otherwise("value")
    means = rows.filter(pl.col("explainer").is_in(chosen)).group_by("case").agg(whole.mean())
    return dict(means.iter_rows())


def quiet(page: webdriver.Chrome) -> None:
    """Nothing was loaded, and nothing went wrong."""
    assert page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_grid_shows_every_case_in_pages(page, run):
    cases = list(run.story.examples)
    assert shown(page) == cases[:24]
    assert find(page, ".case-count").text == "30 discs"
    assert find(page, ".case-pager span").text == "1 of 2"
    find(page, ".case-pager button:last-child").click()
    assert shown(page) == cases[24:]
    assert state(page)["r1.case.page"] == "2"
    images = "[...document.querySelectorAll('.case-grid img')]"
    sizes = page.execute_script(f"return {images}.map(e => [e.complete && e.naturalWidth, e.clientWidth > 60])")
    assert sizes == [[32, True]] * 6
    outlines = "return [...document.querySelectorAll('.case-grid .mask-outline')].map(e => e.getBBox().width > 2)"
    assert page.execute_script(outlines) == [True] * 6
    quiet(page)


@pytest.mark.parametrize(("order", "falling"), [("best", True), ("worst", False)])
@pytest.mark.parametrize("method", ["", "occlusion"])
def test_best_and_worst_are_those_of_the_scores(page, run, order, falling, method):
    choose(page, "method", method)
    choose(page, "sort", order)
    scores = values(run, method or None)
    expected = sorted(scores, key=scores.__getitem__, reverse=falling)
    found = shown(page)
    assert [round(scores[case], 3) for case in found] == [round(scores[case], 3) for case in expected[:24]]
    first = find(page, ".case-grid .case-score").text
    assert first == f"Mass accuracy {100 * scores[found[0]]:.1f}"
    assert ("r1.case.by" in state(page)) == bool(method)


def test_largest_truth_and_disagreement(page, run):
    """Reference: the masks, and SciPy's rank correlation of the stored maps."""
    from scipy.stats import spearmanr

    arrays = run.files.examples()
    share = dict(zip(arrays["ids"].tolist(), arrays["mask.disc"].mean((1, 2)), strict=True))
    choose(page, "sort", "large")
    found = [share[case] for case in shown(page)]
    assert found == sorted(share.values(), reverse=True)[:24]
    choose(page, "sort", "differ")
    maps = {
        name: run.files.heatmaps(f"{name}@logit", "brightest") for name in ("gradient", "gradient_x_input", "occlusion")
    }

    def differ(case: str) -> float:
        every = [found[case].sum(0).ravel() for found in maps.values() if np.ptp(found[case]) > 0]
        return 1 - np.mean([spearmanr(a, b)[0] for a, b in combinations(every, 2)])

    found = [differ(case) for case in shown(page)]
    assert found == pytest.approx(sorted(map(differ, share), reverse=True)[:24], abs=1e-3)


def test_filters_leave_those_that_are_of_it(page, run):
    rows = run.scores().filter(pl.col("metric") == "mass_accuracy").unique("case")
    choose(page, "kind", "green")
    assert set(shown(page)) == set(rows.filter(kind="green")["case"])
    assert find(page, ".case-count").text == "10 of 30 discs"
    choose(page, "the network is", "wrong")
    both = set(rows.filter(pl.col("kind").eq("green") & ~pl.col("correct"))["case"])
    assert set(shown(page)) == both
    find(page, ".explorer .case-controls button").click()
    assert len(shown(page)) == 24
    assert [key for key in state(page) if key.startswith("r1.case")] == []


def test_one_case_by_mouse(page, run):
    find(page, ".case-grid .case-tile").click()
    assert is_open(page)
    first, second = list(run.story.examples)[:2]
    assert title_of(page) == first
    assert state(page)["r1.case"] == first
    tiles = page.find_elements("css selector", ".case-methods .case-tile")
    names = [tile.find_element("css selector", ".case-title").text for tile in tiles]
    scores = {name: values(run, name)[first] for name in EXPLAINERS.split(",")}
    assert [scores[name] for name in names] == sorted(scores.values(), reverse=True)
    for tile, name in zip(tiles, names, strict=True):
        said = [float(part.text) for part in tile.find_elements("css selector", ".case-scores dd")]
        scored = [100 * values(run, name, metric)[first] for metric in ("mass_accuracy", "rank_accuracy")]
        assert said == pytest.approx(scored, abs=0.051)
        label = tile.find_element("css selector", ".layers").get_attribute("aria-label")
        assert label == f"heatmap of {name}"
    find(page, ".case-steps [aria-label='next case']").click()
    assert title_of(page) == second
    find(page, ".case-steps [aria-label='close']").click()
    assert not is_open(page)
    assert "r1.case" not in state(page)
    quiet(page)


def test_through_the_cases_by_keyboard(page, run):
    cases = list(run.story.examples)
    page.execute_script("document.querySelector('.case-grid .case-tile').focus()")
    press(page, Keys.ARROW_RIGHT)
    press(page, Keys.ENTER)
    assert title_of(page) == cases[1]
    for _ in range(3):
        press(page, Keys.ARROW_RIGHT)
    assert title_of(page) == cases[4]
    press(page, Keys.ARROW_LEFT)
    assert title_of(page) == cases[3]
    assert find(page, ".case-position").text == "4 of 30"
    press(page, Keys.ESCAPE)
    assert not is_open(page)
    focused = "return document.activeElement.dataset.case"
    WebDriverWait(page, 10).until(
        lambda page: page.execute_script(focused) == cases[3], "whoever closes a case is where they were"
    )
    press(page, Keys.ENTER)
    for _ in range(4):
        press(page, Keys.ARROW_LEFT)
    assert title_of(page) == cases[-1], "before the first comes the last"
    press(page, Keys.ESCAPE)
    WebDriverWait(page, 10).until(lambda page: shown(page) == cases[24:], "its page is shown")


def test_everything_is_reached_by_tab_and_seen(page):
    """From the first control to the pager; inside the dialog, around and around."""
    page.execute_script("document.querySelector('.explorer select').focus()")
    wanted = (
        "return [...document.querySelectorAll('.explorer > :not(dialog) :is(select, button):not(:disabled)')].length"
    )
    count = page.execute_script(wanted)
    seen = set()
    for _ in range(count):
        about = page.execute_script(
            "const e = document.activeElement, style = getComputedStyle(e);"
            "return [e.closest('.explorer') !== null, e.matches(':focus-visible'), style.outlineStyle,"
            " style.outlineWidth, [...document.querySelectorAll('*')].indexOf(e)]"
        )
        assert about[:4] == [True, True, "solid", "3px"]
        seen.add(about[4])
        press(page, Keys.TAB)
    assert len(seen) == count
    find(page, ".case-grid .case-tile").click()
    inside = page.execute_script("return document.querySelectorAll('.case-dialog :is(select, input, button)').length")
    reached = set()
    for _ in range(inside + 2):
        press(page, Keys.TAB)
        reached.add(
            page.execute_script("return [...document.querySelectorAll('dialog *')].indexOf(document.activeElement)")
        )
    assert len(reached - {-1}) == inside


def test_opacity(page):
    find(page, ".case-grid .case-tile").click()
    opacity = field(page, "opacity")
    heat = "return Number(getComputedStyle(document.querySelector('.case-stage .heat')).opacity)"
    assert page.execute_script(heat) == pytest.approx(0.85)
    opacity.send_keys(Keys.HOME)
    assert page.execute_script(heat) == 0
    opacity.send_keys(Keys.END)
    assert page.execute_script(heat) == 1
    assert state(page)["r1.case.opacity"] == "100"
    assert is_open(page), "arrows on a slider move the slider"


def test_the_divider_between_two_maps(page):
    find(page, ".case-grid .case-tile").click()
    stage = find(page, ".case-stage .layers")

    def clips() -> list[str]:
        return page.execute_script(
            "return [...document.querySelectorAll('.case-stage .heat')].map(e => getComputedStyle(e).clipPath)"
        )

    width = stage.size["width"]
    ActionChains(page).move_to_element_with_offset(stage, -width // 2 + width // 4, 0).click().perform()
    assert float(state(page)["r1.case.swipe"]) == pytest.approx(25, abs=1)
    left, right = ([float(number) for number in re.findall(r"([\d.]+)%", clip)] for clip in clips())
    assert left[-1] == pytest.approx(75, abs=1)
    assert right[-1] == pytest.approx(25, abs=1)
    field(page, "divider").send_keys(Keys.END)
    assert state(page)["r1.case.swipe"] == "100"
    edge = page.execute_script(
        "const a = document.querySelector('.case-stage .border').getBoundingClientRect();"
        "const b = document.querySelector('.case-stage .layers').getBoundingClientRect(); return a.left - b.right"
    )
    assert edge == pytest.approx(-1, abs=1.5)
    choose(page, "left", "oracle")
    choose(page, "right", "input")
    assert len(clips()) == 1
    assert find(page, ".case-stage .side.left").text == "oracle 100.0"


def test_a_link_shows_what_one_saw(browser, page, run):
    choose(page, "method", "gradient_x_input")
    choose(page, "sort", "worst")
    choose(page, "kind", "blue")
    choose(page, "score", "rank_accuracy")
    page.find_elements("css selector", ".case-grid .case-tile")[2].click()
    choose(page, "left", "occlusion")
    choose(page, "outline", "none")
    field(page, "divider").send_keys(Keys.ARROW_RIGHT)
    looks = (
        "return [document.querySelector('.case-dialog').open, document.querySelector('.case-dialog').textContent,"
        "document.querySelector('.case-grid').textContent,"
        "[...document.querySelectorAll('.case-controls :is(select, input)')].map(e => e.value),"
        "[...document.querySelectorAll('.explorer img')].map(e => e.src)]"
    )
    before, address = page.execute_script(looks), urlsplit(page.current_url).fragment
    opened(browser, run.folder / "report.html", "#" + address)
    assert page.execute_script(looks) == before
    page.execute_script("location.hash = '#r1.case.kind=nonsense'")
    page.execute_async_script("setTimeout(arguments[0], 50)")
    assert not is_open(page)
    assert len(shown(page)) == 24
    quiet(page)


@pytest.mark.parametrize(
    "address",
    ["#r1.case=nobody", "#r1.case.sort=__proto__&r1.case.by=constructor", "#r1.case.page=-3&r1.case.swipe=NaN", "#%"],
)
def test_an_address_that_makes_no_sense_shows_what_there_is(browser, run, address):
    page = opened(browser, run.folder / "report.html", address)
    assert shown(page) == list(run.story.examples)[:24]
    quiet(page)


@contextmanager
def screen(browser: webdriver.Chrome, pixels: int) -> Iterator[None]:
    size = {"width": pixels, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_phone_does_not_scroll_sideways(browser, run):
    with screen(browser, 390):
        page = opened(browser, run.folder / "report.html")
        wide = (
            "return [...document.querySelectorAll('.cases, .cases :not(.plain *)')]"
            ".filter(e => e.getBoundingClientRect().right > 390.5).map(e => e.outerHTML.slice(0, 90))"
        )
        assert page.execute_script(wide) == []
        find(page, ".case-grid .case-tile").click()
        assert page.execute_script(wide) == []
        assert page.execute_script(
            "const e = document.querySelector('.case-body'); return e.scrollWidth <= e.clientWidth"
        )


def black_pixels(page: webdriver.Chrome, selector: str) -> int:
    """How many black pixels there are around an element on the screen."""
    element = page.find_element("css selector", selector).find_element("xpath", "./..")
    pixels = np.asarray(Image.open(BytesIO(element.screenshot_as_png)).convert("RGB"))
    return int((pixels.max(2) < 10).sum())


def test_without_scripts_and_on_paper_the_first_cases_stand(browser, page, run):
    assert not find(page, ".plain").is_displayed()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert find(page, ".plain").is_displayed()
        assert not find(page, ".case-grid").is_displayed()
        assert black_pixels(page, ".plain svg.picture use[href*=truth]") == 0, "a frame, not a filled mask"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, run.folder / "report.html")
        assert len(page.find_elements("css selector", ".plain svg.picture")) == 6 * (1 + 5)
        assert find(page, ".plain").is_displayed()
        labels = [cell.get_attribute("aria-label") for cell in page.find_elements("css selector", ".plain svg.picture")]
        assert all(labels)
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_hostile_names_are_text(browser, tmp_path):
    run = heatproof.run(Discs(count=9, kinds=HOSTILE), explainers="gradient,random", out=tmp_path / "r")
    page = opened(browser, run.folder / "report.html")
    before = page.title
    titles = [element.text for element in page.find_elements("css selector", ".case-grid .case-title")]
    assert titles == [f"{HOSTILE[place % 3]} disc" for place in range(9)]
    options = [option.text for option in Select(field(page, "kind")).options]
    assert set(options) == {"all", *HOSTILE}
    choose(page, "kind", HOSTILE[0])
    assert len(shown(page)) == 3
    find(page, ".case-grid .case-tile").click()
    assert find(page, ".case-dialog h3").text == f"{HOSTILE[0]} disc"
    assert HOSTILE[0] in find(page, ".case-facts").text
    opened(browser, run.folder / "report.html", "#" + urlsplit(page.current_url).fragment)
    assert len(shown(page)) == 3
    assert page.title == before
    assert page.execute_script("return document.querySelectorAll('img[onerror], .cases b').length") == 0
    quiet(page)


def test_two_runs_on_one_page_do_not_mix(browser, run, tmp_path):
    other = heatproof.run("svea", explainers="gradient,random", limit=200, out=tmp_path / "svea")
    path = write_page([Results(run.folder), Results(other.folder)], tmp_path / "both.html")
    page = opened(browser, path, f"#r2.case={next(iter(other.story.examples))}&r1.case.sort=worst")
    assert page.execute_script("return [...document.querySelectorAll('.case-dialog')].map(e => e.open)") == [
        False,
        True,
    ]
    controls = page.find_elements("css selector", ".explorer > .case-controls")
    chosen = [[e.get_property("value") for e in part.find_elements("css selector", "select")] for part in controls]
    assert ["worst" in part for part in chosen] == [True, False]
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    quiet(page)


def test_signals_are_drawn_from_their_numbers(browser, tmp_path):
    run = heatproof.run("svea", explainers="gradient,grad_cam", limit=300, out=tmp_path / "r")
    case = next(iter(run.story.examples))
    page = opened(browser, run.folder / "report.html", f"#r1.case={case}&r1.case.target=logit&r1.case.left=grad_cam")
    heat = run.files.heatmaps("grad_cam@logit", "mnist1d_cnn-1")[case].sum(0)
    drawn = page.execute_script(
        "return [...document.querySelector('.case-stage .left.heat').querySelectorAll('.shades rect')].map(e =>"
        " [e.getAttribute('class'), ...['x', 'width', 'fill-opacity'].map(name => Number(e.getAttribute(name)))])"
    )
    found = np.zeros(40)
    for kind, start, length, strength in drawn:
        found[start : start + length] = strength if kind == "for" else -strength
    assert found == pytest.approx(heat / np.abs(heat).max(), abs=0.5 / 16 + 1e-6)
    mark = next(m for m in run.story.marks if (m.explainer, m.target, m.case) == ("grad_cam", "logit", case))
    box = find(page, ".case-stage .left.heat .mark")
    assert (int(box.get_attribute("x")), int(box.get_attribute("width"))) == (mark.start, mark.length)
    quiet(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_an_opened_case(browser, run, scheme):
    from axe_core_python.selenium import Axe

    case = next(iter(run.story.examples))
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    try:
        for address in ("", f"#r1.case={case}"):
            found = Axe().run(opened(browser, run.folder / "report.html", address), context=".explorer")
            bad = [entry for entry in found["violations"] if entry["impact"] in ("serious", "critical")]
            assert [(entry["id"], entry["nodes"][0]["html"]) for entry in bad] == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_pictures_beside_the_page_are_shown(browser, run, tmp_path, monkeypatch):
    """A page of too many pictures: they are files in its folder, and the page may show these and nothing else."""
    monkeypatch.setattr("heatproof.report.cases.INLINE", 0)
    path = write_page([Results(run.folder)], tmp_path / "page.html")
    page = opened(browser, path, f"#r1.case={next(iter(run.story.examples))}")
    page.execute_async_script("setTimeout(arguments[0], 300)")
    images = page.execute_script(
        "return [...document.querySelectorAll('.explorer img')].map(e => [e.getAttribute('src'), e.naturalWidth])"
    )
    assert images
    assert {width for _, width in images} == {32}
    assert all(source.startswith("page_files/r1/") for source, _ in images)
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []

"""The page in a real browser: it works from the disk, offline, on paper and on a phone, and does what it says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heatproof
from heatproof.api import report
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.models.vqa import Vqa
from heatproof.pooling import poolings
from tiny_datasets import write_world

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
SERIOUS = ("serious", "critical")
PAPER = 1047
"""Pixels between the margins of a landscape A4."""


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


def problems(page: webdriver.Chrome) -> list[Any]:
    return [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_page_is_whole_and_asks_for_nothing(page):
    assert page.title == "SVEA: regions of explanation on MNIST-1D · Heatproof"
    assert problems(page) == []
    loaded = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert loaded == [], "the page loads something besides itself"
    assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_it_opens_with_the_answer_and_what_failed(page, run):
    said = [" ".join(text.split()) for text in texts(page, "#answer .said p:not(.legend)")]
    assert said == list(run.verdict.sentences)
    words = run.story.metrics[0]
    meaning = words.summary.partition(": ")[0].rstrip(".")  # the formula behind it stands further down
    assert texts(page, "#answer .said p.legend") == [f"{words.title}: {meaning}."], "no word is left unexplained"
    failed = [check for check in run.verdict.checks if check.passed is False]
    assert texts(page, "#health .failed li") == [f"{check.name}: failed. {check.text}" for check in failed]
    folded = page.find_element("css selector", "#health details")
    assert folded.get_attribute("open") is None
    assert page.execute_script(
        "return document.querySelector('#answer').compareDocumentPosition(document.querySelector('table.board')) & 4"
    )


def test_no_script_but_its_own_runs(page):
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.injected = 1'; document.body.append(s);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.injected = 2\">')"
    )
    assert page.execute_script("return window.injected") is None
    assert len(problems(page)) >= 2, "the policy says what it kept out"


def test_every_explainer_has_its_line(page, run):
    names = [cell.get_attribute("data-value") for cell in page.find_elements("css selector", "table.board tbody th")]
    labels = [e["short"] for e in run.manifest["explainers"] if e["explainer"] != "breaks"]
    assert sorted(names) == sorted([*labels, "raw_input"])


def test_numbers_are_those_of_the_leaderboard(page, run):
    table = run.leaderboard()
    full = {short: label for label, short in run.short.items()}
    for line in page.find_elements("css selector", "table.board tbody tr"):
        name = line.find_element("css selector", "th").get_attribute("data-value")
        target = line.find_element("css selector", "td.word").text
        shown = line.find_elements("css selector", "td:not(.word)")[0].get_attribute("data-value")
        rows = table.filter(explainer=full.get(name, name), target=target, metric="roe_accuracy")
        assert float(shown) == pytest.approx(rows["mean"][0])


def column(page: webdriver.Chrome, key: str) -> list[float]:
    """What a column of the leaderboard is sorted by, from top to bottom."""
    script = (
        "const table = document.querySelector('table.board');"
        "const at = [...table.tHead.rows[0].cells].findIndex(head => head.dataset.column === arguments[0]);"
        "return [...table.tBodies[0].rows].map(row => row.cells[at].dataset.value)"
    )
    return [float(value) for value in page.execute_script(script, key) if value]


def head_of(page: webdriver.Chrome, key: str) -> Any:
    return page.find_element("css selector", f'table.board th[data-column="{key}"]')


@pytest.mark.parametrize(("key", "best"), [("m:drop", min), ("m:roe_accuracy", max), ("rank", min), ("ms", min)])
def test_the_first_click_puts_the_best_on_top(page, key, best):
    head = head_of(page, key)
    head.find_element("css selector", "button").click()
    found = column(page, key)
    assert found[0] == best(found)
    assert found == sorted(found, reverse=best is max)
    assert head.get_attribute("aria-sort") == ("descending" if best is max else "ascending")
    head.find_element("css selector", "button").click()
    assert column(page, key) == sorted(found, reverse=best is min)


def test_names_sort_by_letter_and_by_keyboard(page):
    button = head_of(page, "explainer").find_element("css selector", "button")
    button.send_keys("\ue007")
    names = [cell.get_attribute("data-value") for cell in page.find_elements("css selector", "table.board tbody th")]
    assert names == sorted(names)


def rows_of(page: webdriver.Chrome) -> list[list[str]]:
    script = (
        "return [...document.querySelector('table.board').tBodies[0].rows]"
        ".map(row => [...row.cells].map(cell => cell.textContent.trim()))"
    )
    return [list(row) for row in page.execute_script(script)]


def test_drawn_anew_it_is_what_the_server_wrote(page):
    before = rows_of(page)
    page.execute_script("new Leaderboard(document.querySelector('section.leaderboard')).draw({})")
    assert sorted(rows_of(page)) == sorted(before), "equals may change places"


def choose(page: webdriver.Chrome, axis: str, value: str) -> None:
    from selenium.webdriver.support.select import Select

    Select(page.find_element("css selector", f"select[data-axis={axis}]")).select_by_value(value)


def test_filters_show_other_readings(page, run):
    choose(page, "pooling", "sum_abs")
    choose(page, "target", "logit")
    choose(page, "metric", "mass_accuracy")
    heads = [head.get_attribute("data-column") for head in page.find_elements("css selector", "table.board thead th")]
    visible = [
        h.get_attribute("data-column") for h in page.find_elements("css selector", "table.board th:not([hidden])")
    ]
    assert "m:mass_accuracy" in visible
    assert "m:drop" in heads
    assert "m:drop" not in visible
    table = run.leaderboard().filter(metric="mass_accuracy", pooling="sum_abs", target="logit")
    full = {short: label for label, short in run.short.items()}
    shown = dict(zip([row[0] for row in rows_of(page)], column(page, "m:mass_accuracy"), strict=False))
    for short, value in shown.items():
        lines = table.filter(explainer=full.get(short, short))
        if len(lines):
            assert value == pytest.approx(lines["mean_all"].item(), abs=1e-5)
    assert {row[1] for row in rows_of(page)} == {"logit", ""}
    assert texts(page, ".ranked-by") == ["Mass accuracy"]


def test_the_address_says_what_is_shown(browser, page):
    choose(page, "target", "logit")
    choose(page, "pooling", "sum_abs")
    head_of(page, "m:drop").find_element("css selector", "button").click()
    shown, address = rows_of(page), page.current_url
    assert address.partition("#")[2] == "r1.target=logit&r1.pooling=sum_abs&r1.sort=m%3Adrop"
    browser.get("about:blank")
    browser.get(address)
    assert rows_of(browser) == shown
    assert head_of(browser, "m:drop").get_attribute("aria-sort") == "ascending"
    browser.execute_script("location.hash = '#answer'")
    assert rows_of(browser) == shown, "a link to a place of the page leaves what is shown"
    browser.execute_script("location.hash = ''")
    assert len(rows_of(browser)) > len(shown)


def test_plots_have_dots_intervals_and_the_papers_marks(page, run):
    plots = page.find_elements("css selector", "#r1-plots svg.plot")
    assert len(plots) == len(run.story.metrics)
    assert len(plots[0].find_elements("css selector", ".dot")) == 3 * 2 + 4
    assert len(plots[0].find_elements("css selector", ".paper")) == 3
    assert len(page.find_elements("css selector", "#r1-standing svg.plot")) == 1 + 2 * 2
    assert page.find_elements("css selector", "#r1-standing .front")
    boxes = page.find_elements("css selector", "#r1-distributions .box")
    assert boxes
    assert len(page.find_elements("css selector", "#r1-order svg.matrix")) == len(run.verdict.agreements)


def test_no_label_loses_a_letter(page):
    outside = page.execute_script(
        "return [...document.querySelectorAll('svg.plot')].flatMap(plot => [...plot.querySelectorAll('text')]"
        ".filter(text => { const box = text.getBBox(), all = plot.viewBox.baseVal;"
        "return box.x < 0 || box.x + box.width > all.width || box.y < 0 || box.y + box.height > all.height + 1 })"
        ".map(text => text.textContent))"
    )
    assert outside == []


def test_signals_show_truth_and_region(page):
    pictures = page.find_elements("css selector", ".strip svg.signal")
    assert len(pictures) == 6 * (3 + 3), "six cases under the methods for the first explained quantity, and floors"
    assert page.execute_script("return document.querySelectorAll('.strip .mark').length") == len(pictures)
    assert page.execute_script("return document.querySelectorAll('.strip .truth').length") >= len(pictures)


def test_failures_are_shown_as_text(page):
    section = page.find_element("id", "r1-failures")
    assert "<b>broken</b> & bold" in section.text
    assert "has no score: every unit of its work failed" in page.find_element("id", "r1-how").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, scheme):
    from axe_core_python.selenium import Axe

    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        page.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
        found = Axe().run(page)
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"] if v["impact"] in SERIOUS] == []
    judged = {entry["id"] for entry in found["passes"]}
    assert {"color-contrast", "heading-order", "image-alt", "landmark-one-main"} <= judged | {"image-alt"}


def test_paper_has_every_column_and_keeps_colours(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        with width(page, PAPER):
            cut = page.execute_script(
                "return [...document.querySelectorAll('th, td, svg, img')].filter(e => e.getClientRects().length)"
                ".filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)"
                ".map(e => e.outerHTML.slice(0, 80))"
            )
            assert cut == []
            shown = [h for h in page.find_elements("css selector", "table.board thead th") if h.is_displayed()]
            assert len(shown) == len(page.find_elements("css selector", "table.board thead th"))
            small = page.execute_script(
                "const size = e => parseFloat(getComputedStyle(e).fontSize);"
                "return [...document.querySelectorAll('.board small')].map(e => size(e) < size(e.parentElement))"
            )
            assert all(small), "what stands below a number is smaller than it, on paper too"
            rows = page.find_elements("css selector", ".strip tbody tr")
            assert all(row.is_displayed() for row in rows), "the first cases are on paper"
            kept = page.execute_script(
                "return [...document.querySelectorAll('.key')].map(e => getComputedStyle(e).printColorAdjust)"
            )
            assert set(kept) == {"exact"}
        printed = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        assert printed["data"].startswith("JVBERi0"), "a PDF"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


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
        "return [...document.querySelectorAll('.scroll')].filter(e => e.offsetWidth).map(e => {"
        "e.scrollLeft = 1e6; const box = e.getBoundingClientRect();"
        "const name = [...e.querySelectorAll('tbody th')].find(head => head.offsetWidth);"
        "const seen = name.getBoundingClientRect(); "
        "return [e.clientWidth, e.scrollWidth > e.clientWidth, seen.left - box.left, seen.width] })"
    )
    for room, scrolls, left, taken in names:
        assert left == pytest.approx(1, abs=1)
        assert taken < 0.6 * room or not scrolls


@pytest.mark.parametrize("pixels", [390, 1280])
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


@pytest.mark.parametrize("pixels", [390, 1280])
def test_pictures_and_wide_tables_fit(browser, pictures, pixels):
    browser.get((pictures.folder / "report.html").as_uri())
    with width(browser, pixels):
        assert_fits(browser)
        loaded = "return [...document.querySelectorAll('.case-grid img')].map(e => e.complete && e.naturalWidth)"
        assert browser.execute_script(loaded) == [32] * len(pictures.story.examples)


def test_tables_of_poolings_sort_by_number(browser, pictures):
    browser.get((pictures.folder / "report.html").as_uri())
    table = browser.find_element("css selector", "#r1-grids table")
    heads = table.find_elements("css selector", "thead th")
    assert [head.text for head in heads] == ["explainer", *poolings]
    heads[1].find_element("css selector", "button").click()
    shown = [float(row.text) for row in table.find_elements("css selector", "tbody tr td:nth-child(2)")]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("pixels", [390, 1280])
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
    difference = shown.filter(pooling="pos_l2_norm_sq", explainer="theirs")["difference"].item()
    lines = texts(browser, "table.sortable tbody tr")
    assert any(line.startswith("mine · theirs") and f"{100 * difference:+.1f} (" in line for line in lines)
    with width(browser, pixels):
        assert_fits(browser)


def silent_at_times(model: object, inputs: torch.Tensor, target: object) -> torch.Tensor:
    """Nothing for every other case."""
    relevance = torch.ones_like(inputs)
    relevance[::2] = 0
    return relevance


@pytest.mark.parametrize(
    ("explainers", "options"),
    [
        (["gradient"], {}),
        (["gradient", "random"], {"signals": 1}),
        (["gradient", "random", silent_at_times], {}),
        (["gradient", breaks], {}),
        (["randomised:gradient", "gradient", "centre"], {}),
        (["random", "constant"], {}),
    ],
    ids=["one explainer", "one case", "undefined scores", "failed units", "a floor with a target", "floors only"],
)
def test_odd_runs_have_correct_pages(browser, toy, tmp_path, explainers, options):
    run = heatproof.run(toy(**options), explainers=explainers, out=tmp_path / "r")
    browser.get((run.folder / "report.html").as_uri())
    assert problems(browser) == []
    names = browser.find_elements("css selector", "table.board tbody th")
    shown = {name.get_attribute("data-value") for name in names}
    assert shown == {run.short[name] for name in run.leaderboard()["explainer"]}
    baselines = browser.find_elements("css selector", "table.board tr.baseline th")
    families = {entry["short"]: entry["family"] for entry in run.manifest["explainers"]}
    named = {cell.get_attribute("data-value") for cell in baselines}
    assert named == {name for name in shown if families[name] in ("floor", "ceiling")}
    assert "nan" not in browser.find_element("tag name", "body").text.lower().split()
    with width(browser, 390):
        assert_fits(browser)


def test_three_networks_can_be_looked_at_one_by_one(browser, tmp_path):
    run = heatproof.run(
        "svea", explainers=["gradient", "random"], model_seeds=3, limit=100, target="logit", out=tmp_path / "r"
    )
    browser.get((run.folder / "report.html").as_uri())
    assert problems(browser) == []
    together = column(browser, "m:drop")
    choose(browser, "model", "mnist1d_cnn-2")
    table = run.leaderboard().filter(metric="drop", model="mnist1d_cnn-2")
    assert sorted(column(browser, "m:drop")) == pytest.approx(sorted(table["mean_all"]), abs=1e-5)
    at = [head.get_attribute("data-column") for head in browser.find_elements("css selector", "table.board th")]
    shown = {row[0]: (row[at.index("groups")], row[at.index("rank")]) for row in rows_of(browser)}
    (glance,) = (g for g in run.verdict.glances if (g.metric, g.model) == ("roe_accuracy", "mnist1d_cnn-2"))
    assert shown[glance.explainer] == (glance.groups, f"{glance.rank:g}"), "a network has a contest of its own"
    choose(browser, "model", "")
    assert column(browser, "m:drop") == together


def test_a_run_without_heatmaps_has_a_page(browser, toy, tmp_path):
    run = heatproof.run(toy(), explainers=["gradient", "random"], out=tmp_path / "r")
    shutil.rmtree(run.folder / "heatmaps")
    browser.get(heatproof.load_run(run.folder).report().as_uri())
    assert problems(browser) == []
    assert browser.find_elements("css selector", ".strip") == []


@pytest.mark.parametrize("pixels", [390, 1280])
def test_several_runs_share_a_page(browser, run, pictures, toy, tmp_path, pixels):
    small = heatproof.run(toy(), explainers=["gradient", "random"], out=tmp_path / "toy")
    path = report([run, pictures, small], out=tmp_path / "all.html")
    browser.get(path.as_uri())
    assert problems(browser) == []
    assert browser.find_element("tag name", "h1").text == "SVEA, CLEVR-XAI and Toy signals"
    assert texts(browser, "#answer .said h3") == ["SVEA", "CLEVR-XAI", "Toy signals", "Across runs"]
    assert "in common" in texts(browser, ".across p")[0]
    lines = [
        row.find_elements("css selector", "th, td") for row in browser.find_elements("css selector", ".glimpses tr")
    ]
    found = {cells[0].text: [cell.text for cell in cells[1:]] for cells in lines}
    assert found.pop("") == ["trust first", "score", "best floor", "cost, CPU time per case", "failed checks"]
    assert list(found) == ["SVEA", "CLEVR-XAI", "Toy signals"]
    for (trusted, score, floor, _, failed), of in zip(found.values(), (run, pictures, small), strict=True):
        judged = of.verdict.contests[0]
        beaten = {entrant.short for entrant in judged.methods if entrant.no_better_than}
        assert trusted == "none yet" or not beaten & set(trusted.replace(" and ", ", ").split(", "))
        assert score.startswith(of.story.metric[judged.metric].title)
        best = next(entrant for entrant in judged.entrants if entrant.family == "floor")
        assert floor == f"{100 * best.mean:.1f} % ({best.short})"
        assert failed == f"{sum(c.passed is False for c in of.verdict.checks)} of {len(of.verdict.checks)}"
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    with width(browser, pixels):
        assert_fits(browser)

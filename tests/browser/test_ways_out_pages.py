"""Pages that leave the house, in a real browser: hostile names, a comparison, a published site."""

from __future__ import annotations

import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import urlopen

import pytest

import heatproof
from hostile import CLASSES, EXPLAINER, hostile_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATPROOF_HOME", str(tmp_path_factory.mktemp("home")))
        made = hostile_run(tmp_path_factory.mktemp("hostile"))
        heatproof.focus.bias(made.folder, EXPLAINER, below=0.9, level=0.9)
    return made


@pytest.fixture(scope="module")
def site(run, tmp_path_factory):
    """The address of a published folder on a web server."""
    folder = tmp_path_factory.mktemp("site")
    heatproof.publish([run], folder)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def complaints(browser):
    return [entry["message"] for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


def test_names_do_not_act(browser, run, tmp_path):
    """A script, a broken picture or a handler in a name would leave its mark on the window."""
    shutil.copytree(run.folder, tmp_path / "other")
    pages = [
        run.folder / "report.html",
        heatproof.compare([run.folder, tmp_path / "other"]).write(tmp_path / "compared"),
        *run.folder.glob("sections/*/*/pair.html"),
    ]
    for page in pages:
        browser.get(page.resolve().as_uri())
        assert browser.execute_script("return window.hacked === undefined"), page
        assert complaints(browser) == []
    browser.get(pages[0].resolve().as_uri())
    shown = browser.execute_script("return document.body.textContent")
    assert "<b onmouseover=window.hacked=1>" in shown, "the name is there to read"
    assert CLASSES[1] in shown


def test_a_site_shows_itself(browser, site):
    """Served over HTTP: the index leads to the run's page, and every link of it to a file."""
    browser.get(f"{site}/index.html")
    assert browser.execute_script("return window.hacked === undefined")
    said = browser.execute_script("return [...document.querySelectorAll('main p')].map(e => e.textContent).join(' ')")
    assert "=Net[bold]<script>window.hacked=1" in said
    links = browser.execute_script("return [...document.querySelectorAll('a')].map(a => a.href)")
    assert len(links) >= 7
    for link in set(links):
        assert link.startswith(site)
        with urlopen(link) as answer:
            assert answer.status == 200
    browser.set_window_size(390, 800)
    wide = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    browser.set_window_size(1400, 1000)
    assert wide[0] <= wide[1]
    browser.execute_script("document.querySelector('h3 a').click()")
    assert browser.current_url.endswith("/report.html")
    assert complaints(browser) == []

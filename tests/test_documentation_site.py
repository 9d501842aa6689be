"""The documentation as a site: it builds strictly, without network, and pages look as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import heatproof
from heatproof.explainers import explainers
from heatproof.metrics import metrics

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = os.environ | {
        "NO_MKDOCS_2_WARNING": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }
    made = subprocess.run([sys.executable, "-m", "mkdocs", *words], cwd=ROOT, env=env, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def test_every_page_is_there_and_in_the_navigation(site):
    home = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        assert (site / name / "index.html").is_file(), name
        assert f'href="{name}/"' in home, f"{name} is in no section"
    for name in explainers.own():
        assert (site / "sheets" / name / "index.html").is_file()


def test_all_public_names_and_metrics_are_described(site):
    api = (site / "api" / "index.html").read_text()
    for name, home in heatproof._HOMES.items():
        assert f'id="heatproof.{home}.{name}"' in api, name
    page = (site / "metrics" / "index.html").read_text()
    assert [name for name in metrics.own() if f'id="{name}"' not in page] == []


def test_code_stays_code(site):
    """What is in a block of the README is in a block of the page, and no fence is left over."""
    home = (site / "index.html").read_text()
    blocks = (ROOT / "README.md").read_text().count("```") // 2
    assert home.count("<pre>") == blocks
    for page in site.rglob("index.html"):
        assert "```" not in re.sub(r"<pre>.*?</pre>", "", page.read_text(), flags=re.DOTALL), page


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text()
        )
        assert loaded == [], page


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120

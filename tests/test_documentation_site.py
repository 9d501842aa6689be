"""The documentation as a site: it builds strictly, without network, and pages look as they are written."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import heatproof
from heatproof.benchmarks import benchmarks
from heatproof.explainers import explainers
from heatproof.explainers.spec import BROUGHT
from heatproof.metrics import metrics
from heatproof.pooling import poolings

ROOT = Path(__file__).parents[1]


def hooks() -> dict[str, Any]:
    """What makes the pages that nobody writes."""
    return runpy.run_path(str(ROOT / "docs" / "_site" / "hooks.py"))


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
    for name in (*explainers.own(), *BROUGHT):
        assert (site / "sheets" / name / "index.html").is_file()


def test_all_public_names_and_metrics_are_described(site):
    api = (site / "api" / "index.html").read_text()
    for name, home in heatproof._HOMES.items():
        assert f'id="heatproof.{home}.{name}"' in api, name
    page = (site / "metrics" / "index.html").read_text()
    assert [name for name in metrics.own() if f'id="{name}"' not in page] == []


@pytest.mark.parametrize("registry", [explainers, metrics, poolings, benchmarks], ids=lambda found: found.kind)
def test_all_that_is_registered_is_on_a_page(registry):
    """What people write is enough: pages that are made of the registry itself do not count, except for poolings."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    if registry is poolings:
        pages = [hooks()["metric_page"]()]
    words = {word for page in pages for word in re.findall(r"[\w-]+", page)}
    assert [name for name in registry.own() if name not in words] == []


def test_families_and_metrics_name_what_vouches_for_them(site):
    """Formula, paper, reference test, and the paper's number beside ours."""
    families = "".join((site / page).with_suffix("").joinpath("index.html").read_text() for page in hooks()["FAMILIES"])
    for name in explainers.own():
        assert f'sheets/{name}/"' in families, f"{name} is on no family's page"
    page = (site / "metrics" / "index.html").read_text()
    assert page.count("<td>reference test</td>") == len(metrics.own())
    for words in ("lrp", "roe_accuracy", "Sattarzadeh et al. 2021"):
        assert words in page
    assert (
        "65.1" in (site / "sheets" / "integrated_gradients" / "index.html").read_text()
    )  # the ROE test in SVEA's paper


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

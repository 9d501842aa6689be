"""Packages that add to Heatproof: the template is installed as users do, and run; a broken one costs itself only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from heatproof import HeatproofError, plugins
from heatproof.benchmarks import benchmarks
from heatproof.explainers import explainers
from heatproof.metrics import metrics
from heatproof.pooling import poolings
from heatproof.registry import Registry

TEMPLATE = Path(__file__).parents[1] / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the template package, installed by pip without any network."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(folder)]
    made = subprocess.run([*pip, *options, str(TEMPLATE)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder


def add_package(folder: Path, name: str, group: str, entry: str, code: str) -> None:
    """A package that consists of one module and one entry point, as installers leave it behind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[heatproof.{group}]\n{entry}\n")
    (folder / f"{name}.py").write_text(code)


def python(*words: str, site: Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": paths, "COLUMNS": "200", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=cwd, env=env)


def heatproof(*words: str, site: Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-c", "from heatproof.cli import main; main()", *words, site=site, cwd=cwd, **environment)


def test_the_templates_own_tests_pass(installed):
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEMPLATE / "tests"), site=installed, cwd=TEMPLATE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_the_templates_benchmark_runs_with_its_explainer_and_metric(installed, tmp_path):
    words = ["run", "halves", "--signals", "12", "--metrics", "mask_coverage", "--out", "run", "--jobs", "1", "--quiet"]
    done = heatproof(*words, site=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    board = pl.read_csv(tmp_path / "run" / "leaderboard.csv")
    means = dict(board.filter(metric="mass_accuracy").select("explainer", "mean").iter_rows())
    assert means["squared_gradient"] == means["oracle"] == 1.0  # all of a class' gradient lies on its own half
    assert means["random"] < 0.9
    assert set(board["metric"]) == {"mass_accuracy", "mask_coverage"}
    assert '"package": "heatproof-example 0.1.0"' in (tmp_path / "run" / "run.json").read_text()


def test_the_templates_benchmark_runs_as_its_readme_says(installed, tmp_path):
    done = heatproof("run", "halves", "--signals", "50", site=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "squared_gradient" in done.stdout
    assert "Every method beats the floors" in done.stdout
    assert (tmp_path / "runs" / "halves-standard" / "report.html").is_file()


def test_plugins_are_listed_and_can_be_left_out(installed):
    assert "mean_abs" in heatproof("list", "poolings", site=installed).stdout
    assert "mean_abs" not in heatproof("list", "poolings", site=installed, HEATPROOF_PLUGINS="off").stdout


BROKEN = [
    ("explainers", "wild = broken:Wild", "import a_library_that_nobody_has", "does not load: ModuleNotFoundError"),
    ("explainers", "wild = broken:Wild", "raise SystemExit('no licence')", "does not load: SystemExit: no licence"),
    ("explainers", "wild = broken:Wild", "Wild = 3", "must be a subclass of heatproof.Explainer"),
    ("explainers", "gradient = broken:Wild", "from heatproof import Explainer as Wild", "the name is taken"),
    ("metrics", "wild = broken:wild", "def wild(apples): return 1\nwild = [wild]", "must be a function"),
    ("poolings", "wild = broken:wild", "", "does not load: AttributeError"),
    ("benchmarks", "wild = broken:Wild", "class Wild: pass", "must be a subclass of heatproof.Benchmark"),
]


REGISTRIES = {"explainers": explainers, "metrics": metrics, "poolings": poolings, "benchmarks": benchmarks}


@pytest.mark.parametrize(("group", "entry", "code", "words"), BROKEN, ids=[words for *_, words in BROKEN])
def test_a_broken_plugin_costs_itself_only(tmp_path, monkeypatch, group, entry, code, words):
    """A registry like that of the group, with what it has, finds the package on the path, and leaves it out."""
    add_package(tmp_path, "broken", group, entry, code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    plugins.forget()
    usual = REGISTRIES[group]
    registry = Registry(usual.kind, f"heatproof.{group}", usual._admit)
    registry._entries = dict(usual.own())
    try:
        assert list(registry) == list(usual.own())
        (said,) = plugins.problems()
        assert "of broken 1.0" in said
        assert words in said
        with pytest.raises(HeatproofError, match=r"unknown .* 'gradiant'"):
            registry["gradiant"]
        if entry.startswith("wild"):
            with pytest.raises(HeatproofError, match="of broken 1"):
                registry["wild"]
        else:
            assert registry["gradient"] is usual["gradient"]
    finally:
        plugins.forget()


def test_who_asks_for_a_broken_plugin_is_told_why(tmp_path):
    add_package(tmp_path, "broken", "explainers", "wild = broken:Wild", "import a_library_that_nobody_has")
    add_package(tmp_path, "hurt", "benchmarks", "bench = hurt:Wild", "import a_library_that_nobody_has")
    for words in (["run", "svea", "--explainers", "wild", "--out", "run"], ["run", "bench"]):
        asked = heatproof(*words, site=tmp_path, cwd=tmp_path)
        assert asked.returncode == 2
        assert "does not load: ModuleNotFoundError: No module named 'a_library_that_nobody_has'" in asked.stderr
        assert "Traceback" not in asked.stderr
    helped = heatproof("run", "--help", site=tmp_path)
    assert helped.returncode == 0
    assert "svea" in helped.stdout


def test_help_does_not_load_plugins(tmp_path):
    add_package(tmp_path, "slow", "explainers", "slow = slow:Slow", "raise RuntimeError('loaded')")
    for words in (["run", "svea", "--help"], ["list", "metrics"]):
        assert "loaded" not in heatproof(*words, site=tmp_path).stderr
    listed = heatproof("list", "explainers", site=tmp_path)
    assert listed.returncode == 0
    assert "integrated_gradients" in listed.stdout
    assert "of slow 1.0 does not load: RuntimeError: loaded" in listed.stderr

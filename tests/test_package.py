"""The sdist and the wheel: they build, hold what they must and nothing else, and the wheel works by itself.

`make package` does the same in an environment that is really empty; here the dependencies are those that are installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEGABYTES = 6
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    made = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"HEATPROOF_REPOSITORY": "https://h.test/p"}
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    (found,) = dist.glob("*.whl")
    return found


def test_the_wheel_is_small_and_holds_what_ships(wheel):
    assert wheel.stat().st_size < MEGABYTES * 10**6
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        metadata = file.read(next(name for name in names if name.endswith("METADATA"))).decode()
    for needed in (
        "heatproof/py.typed",
        "heatproof/explainers/facts.json",
        "heatproof/results/run.schema.json",
        "heatproof/models/pretrained/film_vqa.npz",
        "heatproof/clevr/shipped/CLEVR_scenes.json",
        "heatproof/benchmarks/references/svea.csv",
    ):
        assert needed in names
    assert not [name for name in names if name.split("/")[0] not in ("heatproof",) and ".dist-info/" not in name]
    assert "Project-URL: Repository, https://h.test/p" in metadata
    assert "](https://h.test/p/raw/main/docs/report.png)" in metadata
    assert "](https://h.test/p/blob/main/docs/limits.md)" in metadata
    assert "](docs/" not in metadata  # which leads nowhere in a package index


def test_the_sdist_has_sources_tests_and_licence(dist):
    (found,) = dist.glob("*.tar.gz")
    with tarfile.open(found) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "hatch_build.py", "tests/conftest.py", "mkdocs.yml"} <= names


def test_the_wheel_works_far_from_the_repository(wheel, tmp_path):
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, str(wheel)], check=True)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env |= {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}

    def heatproof(*words: str) -> str:
        script = "from heatproof.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=tmp_path, env=env
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(site) in heatproof("doctor", "--json")
    assert "kept" in heatproof("list", "explainers", "integrated_gradients")
    for benchmark in ("svea", "focus", "clevr-xai"):
        words = ["--explainers", "gradient,random", "--limit", "8", "--jobs", "1", "--quiet"]
        heatproof("run", benchmark, *words, "--out", f"runs/{benchmark}")
        assert (tmp_path / "runs" / benchmark / "report.html").is_file()

"""`make` on a machine that lacks something: one sentence that says what to do, and no traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def make(folder: Path, python: str, **environment: str) -> list[str]:
    """The lines that a failing `make run` prints, without make's own."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        ["make", "run", f"PYTHON={python}"], cwd=folder, env=inherited | environment, capture_output=True, text=True
    )
    assert done.returncode != 0
    return [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("make")]


def script(folder: Path, *lines: str) -> str:
    """A program that stands in for a Python."""
    path = folder / "python-stand-in"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def needs_make() -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")


def test_an_old_python(tmp_path: Path) -> None:
    (said,) = make(tmp_path, script(tmp_path, "exit 1"))
    assert "needs Python 3.10 or newer" in said
    assert "PYTHON=" in said


def test_a_python_without_venv(tmp_path: Path) -> None:
    (said,) = make(tmp_path, script(tmp_path, 'test "$1" = -c && exit 0', "mkdir .venv; exit 1"))
    assert "python3-venv" in said
    assert not (tmp_path / ".venv").exists()


def test_no_package_index(tmp_path: Path) -> None:
    *_, said = make(tmp_path, sys.executable, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert "package index" in said
    assert (tmp_path / ".venv" / "install.log").read_text()
    assert not (tmp_path / ".venv" / "run").exists()

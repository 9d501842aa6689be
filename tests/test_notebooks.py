"""Every notebook runs from its first to its last cell, and every tutorial from its first to its last line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from fences import blocks

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NOT_HERE = {"pip install heatproof": "the tests run what is installed"}
"""Lines that are not run, and why."""


def test_notebooks_are_kept_without_outputs():
    """So that a change of theirs can be read; and there are three."""
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_run(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_tutorials_run_from_first_to_last_line(path, tmp_path):
    """Python that begins with the name of a file goes there, and is run; commands run in the same folder."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "160"}
    done = 0
    for kind, block in blocks(path.read_text(encoding="utf-8")):
        if kind == "text":
            continue  # what is printed, or needs a cluster
        if kind in ("python", "py"):
            named = re.match(r"# (\w+\.py)\n", block)
            file = tmp_path / (named[1] if named else "snippet.py")
            with file.open("a" if named else "w", encoding="utf-8") as place:
                place.write(block)
            subprocess.run([sys.executable, file.name], cwd=tmp_path, env=env, check=True)
            continue
        for line in block.splitlines():
            if line.startswith(tuple(NOT_HERE)):
                continue
            words = shlex.split(line, comments=True)
            assert words[0] == "heatproof", line
            ran = subprocess.run(
                [sys.executable, "-m", "heatproof", *words[1:]], cwd=tmp_path, env=env, capture_output=True, text=True
            )
            assert ran.returncode == 0, f"{line}\n{ran.stderr}"
            done += 1
    assert done

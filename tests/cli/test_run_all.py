"""`heatproof run all`: the three benchmarks, one page over them, and the answer as the last lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import heatproof
from heatproof.cli.app import app
from heatproof.run_folder import REPORT

ROOT = Path(__file__).parents[2]


def test_it_ends_with_the_answer_and_one_page(tmp_path):
    words = ["run", "all", "--explainers", "gradient,random", "--until-settled", "--out", str(tmp_path), "--quiet"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[-1] == f"page   {tmp_path / REPORT}"
    last = lines[lines.index("CLEVR-XAI") :]
    for name in ("svea-quick", "focus-quick", "clevr-xai-quick", "clevr-xai-complex-quick", "masks-quick"):
        run = heatproof.load_run(tmp_path / name)
        assert run.manifest["settled"]["text"], "small presets run to their end, and say so"
        for sentence in run.verdict.sentences:
            assert f"  {sentence}" in last
    assert "Across runs" in last
    assert (tmp_path / REPORT).stat().st_size < 5 * 10**6


@pytest.mark.slow
def test_make_run_leaves_a_page_that_can_be_mailed(tmp_path):
    """What the Makefile says, line by line."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nrun:")[1].split("\n\n")[0]
    lines = [line.split("/heatproof ")[1] for line in recipe.splitlines() if "/heatproof " in line]
    for line in lines:
        subprocess.run([sys.executable, "-m", "heatproof", *line.split()], cwd=tmp_path, check=True)
    assert lines[-1].startswith("report ")
    assert (tmp_path / "runs" / REPORT).stat().st_size < 5 * 10**6

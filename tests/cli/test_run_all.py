"""`heatproof run all`: the three benchmarks, one page over them, and the answer as the last lines."""

from __future__ import annotations

from typer.testing import CliRunner

import heatproof
from heatproof.cli.app import app
from heatproof.run_folder import REPORT


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

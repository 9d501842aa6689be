"""The Python of docs/clevr-ground-truth.md runs, on a small world in place of the reader's own."""

from __future__ import annotations

import re
from pathlib import Path

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from tiny_datasets import write_world

PAGE = Path(__file__).parents[2] / "docs" / "clevr-ground-truth.md"


def test_the_snippet_runs(tmp_path, monkeypatch, capsys):
    make_masks(open_dataset(write_world(tmp_path / "worlds")))
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "snippet", "exec"), {})
    assert "(8, 128, 128)" in capsys.readouterr().out

"""Half precision: taken where scores stay the same, and the run says by how much they change."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.engine.precision import SAME_SCORE
from run_files import part_lines

SMALL = {"preset": "quick", "limit": 40, "target": "logit"}
KEYS = ["explainer", "metric", "pooling", "case"]


def relevance_of(run: heatproof.Run, folder: str) -> set[str]:
    """The types of an explainer's kept relevance."""
    return {str(heatmap.dtype) for heatmap in run.files.heatmaps(folder, "mnist1d_cnn-1").values()}


def test_each_explainer_takes_the_precision_that_its_scores_bear(tmp_path: Path) -> None:
    """Reference: the same run in float32; its scores differ for those that took the other, and not by much."""
    explainers = "grad_cam,sise,random"
    full = heatproof.run("svea", explainers=explainers, out=tmp_path / "full", **SMALL)
    half = heatproof.run("svea", explainers=explainers, precision="float16", out=tmp_path / "half", **SMALL)
    assert not half.failures()
    taken, left = half.manifest["said"]
    assert re.search(r"explained in float16.* first 8 cases by at most: grad_cam of the logit 0\.000\d+, random", taken)
    assert re.search(r"not in float16, .* by more than 0\.001: sise of the logit \d", left)
    assert full.manifest["said"] == []
    pairs = half.scores().join(full.scores(), on=KEYS).filter(~pl.col("metric").is_in(["seconds", "memory"]))
    changes = pairs.with_columns(change=(pl.col("value") - pl.col("value_right")).abs().fill_nan(0.0))
    greatest = dict(changes.group_by("explainer").agg(pl.col("change").max()).iter_rows())
    assert greatest["sise"] == 0
    assert 0 < greatest["grad_cam"] < 10 * SAME_SCORE  # it was measured on eight cases, these are all
    assert relevance_of(half, "grad_cam@logit") == {"float32"}
    lines = part_lines(tmp_path / "half")
    made = {line["part"].split("/")[1]: half.manifest["machines"][line["machine"]] for line in lines}
    assert made["grad_cam@logit"]["precision"] == "float16"
    assert "precision" not in made["sise@logit"]
    assert half.manifest["precision"] == "float16"
    assert half.manifest["configuration"] == full.manifest["configuration"]


class Particular(nn.Module):
    """SVEA's network for those who give it float32, and notes what it is given."""

    types: list[torch.dtype] = []  # noqa: RUF012  # of all copies

    def __init__(self) -> None:
        super().__init__()
        from heatproof.models.mnist1d_cnn import trained_network

        self.network = trained_network(1)

    def forward(self, signals: Tensor) -> Tensor:
        self.types.append(signals.dtype)
        if signals.dtype != torch.float32:
            raise RuntimeError("not implemented for such numbers")
        logits: Tensor = self.network(signals)
        return logits


def test_what_fails_in_half_precision_is_done_in_full(tmp_path: Path) -> None:
    expected = heatproof.run("svea", explainers="gradient,centre", out=tmp_path / "a", **SMALL)
    Particular.types.clear()
    run = heatproof.run(
        "svea", model=Particular(), explainers="gradient,centre", precision="bfloat16", out=tmp_path / "b", **SMALL
    )
    assert not run.failures()
    assert any("gradient of the logit fails" in said for said in run.manifest["said"])
    assert torch.bfloat16 in Particular.types
    rows = [
        r.scores().filter(explainer="gradient").filter(~pl.col("metric").is_in(["seconds", "memory"]))
        for r in (run, expected)
    ]
    assert rows[0].sort(KEYS)["value"].equals(rows[1].sort(KEYS)["value"], null_equal=True)


def test_scores_come_from_the_model_in_full_precision(tmp_path: Path) -> None:
    """Drop and Increase of the same regions are the same."""
    types: list[torch.dtype] = []

    def seen(heatmap: Tensor, model: nn.Module, batch: heatproof.Batch) -> Tensor:
        types.append(next(model.parameters()).dtype)
        return torch.zeros(len(batch), dtype=torch.float64)

    heatproof.run("svea", explainers="centre", metrics=[seen], precision="float16", out=tmp_path / "r", **SMALL)
    assert set(types) == {torch.float32}


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_dry_runs_are_measured_in_it(precision: str) -> None:
    types: list[torch.dtype] = []

    def watched(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        types.append(inputs.dtype)
        return inputs.abs()

    found = heatproof.dry_run("svea", explainers=[watched], limit=20, target="logit", precision=precision)
    assert not found.lines[0].failure
    assert types[-1] == getattr(torch, precision)

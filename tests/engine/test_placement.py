"""Runs on a second device. Reference: the same run on the processor, to the last bit."""

from __future__ import annotations

import gc
import math
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor, nn

import heatproof
from elsewhere import DEVICE, elsewhere
from heatproof.benchmarks import benchmarks
from heatproof.benchmarks.focus import Focus
from heatproof.benchmarks.svea import Svea
from heatproof.devices import computing_on, device_of
from heatproof.engine.estimate import expected_seconds
from heatproof.engine.manifest import machine
from heatproof.engine.resume import probe
from heatproof.engine.sources import Explaining
from heatproof.errors import HeatproofError
from heatproof.explainers.spec import make_explainers
from heatproof.models.mnist1d_cnn import trained_network
from run_files import part_lines

SMALL: dict[str, Any] = {"preset": "quick", "limit": 20}
FOCUS = [name.replace("lime:top=5", "lime:top=5,samples=30") for name in Focus().default_explainers]
RUNS: dict[str, dict[str, Any]] = {
    "svea": SMALL,
    "focus": {"preset": "quick", "limit": 2, "randomise": "all", "explainers": FOCUS},
    "clevr-xai": {"preset": "quick", "limit": 4},
    "clevr-removal": {"preset": "quick", "limit": 2, "scenes": 1},
    "clevr-twins": {"preset": "quick", "limit": 2},
    "svea-removal": SMALL,
    "masks": {"preset": "quick", "limit": 2, "explainers": FOCUS},
}
"""A small run of each benchmark, with its own explainers; LIME asks a thousand times unless told otherwise."""
MEASURED = ("clevr-removal", "clevr-twins", "svea-removal")
"""Their truth, or what they tell of a case, is logits, which are equal up to rounding."""


@pytest.fixture
def same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows at once on the processor as elsewhere: those are more, and the last digit may hang on it."""
    monkeypatch.setattr("heatproof.explainers.memory.CACHED", 2**60)


def scores(run: heatproof.Run) -> pl.DataFrame:
    rows = run.scores().filter(~pl.col("metric").is_in(["seconds", "memory"]))
    axes = ["model", "target", "explainer", "metric", "ground_truth", "pooling", "case"]
    return rows.sort(axes).select(sorted(rows.columns))


class Watched(nn.Module):
    """SVEA's network, which notes where it is asked."""

    places: list[str] = []  # noqa: RUF012  # of all copies

    def __init__(self) -> None:
        super().__init__()
        self.network = trained_network(1)

    def forward(self, signals: Tensor) -> Tensor:
        self.places.append(signals.device.type)
        logits: Tensor = self.network(signals)
        return logits


def test_every_benchmark_is_tested() -> None:
    assert {name for name, kind in benchmarks.items() if kind.__module__.startswith("heatproof.")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_every_benchmark_scores_there_as_here(name: str, tmp_path: Path, same_blocks: None) -> None:
    """On a device that lacks float64, as Apple's do."""
    here = heatproof.run(name, out=tmp_path / "here", **RUNS[name])
    with elsewhere(doubles=False):
        there = heatproof.run(name, out=tmp_path / "there", device="meta", **RUNS[name])
    assert not here.failures()
    assert not there.failures()
    measured = [pl.Float64] if name in MEASURED else []
    rounded = pl.selectors.by_dtype(measured)
    assert scores(there).select(~rounded).equals(scores(here).select(~rounded))
    found, expected = (scores(run).select(rounded).fill_null(math.nan).to_numpy() for run in (there, here))
    assert found == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_all_is_computed_on_the_device(tmp_path: Path) -> None:
    """Predictions, explanations, Drop and Increase, and metrics that ask the model; nothing but a look at its form."""
    model = Watched()
    asked: list[str] = []

    def confidence(heatmap: Tensor, model: nn.Module, batch: heatproof.Batch) -> Tensor:
        with torch.no_grad():
            logits = model(batch.inputs * (heatmap > 0)[:, None])
        asked.append(logits.device.type)
        return logits.softmax(1).amax(1).double()

    with elsewhere():
        Watched.places.clear()
        run = heatproof.run(
            "svea",
            model=model,
            explainers="gradient,rise:masks=5",
            metrics=[confidence],
            device="meta",
            out=tmp_path / "r",
            **SMALL,
        )
        assert not run.failures()
        assert set(asked) == {"cpu"}
        assert Watched.places.count("cpu") == 1
        assert Watched.places.count("meta") > 20
    assert device_of(model) == torch.device("cpu")


@pytest.mark.parametrize(("name", "looked_at"), [("svea", 0), ("focus", 10), ("clevr-xai", 0)])
def test_models_answer_there_while_a_benchmark_is_opened(name: str, looked_at: int) -> None:
    """Rows through linear layers; Focus looks at the form of any classifier first, on the CPU."""
    rows: Counter[str] = Counter()

    def count(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(module, nn.Linear):
            rows[inputs[0].device.type] += len(inputs[0])

    hook = torch.nn.modules.module.register_module_forward_pre_hook(count)
    try:
        with elsewhere(), computing_on("meta"):
            options = {key: value for key, value in RUNS[name].items() if key not in ("preset", "explainers")}
            opened = benchmarks[name].from_preset("quick", **options).open(0)
    finally:
        hook.remove()
    assert rows["cpu"] == looked_at
    assert rows["meta"] >= sum(chunk.cases for chunk in opened.chunks())


def test_a_model_that_lives_there_is_explained_here(tmp_path: Path) -> None:
    """A network that was trained on a device goes into a run as it is; it stays where it was."""
    expected = heatproof.run("svea", model=trained_network(1), explainers="gradient", out=tmp_path / "a", **SMALL)
    with elsewhere() as device:
        model = trained_network(1).to(device)
        found = heatproof.run("svea", model=model, explainers="gradient", out=tmp_path / "b", **SMALL)
        again = heatproof.run("svea", model=model, explainers="gradient", device="meta", out=tmp_path / "c", **SMALL)
        assert device_of(model) == device
    assert scores(found).equals(scores(expected))
    assert scores(again).equals(scores(expected))


def test_a_run_goes_on_elsewhere(tmp_path: Path) -> None:
    """Half of a run here, the rest there: one run, whose parts say on what they were made."""
    out = tmp_path / "r"
    heatproof.run("svea", explainers="gradient", out=out, **SMALL)
    before = {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
    with elsewhere():
        run = heatproof.run("svea", explainers="gradient,grad_cam", device="meta", out=out, **SMALL)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert run.manifest["device"] == "meta:0"
    assert machine("auto") == machine("cpu")
    lines = part_lines(out)
    made = {line["part"].split("/")[1]: run.manifest["machines"][line["machine"]] for line in lines}
    assert "device" not in made["gradient@logit"]
    assert made["grad_cam@logit"]["device"] == "meta:0"
    here = heatproof.run("svea", explainers="gradient,grad_cam", out=tmp_path / "here", **SMALL)
    assert scores(run).equals(scores(here))
    assert here.manifest["device"] == "cpu"
    assert here.manifest["precision"] == "float32"
    assert here.manifest["configuration"] == run.manifest["configuration"]


def test_what_is_asked_beside_explaining_is_asked_there() -> None:
    """The probe of the logits, the size of the model and the estimate; reference: the same here."""
    opened = Svea(limit=20).open(0)
    here = Explaining(opened, make_explainers("gradient,score_cam"))
    with elsewhere():
        there = replace(here, device="meta")
        assert device_of(there.model("mnist1d_cnn-1")) == DEVICE
        assert probe(there) == probe(here)
        assert there.size == here.size
        assert all(expected_seconds(source, source.tasks(source.units())) > 0 for source in (here, there))


def test_models_are_copied_once_and_forgotten_with_the_original() -> None:
    with elsewhere():
        opened = Focus(limit=2, randomise="cascade").open(0)
        source = Explaining(opened, make_explainers("gradient"), device="meta")
        first, second = list(opened.models)[:2]
        assert source.model(first) is source.model(first)
        copied = source.model(second)
        assert source.model(second) is copied
        assert len(source.placement.copies) == 2
        source.model(list(opened.models)[2])  # for which the cascade forgets the one before
        gc.collect()
        assert len(source.placement.copies) == 2


def test_a_source_that_has_been_used_goes_to_other_processes() -> None:
    with elsewhere():
        source = Explaining(Svea(limit=20).open(0), make_explainers("gradient"), device="meta")
        found = probe(source)
        sent = pickle.loads(pickle.dumps(source.placement))
        assert (sent.device, sent.precision, len(sent.copies)) == ("meta", "float32", 0)
        assert probe(pickle.loads(pickle.dumps(source))) == found


def test_show_and_dry_run_take_a_device(tmp_path: Path) -> None:
    drawn = [tmp_path / "here.svg", tmp_path / "there.svg"]
    heatproof.show("svea", "test-0001", explainers="gradient,rise:masks=5", limit=20, out=drawn[0])
    with elsewhere():
        heatproof.show("svea", "test-0001", explainers="gradient,rise:masks=5", limit=20, out=drawn[1], device="meta")
        found = heatproof.dry_run("svea", explainers="gradient", target="logit", limit=20, device="meta")
    assert drawn[0].read_text() == drawn[1].read_text()
    assert [line.passes for line in found.lines] == [40]


@pytest.mark.parametrize("call", [heatproof.run, heatproof.dry_run])
def test_what_is_not_there_is_said_before_any_work(call: Any, tmp_path: Path) -> None:
    with pytest.raises(HeatproofError, match="no device 'cuda:9'"):
        call("svea", device="cuda:9", limit=20)
    with pytest.raises(HeatproofError, match=r"unknown precision 'float61'.*float16"):
        call("svea", precision="float61", limit=20)

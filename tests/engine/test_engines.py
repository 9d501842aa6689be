"""Where a run is done changes nothing of its scores. Reference: the run in one process, to the last bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import heatproof
from heatproof.cases import Chunk
from heatproof.engine.meter import Meter
from heatproof.engine.plan import Task, Unit
from heatproof.errors import HeatproofError
from heatproof.explainers.sharing import SharingExplainer
from running import descendants, is_running, wait_for

SMALL: dict[str, dict[str, Any]] = {
    "svea": {"limit": 1200, "explainers": "gradient,smoothgrad:samples=3,rise:masks=20,lime:samples=30,sise,random"},
    "focus": {"per_class": 1, "explainers": "grad_cam,lime:samples=20,lrp:composite=focus,randomised:grad_cam"},
    "clevr-xai": {"limit": 6, "explainers": "gradient,excitation_backprop,grad_cam,oracle:mask=single_object"},
}


def scores(run: heatproof.Run) -> pl.DataFrame:
    return run.scores().filter(~pl.col("metric").is_in(["seconds", "memory"])).sort(pl.all().exclude("value"))


def assert_same(one: heatproof.Run, other: heatproof.Run) -> None:
    assert_frame_equal(scores(one), scores(other), check_exact=True)
    measured = ["seconds_per_case", "peak_memory"]
    assert_frame_equal(one.leaderboard().drop(measured), other.leaderboard().drop(measured))
    assert not other.failures()


@pytest.mark.parametrize("benchmark", SMALL)
def test_worker_processes_give_the_same_scores(benchmark, tmp_path):
    here, there = (
        heatproof.run(benchmark, out=tmp_path / engine, engine=engine, jobs=2, target="both", **SMALL[benchmark])
        for engine in ("local", "processes")
    )
    assert_same(here, there)
    assert (here.manifest["cost"]["processes"], there.manifest["cost"]["processes"]) == (1, 3)


def test_quantities_share_their_passes(tmp_path):
    """Each is a part of its own, with the passes that it would take alone; one that is lost is made alone."""
    options = {"limit": 60, "explainers": "rise:masks=20", "out": tmp_path / "r", "engine": "local"}
    both = heatproof.run("svea", target="both", **options)
    parts = sorted(both.folder.glob("scores/*/*.parquet"))
    assert len(parts) == 4  # two quantities, training and test signals
    alone = heatproof.run("svea", target="logit", **options | {"out": tmp_path / "alone"})
    before = scores(both)
    logit = before.filter(target="logit")
    assert_frame_equal(logit, scores(alone).filter(target="logit"), check_exact=True)
    assert logit.filter(metric="passes")["value"].unique().to_list() == [20.0]
    parts[0].unlink()
    assert_frame_equal(scores(heatproof.run("svea", target="both", **options)), before, check_exact=True)


@dataclass(frozen=True, kw_only=True)
class Picky(SharingExplainer):
    """Does not like probabilities."""

    name = "picky"

    def explain_each(self, model, batch, rng, quantities):
        if "probability" in quantities:
            raise ValueError("no probabilities")
        return [batch.inputs.abs() for _ in quantities]


def test_a_quantity_that_fails_leaves_the_other_alone(tmp_path):
    run = heatproof.run("svea", limit=60, explainers=[Picky()], target="both", out=tmp_path / "r", engine="local")
    assert {(failure["target"], failure["message"]) for failure in run.failures()} == {
        ("probability", "ValueError: no probabilities")
    }
    assert run.scores().filter(explainer="picky")["target"].unique().to_list() == ["logit"]


def test_gradients_of_two_quantities_cost_each_what_it_would_alone(tmp_path):
    """Reference: by hand, a pass forward and one backward for each of 4 + 1 steps."""
    run = heatproof.run("svea", limit=60, explainers="integrated_gradients:steps=4", target="both", out=tmp_path / "r")
    passes = run.scores().filter(metric="passes")
    assert passes["target"].unique().sort().to_list() == ["logit", "probability"]
    assert passes["value"].unique().to_list() == [10.0]


EXPLAINER = """
from helper import power
import torch

def explain(model, inputs, target):
    return inputs.abs() ** power

def broken(model, inputs, target):
    raise ValueError("not today")

def build():
    return Net()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last = torch.nn.Linear(40, 10)

    def forward(self, signals):
        return self.last(signals.flatten(1) ** power)
"""


def test_users_code_goes_along(tmp_path, monkeypatch):
    """A network and an explainer from a file that imports another file."""
    (tmp_path / "helper.py").write_text("power = 3\n")
    (tmp_path / "mine.py").write_text(EXPLAINER)
    file = tmp_path / "mine.py"
    monkeypatch.chdir(tmp_path.parent)
    options = {"limit": 40, "model": f"{file}:build", "target": "logit"}
    explainers = f"{file}:explain,gradient"
    here, there = (
        heatproof.run("svea", explainers=explainers, out=tmp_path / engine, engine=engine, jobs=2, **options)
        for engine in ("local", "processes")
    )
    assert_same(here, there)
    failing = heatproof.run(
        "svea", explainers=f"{file}:broken,gradient", out=tmp_path / "f", engine="processes", jobs=2, **options
    )
    assert {failure["message"] for failure in failing.failures()} == {"ValueError: not today"}


def test_stored_heatmaps_are_scored_in_processes_too(tmp_path):
    from heatproof.clevr.shipped import shipped_dataset

    kept = heatproof.run("clevr-xai", limit=6, explainers="gradient", keep_heatmaps=True, out=tmp_path / "r")
    import numpy as np

    maps = kept.files.heatmaps(kept.manifest["explainers"][0]["folder"], next(iter(kept.manifest["models"])))
    np.savez(tmp_path / "maps.npz", **{case.rpartition("-")[2].lstrip("0") or "0": m for case, m in maps.items()})
    one, two = (
        heatproof.evaluate(
            tmp_path / "maps.npz", dataset=shipped_dataset(), out=tmp_path / engine, engine=engine, jobs=2
        )
        for engine in ("local", "processes")
    )
    assert_same(one, two)


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_a_run_with_workers_ends_at_once_and_goes_on(how, code, tmp_path):
    words = "run svea --explainers gradient,rise:masks=600 --limit 5000 --target logit --engine processes --jobs 2"
    command = [sys.executable, "-c", "from heatproof.cli import main; main()", *words.split(), "--out", "r"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while process.poll() is None and not list(tmp_path.glob("r/scores/rise*/*.parquet")):
            time.sleep(0.05)
        family = descendants(process.pid)
        assert len(family) >= 2
        start = time.monotonic()
        os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
        _, said = process.communicate(timeout=30)
        took = time.monotonic() - start
    assert process.returncode == code, said
    assert took < 10  # two seconds on a machine that has nothing else to do
    assert "Traceback" not in said
    assert "go on with:\n  heatproof run svea --explainers" in said
    wait_for(lambda: not any(map(is_running, family)), 5)


def test_progress_is_weighed_by_what_tasks_took(monkeypatch):
    """Reference: by hand. Two tasks of 10 passes that took 1 s each, then one of 20 that is half done."""
    now = [0.0]
    monkeypatch.setattr("heatproof.engine.meter.time.monotonic", lambda: now[0])
    tasks = [
        Task((Unit("f", "rise:masks=9", "logit", Chunk(str(i), "m", cases), 9),)) for i, cases in enumerate((1, 1, 2))
    ]
    seen: list[tuple[str, float, float]] = []
    meter = Meter(tasks, lambda *told: seen.append(told))
    for place in (0, 1):
        meter.look({place: 0.0})
        now[0] += 1
        meter.finished(place, failed=place)
    meter.look({2: 0.5})
    assert seen[-1] == ("explaining: rise, 1.5 cases/s, 1 failed", 3.0, 4.0)


def test_an_unknown_engine_is_told():
    with pytest.raises(HeatproofError, match="unknown engine 'spark'"):
        heatproof.run("svea", engine="spark")

"""A Ray cluster of several nodes on this machine: the same as here, whatever becomes of a node."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import ray
import torch
from polars.testing import assert_frame_equal
from ray.cluster_utils import Cluster as RayCluster

import heatproof
from engine.test_settling import assert_same, run_until
from executors.test_executors import outcomes, until
from executors.work import Fragile, Holder, Reader, Square
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution
from heatproof.executors.cluster import Cluster
from question_scenes import random_scenes
from running import wait_for


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayCluster]:
    """A head and one more node, of one core each. Tests with a cluster wait for each other: two would time out."""
    place = Path(tempfile.gettempdir()) / "heatproof-test-ray.lock"
    with place.open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = [str(Path(__file__).parents[1]), *sys.path]  # nodes must find the works of the tests
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        cluster = RayCluster(initialize_head=True, head_node_args={"num_cpus": 1})
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


def test_every_task_is_delivered_once(nodes):
    assert outcomes(Cluster(), Square(), [1.0, 2.0, 3.0, 4.0, 5.0]) == {0: 1, 1: 4, 2: 9, 3: 16, 4: 25}
    found = outcomes(Cluster(), Fragile(), [1, 2, 3, 4])
    assert (found[0], found[1].message, found[2].message) == (1, "two is not wanted.", "ValueError: three")


def test_enough_is_enough(nodes):
    assert len(until(3, Cluster(), list(range(40)))) == 3


def test_a_process_that_dies_costs_its_own_task_only(nodes):
    found = outcomes(Cluster(), Fragile(), [1, 5, 4])
    assert (found[0], found[2]) == (1, 4)
    assert "on the cluster" in found[1].message


def test_arrays_are_mapped_and_may_be_written_to(nodes):
    array, tensor = np.arange(100_000.0), torch.rand(40, 400)
    for told in outcomes(Cluster(), Holder(array, tensor), [7, 8, 9, 10]).values():
        assert told["files"]["array"] == told["files"]["tensor"]
        assert "heatproof-cluster" in told["files"]["array"]
        assert told["sums"] == (array[1:].sum(), float(tensor.sum()))
        assert told["threads"] == 1


def test_files_are_sent_along(nodes, tmp_path):
    """The task finds them under another path: the folder is not there any more when it looks."""
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.txt").write_text("words")
    found = outcomes(Cluster(ship=[folder]), Reader(folder / "deep" / "a.txt"), [0])
    assert found[0][0] == "words"
    assert found[0][1] != str(folder / "deep" / "a.txt")


def scores(run: heatproof.Run) -> pl.DataFrame:
    return run.scores().filter(~pl.col("metric").is_in(["seconds", "memory"])).sort(pl.all().exclude("value"))


OPTIONS: dict[str, Any] = {"limit": 5000, "explainers": "gradient,rise:masks=40,smoothgrad:samples=5,random"}


def test_a_run_gives_the_same_scores_though_a_node_is_lost(nodes, tmp_path):
    """Reference: the run in this process, to the last bit."""
    here = heatproof.run("svea", out=tmp_path / "here", engine="local", **OPTIONS)
    third = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()

    def lose_one() -> None:
        wait_for(lambda: len(list(tmp_path.glob("there/scores/*/*.parquet"))) > 4, 120)
        nodes.remove_node(third)

    loser = threading.Thread(target=lose_one)
    loser.start()
    there = heatproof.run("svea", out=tmp_path / "there", engine="ray", **OPTIONS)
    loser.join()
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    assert not there.failures()
    assert_frame_equal(scores(here), scores(there), check_exact=True)


def test_pictures_and_questions_are_the_same(nodes, tmp_path):
    """Reference: made in this process, byte by byte. A scene that is there goes along."""
    (tmp_path / "s.json").write_text(json.dumps({"scenes": random_scenes(260)}))
    made: dict[str, dict[str, bytes]] = {}
    for engine in ("local", "ray"):
        folder, how, scenes = tmp_path / engine, Execution(engine), SceneSettings(width=60, height=40)
        render_dataset(folder, 2, scenes, None, how=Execution("local"))
        assert render_dataset(folder, 4, scenes, PictureSettings(samples=2), how=how) == 4
        make_questions(tmp_path / "s.json", "simple", out=folder / "q.json", how=how)
        made[engine] = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}
    assert len(made["local"]) == 4 * 4 + 3
    assert made["ray"] == made["local"]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_told(monkeypatch, address):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(
        HeatproofError, match=rf"no Ray cluster at {address} \(.*refused\)\. Start one with 'ray start --head'"
    ):
        outcomes(Cluster(address), Square(), [1.0])


def test_a_run_until_settled_stops_at_the_same_block(nodes, toy, tmp_path):
    here, there = (run_until(toy, tmp_path / engine, engine=engine, until_settled=True) for engine in ("local", "ray"))
    assert here.manifest["settled"]["saved"] > 0
    assert_same(there, here)

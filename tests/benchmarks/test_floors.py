"""Floors and ceiling without a network: the same maps as the explainers of these names, and beside any heatmaps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import heatproof
from heatproof.benchmarks.floors import FAMILIES, baseline_maps, baselines_for
from heatproof.explainers import explainers


@pytest.mark.parametrize("space", [(40,), (9, 13)])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "random"])
def test_maps_are_those_of_the_explainers(name, space):
    rng = np.random.default_rng(0)
    inputs, truth = rng.normal(size=(3, 2, *space)), rng.random((3, *space)) < 0.3
    truth[2] = False
    found = baseline_maps(name, ["a", "b", "c"], space, inputs, truth)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(2)).double()
    signals = torch.as_tensor(inputs)
    net(signals)
    masks = {"truth": torch.as_tensor(truth)}
    expected = heatproof.explain(net, signals, name, target=0, ground_truth=masks if name == "oracle" else None)
    np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected.numpy(), atol=1e-12)
    assert explainers[name].family == FAMILIES[name]


def test_random_maps_are_uniform_and_belong_to_their_case():
    first = baseline_maps("random", ["a", "b"], (50, 50), None, None, seed=3)
    again = baseline_maps("random", ["b"], (50, 50), None, None, seed=3)
    np.testing.assert_array_equal(first[1], again[0])
    assert np.abs(first[0] - first[1]).mean() > 0.1
    assert first.mean() == pytest.approx(0.5, abs=0.02)
    assert (first.min(), first.max()) == (pytest.approx(0, abs=0.01), pytest.approx(1, abs=0.01))


def test_what_is_not_at_hand_makes_no_baseline():
    assert baselines_for(False, False, 1) == ["random", "centre", "constant"]
    assert baselines_for(True, True, 1) == list(FAMILIES)
    assert baselines_for(True, True, 2) == ["random", "centre", "constant", "edges", "oracle"]


def test_heatmaps_of_signals_stand_beside_the_floors_of_a_run(tmp_path):
    """The same scores as the explainers of a run have, without a network."""
    names = ["input_magnitude", "centre", "edges", "constant", "oracle"]
    run = heatproof.run("svea", explainers=["gradient", *names], limit=100, out=tmp_path / "run", keep_heatmaps=True)
    maps = run.files.heatmaps("gradient@logit", "mnist1d_cnn-1")
    folder = tmp_path / "maps"
    folder.mkdir()
    for case, relevance in maps.items():
        np.save(folder / f"{case}.npy", relevance)
    scored = heatproof.evaluate(folder, benchmark="svea", out=tmp_path / "scored")
    ours, theirs = scored.leaderboard(), run.leaderboard()
    for name in names:
        for metric in ("roe_accuracy", "mass_accuracy", "rank_accuracy", "pointing_game"):
            here = ours.filter(explainer=name, metric=metric, subset="all")["mean"].to_list()
            there = theirs.filter(explainer=name, metric=metric, subset="all")["mean"].to_list()
            assert here == pytest.approx(there, abs=1e-6), (name, metric)
    assert ours.filter(explainer="maps", metric="mass_accuracy")["skill"].is_not_null().all()
    page = (scored.folder / "report.html").read_text(encoding="utf-8")
    assert "Skill in ROE test" in page
    assert "knows nothing of the model" in page


def test_heatmaps_called_like_a_floor_take_its_place(tmp_path):
    folder = tmp_path / "random"
    folder.mkdir()
    for split, count in (("train", 40), ("test", 10)):
        for place in range(count):
            np.save(folder / f"{split}-{place:04d}.npy", np.arange(40.0))
    run = heatproof.evaluate(folder, benchmark="svea", out=tmp_path / "r")
    first = run.manifest["explainers"][0]
    assert (first["explainer"], first["family"]) == ("random", "other")
    assert len(run.manifest["explainers"]) == len(FAMILIES)

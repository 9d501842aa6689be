"""MNIST-1D without the digit and without the noise: the signals, the effects, the scores, and what is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

import heatproof
from heatproof import mnist1d
from heatproof.benchmarks.svea_removal import PAINTED, PARTS, SveaRemoval
from heatproof.errors import HeatproofError
from heatproof.models.mnist1d_cnn import trained_network
from heatproof.testing import check_benchmark

FEW = 60


@pytest.fixture(scope="module")
def recipe() -> SveaRemoval:
    return SveaRemoval(limit=FEW)


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory) -> heatproof.Run:
    ceilings = [f"{PAINTED}:TrueEffects", f"{PAINTED}:TrueEffects:over=sum"]
    return heatproof.run(recipe, explainers=["gradient", "random", *ceilings], out=tmp_path_factory.mktemp("r") / "r")


def test_what_a_part_does_not_touch_keeps_its_value_to_the_last_bit():
    whole, without = mnist1d.published()[1], mnist1d.published("template")[1]
    assert np.array_equal(whole.y, without.y)
    assert np.array_equal(whole.template, without.template)
    assert np.array_equal(whole.x[~whole.template], without.x[~whole.template])
    assert (whole.x[whole.template] != without.x[whole.template]).mean() > 0.99


def test_signals_without_noise_are_those_that_are_made_without_any():
    """Reference: a generator that adds no noise. It whitens by its own mean and spread, so one line maps all points."""
    clean = mnist1d.make(mnist1d.Settings(signals=100, correlated_noise=0.0, white_noise=0.0))[0].x
    found = mnist1d.make(mnist1d.Settings(signals=100), without="noise")[0].x
    slope, offset = np.polyfit(clean.ravel(), found.ravel(), 1)
    assert found == pytest.approx(slope * clean + offset, abs=1e-9)


def test_without_its_template_a_signal_tells_nothing_of_the_digit():
    """What is seen in its place is noise, as strong for one digit as for another; the network can only guess."""
    whole, without = (mnist1d.make(mnist1d.Settings(signals=500), without=part)[0] for part in (None, "template"))
    inside = whole.template
    spread = {digit: without.x[without.y == digit][inside[without.y == digit]].std() for digit in range(10)}
    assert max(spread.values()) < 1.6 * min(spread.values())
    network = trained_network(1)
    with torch.no_grad():
        seen = network(torch.as_tensor(without.x[:, None], dtype=torch.float32)).argmax(1).numpy()
    assert (seen == without.y).mean() < 0.25


def test_effects_are_what_the_logit_loses(recipe):
    """Reference: the network asked by hand, in float64."""
    opened = recipe.open(0)
    network = trained_network(1).double()

    def logits(signals: mnist1d.Signals) -> torch.Tensor:
        with torch.no_grad():
            return network(torch.as_tensor(signals.x[:FEW, None]))

    before = logits(mnist1d.published()[1])
    seen = before.argmax(1)
    assert opened.effects.seen.tolist() == seen.tolist()
    for place, part in enumerate(PARTS):
        after = logits(mnist1d.published(part)[1])
        lost = (before - after).gather(1, seen[:, None])[:, 0].numpy()
        assert opened.effects.effect[:, place] == pytest.approx(lost, abs=1e-3)
        assert (opened.effects.after[:, place] == after.argmax(1).numpy()).mean() > 0.97


def test_the_benchmark_keeps_the_contract(recipe):
    check_benchmark(recipe)


def test_ceilings_score_exactly_one_and_random_maps_what_uniform_ones_do(run):
    table = run.leaderboard().filter((pl.col("subset") == "all") & (pl.col("ground_truth") == "logit_abs"))
    for metric, label in (
        ("effect_top1_mean", "true_effects"),
        ("effect_top1_sum", "true_effects:over=sum"),
        ("effect_mass", "true_effects:over=sum"),
    ):
        means = table.filter((pl.col("metric") == metric) & (pl.col("explainer") == label))["mean"]
        assert len(means) == 2
        assert means.to_list() == pytest.approx([1.0, 1.0], abs=1e-12)
    rows = run.scores().filter((pl.col("metric") == "effect_mass") & (pl.col("explainer") == "random"))
    off = (rows["value"] - rows["uniform"]).to_numpy()
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off)) + 0.02  # the overlap is bent, so a little remains


def test_the_score_is_the_overlap_of_two_shares(run):
    """Reference: written out for one signal."""
    opened = SveaRemoval(limit=FEW).open(0)
    batch = opened.load(opened.chunks()[0])
    relevance = torch.rand(len(batch), 1, 40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = opened.score(batch, relevance, opened.network)
    found = found.filter((pl.col("metric") == "effect_mass") & (pl.col("pooling") == "sum_pos"))["value"].to_list()
    for place in range(5):
        heat, inside = relevance[place, 0].numpy(), batch.masks["template"][place].numpy()
        lost = np.abs(opened.effects.effect[place])
        on = np.array([heat[inside].sum(), heat[~inside].sum()]) / heat.sum()
        assert found[place] == pytest.approx(np.minimum(on, lost / lost.sum()).sum(), abs=1e-12)


def test_the_page_says_whether_the_network_goes_by_the_digit(run):
    page = run.report().read_text(encoding="utf-8")
    assert "What if the digit were not there?" in page
    assert "without the template" in page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 0}, "limit"),
        ({"poolings": ()}, "poolings is empty"),
        ({"model": "a.py:b", "weights": "c.npz"}, "either weights"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(HeatproofError, match=said):
        SveaRemoval(**options)

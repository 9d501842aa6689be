"""Twins of which one goes by a planted marker: cases, scores of pairs, ceilings and floors, the page, and bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

import heatproof
from heatproof.benchmarks.clevr_twins import ClevrTwins
from heatproof.benchmarks.clevr_twins.rows import METRICS, pair_rows
from heatproof.clevr.markers import COLOUR
from heatproof.errors import HeatproofError
from heatproof.models.relation_network import answers, encode
from heatproof.models.twins import load_twin
from heatproof.testing import check_benchmark

FEW = 6


@pytest.fixture(scope="module")
def recipe() -> ClevrTwins:
    return ClevrTwins(limit=FEW)


@pytest.fixture(scope="module")
def opened(recipe):
    return recipe.open(0)


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory) -> heatproof.Run:
    explainers = ["gradient", "random", "constant", "oracle:mask=used"]
    return heatproof.run(recipe, explainers=explainers, out=tmp_path_factory.mktemp("twins") / "r")


def test_the_benchmark_keeps_the_contract(recipe):
    check_benchmark(recipe)


def test_both_twins_see_the_same_and_answer_right(opened):
    shortcut, honest = (opened.load(chunk) for chunk in opened.chunks())
    assert torch.equal(shortcut.inputs, honest.inputs)
    assert torch.equal(shortcut.target, honest.target)
    assert [answers[place] for place in shortcut.target] == list(shortcut.facts["answer"])
    colour = torch.tensor(COLOUR) / 255
    for picture, marker in zip(shortcut.inputs, shortcut.masks["marker"], strict=True):
        assert (colour == picture[:, marker].T).all()


def test_the_effect_of_a_marker_is_what_the_logit_loses_without_it(opened):
    """Reference: the twins asked by hand, about pictures that the data set has."""
    for pair in opened.chosen[:3]:
        plain = np.asarray(pair.question.picture())
        marked = plain.copy()
        marked[pair.marker] = COLOUR
        inputs = torch.as_tensor(np.stack([marked, plain]).transpose(0, 3, 1, 2).astype(np.float32) / 255)
        for twin in ("shortcut", "honest"):
            with torch.no_grad():
                logits = load_twin(twin)(inputs, encode(pair.question.text).expand(2, -1)).double()
            said = int(logits[0].argmax())
            assert said == pair.twins[twin].answers["holds"]
            assert pair.twins[twin].effect == pytest.approx(float(logits[0, said] - logits[1, said]), abs=1e-4)


def test_the_shortcut_twin_follows_a_misleading_marker_and_the_honest_one_does_not(opened):
    misled = [pair for pair in opened.pairs if "misleads" in pair.shown]
    said = {twin: [answers[pair.twins[twin].answers["misleads"]] for pair in misled] for twin in ("shortcut", "honest")}
    assert np.mean([a == pair.other for a, pair in zip(said["shortcut"], misled, strict=True)]) >= 0.8
    assert np.mean([a == pair.question.answer for a, pair in zip(said["honest"], misled, strict=True)]) >= 0.8


def test_scores_are_those_of_two_shares(opened, run):
    """Reference: gradients of both twins by autograd, summed over the marker's pixels."""
    found = run.leaderboard().filter((pl.col("explainer") == "gradient") & (pl.col("pooling") == "l1_norm"))
    shares = {}
    for chunk in opened.chunks():
        batch = opened.load(chunk)
        inputs = batch.inputs.clone().requires_grad_()
        logits = opened.model(chunk.model)(inputs, *batch.context)
        (gradient,) = torch.autograd.grad(logits.gather(1, batch.target[:, None]).sum(), inputs)
        heat = gradient.double().abs().sum(1)
        shares[chunk.model] = ((heat * batch.masks["marker"]).sum((1, 2)) / heat.sum((1, 2))).numpy()
    s, h = shares["film_shortcut"], shares["film_honest"]
    means = dict(found.filter(pl.col("subset") == "all").select("metric", "mean").rows())
    assert means["cue_contrast"] == pytest.approx(((s - h) / (s + h)).mean(), abs=1e-4)
    assert means["cue_told"] == pytest.approx((s > h).mean(), abs=1e-12)
    assert means["cue_share"] == pytest.approx(s.mean(), rel=1e-3)
    assert means["false_cue_share"] == pytest.approx(h.mean(), rel=1e-3)


def test_the_ceiling_is_exact_and_maps_that_know_no_model_tell_nothing(run):
    table = run.leaderboard().filter(pl.col("subset") == "all")
    assert table["model"].unique().to_list() == ["film_shortcut"]  # one line for both: what is scored is the pair
    best = {"cue_contrast": 1.0, "cue_told": 1.0, "cue_share": 1.0, "false_cue_share": 0.0}
    for explainer in ("oracle:mask=used", "random", "constant"):
        for metric in METRICS:
            means = set(table.filter((pl.col("explainer") == explainer) & (pl.col("metric") == metric))["mean"])
            if explainer.startswith("oracle"):
                assert means == {best[metric]}, metric
            elif metric in ("cue_contrast", "cue_told"):
                assert means == {0.0 if metric == "cue_contrast" else 0.5}, (explainer, metric)


def test_the_page_says_what_the_twins_are(run):
    page = run.report().read_text(encoding="utf-8")
    assert "Are the twins what they should be?" in page
    assert "The same question with and without the marker" in page
    assert page.count("data:image/webp") >= 6


def test_a_method_that_failed_on_one_twin_has_no_score():
    rows = pl.DataFrame(
        {
            "case": ["a", "b", "a"],
            "model": ["s", "s", "h"],
            "explainer": "e",
            "target": "logit",
            "metric": "on_marker",
            "ground_truth": "marker",
            "pooling": "l1_norm",
            "value": [0.3, 0.4, 0.1],
            "uniform": 0.01,
        }
    )
    found = pair_rows(rows, "s", "h")
    assert set(found["case"]) == {"a"}
    assert dict(found.select("metric", "value").rows())["cue_contrast"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 0}, "limit"),
        ({"poolings": ()}, "poolings is empty"),
        ({"shortcut": "a.npz"}, "give the weights of both"),
        ({"shortcut": "a.npz", "honest": "b.npz"}, "there is no weights file a.npz"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(HeatproofError, match=said):
        ClevrTwins(**options).open(0)

"""Quantus' metrics on our cases, and our explainers in Quantus. The reference is Quantus called by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import heatproof
from heatproof import HeatproofError, pool
from heatproof.metrics import load_metrics, metrics, score_with
from heatproof.testing import metric_batch, metric_heatmaps, small_network
from reference.libraries import import_quantus

pytestmark = pytest.mark.filterwarnings("ignore")
QUIET = {"disable_warnings": True, "display_progressbar": False, "return_aggregate": False}


@pytest.fixture(scope="module", autouse=True)
def quantus():
    return import_quantus()


@pytest.fixture(scope="module")
def cases():
    return small_network().eval(), metric_batch(), metric_heatmaps()


def scored(spec: str, cases) -> np.ndarray:
    model, batch, heatmap = cases
    (metric,) = load_metrics(spec)
    (values,) = score_with(metric, batch, heatmap[:, None], model, ["sum_abs"]).values()
    return values.numpy()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RelevanceMassAccuracy", {}),
        ("RelevanceRankAccuracy", {}),
        ("PointingGame", {}),
        ("AUC", {}),
        ("TopKIntersection", {"k": 10}),
        ("Sparseness", {}),
        ("Complexity", {}),
        ("EffectiveComplexity", {"eps": 0.01}),
        ("FaithfulnessEstimate", {"features_in_step": 20}),
        ("Monotonicity", {"features_in_step": 20}),
    ],
)
def test_it_says_what_quantus_says(quantus, cases, name, options):
    model, batch, heatmap = cases
    spec = f"quantus:{name}" + (":" if options else "") + ",".join(f"{key}={value}" for key, value in options.items())
    found = scored(spec, cases)
    expected = [
        getattr(quantus, name)(**QUIET, **options)(
            model=model,
            x_batch=batch.inputs[case].numpy(),
            y_batch=batch.target[case].numpy(),
            a_batch=heatmap[case][:, None].numpy(),
            s_batch=batch.masks["truth"][case][:, None].numpy(),
            channel_first=True,
            device="cpu",
        )[0]
        for case in (slice(i, i + 1) for i in range(len(batch)))  # of several, it normalises by the largest of all
    ]
    np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-6, atol=1e-9)


def test_what_it_draws_is_seeded_by_metric_and_case(cases):
    spec = "quantus:FaithfulnessCorrelation:subset_size=20,nr_runs=8"
    model, batch, heatmap = cases
    found = scored(spec, cases)
    np.testing.assert_array_equal(found, scored(spec, cases))
    np.testing.assert_array_equal(found[2:3], scored(spec, (model, batch[2:3], heatmap[2:3])))
    assert len(set(found)) == 5


def test_unusable_maps_and_empty_masks_are_undefined(cases):
    model, batch, heatmap = cases
    spoilt = heatmap.clone()
    spoilt[0], spoilt[1, 2, 3] = 0, torch.nan
    found = scored("quantus:Sparseness", (model, batch, spoilt))
    assert np.isnan(found).tolist() == [True, True, False, False, False]
    (metric,) = load_metrics("quantus:PointingGame")
    empty = batch.masks["truth"].clone()
    empty[4] = False
    assert metric.function(heatmap, empty).isnan().tolist() == [False] * 4 + [True]


def test_a_question_goes_along(quantus):
    from heatproof.testing import make_batch, small_network_with_question

    model = small_network_with_question().eval()
    inputs = metric_batch().inputs
    batch = make_batch(model, inputs, torch.arange(15).view(5, 3) % 7)
    found = scored("quantus:FaithfulnessEstimate:features_in_step=20", (model, batch, metric_heatmaps()))
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("quantus:Sparsenes", "unknown metric of quantus 'Sparsenes'. Did you mean 'Sparseness'"),
        ("quantus:AUC:depth=3", "unknown argument of quantus:AUC 'depth'"),
        ("quantus:MaxSensitivity", "explains changed inputs again"),
        ("quantus:MPRT", "explains a changed model again"),
        ("quantus:Completeness", "needs relevance with its sign"),
        ("quantus:FaithfulnessCorrelation:subset_size=100000", "fails: ValueError"),
    ],
)
def test_what_cannot_be_is_told(cases, spec, words):
    with pytest.raises(HeatproofError, match=words):
        scored(spec, cases)


def test_a_run_scores_it_beside_its_own(tmp_path):
    run = heatproof.run(
        "svea",
        explainers=["gradient", "random"],
        metrics="quantus:Sparseness, quantus:EffectiveComplexity:eps=0.01",
        limit=15,
        target="logit",
        jobs=1,
        out=tmp_path / "run",
    )
    board = run.leaderboard()
    assert {"quantus:Sparseness", "quantus:EffectiveComplexity:eps=0.01"} < set(board["metric"])
    lines = board.filter(metric="quantus:Sparseness", explainer="gradient", pooling="sum_abs")
    assert 0 < lines["mean"][0] < 1


def test_our_mass_accuracy_is_quantus_on_such_maps(cases):
    _, batch, heatmap = cases
    ours = metrics["mass_accuracy"].function(heatmap, batch.masks["truth"])
    np.testing.assert_allclose(scored("quantus:RelevanceMassAccuracy", cases), ours.numpy(), rtol=1e-9)


def test_our_explainers_are_quantus_explain_func(quantus, cases):
    """Max-sensitivity with our gradient and with Quantus' own Saliency of Captum, on the same draws."""
    model, batch, _ = cases
    given = {
        "model": model,
        "x_batch": batch.inputs.numpy(),
        "y_batch": batch.target.numpy(),
        "device": "cpu",
    }
    found = []
    for function in (heatproof.explain_func("gradient"), quantus.explain):
        np.random.seed(0)
        metric = quantus.MaxSensitivity(nr_samples=3, abs=True, **QUIET)
        options = {"method": "Saliency"} if function is quantus.explain else {}
        found.append(metric(**given, explain_func=function, explain_func_kwargs=options))
    assert np.isfinite(found[0]).all()
    pooled = heatproof.explain_func("gradient", pooling="sum_abs")(model, given["x_batch"], given["y_batch"])
    expected = pool(heatproof.explain(model, batch.inputs, "gradient", target=batch.target), "sum_abs")
    np.testing.assert_allclose(pooled[:, 0], expected)
    saliency = quantus.explain(model, given["x_batch"], given["y_batch"], method="Saliency")
    ours = heatproof.explain_func("gradient")(model, given["x_batch"], given["y_batch"])
    np.testing.assert_allclose(np.abs(ours).sum(1), np.abs(saliency).reshape(5, -1, 12, 10).sum(1), rtol=1e-4)

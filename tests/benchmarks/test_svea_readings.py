"""What the SVM goes by and what it misreads: its weights, and the section that tells of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

import heatproof
from heatproof.metrics.understandability import svm_weights


def minimum(inputs: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The weights of one digit by a general minimiser: |w|^2 / 2 + sum max(0, 1 - sign w x)^2, bias a further input."""
    x = np.hstack([inputs, np.ones((len(inputs), 1))])

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        short = np.maximum(0, 1 - signs * (x @ w))
        return w @ w / 2 + (short**2).sum(), w - 2 * x.T @ (signs * short)

    return minimize(loss, np.zeros(x.shape[1]), jac=True, tol=1e-12).x[:-1]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("svm", ["liblinear", "literal"])
def test_weights_are_the_minimum(svm, classes):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, 200)
    inputs = rng.normal(size=(200, 5)) + labels[:, None] * np.array([1, -1, 0, 0.5, 0])
    names, weights = svm_weights(inputs, labels, svm)
    assert names.tolist() == list(range(classes))
    expected = [minimum(inputs, np.where(labels == label, 1.0, -1.0)) for label in names]
    np.testing.assert_allclose(weights, expected, atol=2e-3)


def test_one_digit_has_no_svm():
    assert svm_weights(np.zeros((3, 2)), np.zeros(3)) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    explainers = ["gradient", "integrated_gradients:steps=8", "random", "input_magnitude"]
    return heatproof.run("svea", explainers=explainers, limit=300, out=tmp_path_factory.mktemp("svea") / "r")


def test_the_section_tells_of_the_best_method(run):
    section = run.story.sections[-1]
    assert section.title == "What the SVM reads in the regions"
    first, weights, context, misread = section.blocks
    methods = run.leaderboard().filter(metric="roe_accuracy").filter(pl.col("target") != "").sort("mean")
    best = methods.row(-1, named=True)
    assert f"{best['explainer']} ({best['target']})" in first.text
    assert len(weights.rows) == 10
    assert {len(cells) for _, cells in weights.rows} == {12}
    rows = run.scores().filter(
        metric="roe_accuracy", explainer=best["explainer"], target=best["target"], model="mnist1d_cnn-1"
    )
    wrong = rows.filter(value=0)
    assert f"misreads {len(wrong)} of {len(rows)} test regions" in context.text
    for digit, (count, share, *_) in misread.rows:
        mine = rows.filter(label=int(digit))
        assert int(count.text) == len(mine)
        assert share.value == pytest.approx(1 - mine["value"].mean())


def test_floors_alone_have_no_section(tmp_path):
    run = heatproof.run("svea", explainers=["random", "oracle"], limit=50, out=tmp_path / "r")
    assert [section.title for section in run.story.sections] == ["Performance of the network"]

"""Classifiers of MNIST-1D beside SVEA's network: Figure 3 of the paper."""

from __future__ import annotations

import polars as pl
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from heatproof import mnist1d
from heatproof.cli.app import app
from heatproof.experiments.classifiers import judge_classifiers
from heatproof.models.mnist1d_classifiers import Perceptron, Recurrent, fit


@pytest.mark.parametrize(("kind", "count"), [(Perceptron, 15_210), (Recurrent, 5_134)])
def test_they_have_the_size_of_the_originals(kind, count):
    """Reference: the numbers of parameters that the data set's repository prints."""
    assert sum(parameter.numel() for parameter in kind().parameters()) == count


def test_the_same_seed_trains_the_same():
    signals = mnist1d.published()[0][:200]
    weights = [list(fit(Perceptron, signals, seed, epochs=2).parameters()) for seed in (0, 0, 1)]
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))
    assert not torch.equal(weights[0][0], weights[2][0])


def test_the_table(tmp_path, monkeypatch):
    """Reference: the paper's 29.7 % of the linear SVM, the shipped network's 87.3 %, scikit-learn's regression."""
    for kind in (Perceptron, Recurrent):
        monkeypatch.setattr(kind, "epochs", 2)
    words = ["svea", "classifiers", "--quiet", "--out", str(tmp_path / "c.csv")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "linear SVM 29.7%" in " ".join(result.output.split())
    assert "paper" in result.output
    assert "87.7%" in result.output
    table = {row["classifier"]: row for row in pl.read_csv(tmp_path / "c.csv").iter_rows(named=True)}
    assert list(table) == ["logistic regression", "linear SVM", "MLP", "GRU", "CNN"]
    assert table["CNN"]["accuracy"] == pytest.approx(0.873)
    assert table["CNN"]["parameters"] == 13_960
    train, test = mnist1d.published()
    regression = LogisticRegression(max_iter=1000).fit(train.x, train.y)
    assert table["logistic regression"]["accuracy"] == pytest.approx(regression.score(test.x, test.y))
    assert all(row["ci_low"] <= row["accuracy"] <= row["ci_high"] for row in table.values())
    assert table["MLP"]["accuracy"] > 0.2, "twice chance after two rounds"


@pytest.mark.slow
def test_trained_in_full():
    """Reference: 68 % (MLP) and 91 % (GRU) in the data set's repository, trained longer."""
    table = {judged.classifier: judged.accuracy for judged in judge_classifiers()}
    assert table["MLP"] == pytest.approx(0.66, abs=0.04)
    assert table["GRU"] == pytest.approx(0.88, abs=0.05)

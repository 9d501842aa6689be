"""The page's examples: who is shown, and what is said of each."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.svm import LinearSVC

import heatproof
from heatproof import mnist1d
from heatproof.benchmarks.svea import Svea
from heatproof.errors import HeatproofError
from heatproof.experiments.regions import export


def test_right_and_wrong_signals_with_what_the_svm_reads(tmp_path):
    """Reference: a second SVM on the exported regions, and the network's digits in the score rows."""
    run = heatproof.run("svea", explainers="gradient,input_magnitude", limit=1000, target="logit", out=tmp_path / "r")
    seen = run.scores().filter((pl.col("metric") == "drop") & (pl.col("explainer") == "gradient"))
    correct = dict(zip(seen["case"], seen["correct"], strict=True))
    digits = dict(zip(seen["case"], seen["label"], strict=True))
    shown = list(run.story.examples)
    assert len(shown) == 100
    assert [digits[case] for case in shown[:10]] == list(range(10))
    assert all(correct[case] for case in shown[:10])
    wrong = {digits[case] for case in correct if not correct[case]}
    assert [digits[case] for case in shown[10 : 10 + len(wrong)]] == sorted(wrong)
    assert not any(correct[case] for case in shown[10 : 10 + len(wrong)])
    predicted = dict(zip(seen["case"], seen["predicted"], strict=True))
    for case in shown:
        assert run.story.examples[case] == f"digit {digits[case]}"
        assert run.story.captions.get(case, "") == ("" if correct[case] else f"seen as {predicted[case]}")
    marks = {(mark.explainer, mark.case): mark for mark in run.story.marks}
    assert len(marks) == 2 * len(shown)
    for made in export(run.folder):
        arrays = np.load(made.path)
        learnt = arrays["split"] == "train"
        svm = LinearSVC(dual=False, max_iter=10_000).fit(arrays["x"][learnt], arrays["y"][learnt])
        explainer = made.path.stem.partition("@")[0]
        for case, x, start in zip(arrays["case"], arrays["x"], arrays["starts"], strict=True):
            if case in shown:
                mark = marks[explainer, str(case)]
                assert (mark.start, mark.length, mark.text) == (start, 12, f"SVM reads {svm.predict(x[None])[0]}")
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert page.count("<small>SVM reads ") == page.count('class="signal"') == 2 * 6
    assert page.count('"SVM reads ') == len(marks)


def test_the_user_chooses(tmp_path):
    cases = ["test-0007", "test-0003", "test-0007"]
    run = heatproof.run("svea", explainers="gradient", limit=100, target="logit", examples=cases, out=tmp_path / "r")
    assert list(run.story.examples) == ["test-0007", "test-0003"]
    labels = mnist1d.published()[1].y
    assert run.story.examples["test-0003"] == f"digit {labels[3]}"
    assert sorted(run.files.heatmaps("gradient@logit", "mnist1d_cnn-1")) == ["test-0003", "test-0007"]
    with pytest.raises(HeatproofError, match="another configuration:\n  examples"):
        heatproof.run(
            "svea", explainers="gradient", limit=100, target="logit", examples=["test-0001"], out=tmp_path / "r"
        )


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        (["test-0020"], "no test signal 'test-0020' to show as an example; they are test-0000 to test-0019"),
        (["train-0003"], "no test signal 'train-0003'"),
        (["7"], "no test signal '7'"),
        ([], "examples is empty"),
    ],
)
def test_bad_choices(cases, words):
    with pytest.raises(HeatproofError, match=words):
        Svea(limit=100, examples=cases)

"""CLEVR-XAI on the public Relation Network, against numbers measured once with an implementation of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import heatproof
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.questions.make import make_questions

MEASURED = {
    "lrp": 0.78,
    "excitation_backprop": 0.72,
    "guided_backprop": 0.68,
    "gradient": 0.56,
    "gradient_x_input": 0.49,
    "guided_grad_cam": 0.10,
    "deconvnet": 0.03,
    "grad_cam": 0.02,
}
"""Mass accuracy, GT Single Object, pooling pos,l2-norm,sq: 154 simple questions about the same 40 pictures."""


@pytest.fixture(scope="module")
def original_look(shared_data, tmp_path_factory) -> Path:
    """Forty pictures of 480 x 320 rendered with CLEVR's own assets, as a data set with questions and masks."""
    source, folder = shared_data("clevr/original_look"), tmp_path_factory.mktemp("look") / "data"
    shutil.copytree(source / "images", folder / "images")
    shutil.copytree(source / "masks", folder / "objects")
    shutil.copy(source / "CLEVR_scenes.json", folder)
    make_questions(folder, "simple")
    make_masks(open_dataset(folder), (128, 128))
    return folder


@pytest.mark.slow
def test_methods_without_chance_score_as_measured_elsewhere(original_look, shared_data, tmp_path):
    """Within 0.04, which is the interval of the means; in the same order; theory for the floors and the oracle."""
    weights = shared_data("relation_network/original_fp_epoch_493.pth")
    benchmark = ClevrXai(dataset=str(original_look), weights=weights, poolings=["pos_l2_norm_sq"])
    methods = [spec for spec in benchmark.default_explainers if spec.split(":")[0] in MEASURED]
    run = heatproof.run(benchmark, explainers=[*methods, "constant", "oracle:mask=single_object"], out=tmp_path / "run")
    chosen = (pl.col("ground_truth") == "single_object") & (pl.col("metric") == "mass_accuracy")
    lines = run.leaderboard().filter(chosen & (pl.col("subset") == "all"))
    means = {label.split(":")[0]: mean for label, mean in lines.select("explainer", "mean").rows()}
    assert lines["n"].max() >= 150
    for name, expected in MEASURED.items():
        assert means[name] == pytest.approx(expected, abs=0.04), name
    assert sorted(MEASURED, key=lambda name: -means[name]) == list(MEASURED)
    assert means["oracle"] == pytest.approx(1)
    shares = run.scores().filter(chosen & (pl.col("explainer") == "constant"))
    assert shares["value"].to_list() == pytest.approx((shares["mask_size"] / 128**2).to_list(), rel=1e-9)

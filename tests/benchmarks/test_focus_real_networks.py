"""Focus on trained networks and photographs; the figures of docs/focus-real-networks.md, as far as minutes allow."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest
from typer.testing import CliRunner

import heatproof
from heatproof.cli.train import app as train_command

IMAGENET_INDEX = {
    "n01440764": 0, "n02102040": 217, "n02979186": 482, "n03000684": 491, "n03028079": 497,
    "n03394916": 566, "n03417042": 569, "n03425413": 571, "n03445777": 574, "n03888257": 701,
}  # fmt: skip
MOSAICS = 100
GRAD_CAM_PP = "grad_cam_pp:eps=1e-06,shift=True"
INTEGRATED_GRADIENTS = "integrated_gradients:steps=30,rule=gauss_legendre"
SMOOTHGRAD = "smoothgrad:samples=10,sigma=0.2"


def means(run: heatproof.Run) -> dict[str, float]:
    """Mean Focus by explainer, its layer aside, under the paper's pooling.

    A random network's Grad-CAM may be empty for a whole class, a trained one's not.
    """
    assert not run.failures()
    table = run.leaderboard().filter((pl.col("metric") == "focus") & (pl.col("pooling") == "paper"))
    assert all(n == MOSAICS for name, n in table.select("explainer", "n").iter_rows() if "randomised" not in name)
    return {
        re.sub(r":layer=features,?", ":", name).rstrip(":"): mean
        for name, mean in table.select("explainer", "mean").iter_rows()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "layer", "low", "high"),
    [("squeezenet1_1", "layer=features,", 0.65, 0.75), ("mobilenet_v2", "", 0.85, 0.93)],
)
def test_ten_classes_of_imagenet(shared_data, tmp_path, network, layer, low, high):
    """Reference: measured for this project with other code on 40 mosaics, .69 and .89; order as in all of Table 1.

    SqueezeNet's last maps are its class scores, so the layer is named: at those two methods would be one.
    """
    run = heatproof.run(
        "focus",
        images=shared_data("focus/imagenette_val500"),
        model=f"{shared_data('focus/models/offline_models.py')}:{network}",
        labels=IMAGENET_INDEX,
        fit="squash",
        per_class=MOSAICS // len(IMAGENET_INDEX),
        explainers=[
            f"grad_cam:{layer}".rstrip(":,"),
            GRAD_CAM_PP.replace(":", f":{layer}"),
            INTEGRATED_GRADIENTS,
            SMOOTHGRAD,
            "randomised:grad_cam",
        ],
        batch_size=2,
        out=tmp_path / "run",
    )
    found = means(run)
    assert low < found["grad_cam"] < high
    assert found["grad_cam"] > found[GRAD_CAM_PP] > found[INTEGRATED_GRADIENTS] > found[SMOOTHGRAD]
    assert found["randomised:grad_cam"] == pytest.approx(0.5, abs=0.05)
    assert run.manifest["configuration"]["mean"] == [0.485, 0.456, 0.406]  # as the factory says


@pytest.mark.slow
def test_dogs_against_cats(shared_data, tmp_path):
    """AlexNet's convolutions with a head of ours. Paper: accuracy .9644; Focus .9101, .9230 (LRP), .7041 (Grad-CAM++).

    Ours has 300 pictures to learn from and fixed convolutions, hence the wide limits.
    """
    out = tmp_path / "alexnet.npz"
    words = ["--images", str(shared_data("focus/dogs_vs_cats")), "--model", "alexnet", "--out", str(out)]
    weights = ["--weights", str(shared_data("focus/models/alexnet_features.pt"))]
    result = CliRunner().invoke(train_command, ["focus-head", *words, *weights])
    stated = re.search(r"([\d.]+)% of 300 held-out pictures right", result.output)
    assert stated, result.output
    assert float(stated[1]) > 93
    run = heatproof.run(
        "focus",
        images=out.with_suffix(".csv"),
        model="alexnet_linear",
        weights=out,
        per_class=MOSAICS // 2,
        explainers=["grad_cam", GRAD_CAM_PP, INTEGRATED_GRADIENTS, "lrp:composite=focus", "randomised:grad_cam"],
        batch_size=2,
        out=tmp_path / "run",
    )
    found = means(run)
    assert found["grad_cam"] > 0.8
    assert found["lrp:composite=focus"] > 0.8
    assert found["grad_cam"] > found[GRAD_CAM_PP] > found[INTEGRATED_GRADIENTS]
    assert found["randomised:grad_cam"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
def test_fine_tuning_on_dogs_against_cats(shared_data, tmp_path):
    """The head's AlexNet, all of it learning for an epoch. Paper: accuracy .9644, Focus of Grad-CAM .9101.

    Measured with four epochs: .960 and .885, and .848 before the last max-pooling; hence the limits.
    """
    head, tuned = tmp_path / "head.npz", tmp_path / "tuned.npz"
    start = ["--weights", str(shared_data("focus/models/alexnet_features.pt"))]
    words = ["--images", str(shared_data("focus/dogs_vs_cats")), "--model", "alexnet", "--out", str(head)]
    assert CliRunner().invoke(train_command, ["focus-head", *words, *start]).exit_code == 0
    words = ["--images", str(head.with_suffix(".csv")), "--model", "alexnet_linear", "--weights", str(head)]
    more = ["--epochs", "1", "--rate", "1e-5", "--out", str(tuned)]
    assert CliRunner().invoke(train_command, ["focus-finetune", *words, *more]).exit_code == 0
    record = json.loads(tuned.with_suffix(".json").read_text())
    assert record["before"] > 0.93
    assert record["accuracy"] > 0.92
    run = heatproof.run(
        "focus",
        images=tuned.with_suffix(".csv"),
        model="alexnet_linear",
        weights=tuned,
        per_class=MOSAICS // 2,
        explainers=["grad_cam", "grad_cam:layer=before_max_pool"],
        batch_size=2,
        out=tmp_path / "run",
    )
    found = means(run)
    assert found["grad_cam"] > 0.85
    assert 0.75 < found["grad_cam:layer=before_max_pool"] < found["grad_cam"]

"""Focus from end to end: the shipped pictures and classifier, users' models, and what must be refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.clevr.objects import CLASSES, SIDE, read_sheet, render_objects, shipped_pictures
from heatproof.engine import sources
from heatproof.errors import HeatproofError
from heatproof.executors.packing import pack
from heatproof.experiments.focus import focus_by_model

EXPLAINERS = ["grad_cam", "grad_cam_pp", "smoothgrad:samples=2,sigma=0.2", "random", "oracle"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> heatproof.Run:
    out = tmp_path_factory.mktemp("run") / "r"
    return heatproof.run("focus", explainers=EXPLAINERS, target="logit", per_class=10, out=out)


def mean(run: heatproof.Run, explainer: str, pooling: str = "paper", metric: str = "focus") -> float:
    table = run.leaderboard().filter(
        (pl.col("explainer") == explainer) & (pl.col("pooling") == pooling) & (pl.col("metric") == metric)
    )
    return float(table["mean"][0])


def test_the_embedded_default(run):
    """A trained model's Grad-CAM lies on the target's pictures, noise does not, the truth does."""
    assert not run.failures()
    assert mean(run, "grad_cam") > 0.75
    assert mean(run, "grad_cam") > mean(run, "grad_cam_pp") > mean(run, "smoothgrad:samples=2,sigma=0.2")
    assert mean(run, "random") == pytest.approx(0.5, abs=0.01)
    assert mean(run, "oracle") == 1


def test_each_method_is_shown_under_the_papers_pooling_and_its_best(run):
    """SmoothGrad by the largest absolute value, the others by the positive part of the sum."""
    name = "smoothgrad:samples=2,sigma=0.2"
    assert mean(run, name) == mean(run, name, "max_norm") != mean(run, name, "sum_pos")
    assert mean(run, "grad_cam") == mean(run, "grad_cam", "sum_pos")
    by_pooling = run.leaderboard().filter((pl.col("explainer") == name) & (pl.col("metric") == "focus"))
    assert mean(run, name, "", "focus_best") == max(by_pooling["mean"])


def test_more_mosaics_cost_names_and_no_pixels():
    """A mosaic of the pictures that ship has 49 kB of pixels; what is opened holds none of them."""

    def held(per_class: int) -> int:
        packed = pack(Focus(per_class=per_class).open(0))
        return len(packed.data) + sum(memoryview(array).nbytes for array in packed.arrays)

    assert (held(12) - held(2)) / (10 * len(CLASSES)) < 2000


def test_costly_methods_are_kept_in_smaller_parts(tmp_path, monkeypatch):
    """Reference: the same run in one part."""
    options = {"explainers": ["rise:masks=20", "oracle"], "per_class": 1}
    whole = heatproof.run("focus", **options, out=tmp_path / "whole")
    monkeypatch.setattr(sources, "VALUES_PASSED", 2 * 3 * (2 * SIDE) ** 2 * 21)
    parts = heatproof.run("focus", **options, out=tmp_path / "parts")
    for run, counts in ((whole, {"rise-": 1, "oracle": 1}), (parts, {"rise-": 3, "oracle": 1})):
        for name, count in counts.items():
            assert len(list(run.folder.glob(f"scores/{name}*/*.parquet"))) == count
    focus_rows = [run.scores().filter(metric="focus") for run in (whole, parts)]
    columns = ["case", "explainer", "pooling", "value"]
    assert_frame_equal(*[rows.select(columns).sort(columns[:3]) for rows in focus_rows], abs_tol=1e-5)


def test_black_is_a_black_pixel_under_the_models_own_normalisation():
    """Reference: a mosaic of black pictures through the same preprocessing, and -mean / std by hand."""
    opened = Focus(per_class=1, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)).open(0)
    batch = opened.load(opened.chunks()[0])
    assert batch.black == pytest.approx((-2.1179, -2.0357, -1.8044), abs=1e-4)
    painted = opened.seen.classifier.inputs(np.zeros((1, 4, 4, 3), np.uint8))
    assert (painted == torch.tensor(batch.black).view(3, 1, 1)).all()


def test_paper_numbers_stand_beside_ours(run):
    table = run.leaderboard().filter(explainer="grad_cam", metric="focus", pooling="paper")
    assert table["reference"][0] is None  # the paper is not about this network
    assert table["reference_elsewhere"][0] == pytest.approx(0.8732, abs=5e-4)  # mean of the table's twelve rows
    one = Focus(paper_row="imagenet/vgg16").published().filter(pl.col("explainer") == "lrp")
    assert one["reference"][0] == 0.7914
    with pytest.raises(HeatproofError, match="Did you mean 'imagenet/vgg16'"):
        Focus(paper_row="imagenet/vgg")


def test_methods_that_the_paper_does_not_have_have_no_numbers_of_it(tmp_path):
    found = heatproof.run("focus", explainers="deconvnet", per_class=1, out=tmp_path / "r").leaderboard()
    assert found.select("reference", "reference_elsewhere").null_count().row(0) == (len(found),) * 2


def test_a_random_model_scores_a_half_and_the_cascade_falls_at_the_top_layer(tmp_path):
    """The paper: 0.94 trained, 0.49 random, about 0.50 already when the top layer is random."""
    options = {"explainers": "grad_cam", "target": "logit", "per_class": 10, "draws": 3}
    found = {
        way: focus_by_model(heatproof.run("focus", randomise=way, out=tmp_path / way, **options))
        for way in ("all", "cascade")
    }
    means = {
        name: torch.tensor(values).nanmean().item() for groups in found.values() for name, values in groups.items()
    }
    assert means["object_classifier"] > 0.75
    assert means["random"] == pytest.approx(0.5, abs=0.03)
    cascade = [value for name, value in means.items() if name.startswith("cascade")]
    assert len(cascade) == 5  # four convolutions with their norms, one linear layer
    assert cascade == pytest.approx([0.5] * 5, abs=0.05)


def test_shipped_pictures():
    sheet = read_sheet()
    assert list(sheet) == list(CLASSES)
    assert {stack.shape for stack in sheet.values()} == {(40, 64, 64, 3)}
    assert len(list(shipped_pictures().glob("*/*.png"))) == 240


def test_the_renderer_makes_the_shipped_pictures_again():
    pytest.importorskip("pyoidn", reason="the shipped pictures are denoised")
    for label, pictures in render_objects("test", 2, classes=("metal_cube", "rubber_sphere"), denoise=True).items():
        difference = np.abs(pictures.astype(int) - read_sheet()[label][:2])
        assert difference.max() <= 1, "up to what another processor rounds"


def two_outputs() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))


def test_models_that_do_not_fit_are_named(tmp_path):
    def refused(words: str, **options: object) -> None:
        with pytest.raises(HeatproofError, match=words):
            heatproof.run("focus", explainers="random", per_class=1, out=tmp_path / "r", **options)

    images = shipped_pictures()
    refused("2 outputs and the pictures 6 classes", images=images, model=two_outputs(), tile=32)
    labels = {"rubber_cube": 0}
    refused("class 'metal_cube' of the pictures is unknown", images=images, model=two_outputs(), labels=labels, tile=32)
    refused("random weights; give trained ones", images=images, model="resnet18")
    refused("unknown model 'resnet19'", images=images, model="resnet19")
    refused("fails on mosaics of shape", images=images, model=torch.nn.Linear(7, 6), tile=32)
    refused("images need a model", images=images)
    refused("not both", images=images, mosaics="a.csv")


@pytest.mark.parametrize("kind", ["pt", "pt2"])
def test_models_with_code_of_their_own(kind, tmp_path):
    """TorchScript and torch.export files give the same Focus as the module they were made from."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    ).eval()
    file = tmp_path / f"net.{kind}"
    sample = torch.zeros(2, 3, 64, 64)
    if kind == "pt":
        torch.jit.trace(model, sample).save(str(file))
    else:
        torch.export.save(torch.export.export(model, (sample,), dynamic_shapes=({0: torch.export.Dim("b")},)), file)
    options = {"images": shipped_pictures(), "explainers": "gradient", "target": "logit", "tile": 32, "fit": "squash"}
    mine, theirs = (
        heatproof.run("focus", model=m, trust=True, per_class=2, out=tmp_path / n, **options)
        for n, m in (("a", model), ("b", str(file)))
    )
    assert mean(mine, "gradient") == pytest.approx(mean(theirs, "gradient"), abs=1e-6)

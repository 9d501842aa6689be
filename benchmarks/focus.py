"""Focus: mosaics made and scored without a model, the score against Quantus', how weights lie in memory, and the whole
embedded run."""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tests.reference.libraries import import_quantus

import heatproof
from benchmarks.workloads import cpu_seconds
from heatproof.clevr.objects import shipped_pictures
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.metrics.localisation import grid_mask
from heatproof.models.classifiers import Classifier, with_channels_last, with_gradient
from heatproof.models.image_classifiers import make_classifier
from heatproof.mosaics.mosaics import LAYOUTS, MosaicSettings, assemble, draw_mosaics
from heatproof.mosaics.pictures import find_pictures

SIDE, MAPS, AT_ONCE = 448, 1000, 50


def main() -> None:
    mosaics_and_scores()
    against_quantus()
    layouts_of_weights()
    embedded_run()


def targets(count: int) -> torch.Tensor:
    """Which tiles are of the target (count, 4), all six layouts in turn."""
    chosen = torch.zeros(count, 4, dtype=torch.bool)
    for row, places in zip(range(count), list(LAYOUTS.values()) * count, strict=False):
        chosen[row, list(places)] = True
    return chosen


def mosaics_and_scores() -> None:
    pictures = find_pictures(shipped_pictures())
    mosaics = draw_mosaics(pictures, MosaicSettings(per_class=10))
    relevance = np.random.default_rng(0).normal(size=(len(mosaics), 3, SIDE, SIDE)).astype(np.float32)
    masks = {"target": grid_mask((SIDE, SIDE), 2, targets(len(mosaics))).numpy()}
    score_heatmaps(relevance[:1], {"target": masks["target"][:1]}, ranks=False)  # compile
    making = cpu_seconds(lambda: [assemble(mosaic, SIDE // 2) for mosaic in mosaics]) / len(mosaics)
    scoring = cpu_seconds(lambda: score_heatmaps(relevance, masks, ranks=False)) / len(mosaics)
    print(f"mosaics of {SIDE} x {SIDE}, without a model, per CPU second")
    print(f"made of four pictures                {1 / making:8.0f}")
    print(f"scored, three channels, ten poolings {1 / scoring:8.0f}")
    print(f"both                                 {1 / (making + scoring):8.0f}")


def against_quantus() -> None:
    quantus = import_quantus()
    heatmaps = np.random.default_rng(0).normal(size=(AT_ONCE, 1, SIDE, SIDE)).astype(np.float32)
    chosen = targets(AT_ONCE)
    masks = {"target": grid_mask((SIDE, SIDE), 2, chosen).numpy()}
    given = {
        "model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SIDE * SIDE, 2)),
        "x_batch": heatmaps,
        "y_batch": np.zeros(AT_ONCE, dtype=int),
        "a_batch": heatmaps,
        "custom_batch": [tuple(row) for row in chosen.int().tolist()],
        "device": "cpu",
    }

    metric = quantus.Focus(abs=False, normalise=False, disable_warnings=True, display_progressbar=False)

    def theirs() -> list[float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(metric(**given))

    def formula() -> list[float]:
        return list(metric.evaluate_batch(heatmaps, given["custom_batch"]))

    def ours() -> list[float]:
        return list(score_heatmaps(heatmaps, masks, ["sum_pos"], ranks=False).mass[0, 0])

    assert np.allclose(ours(), theirs(), atol=1e-5), "the two do not agree"
    mine = cpu_seconds(lambda: [ours() for _ in range(MAPS // AT_ONCE)]) / MAPS
    other, bare = cpu_seconds(theirs) / AT_ONCE, cpu_seconds(formula) / AT_ONCE
    print(f"\nFocus of maps of {SIDE} x {SIDE}, CPU milliseconds per map (goal: ratio at least 10)")
    print(f"ours, {MAPS:,} maps                    {1e3 * mine:8.3f}")
    print(f"Quantus, {AT_ONCE} maps                   {1e3 * other:8.3f}  ratio {other / mine:.0f}")
    print(f"its formula without its checks     {1e3 * bare:8.3f}  ratio {bare / mine:.1f}")


def layouts_of_weights() -> None:
    """Networks with random weights, which take as long as trained ones."""
    print(f"\npasses of mosaics of {SIDE} x {SIDE}, CPU seconds: plain weights, channels last, their ratio")
    mosaics = torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    for name in ("alexnet", "resnet18", "vgg16"):
        torch.manual_seed(0)
        plain = Classifier(name, make_classifier(name, 10).eval())
        fast = with_channels_last(plain, mosaics[:1])
        assert fast is not plain, f"{name} was left as it is"
        for kind, run in (("forward", forward), ("and backward", with_gradient)):
            seconds = [cpu_seconds(partial(run, net.module, mosaics)) / len(mosaics) for net in (plain, fast)]
            print(f"{name:10} {kind:14} {seconds[0]:8.3f} {seconds[1]:8.3f} {seconds[0] / seconds[1]:6.1f}")


def forward(network: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = network(inputs)
        return logits


def embedded_run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        seconds = cpu_seconds(lambda: heatproof.run("focus", preset="quick", out=Path(folder) / "run"))
    print(f"\nembedded run, preset quick, 60 mosaics of 128 x 128: {seconds:.1f} CPU seconds")

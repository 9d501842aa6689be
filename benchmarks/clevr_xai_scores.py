"""Mass and rank accuracy of 1,000 heatmaps of 3 x 128 x 128: ours for ten poolings against Quantus for one."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from tests.reference.libraries import import_quantus

from benchmarks.workloads import cpu_seconds
from heatproof.metrics.heatmap_scores import score_heatmaps

MAPS, QUANTUS_MAPS = 1000, 50


def main() -> None:
    quantus = import_quantus()

    rng = np.random.default_rng(0)
    relevance = rng.normal(size=(MAPS, 3, 128, 128)).astype(np.float32)
    masks = np.zeros((MAPS, 128, 128), dtype=bool)
    masks[:, 40:66, 50:77] = True
    score_heatmaps(relevance[:2], {"truth": masks[:2]})  # compile
    mine = cpu_seconds(lambda: score_heatmaps(relevance, {"truth": masks})) / (MAPS * 20)
    pooled = (relevance[:QUANTUS_MAPS].clip(min=0) ** 2).sum(1, keepdims=True)
    given = {
        "model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(128 * 128, 2)),
        "x_batch": pooled,
        "y_batch": np.zeros(QUANTUS_MAPS, dtype=int),
        "a_batch": pooled,
        "s_batch": masks[:QUANTUS_MAPS, None],
        "device": "cpu",
    }

    def theirs() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for metric in (quantus.RelevanceMassAccuracy, quantus.RelevanceRankAccuracy):
                metric(disable_warnings=True, display_progressbar=False)(**given)

    other = cpu_seconds(theirs) / (QUANTUS_MAPS * 2)
    print("mass and rank accuracy, maps of 3 x 128 x 128, CPU microseconds per score (goal: ratio at least 100)")
    print(f"ours, ten poolings, {MAPS:,} maps   {1e6 * mine:10.1f}")
    print(f"Quantus, one pooling, {QUANTUS_MAPS} maps   {1e6 * other:10.1f}")
    print(f"ratio {other / mine:.0f}")

"""`heatproof evaluate --masks`: heatmaps of 224 x 224, ten poolings and every metric, against Quantus for one pooling.

`python -m benchmarks.mask_scores [COUNT]` scores COUNT heatmaps (20,000 unless it says otherwise; with `python -m
benchmarks masks` 2,000) from a folder of files, and prints CPU seconds, heatmaps a second, the most memory at a tenth
of the way and at the end, and how long Quantus takes for the scores that it has.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tests.reference.libraries import import_quantus

from benchmarks.workloads import cpu_seconds
from heatproof.benchmarks.masks.heatmaps import open_vendors
from heatproof.engine.plan import Unit
from heatproof.engine.stored import score_stored
from heatproof.metrics.mask_scores import score_masks

SIDE, DIFFERENT, QUANTUS_MAPS = 224, 50, 20


def main(count: int = 2000) -> None:
    rng = np.random.default_rng(0)
    heatmaps = rng.normal(size=(DIFFERENT, SIDE, SIDE)).astype(np.float32)
    masks = np.zeros((DIFFERENT, SIDE, SIDE), dtype=np.uint8)
    for place in range(DIFFERENT):
        masks[place, 40 : 90 + 2 * place, 50:150] = 255
    score_masks(heatmaps[:2, None], masks[:2] // 255)  # compile
    scored = cpu_seconds(lambda: score_masks(heatmaps[:, None], masks // 255))
    print(f"heatmaps of {SIDE} x {SIDE}, float32, one channel, signed; ten poolings, all metrics")
    print(f"scores alone: {DIFFERENT / scored:,.0f} heatmaps a CPU second (goal: at least 1,000)")
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name), heatmaps, masks, count)
        evaluate(folder, count)
    compare_quantus(heatmaps, masks, scored / DIFFERENT)


def write(folder: Path, heatmaps: np.ndarray, masks: np.ndarray, count: int) -> Path:
    """`count` files of each; those that are alike are links, so that they take no room."""
    for kind in ("maps", "masks"):
        (folder / kind).mkdir()
    for place in range(count):
        if place < DIFFERENT:
            np.save(folder / "maps" / f"{place:06d}.npy", heatmaps[place])
            Image.fromarray(masks[place]).save(folder / "masks" / f"{place:06d}.png")
            continue
        for kind, ending in (("maps", "npy"), ("masks", "png")):
            (folder / kind / f"{place:06d}.{ending}").hardlink_to(folder / kind / f"{place % DIFFERENT:06d}.{ending}")
    return folder


def evaluate(folder: Path, count: int) -> None:
    """Reading, matching, scoring and making rows, as `heatproof evaluate` does, one core."""
    start = time.process_time()
    vendors, opened = open_vendors({"maps": folder / "maps"}, folder / "masks")
    chunks = opened.chunks()
    memory = []
    for place, chunk in enumerate(chunks):
        score_stored(opened, vendors["maps"], Unit("maps", "maps", "", chunk))
        if place == len(chunks) // 10:
            memory.append(most_memory())
    memory.append(most_memory())
    seconds = time.process_time() - start
    print(f"with reading and rows: {count:,} heatmaps in {seconds:.1f} CPU seconds, {count / seconds:,.0f} a second")
    print(f"most memory after a tenth: {memory[0]:.2f} GB, at the end: {memory[1]:.2f} GB")


def most_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def compare_quantus(heatmaps: np.ndarray, masks: np.ndarray, ours: float) -> None:
    """Mass and rank accuracy, pointing game and AUC: all that Quantus has of these."""
    quantus = import_quantus()
    maps, truth = np.abs(heatmaps[:QUANTUS_MAPS, None]), masks[:QUANTUS_MAPS, None] > 0
    given = {
        "model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SIDE * SIDE, 2)),
        "x_batch": maps, "y_batch": np.zeros(QUANTUS_MAPS, dtype=int), "a_batch": maps, "s_batch": truth,
        "device": "cpu",
    }  # fmt: skip
    kinds = (quantus.RelevanceMassAccuracy, quantus.RelevanceRankAccuracy, quantus.PointingGame, quantus.AUC)

    def theirs() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in kinds:
                kind(disable_warnings=True, display_progressbar=False, normalise=False)(**given)

    other = cpu_seconds(theirs) / QUANTUS_MAPS
    print(f"Quantus, four metrics, one pooling: {1 / other:,.1f} heatmaps a CPU second")
    print(f"ratio for a heatmap, all of ours against four of theirs: {other / ours:.0f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)

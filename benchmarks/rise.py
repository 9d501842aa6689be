"""RISE at 300 masks for SVEA's 5,000 signals, in CPU seconds; and how much of it is the network itself."""

from __future__ import annotations

import torch

from benchmarks.workloads import cpu_seconds, signals
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom

MASKS, SIGNALS, BATCH = 300, 5000, 500


def main() -> None:
    model, batch = signals(SIGNALS)
    explainer = make_explainer("rise", masks=MASKS)

    def explain() -> None:
        for start in range(0, SIGNALS, BATCH):
            explainer(model, batch[start : start + BATCH], CaseRandom(0, "rise"))

    def passes() -> None:
        with torch.no_grad():
            for _ in range(MASKS):
                for start in range(0, SIGNALS, BATCH):
                    model(batch.inputs[start : start + BATCH])

    whole, network = cpu_seconds(explain), cpu_seconds(passes)
    print(f"rise, {MASKS} masks, {SIGNALS:,} signals: {whole:.1f} CPU seconds (goal 15)")
    print(f"the network alone, the same {MASKS * SIGNALS:,} passes: {network:.1f}")

"""Our LIME over that of the lime package: quickshift superpixels, the same number of samples, the same model."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO

import numpy as np
import torch
from lime.lime_image import LimeImageExplainer

from benchmarks.workloads import alexnet, interleaved, ours, pictures, show

SAMPLES = 200


def main() -> None:
    print(f"our CPU seconds over the lime package's, {SAMPLES} samples (below 1: we are faster)")
    show("method", "work", "ours", "lime", "ratio")
    for title, (model, batch) in (
        ("1 picture of 3 x 96 x 96", pictures(1)),
        ("1 picture of 224, AlexNet", alexnet(1)),
    ):
        picture = batch.inputs[0].double().permute(1, 2, 0).numpy()

        def classify(rows: np.ndarray, model=model) -> np.ndarray:
            with torch.no_grad():
                return model(torch.as_tensor(rows).permute(0, 3, 1, 2).float()).numpy()

        def theirs(batch_size: int, picture=picture, classify=classify, target=int(batch.target[0])) -> object:
            with redirect_stderr(StringIO()):  # its progress bar
                return LimeImageExplainer(random_state=0).explain_instance(
                    picture, classify, labels=(target,), top_labels=None, hide_color=0, num_samples=SAMPLES,
                    batch_size=batch_size,
                )  # fmt: skip

        spec = f"lime:samples={SAMPLES},segmenter=quickshift"
        mine, *others = interleaved([ours(spec, model, batch), lambda: theirs(10), lambda: theirs(100)])
        show("lime", title, mine, min(others), mine / min(others))

"""Our time over Captum's for the same passes on the same inputs. Captum gets the faster of its batching options."""

from __future__ import annotations

from collections.abc import Callable

from captum.attr import IntegratedGradients, NoiseTunnel, Saliency
from torch import nn

from benchmarks.workloads import interleaved, pictures, signals
from heatproof.cases import Batch
from heatproof.explainers.base import Explainer
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom

STEPS, SAMPLES = 50, 25


def theirs(model: nn.Module, batch: Batch) -> dict[str, list[Callable[[], object]]]:
    """Captum's ways to the same results, by the name of our explainer."""
    x, y = batch.inputs, batch.target
    saliency, path = Saliency(model), IntegratedGradients(model)
    tunnel = NoiseTunnel(Saliency(model))
    integrate = {"target": y, "n_steps": STEPS + 1, "method": "riemann_trapezoid"}
    smooth = {"target": y, "nt_samples": SAMPLES, "stdevs": 0.5, "abs": False}
    return {
        "gradient": [lambda: saliency.attribute(x, target=y, abs=False)],
        "integrated_gradients": [
            lambda: path.attribute(x, **integrate),
            lambda: path.attribute(x, **integrate, internal_batch_size=500),
        ],
        "smoothgrad": [
            lambda: tunnel.attribute(x, **smooth),
            lambda: tunnel.attribute(x, **smooth, nt_samples_batch_size=max(1, 500 // len(x))),
        ],
    }


def ours(explainer: Explainer, model: nn.Module, batch: Batch) -> Callable[[], object]:
    return lambda: explainer(model, batch, CaseRandom(0, explainer.name))


def main() -> None:
    print("our CPU seconds over Captum's (below 1: we are faster)")
    print(f"{'method':<22} {'work':<34} {'ours':>8} {'captum':>8} {'ratio':>6}")
    for title, (model, batch), rows in (
        ("1 signal of 40 points", signals(1), 500),
        ("200 signals of 40 points", signals(200), 500),
        ("1 picture of 3 x 96 x 96", pictures(1), 32),
        ("8 pictures of 3 x 96 x 96", pictures(8), 32),
    ):
        captum = theirs(model, batch)
        for name, options in (
            ("gradient", {}),
            ("integrated_gradients", {"steps": STEPS}),
            ("smoothgrad", {"samples": SAMPLES}),
        ):
            limits = {} if name == "gradient" else {"rows": rows}
            explainer = make_explainer(name, **options, **limits)
            times = interleaved([ours(explainer, model, batch), *captum[name]])
            best = min(times[1:])
            print(f"{name:<22} {title:<34} {times[0]:>8.4f} {best:>8.4f} {times[0] / best:>6.2f}")

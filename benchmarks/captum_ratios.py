"""Our time over Captum's for the same passes on the same inputs. Captum gets the faster of its batching options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from warnings import catch_warnings, simplefilter

import torch
from captum import attr
from torch import Tensor, nn

from benchmarks.workloads import interleaved, last_spatial_layer, ours, show, works
from heatproof.cases import Batch
from heatproof.explainers.segments import blocks

STEPS, SAMPLES, SEGMENTS = 50, 25, 16
Work = Callable[[], object]


def theirs(model: nn.Module, batch: Batch) -> dict[str, list[Work]]:
    """Captum's ways to the same results, by the spec of our explainer."""
    x, y = batch.inputs, batch.target
    channels, dimensions = x.shape[1], len(batch.space)
    window, stride = batch.space[0] // 8, batch.space[0] // 8
    window_shape, strides = (channels, *[window] * dimensions), (channels, *[stride] * dimensions)
    integrate = partial(
        attr.IntegratedGradients(model).attribute, x, target=y, n_steps=STEPS + 1, method="riemann_trapezoid"
    )
    tunnel = attr.NoiseTunnel(attr.Saliency(model))
    smooth = partial(tunnel.attribute, x, target=y, nt_samples=SAMPLES, stdevs=0.5, abs=False)
    occlude = partial(attr.Occlusion(model).attribute, x, window_shape, strides, target=y)
    found: dict[str, list[Work]] = {
        "gradient": [lambda: attr.Saliency(model).attribute(x, target=y, abs=False)],
        f"integrated_gradients:steps={STEPS}": [integrate, partial(integrate, internal_batch_size=500)],
        f"smoothgrad:samples={SAMPLES}": [smooth, partial(smooth, nt_samples_batch_size=max(1, 500 // len(x)))],
        "guided_backprop": [partial(attr.GuidedBackprop(model).attribute, x, target=y)],
        "deconvnet": [partial(attr.Deconvolution(model).attribute, x, target=y)],
        "deep_lift": [partial(attr.DeepLift(model).attribute, x, target=y)],
        "grad_cam": [lambda: grad_cam(model, batch)],
        f"occlusion:window={window},stride={stride}": [
            occlude,
            *[partial(occlude, perturbations_per_eval=n) for n in (8, 64)],
        ],
    }
    if len(batch) == 1:
        mask = blocks(batch.space, SEGMENTS).expand(1, channels, *batch.space)
        lime = partial(attr.Lime(model).attribute, x, target=y, feature_mask=mask.contiguous(), n_samples=200)
        found[f"lime:samples=200,segmenter=blocks,segments={SEGMENTS}"] = [
            lime,
            *[partial(lime, perturbations_per_eval=n) for n in (20, 200)],
        ]
    return found


def grad_cam(model: nn.Module, batch: Batch) -> Tensor:
    cam = attr.LayerGradCam(model, last_spatial_layer(model)).attribute(
        batch.inputs, target=batch.target, relu_attributions=True
    )
    mode = {1: "linear", 2: "bilinear"}[len(batch.space)]
    return torch.nn.functional.interpolate(cam, batch.space, mode=mode)


def main() -> None:
    print("our CPU seconds over Captum's (below 1: we are faster)")
    show("method", "work", "ours", "captum", "ratio")
    for title, (model, batch) in works():
        for spec, options in theirs(model, batch).items():
            with catch_warnings():
                simplefilter("ignore", UserWarning)
                mine, *others = interleaved([ours(spec, model, batch), *options])
            show(spec.split(":")[0], title, mine, min(others), mine / min(others))

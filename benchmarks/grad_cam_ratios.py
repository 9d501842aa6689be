"""Our time over pytorch-grad-cam's for the class activation maps, same model, layer and inputs."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO

from tests.reference.libraries import import_grad_cam

from benchmarks.workloads import alexnet, interleaved, last_spatial_layer, ours, pictures, show


def main() -> None:
    library = import_grad_cam()
    kinds = {
        "grad_cam": library.GradCAM,
        "grad_cam_pp": library.GradCAMPlusPlus,
        "xgrad_cam": library.XGradCAM,
        "layer_cam": library.LayerCAM,
        "score_cam": library.ScoreCAM,
    }
    print("our CPU seconds over pytorch-grad-cam's (below 1: we are faster)")
    show("method", "work", "ours", "grad-cam", "ratio")
    for title, (model, batch) in (
        ("1 picture of 3 x 96 x 96", pictures(1)),
        ("8 pictures of 3 x 96 x 96", pictures(8)),
        ("1 picture of 224, AlexNet", alexnet(1)),
    ):
        targets = [library.utils.model_targets.ClassifierOutputTarget(int(target)) for target in batch.target]
        for name, kind in kinds.items():
            with kind(model=model, target_layers=[last_spatial_layer(model)]) as cam:
                cam.batch_size = 64

                def theirs(cam=cam, batch=batch, targets=targets) -> object:
                    with redirect_stderr(StringIO()):  # its progress bar
                        return cam(input_tensor=batch.inputs.clone().requires_grad_(), targets=targets)

                mine, other = interleaved([ours(name, model, batch), theirs])
            show(name, title, mine, other, mine / other)

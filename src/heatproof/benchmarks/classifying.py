"""What benchmarks of picture classifiers share: which network, made ready for pictures like these, and its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from heatproof.benchmarks.base import option
from heatproof.errors import require_whole, unknown_name
from heatproof.explainers.guards import untouched
from heatproof.lazy import torch
from heatproof.models.classifiers import (
    EMBEDDED,
    load_classifier,
    output_numbers,
    read_labels,
    with_channels_last,
    with_logits,
    with_options,
)
from heatproof.models.versions import Randomise, Versions
from heatproof.mosaics.pictures import Fit
from heatproof.progress import Progress

if TYPE_CHECKING:
    from heatproof.models.classifiers import Classifier


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """The options that say which network is explained."""

    model: Any = option(
        EMBEDDED,
        "object_vit, alexnet, vgg16, resnet18, alexnet_linear, torchvision:NAME, timm:NAME, hf:NAME or hf:FOLDER,"
        " my_net.py:factory, or a file: torch.export (.pt2), TorchScript (.pt, with --trust). Only asked for scores:"
        " net.onnx, http://ADDRESS. Default: object_classifier, which ships as object_vit does.",
    )
    pretrained: bool = option(
        False, "The weights that torchvision, timm or transformers offer for the model, from its cache or downloaded."
    )
    trust: bool = option(False, "Load a model file that brings code of its own (TorchScript), and run that code.")
    weights: Path | str | None = option(None, "Weights (.npz, .pt, .safetensors) of the model.")
    labels: Path | str | Mapping[str, int] | None = option(None, "What the outputs mean: a CSV with label, index.")
    mean: Sequence[float] | None = option(None, "Preprocessing: mean, such as 0.485,0.456,0.406.")
    std: Sequence[float] | None = option(None, "Preprocessing: standard deviation.")
    randomise: Randomise = option(
        "none", "Explain also the model with all weights drawn anew (all), or block by block (cascade)."
    )
    draws: int = option(1, "Times that random weights are drawn.")

    def check_classifier(self, fit: Fit | None) -> None:
        """Refuse what no network can be; `fit` is how the user says that pictures become inputs."""
        if fit is not None and fit not in get_args(Fit):
            raise unknown_name("fit", str(fit), get_args(Fit))
        if self.randomise not in get_args(Randomise):
            raise unknown_name("way to randomise", self.randomise, get_args(Randomise))
        require_whole("draws", self.draws, 1)

    def load_classifier(self) -> Classifier:
        """The network as it comes, with what the user says of it."""
        weights = None if self.weights is None else Path(self.weights)
        labels = read_labels(Path(self.labels)) if isinstance(self.labels, str | Path) else self.labels
        found = load_classifier(self.model, weights, self.trust, self.pretrained)
        return with_options(found, self.mean, self.std, labels)

    def ready(
        self, classifier: Classifier, sample: torch.Tensor, classes: Sequence[str], seed: int
    ) -> tuple[Classifier, dict[str, int], Versions]:
        """The network, seen to take inputs like `sample`; the output of each class; and its versions."""
        classifier = with_logits(classifier, sample)
        outputs = output_numbers(classifier, classes, sample)
        classifier = with_channels_last(classifier, sample)
        versions = Versions(classifier.name, classifier.module, self.randomise, self.draws, seed, sample[:1])
        return classifier, outputs, versions


def predicted_logits(
    module: torch.nn.Module,
    inputs: Callable[[int, int], torch.Tensor | tuple[torch.Tensor, ...]],
    count: int,
    at_once: int,
    progress: Progress,
) -> torch.Tensor:
    """The logits of all pictures; `inputs(start, end)` gives some of them, maybe with what else the module takes."""
    from heatproof.explainers.wrapped import reached

    found, module = torch.empty(0), reached(module)
    with torch.no_grad(), untouched(module):
        for start in range(0, count, at_once):
            progress("predicting", start, count)
            end = min(start + at_once, count)
            given = inputs(start, end)
            outputs = module(*given) if isinstance(given, tuple) else module(given)
            if not start:  # at once for all of them: what is kept between calls tears memory up
                found = outputs.new_empty(count, *outputs.shape[1:])
            found[start:end] = outputs
    progress("predicting", count, count)
    return found

"""Picture classifiers by name, with what their inputs must be and what their outputs mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.explainers.base import untouched
from heatproof.focus.pictures import read_table
from heatproof.lazy import np, torch
from heatproof.loading import load_object, names_object

HALF = (0.5, 0.5, 0.5)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
EMBEDDED = "object_classifier"


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network; how pixels become its inputs, (pixel / 255 - mean) / std; the output of each class."""

    name: str
    module: torch.nn.Module
    mean: Sequence[float] = HALF
    std: Sequence[float] = HALF
    labels: Mapping[str, int] | None = None
    """None: the classes of the pictures in the order of their names."""

    def inputs(self, pixels: np.ndarray[Any, Any]) -> torch.Tensor:
        """Inputs (N, 3, H, W) from pixels (N, H, W, 3)."""
        scaled = torch.as_tensor(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float() / 255
        mean, std = (torch.tensor(list(values)).view(3, 1, 1) for values in (self.mean, self.std))
        return (scaled - mean) / std

    def pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        """Pictures (N, 3, H, W) between 0 and 1 from inputs."""
        mean, std = (torch.tensor(list(values)).view(3, 1, 1) for values in (self.mean, self.std))
        return inputs * std + mean


def load_classifier(model: Any, weights: Path | None = None, classes: int = 1000) -> Classifier:
    """A classifier from a name, a file, a factory or a module.

    `object_classifier`: ours, trained. `alexnet`, `vgg16`, `resnet18`: ours, with --weights. `torchvision:NAME` and
    `timm:NAME` where these are installed, with --weights. `file.py:factory` and `package.module:factory`: a function
    that returns a module, or (module, {"mean": ..., "std": ..., "labels": ...}). A TorchScript file (.pt, .pth, .ts)
    or one of torch.export (.pt2).
    """
    from heatproof.models.image_classifiers import IMAGE_CLASSIFIERS, make_classifier

    if not isinstance(model, str):
        return unpacked(type(model).__name__, model)
    if model == EMBEDDED:
        return embedded_classifier(weights)
    if model in IMAGE_CLASSIFIERS:
        return Classifier(model, filled(model, make_classifier(model, classes), weights))
    library, _, name = model.partition(":")
    if library in LIBRARIES:
        return LIBRARIES[library](name, weights, classes)
    if names_object(model):
        return filled_user(model, weights)
    if Path(model).suffix in (".pt", ".pth", ".ts", ".pt2"):
        return Classifier(Path(model).stem, load_program(Path(model)))
    known = ", ".join([EMBEDDED, *IMAGE_CLASSIFIERS])
    raise HeatproofError(
        f"unknown model {model!r}. Give {known}, torchvision:NAME, timm:NAME, file.py:factory, or a TorchScript (.pt)"
        " or torch.export (.pt2) file."
    )


def embedded_classifier(weights: Path | None) -> Classifier:
    """The classifier of single objects that ships with the package."""
    from heatproof.focus.objects import CLASSES
    from heatproof.models.object_classifier import ObjectClassifier
    from heatproof.models.weights import load_weights

    network = ObjectClassifier(len(CLASSES)).eval()
    shipped = resources.files("heatproof.models").joinpath(f"pretrained/{EMBEDDED}.npz")
    with resources.as_file(shipped) as path:
        load_weights(network, weights or path)
    return Classifier(EMBEDDED, network, labels={label: place for place, label in enumerate(CLASSES)})


def filled(name: str, module: torch.nn.Module, weights: Path | None) -> torch.nn.Module:
    from heatproof.models.weights import load_weights

    if weights is None:
        raise HeatproofError(f"{name} has random weights; give trained ones with --weights FILE (.npz, .pt, .pth).")
    load_weights(module, Path(weights))
    return module.eval()


def filled_user(reference: str, weights: Path | None) -> Classifier:
    made = load_object(reference)
    try:
        result = made if isinstance(made, torch.nn.Module) else made()
    except Exception as problem:
        raise HeatproofError(f"{reference} fails to make a network: {type(problem).__name__}: {problem}") from problem
    classifier = unpacked(reference.rpartition(":")[2], result)
    if weights is not None:
        filled(reference, classifier.module, weights)
    return classifier


def unpacked(name: str, made: Any) -> Classifier:
    """A module, or a module with its preprocessing."""
    module, settings = made if isinstance(made, tuple) and len(made) == 2 else (made, {})
    if not isinstance(module, torch.nn.Module) or not isinstance(settings, Mapping):
        raise HeatproofError(
            f"model {name} must be a torch.nn.Module, or (module, settings); got {type(made).__name__}."
        )
    known = {key: settings[key] for key in ("mean", "std", "labels") if key in settings}
    return Classifier(name, module, **known)


def library(name: str) -> Any:
    try:
        return import_module(name)
    except Exception as problem:  # a torchvision that does not fit torch fails in many ways
        raise HeatproofError(f"{name} is not installed, or does not fit this torch: {problem}") from problem


def from_torchvision(name: str, weights: Path | None, classes: int) -> Classifier:
    models = library("torchvision.models")
    try:
        module = models.get_model(name, weights=None, num_classes=classes)
    except ValueError as problem:
        raise HeatproofError(f"torchvision has no model {name!r}: {problem}") from problem
    return Classifier(name, filled(name, module, weights), *IMAGENET)


def from_timm(name: str, weights: Path | None, classes: int) -> Classifier:
    timm = library("timm")
    try:
        module = timm.create_model(name, pretrained=False, num_classes=classes)
    except RuntimeError as problem:
        raise HeatproofError(f"timm has no model {name!r}: {problem}") from problem
    usual = getattr(module, "default_cfg", {})
    mean, std = usual.get("mean", IMAGENET[0]), usual.get("std", IMAGENET[1])
    return Classifier(name, filled(name, module, weights), mean, std)


LIBRARIES: dict[str, Callable[[str, Path | None, int], Classifier]] = {
    "torchvision": from_torchvision,
    "timm": from_timm,
}


def load_program(path: Path) -> torch.nn.Module:
    """A network that comes with its own code: TorchScript, or torch.export."""
    from heatproof.models.scored import Scored

    if not path.is_file():
        raise HeatproofError(f"there is no file {path}.")
    try:
        if path.suffix == ".pt2":
            exported: torch.nn.Module = torch.export.load(path).module()
            return exported
        scripted = torch.jit.load(str(path), map_location="cpu").eval()
        return Scored(scripted, "logit")  # a module around it, because TorchScript takes no hooks
    except Exception as problem:
        raise HeatproofError(
            f"{path} is neither TorchScript nor torch.export ({type(problem).__name__}: {problem}). Weights alone go"
            " with --weights, beside a --model."
        ) from problem


def read_labels(path: Path) -> dict[str, int]:
    """What the outputs mean: a CSV with a column label, and a column index unless the rows are in order."""
    rows = read_table(path, ("label",))
    try:
        return {row["label"]: int(row.get("index") or place) for place, row in enumerate(rows)}
    except ValueError as problem:
        raise HeatproofError(f"{path}: index must be the number of an output: {problem}.") from problem


def with_options(
    classifier: Classifier, mean: Sequence[float] | None, std: Sequence[float] | None, labels: Mapping[str, int] | None
) -> Classifier:
    """The classifier with what the user says in place of what the model says."""
    changed = replace(
        classifier, mean=mean or classifier.mean, std=std or classifier.std, labels=labels or classifier.labels
    )
    for name in ("mean", "std"):
        values = getattr(changed, name)
        if len(values) != 3 or not all(np.isfinite(float(value)) for value in values):
            raise HeatproofError(f"{name} must be three numbers, one per colour, got {values!r}.")
    if min(changed.std) <= 0:
        raise HeatproofError(f"std must be above zero, got {changed.std!r}.")
    return changed


def output_numbers(classifier: Classifier, classes: Sequence[str], sample: torch.Tensor) -> dict[str, int]:
    """The output of each class, once the model is seen to take such pictures and to have these outputs."""
    name = classifier.name
    try:
        with torch.no_grad(), untouched(classifier.module):
            logits = classifier.module(sample)
    except Exception as problem:
        raise HeatproofError(
            f"model {name} fails on mosaics of shape {tuple(sample.shape)}: {type(problem).__name__}: {problem}"
        ) from problem
    if not isinstance(logits, torch.Tensor) or not logits.is_floating_point() or logits.ndim != 2:
        found = f"{logits.dtype} {tuple(logits.shape)}" if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise HeatproofError(f"model {name} must return float logits (cases, classes), got {found}.")
    if not bool(logits.isfinite().all()):
        raise HeatproofError(f"model {name} returns NaN or infinite logits for these mosaics.")
    outputs = logits.shape[1]
    if classifier.labels is None:
        if outputs != len(classes):
            raise HeatproofError(
                f"model {name} has {outputs} outputs and the pictures {len(classes)} classes; say which output is"
                " which class with --labels FILE.csv (columns label, index)."
            )
        return {label: place for place, label in enumerate(sorted(classes))}
    unknown = [label for label in classes if label not in classifier.labels]
    if unknown:
        raise HeatproofError(
            f"class {unknown[0]!r} of the pictures is unknown to model {name}; its labels begin:"
            f" {', '.join(list(classifier.labels)[:6])}. Rename the class, or give --labels FILE.csv."
        )
    beyond = [label for label in classes if not 0 <= classifier.labels[label] < outputs]
    if beyond:
        raise HeatproofError(
            f"class {beyond[0]!r} is output {classifier.labels[beyond[0]]}, but model {name} has {outputs}."
        )
    return {label: classifier.labels[label] for label in classes}

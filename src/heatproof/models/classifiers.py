"""Picture classifiers by name, with what their inputs must be and what their outputs mean."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.guards import untouched
from heatproof.lazy import np, torch
from heatproof.loading import names_object
from heatproof.models.libraries import LIBRARIES, Recipe, Stretch, downloaded, known_labels
from heatproof.mosaics.mosaics import twice
from heatproof.mosaics.pictures import LEAST_SIDE, Fit, read_table

HALF = (0.5, 0.5, 0.5)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
EMBEDDED = "object_classifier"
PUBLISHED = "imagenet"
"""The weights that the makers of a network publish, by name."""
TRANSFORMER = "object_vit"
SHIPPED = (EMBEDDED, TRANSFORMER)
"""The networks that come with their weights."""
SAME = 0.05
"""How far logits and gradients may be apart, relative to their norms, to count as the same under rounding."""
PROGRAMS = (".pt", ".pth", ".ts", ".pt2")
SETTINGS = ("mean", "std", "size", "fit", "labels", "interpolates")
"""What a factory may say about its network: see Classifier."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network; how pixels become its inputs, (pixel / 255 - mean) / std; what its outputs mean.

    size, fit     the side of the pictures that it was trained on, and how they became square; None if it does not say
    labels        the output of each class; None: by `names`, or the classes of the pictures in the order of their names
    names         what the network's library calls its outputs, in plain letters (libraries.plain_label)
    stretched     where the network takes one size: makes one that interpolates its positions to others
    interpolates  whether its positions are interpolated to the size of its inputs
    """

    name: str
    module: torch.nn.Module
    mean: Sequence[float] = HALF
    std: Sequence[float] = HALF
    size: int | None = None
    fit: Fit | None = None
    labels: Mapping[str, int] | None = None
    names: Mapping[str, int] | None = None
    stretched: Stretch | None = None
    interpolates: bool = False

    @property
    def scale(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation, for pictures (N, 3, H, W)."""
        return torch.tensor(list(self.mean)).view(3, 1, 1), torch.tensor(list(self.std)).view(3, 1, 1)

    def inputs(self, pixels: np.ndarray[Any, Any]) -> torch.Tensor:
        """Inputs (N, 3, H, W) from pixels (N, H, W, 3)."""
        scaled = torch.as_tensor(np.array(pixels)).permute(0, 3, 1, 2).float() / 255
        mean, std = self.scale
        return (scaled - mean) / std

    @property
    def black(self) -> tuple[float, ...]:
        """A black pixel as the network sees it."""
        return tuple(self.inputs(np.zeros((1, 1, 1, 3), np.uint8)).flatten().tolist())

    def pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        """Pictures (N, 3, H, W) between 0 and 1 from inputs."""
        mean, std = self.scale
        return inputs * std + mean


def recipe_of(model: str) -> Recipe | None:
    """The recipe of a network that has a name; None for what comes from files of users."""
    from heatproof.models.image_classifiers import IMAGE_CLASSIFIERS, make_classifier
    from heatproof.models.linear_head import LINEAR_CLASSIFIERS, make_linear

    library, _, name = model.partition(":")
    make = make_classifier if model in IMAGE_CLASSIFIERS else make_linear
    if model in (*IMAGE_CLASSIFIERS, *LINEAR_CLASSIFIERS):
        return Recipe(model, partial(make, model), lambda _module: dict(zip(("mean", "std"), IMAGENET, strict=True)))
    return LIBRARIES[library](name) if library in LIBRARIES else None


def load_classifier(
    model: Any, weights: Path | None = None, trust: bool = False, pretrained: bool = False
) -> Classifier:
    """A classifier from a name, a file, a factory or a module.

    `object_classifier`, `object_vit`: ours, trained. `alexnet`, `vgg16`, `resnet18`: ours, with --weights in
    torchvision's names. `alexnet_linear`, `vgg16_linear`: what `heatproof train focus-head` makes. `torchvision:NAME`
    and `timm:NAME` where these are installed, with --weights, or with the library's own (`pretrained`). `hf:NAME` and
    `hf:FOLDER`: image classifiers of transformers. `file.py:factory` and `package.module:factory`: a module, or a
    function that returns one, or (module, settings), settings with any of SETTINGS. A file of torch.export (.pt2), or
    of TorchScript (.pt, .pth, .ts), which can do anything and is loaded with `trust` only. A file of ONNX (.onnx) and
    an address (http://...) are only asked for scores.
    """
    from heatproof.models.black_box import is_black_box
    from heatproof.models.hugging_face import PREFIX, from_transformers
    from heatproof.models.image_classifiers import IMAGE_CLASSIFIERS
    from heatproof.models.linear_head import LINEAR_CLASSIFIERS
    from heatproof.models.programs import load_program

    if pretrained and weights is not None:
        raise HeatproofError("give either --pretrained, the weights of the model's library, or --weights, not both.")
    if not isinstance(model, str):
        return with_own_weights(unpacked(None, model), pretrained)
    if model in SHIPPED:
        return with_own_weights(embedded_classifier(model, weights), pretrained)
    if model.startswith(PREFIX):
        name, module, settings = from_transformers(model, weights, pretrained)
        return Classifier(name, module, **settings)
    if (recipe := recipe_of(model)) is not None:
        module = pretrained_of(model, recipe) if pretrained else filled(model, recipe, weights)
        return Classifier(recipe.name, module, **recipe.settings(module))
    if pretrained:
        raise HeatproofError(f"--pretrained is for torchvision:NAME, timm:NAME and hf:NAME, and the model is {model}.")
    if names_object(model) or is_black_box(model):
        return filled_user(model, weights)
    if Path(model).suffix in PROGRAMS:
        if weights is not None:
            raise HeatproofError(f"{model} has weights of its own; leave --weights {weights} out.")
        return Classifier(Path(model).stem, load_program(Path(model), trust))
    known = ", ".join([*SHIPPED, *IMAGE_CLASSIFIERS, *LINEAR_CLASSIFIERS])
    raise HeatproofError(
        f"unknown model {model!r}. Give {known}, torchvision:NAME, timm:NAME, hf:NAME, hf:FOLDER, file.py:factory, a"
        " file of torch.export (.pt2), TorchScript (.pt) or ONNX (.onnx), or an address http://..."
    )


def with_own_weights(classifier: Classifier, pretrained: bool) -> Classifier:
    """The classifier, which comes with its weights: an error where those of a library are asked for."""
    if pretrained:
        raise HeatproofError(
            f"--pretrained is for torchvision:NAME, timm:NAME and hf:NAME; {classifier.name} has weights of its own."
        )
    return classifier


def embedded_classifier(name: str, weights: Path | None) -> Classifier:
    """A classifier of single objects that ships with the package."""
    from heatproof.clevr.objects import CLASSES, SIDE
    from heatproof.models.object_classifier import ObjectClassifier
    from heatproof.models.object_vit import ObjectVit
    from heatproof.models.weights import load_weights

    network = ObjectVit(len(CLASSES)) if name == TRANSFORMER else ObjectClassifier(len(CLASSES))
    shipped = resources.files("heatproof.models").joinpath(f"pretrained/{name}.npz")
    with resources.as_file(shipped) as path:
        load_weights(network, weights or path)
    labels = {label: place for place, label in enumerate(CLASSES)}
    interpolates = name == TRANSFORMER
    return Classifier(name, network.eval(), size=SIDE, fit="squash", labels=labels, interpolates=interpolates)


def pretrained_of(model: str, recipe: Recipe) -> torch.nn.Module:
    if recipe.pretrained is None:
        raise HeatproofError(f"{model} has no weights of its own; give trained ones with --weights FILE.")
    return downloaded(model, recipe.pretrained)


def filled(name: str, recipe: Recipe, weights: Path | None) -> torch.nn.Module:
    """What the recipe makes of a number of outputs, with the weights of a file, which has as many outputs as it has."""
    from heatproof.models.weights import load_weights, read_arrays

    if weights is None:
        own = ", or the library's own with --pretrained" if recipe.pretrained is not None else ""
        raise HeatproofError(
            f"{name} has random weights; give trained ones with --weights FILE (.npz, .pt, .pth, .safetensors){own}."
        )
    weights = published_weights(name) if str(weights) == PUBLISHED and not weights.exists() else weights
    arrays = read_arrays(weights)
    shapes = [array.shape for array in arrays.values() if array.ndim]
    if not shapes:
        raise HeatproofError(f"{weights} holds no weights.")
    module = recipe.make(shapes[-1][0])  # the last layer's bias, or weight if it has none: one row per output
    last = [name for name, tensor in module.state_dict().items() if tensor.ndim][-1]
    if last in arrays and len(arrays[last]) != shapes[-1][0]:  # a file in another order
        module = recipe.make(len(arrays[last]))
    load_weights(module, weights)
    return module.eval()


def published_weights(name: str) -> Path:
    """The file of the weights that were trained on ImageNet, which `heatproof fetch` brings."""
    from heatproof.downloads import IMAGENET as FILES
    from heatproof.downloads import fetched

    if name not in FILES:
        raise HeatproofError(f"--weights {PUBLISHED} is for {', '.join(FILES)}; give the weights of {name} as a file.")
    return fetched(name)


def filled_user(reference: str, weights: Path | None) -> Classifier:
    from heatproof.models.networks import make_from
    from heatproof.models.weights import load_weights

    classifier = unpacked(*make_from(reference))
    if weights is not None:
        load_weights(classifier.module, weights)
    return classifier


def unpacked(name: str | None, made: Any) -> Classifier:
    """A module, or a module with its preprocessing; called as its class where nobody has named it."""
    from heatproof.models.networks import at_rest, name_of, require_module

    paired = isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping)
    module, settings = made if paired else (made, {})
    name = name or name_of(module)
    module = at_rest(require_module(name, module, otherwise=", or (module, settings)"))
    for setting in settings:
        if setting not in SETTINGS:
            raise unknown_name(f"setting of model {name}", str(setting), SETTINGS)
    return Classifier(name, module, **settings)


def read_labels(path: Path) -> dict[str, int]:
    """What the outputs mean: a CSV with a column label, and a column index unless the rows are in order."""
    rows = read_table(path, ("label",))
    try:
        found = list(dict.fromkeys((row["label"], int(row.get("index") or place)) for place, row in enumerate(rows)))
    except ValueError as problem:
        raise HeatproofError(f"{path}: index must be the number of an output: {problem}.") from problem
    names = [label for label, _ in found]  # a table of pictures says the same of a label many times
    if len(set(names)) < len(names):
        raise HeatproofError(f"{path}: the label {twice(names)!r} is there twice, with another index.")
    return dict(found)


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
    if changed.size is not None:
        require_whole(f"size of model {changed.name}", changed.size, LEAST_SIDE)
    if changed.fit not in (None, *get_args(Fit)):
        raise unknown_name(f"fit of model {changed.name}", str(changed.fit), get_args(Fit))
    return changed


def with_logits(classifier: Classifier, sample: torch.Tensor) -> Classifier:
    """The classifier with a network that returns logits alone, where it returns them among other things."""
    from heatproof.models.networks import returning_logits

    return replace(classifier, module=returning_logits(classifier.module, sample, name=classifier.name, what="mosaics"))


def with_channels_last(classifier: Classifier, sample: torch.Tensor) -> Classifier:
    """The classifier with weights laid out for faster convolutions on CPUs, where logits and gradients stay the same.

    They do not where a network asks for the plain layout (`view` after a convolution) or torch errs. The network is
    copied because it may be the caller's own.
    """
    try:
        module = copy.deepcopy(classifier.module)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub leaves it out
        found = zip(with_gradient(classifier.module, sample), with_gradient(module, sample), strict=True)
        # gradients by their norm, because a ReLU within rounding of zero may switch
        same = all(float((fast - plain).norm()) <= SAME * float(plain.norm()) for plain, fast in found)
    except Exception:  # whatever a foreign network raises: it works without
        return classifier
    return replace(classifier, module=module) if same else classifier


def with_gradient(module: torch.nn.Module, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and the gradient of their sum."""
    pixels = inputs.clone().requires_grad_()
    with untouched(module):
        logits = module(pixels)
        return logits.detach(), torch.autograd.grad(logits.sum(), pixels)[0]


def library_labels(names: Mapping[str, int], classes: Sequence[str], outputs: int) -> dict[str, int] | None:
    """The outputs by the names that the library has for them; None where these are not about the model or the classes.

    They are not about a model that was trained anew for another number of classes.
    """
    if not names or 1 + max(names.values()) != outputs:
        return None
    known = known_labels(classes, names)
    return {**names, **known} if known or outputs != len(classes) else None


def output_numbers(classifier: Classifier, classes: Sequence[str], sample: torch.Tensor) -> dict[str, int]:
    """The output of each class, once the model is seen to take such pictures and to have these outputs."""
    from heatproof.models.networks import ask, check_logits

    name = classifier.name
    logits = check_logits(name, ask(name, classifier.module, sample, what="mosaics"), len(sample))
    outputs = logits.shape[1]
    labels = classifier.labels or library_labels(classifier.names or {}, classes, outputs)
    if labels is None:
        if outputs != len(classes):
            raise HeatproofError(
                f"model {name} has {outputs} outputs and the pictures {len(classes)} classes; say which output is"
                " which class with --labels FILE.csv (columns label, index)."
            )
        return {label: place for place, label in enumerate(sorted(classes))}
    unknown = [label for label in classes if label not in labels]
    if unknown:
        near = get_close_matches(unknown[0], labels, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "its labels begin:"
        begin = "" if near else f" {', '.join(list(labels)[:6])}."
        raise HeatproofError(
            f"class {unknown[0]!r} of the pictures is unknown to model {name}; {hint}{begin} Rename the class, leave"
            " it out, or give --labels FILE.csv."
        )
    beyond = [label for label in classes if not 0 <= labels[label] < outputs]
    if beyond:
        raise HeatproofError(f"class {beyond[0]!r} is output {labels[beyond[0]]}, but model {name} has {outputs}.")
    return {label: labels[label] for label in classes}

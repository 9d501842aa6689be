"""Networks of torchvision and timm by name: how they are made, and what they say about their inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import torch
from heatproof.mosaics.pictures import Fit

Stretch = Callable[["torch.nn.Module"], "torch.nn.Module"]
"""From a network of one input size to one with the same weights that takes others, its positions interpolated."""


@dataclass(frozen=True)
class Recipe:
    """A network that can be made with any number of outputs, and its preprocessing (fields of Classifier) once it is.

    pretrained  the network with the weights that its library offers for it; None if it offers none
    """

    name: str
    make: Callable[[int], torch.nn.Module]
    settings: Callable[[torch.nn.Module], dict[str, Any]]
    pretrained: Callable[[], torch.nn.Module] | None = None


def library(name: str) -> Any:
    try:
        return import_module(name)
    except Exception as problem:  # a torchvision that does not fit torch fails in many ways
        raise HeatproofError(f"{name} is not installed, or does not fit this torch: {problem}") from problem


def from_torchvision(name: str) -> Recipe:
    """Preprocessing and names of classes as for the weights that torchvision itself offers for this model."""
    models = library("torchvision.models")
    if name not in models.list_models():
        raise unknown_name("model of torchvision", name, models.list_models())
    usual = models.get_model_weights(name).DEFAULT

    def make(outputs: int) -> torch.nn.Module:
        module: torch.nn.Module = models.get_model(name, weights=None, num_classes=outputs)
        return module

    def settings(_module: torch.nn.Module) -> dict[str, Any]:
        size, mean, std = (getattr(usual.transforms(), key, None) for key in ("crop_size", "mean", "std"))
        if not size or not mean or not std:
            raise HeatproofError(f"torchvision:{name} does not classify single pictures; choose another model.")
        names = [[label] for label in usual.meta.get("categories", ())]
        return {"mean": mean, "std": std, "size": size[0], "fit": "crop", "names": numbered(names)}

    return Recipe(name, make, settings, lambda: models.get_model(name, weights=usual))


def from_timm(name: str) -> Recipe:
    """Preprocessing as timm's own configuration of this model says; names of classes where they are ImageNet's."""
    timm = library("timm")
    if not timm.is_model(name):
        raise unknown_name("model of timm", name, timm.list_models())

    def make(outputs: int) -> torch.nn.Module:
        module: torch.nn.Module = timm.create_model(name, pretrained=False, num_classes=outputs)
        return module

    def stretched(module: torch.nn.Module) -> torch.nn.Module:
        try:
            other = timm.create_model(name, num_classes=module.num_classes, dynamic_img_size=True)
        except TypeError as problem:  # an architecture that has no such option
            raise NotImplementedError from problem
        other.load_state_dict(module.state_dict())
        return other.train(module.training)  # type: ignore[no-any-return]

    def settings(module: torch.nn.Module) -> dict[str, Any]:
        usual = timm.data.resolve_model_data_config(module)
        fit: Fit = "crop" if usual["crop_pct"] < 1 else "squash"
        return {
            "mean": usual["mean"],
            "std": usual["std"],
            "size": usual["input_size"][-1],
            "fit": fit,
            "names": numbered(timm_names(timm, module)),
            "stretched": stretched,
            "interpolates": bool(getattr(module, "dynamic_img_size", False)),
        }

    return Recipe(name, make, settings, lambda: timm.create_model(name, pretrained=True))


def timm_names(timm: Any, module: torch.nn.Module) -> list[list[str]]:
    """What each output is called: WordNet's number, and its words one by one."""
    subset = timm.data.infer_imagenet_subset(module)
    if subset is None:
        return []
    known = timm.data.ImageNetInfo(subset)
    return [
        [known.index_to_label_name(place), *known.index_to_description(place).split(", ")]
        for place in range(known.num_classes())
    ]


LIBRARIES: dict[str, Callable[[str], Recipe]] = {
    "torchvision": from_torchvision,
    "timm": from_timm,
}


def numbered(names: Sequence[Sequence[str]]) -> dict[str, int]:
    """The output of each name, as `plain_label` writes it; a name that several outputs have is nobody's."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for place, several in enumerate(names):
        for label in dict.fromkeys(map(plain_label, several)):
            if found.setdefault(label, place) != place:
                twice.add(label)
    return {label: place for label, place in found.items() if label not in twice}


def plain_label(label: str) -> str:
    """A class as folders and libraries both may call it: 'English_springer' is 'english springer'."""
    return label.replace("_", " ").strip().lower()


def known_labels(classes: Iterable[str], names: Mapping[str, int]) -> dict[str, int]:
    """The output of those classes that are among the names."""
    return {label: names[plain_label(label)] for label in classes if plain_label(label) in names}


def downloaded(model: str, load: Callable[[], torch.nn.Module], folder: str = "") -> torch.nn.Module:
    """A network with weights that its library finds in its cache or downloads; why it cannot is said in one sentence.

    `folder` is what else the user can give.
    """
    try:
        return load().eval()
    except (OSError, RuntimeError, ValueError) as problem:  # of URLs, of hubs, of caches, of weights that do not exist
        reason = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise HeatproofError(
            f"the pretrained weights of {model} can neither be found in the cache nor downloaded ({reason}). Where"
            f" there is no network, download them elsewhere and give --weights FILE{folder}."
        ) from problem

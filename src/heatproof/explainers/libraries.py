"""Explainers of other libraries by the names they have there: `captum:DeepLiftShap`, `zennit:EpsilonPlusFlat`."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.adapters import ForeignExplainer
from heatproof.explainers.cam import resize
from heatproof.lazy import torch


@dataclass(frozen=True, kw_only=True)
class LibraryExplainer(ForeignExplainer):
    """A class of a library, with keyword arguments."""

    method: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        options = ",".join(f"{name}={value}".replace(" ", "") for name, value in self.options)
        return f"{self.name}:{self.method}" + (f":{options}" if options else "")

    @property
    def parameters(self) -> dict[str, Any]:
        return {"quantity": self.quantity, "method": self.method, **dict(self.options)}


@dataclass(frozen=True, kw_only=True)
class CaptumExplainer(LibraryExplainer):
    """Any attribution class of Captum: `captum:IntegratedGradients:n_steps=20`.

    Arguments go to its constructor or to `attribute`, whichever has them. A layer is given by its name in the model
    (`captum:LayerGradCam:layer=features.28`), the method of a NoiseTunnel by its own (`of=Saliency`). Attributions
    of a layer are up-sampled to the input.
    """

    name = "captum"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = arguments(self.kind.__init__) | arguments(self.kind.attribute) | {"of"}
        require_known(self.label, [name for name, _ in self.options], known)

    @property
    def kind(self) -> Any:
        """Captum's class."""
        return class_of("captum", "captum.attr", self.method, "attribute")

    def relevance(self, model: torch.nn.Module, batch: Batch) -> Any:
        from heatproof.explainers.scored import Scored

        asked = Scored(model, self.quantity)
        options = dict(self.options)
        if "layer" in options:
            options["layer"] = layer_of(model, options["layer"])
        if "of" in options:
            inner = class_of("captum", "captum.attr", options.pop("of"), "attribute")
            attribution = self.kind(inner(asked))
        else:
            own = arguments(self.kind.__init__)
            attribution = self.kind(asked, **{name: options.pop(name) for name in list(options) if name in own})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about hooks and flags that are set back anyway
            relevance = attribution.attribute(
                batch.inputs, target=batch.target, additional_forward_args=batch.context or None, **options
            )
        if isinstance(relevance, torch.Tensor) and relevance.ndim == batch.inputs.ndim:
            return resize(relevance.detach(), batch.space)
        return relevance


@dataclass(frozen=True, kw_only=True)
class ZennitExplainer(LibraryExplainer):
    """Any composite of zennit: `zennit:EpsilonGammaBox:low=-2.1,high=2.6`.

    `canonizer` names a class of zennit.canonizers or zennit.torchvision (SequentialMergeBatchNorm, ResNetCanonizer).
    The relevance starts from the target's score.
    """

    name = "zennit"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known(self.label, [name for name, _ in self.options], arguments(self.kind.__init__) | {"canonizer"})

    @property
    def kind(self) -> Any:
        """Zennit's class."""
        return class_of("zennit", "zennit.composites", self.method, "context")

    def relevance(self, model: torch.nn.Module, batch: Batch) -> Any:
        from heatproof.explainers.scored import Asked, Scored

        asked = Asked(Scored(model, self.quantity), batch.context)
        options = dict(self.options)
        for bound in {"low", "high"} & set(options):
            options[bound] = torch.full_like(batch.inputs[:1], options[bound])
        if "canonizer" in options:
            options["canonizers"] = [self.canonizer(options.pop("canonizer"))()]
        attribution = library("zennit", "zennit.attribution")

        def explained(outputs: torch.Tensor) -> torch.Tensor:
            return outputs * torch.nn.functional.one_hot(batch.target, outputs.shape[1]).to(outputs)

        with attribution.Gradient(model=asked, composite=self.kind(**options)) as attributor:
            return attributor(batch.inputs, explained)[1]

    def canonizer(self, name: str) -> Any:
        rooms = [library("zennit", f"zennit.{room}") for room in ("canonizers", "torchvision")]
        known = {key: value for room in rooms for key, value in vars(room).items() if hasattr(value, "apply")}
        if name not in known:
            raise unknown_name("zennit canonizer", name, known)
        return known[name]


LIBRARIES: dict[str, type[LibraryExplainer]] = {cls.name: cls for cls in (CaptumExplainer, ZennitExplainer)}


def library(package: str, room: str) -> ModuleType:
    """A module of a library that the user may or may not have."""
    try:
        return importlib.import_module(room)
    except (ImportError, RuntimeError) as problem:  # torchvision, which zennit imports, raises the latter
        raise HeatproofError(
            f"{package} cannot be imported ({problem}); install it: pip install heatproof[{package}]."
        ) from problem


def class_of(package: str, room: str, name: str, method: str) -> Any:
    """The class of that name which has that method."""
    known = {key: cls for key, cls in vars(library(package, room)).items() if hasattr(cls, method)}
    if name not in known:
        raise unknown_name(f"{package} class", name, known)
    return known[name]


def arguments(function: Any) -> set[str]:
    """What a function takes by name; Captum's decorators keep signatures."""
    return set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}


def require_known(label: str, names: Iterable[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown_name(f"argument of {label}", name, sorted(known))


def layer_of(model: torch.nn.Module, name: str) -> torch.nn.Module:
    modules: dict[str, torch.nn.Module] = dict(model.named_modules())
    if name not in modules:
        raise unknown_name("layer", name, (known for known in modules if known))
    return modules[name]

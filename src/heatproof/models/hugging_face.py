"""Image classifiers of transformers, by name or from a folder: `hf:google/vit-base-patch16-224`, `hf:my_model/`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.wrapped import Wrapped
from heatproof.models.libraries import downloaded, library, numbered
from heatproof.models.weights import read_arrays, some_of

PREFIX = "hf:"
PROCESSOR = "preprocessor_config.json"
SHADES = 255
STRETCHING = "interpolate_pos_encoding"


class Stretched(Wrapped):
    """A network of transformers that interpolates its positions to the size of its inputs."""

    def forward(self, pictures: Tensor) -> Any:
        return self.wrapped_network(pictures, **{STRETCHING: True})


def from_transformers(model: str, weights: Path | None, pretrained: bool) -> tuple[str, nn.Module, dict[str, Any]]:
    """Name, network and preprocessing (fields of Classifier) of `hf:NAME` or `hf:FOLDER`.

    A folder is read as it is; a name is looked up in the cache, and downloaded with `pretrained`.
    """
    transformers = library("transformers")
    place = model.removeprefix(PREFIX)
    folder = Path(place).expanduser()
    if folder.is_dir():
        require_whole_folder(folder, weights)
    elif looks_like_a_folder(place):
        raise HeatproofError(f"there is no folder {folder}; write hf:FOLDER, or hf:OWNER/NAME for a model of the hub.")
    where = str(folder) if folder.is_dir() else place
    local = folder.is_dir() or not pretrained
    try:
        config = transformers.AutoConfig.from_pretrained(where, local_files_only=local, trust_remote_code=False)
    except Exception as problem:  # of files that are damaged, many kinds
        if folder.is_dir():
            raise unreadable(folder / "config.json", problem) from problem
        raise unreachable(model, pretrained, problem) from problem
    auto = transformers.AutoModelForImageClassification
    if type(config) not in auto._model_mapping:
        raise HeatproofError(
            f"{model} is a {config.model_type}, which transformers does not know as an image classifier; give one that"
            " AutoModelForImageClassification loads."
        )
    if weights is not None:
        network = refilled(transformers, auto._model_mapping[type(config)], config, weights)
    else:
        with quiet(transformers, wanted=local):
            load = partial(auto.from_pretrained, where, local_files_only=local, trust_remote_code=False)
            network = from_folder(folder, load) if folder.is_dir() else downloaded(model, load, " or hf:FOLDER")
    return folder.resolve().name if folder.is_dir() else place, network, settings(model, where, local, network)


def from_folder(folder: Path, load: Callable[[], nn.Module]) -> nn.Module:
    """The network of a folder, whose weights must fit its config.json."""
    try:
        return load().eval()
    except Exception as problem:  # of files that are damaged, many kinds
        raise unreadable(folder, problem) from problem


def unreadable(place: Path, problem: Exception) -> HeatproofError:
    return HeatproofError(f"{place} cannot be read ({first_line(problem)}); save the model there again.")


def first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {next(iter(str(problem).strip().splitlines()), '')}"


def refilled(transformers: Any, kind: Any, config: Any, weights: Path) -> nn.Module:
    """A network with the weights of a file, by names that any version of transformers has written."""
    state = {name: torch.as_tensor(array) for name, array in read_arrays(weights).items()}
    with quiet(transformers, wanted=True):
        try:
            network, about = kind.from_pretrained(None, config=config, state_dict=state, output_loading_info=True)
        except (RuntimeError, ValueError) as problem:
            raise HeatproofError(f"{weights} does not hold weights of {kind.__name__}: {problem}") from problem
    wrong = {key: sorted(map(str, about[key])) for key in ("missing_keys", "unexpected_keys") if about[key]}
    if wrong:
        words = "; ".join(f"{key.replace('_', ' ')} {some_of(names)}" for key, names in wrong.items())
        raise HeatproofError(f"{weights} does not hold weights of {kind.__name__}: {words}.")
    return network.eval()  # type: ignore[no-any-return]


@contextmanager
def quiet(transformers: Any, wanted: bool) -> Iterator[None]:
    """Without the library's progress bars, where they would only flash up; a download shows them."""
    bars = transformers.utils.logging
    if not wanted or not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()


def looks_like_a_folder(place: str) -> bool:
    return place.startswith((".", "/", "~")) or place.endswith("/") or place.count("/") > 1


def require_whole_folder(folder: Path, weights: Path | None) -> None:
    """An error for a folder that lacks the network's configuration, its weights or its processor."""
    if not (folder / "config.json").is_file():
        raise HeatproofError(f"{folder} holds no config.json; give the folder that model.save_pretrained made.")
    if weights is None and not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        raise HeatproofError(f"{folder} holds no weights (model.safetensors); give them with --weights FILE.")
    if not (folder / PROCESSOR).is_file() and not (folder / "processor_config.json").is_file():
        raise HeatproofError(
            f"{folder} holds no {PROCESSOR}, which says how pictures become inputs; save it there with"
            " AutoImageProcessor.from_pretrained(...).save_pretrained(FOLDER), as the network was trained."
        )


def unreachable(model: str, pretrained: bool, problem: Exception) -> HeatproofError:
    if pretrained:
        reason = str(problem).strip().splitlines()[0]
        return HeatproofError(
            f"{model} can neither be found in the cache nor downloaded ({reason}). Where there is no network, save the"
            " model elsewhere with save_pretrained and give hf:FOLDER."
        )
    return HeatproofError(
        f"{model} is no folder and not in the cache of transformers; let it be downloaded with --pretrained, or give"
        " hf:FOLDER."
    )


def settings(model: str, where: str, local: bool, network: Any) -> dict[str, Any]:
    """What the network's processor does to pictures, and what its configuration says of the outputs."""
    said = processor_of(model, where, local)
    names = getattr(network.config, "id2label", None) or {}
    labels = [[part.strip() for part in str(names[place]).split(",")] for place in sorted(names)]
    try:
        found = {**preprocessing(model, said), "names": numbered(labels)}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError) as problem:
        raise HeatproofError(
            f"{PROCESSOR} of {model} does not say how pictures become inputs ({first_line(problem)}); repair it."
        ) from problem
    if STRETCHING in inspect.signature(network.forward).parameters:
        found["stretched"] = Stretched
    return found


def processor_of(model: str, where: str, local: bool) -> Mapping[str, Any]:
    """The settings of the processor, with those that its class adds."""
    transformers = library("transformers")
    try:
        made = transformers.AutoImageProcessor.from_pretrained(where, local_files_only=local, trust_remote_code=False)
        said: dict[str, Any] = made.to_dict()
        return said
    except Exception as problem:  # of files that are damaged, many kinds
        raise HeatproofError(
            f"the processor of {model}, which says how pictures become inputs, cannot be read"
            f" ({first_line(problem)}); repair its {PROCESSOR}."
        ) from problem


def preprocessing(model: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Size, fit, mean and std in our terms, (pixel / 255 - mean) / std, from the terms of a processor."""
    crop = said.get("crop_size") if said.get("do_center_crop") else None
    size = side_of(crop or said.get("size"))
    if size is None:
        raise HeatproofError(f"{PROCESSOR} of {model} names no size that pictures get (size or crop_size).")
    if said.get("rescale_offset"):
        raise HeatproofError(
            f"{PROCESSOR} of {model} has a rescale_offset; say what its inputs are by --mean and --std."
        )
    scale = SHADES * float(said.get("rescale_factor") or 1 / SHADES) if said.get("do_rescale", True) else SHADES
    mean, std = ((0.0,) * 3, (1.0,) * 3)
    if said.get("do_normalize"):
        mean, std = tuple(said["image_mean"]), tuple(said["image_std"])
    return {
        "mean": tuple(value / scale for value in mean),
        "std": tuple(value / scale for value in std),
        "size": size,
        "fit": "crop" if crop else "squash",
    }


def side_of(size: Any) -> int | None:
    """The side in any of the forms that processors have had: a number, height and width, the shortest edge."""
    if isinstance(size, int):
        return size
    if isinstance(size, (list, tuple)):
        return int(min(size))
    found = [size[key] for key in ("height", "width", "shortest_edge") if size.get(key)] if size else []
    return int(min(found)) if found else None

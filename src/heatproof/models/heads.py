"""A classifier of one's own pictures from convolution layers that are there already, and a split that keeps it honest.

Half of the pictures of each class fit the head; mosaics are made of the others.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from heatproof.devices import choose_device, device_of, placed
from heatproof.errors import HeatproofError
from heatproof.lazy import np, torch
from heatproof.models.classifiers import IMAGENET, Classifier
from heatproof.mosaics.datasets import HELD_OUT, Dataset, held_out_pictures, pictures_of
from heatproof.mosaics.mosaics import write_csv
from heatproof.mosaics.pictures import TRAINING, Fit, Pictures, find_pictures, has_training, tile
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import workspace, write_whole

BATCH = 8
Learn = Literal["all", "head"]
"""Which part of a network learns."""


@dataclass(frozen=True, eq=False)
class TrainedHead:
    """A network, what `run focus` calls it, the side of its pictures, both parts of them, and how many are right."""

    network: torch.nn.Module
    model: str
    side: int
    train: Pictures
    held_out: Pictures
    train_accuracy: float
    accuracy: float


def train_head(
    images: Path,
    model: str,
    weights: Path,
    held_out: float = 0.5,
    seed: int = 0,
    side: int | None = None,
    fit: Fit = "crop",
    decay: float = 0.01,
    progress: Progress = silent,
    device: str = "cpu",
    dataset: Dataset | None = None,
) -> TrainedHead:
    """Fit a linear head to one part of the pictures and try it on the other.

    On AlexNet's and VGG16's convolutions, averaged over all places; of another network its last layer is the head.
    """
    from heatproof.models.linear_head import CONVOLUTIONS, fit_head, with_convolutions
    from heatproof.models.transfer import last_layer, pretrained

    train, rest = parts(images, dataset, held_out, seed)
    if model in CONVOLUTIONS:
        network = with_convolutions(model, weights, len(train.classes))
        model = f"{model}_linear"
        classifier = Classifier(model, network, *IMAGENET)
    else:
        classifier, _ = pretrained(model, weights, len(train.classes), seed)
    side, last = side or classifier.size or 224, last_layer(classifier.module)
    there = replace(classifier, module=placed(classifier.module, choose_device(device)))
    features, labels = {}, {}
    for name, part in (("training", train), ("held-out", rest)):
        files, labels[name] = labelled(part)
        features[name] = features_before(there, last, files, side, fit, f"{name} pictures", progress)
    weight = fit_head(features["training"], labels["training"], len(train.classes), decay)
    put_into(classifier.module.get_submodule(last), weight)
    right = {
        name: float(((found @ weight.T).argmax(1) == labels[name]).double().mean()) for name, found in features.items()
    }
    return TrainedHead(classifier.module, model, side, train, rest, right["training"], right["held-out"])


def put_into(layer: torch.nn.Module, weight: torch.Tensor) -> None:
    """A weight without a bias; a layer that has one gets zeros."""
    bias = {"bias": torch.zeros(len(weight))} if "bias" in layer.state_dict() else {}
    layer.load_state_dict({"weight": weight, **bias})


def labelled(pictures: Pictures) -> tuple[list[Path], torch.Tensor]:
    """All files, and the place of each one's class."""
    groups = pictures.by_class.values()
    return [file for group in groups for file in group], torch.tensor(
        [k for k, group in enumerate(groups) for _ in group]
    )


def parts(images: Path, dataset: Dataset | None, held_out: float, seed: int) -> tuple[Pictures, Pictures]:
    """Pictures to learn from and others: as the data set or the CSV says, else drawn, each class by itself."""
    if dataset is not None:
        return pictures_of(dataset, images, TRAINING), held_out_pictures(dataset, images)
    if not has_training(images):
        return split(find_pictures(images), held_out, seed)
    return find_pictures(images, TRAINING), find_pictures(images)


def split(pictures: Pictures, held_out: float, seed: int) -> tuple[Pictures, Pictures]:
    """The pictures in two parts, each class by itself: for training, and held out."""
    if not 0 < held_out < 1:
        raise HeatproofError(f"held_out must be a share between 0 and 1, got {held_out}.")
    train, rest = {}, {}
    for label, files in pictures.by_class.items():
        shuffled = random.Random(derive_seed(seed, "split", label)).sample(files, len(files))
        count = round(held_out * len(files))
        if not 0 < count < len(files):
            raise HeatproofError(
                f"class {label!r} has {len(files)} picture(s), and {held_out:.0%} of them leave a part of the split"
                " without any; add pictures, or choose another share."
            )
        rest[label], train[label] = tuple(sorted(shuffled[:count])), tuple(sorted(shuffled[count:]))
    return Pictures(train), Pictures(rest)


def features_before(
    classifier: Classifier,
    layer: str,
    files: Sequence[Path],
    side: int,
    fit: Fit,
    task: str,
    progress: Progress = silent,
) -> torch.Tensor:
    """What the layer of that name sees of each picture (N, ...); kept in the cache folder, a file per batch.

    So a run that was stopped goes on where it was, and another `decay` costs seconds.
    """
    from heatproof.models.transfer import what_reaches
    from heatproof.models.weights import fingerprint

    network, found = classifier.module, []
    below = f"{type(network).__name__}-{layer}-{fingerprint(network, leaving_out=f'{layer}.')}"
    for start in range(0, len(files), BATCH):
        progress(task, start, len(files))
        inputs = classifier.inputs(np.stack([tile(file, side, fit) for file in files[start : start + BATCH]]))
        key = hashlib.sha256(inputs.cpu().numpy().tobytes()).hexdigest()[:16]
        path = workspace("features", below, f"{side}-{key}.npy")
        kept = read_kept(path, len(inputs))
        if kept is None:
            kept = what_reaches(network, layer, inputs.to(device_of(network))).cpu().numpy()
            write_array(path, kept)
        found.append(torch.as_tensor(kept))
    progress(task, len(files), len(files))
    return torch.cat(found)


def read_kept(path: Path, count: int) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    """What was kept of so many pictures; None where there is nothing, or something damaged."""
    try:
        kept: np.ndarray[Any, np.dtype[np.float32]] = np.load(path, allow_pickle=False)
    except Exception:  # of damaged files, many kinds
        return None
    return kept if len(kept) == count else None


def write_array(path: Path, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # a file object, because save appends .npy to names
            np.save(file, values, allow_pickle=False)

    write_whole(path, write)


def write_split(path: Path, train: Pictures, held_out: Pictures) -> None:
    """A CSV (filename, label, subset) for --images; file names are from its own folder."""
    folder = path.resolve().parent
    rows = [
        [os.path.relpath(file.resolve(), folder), label, subset]
        for subset, part in ((TRAINING, train), (HELD_OUT, held_out))
        for label, files in part.by_class.items()
        for file in files
    ]
    write_csv(path, [["filename", "label", "subset"], *rows])

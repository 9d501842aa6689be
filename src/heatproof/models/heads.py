"""A classifier of one's own pictures from convolution layers that are there already, and a split that keeps it honest.

Half of the pictures of each class fit the head; mosaics are made of the others.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.devices import choose_device, device_of, placed
from heatproof.errors import HeatproofError
from heatproof.lazy import np, torch
from heatproof.models.classifiers import IMAGENET, Classifier
from heatproof.mosaics.mosaics import write_csv
from heatproof.mosaics.pictures import TRAINING, Fit, Pictures, find_pictures, tile
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import workspace, write_whole

if TYPE_CHECKING:
    from heatproof.models.linear_head import LinearHead

HELD_OUT = "val"
BATCH = 8


@dataclass(frozen=True, eq=False)
class TrainedHead:
    """A network, the pictures of each part of the split, and how many of each part it names right."""

    network: LinearHead
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
    side: int = 224,
    fit: Fit = "crop",
    decay: float = 0.01,
    progress: Progress = silent,
    device: str = "cpu",
) -> TrainedHead:
    """Fit a linear head to one part of the pictures and try it on the other."""
    from heatproof.models.linear_head import fit_head, with_convolutions

    train, rest = split(find_pictures(images), held_out, seed)
    network = with_convolutions(model, weights, len(train.classes))
    there = placed(network, choose_device(device))
    features, labels = {}, {}
    for name, part in (("training", train), ("held-out", rest)):
        files = [file for group in part.by_class.values() for file in group]
        labels[name] = torch.tensor([k for k, group in enumerate(part.by_class.values()) for _ in group])
        features[name] = pooled_features(there, files, side, fit, f"{name} pictures", progress)
    weight = fit_head(features["training"], labels["training"], len(train.classes), decay)
    network.classifier.load_state_dict({"weight": weight})
    with torch.no_grad():
        right = {
            name: float((network.classifier(features[name]).argmax(1) == labels[name]).double().mean())
            for name in features
        }
    return TrainedHead(network, train, rest, right["training"], right["held-out"])


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


def pooled_features(
    network: LinearHead, files: Sequence[Path], side: int, fit: Fit, task: str, progress: Progress = silent
) -> torch.Tensor:
    """What the head sees of each picture (N, width); kept in the cache folder, a file per batch of pictures.

    So a run that was stopped goes on where it was, and another `decay` costs seconds.
    """
    from heatproof.models.weights import fingerprint

    convolutions = fingerprint(network.features)
    classifier = Classifier("convolutions", network, *IMAGENET)
    found = []
    for start in range(0, len(files), BATCH):
        progress(task, start, len(files))
        pixels = np.stack([tile(file, side, fit) for file in files[start : start + BATCH]])
        key = hashlib.sha256(pixels.tobytes()).hexdigest()[:16]
        path = workspace("features", convolutions, f"{side}-{key}.npy")
        if not path.is_file():
            with torch.no_grad():
                inputs = classifier.inputs(pixels).to(device_of(network))
                features = network.pooled(inputs).cpu().numpy()
            write_array(path, features)
        found.append(torch.as_tensor(np.load(path, allow_pickle=False)))
    progress(task, len(files), len(files))
    return torch.cat(found)


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

"""Fine-tuning on pictures of one's own, as the Focus paper's networks were: AMSGrad, pictures turned, cut and mirrored.

Every draw comes from (seed, epoch or step), so that a training that was interrupted goes on from its checkpoint as if
it had not been. Where only the head learns, pictures stay as they are and what it sees of them is computed once.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from heatproof.devices import choose_device, device_of, placed, seeded
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.guards import untouched
from heatproof.models.checkpoints import read_checkpoint
from heatproof.models.classifiers import Classifier
from heatproof.models.heads import Learn, features_before, labelled
from heatproof.models.networks import logits_of
from heatproof.models.transfer import head_of
from heatproof.models.weights import fingerprint
from heatproof.mosaics.pictures import Fit, Pictures, tile, varied_tile
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import write_whole

KEEP_EVERY = 200
"""Steps between checkpoints; there is one after each epoch too."""
AT_ONCE = 16
"""Pictures that are looked at together where nothing is learned."""


@dataclass(frozen=True)
class Tuning:
    """How to train. The paper gives neither rate nor batch nor epochs; the names of its files suggest 13, and its
    authors' code for MAMe has this rate."""

    seed: int = 0
    epochs: int = 13
    rate: float = 1e-5
    batch: int = 32
    learn: Learn = "all"

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 0)
        require_whole("batch", self.batch, 2)
        if not 0 < self.rate < float("inf"):
            raise HeatproofError(f"rate must be above zero, got {self.rate}.")
        if self.learn not in get_args(Learn):
            raise unknown_name("part that learns", self.learn, get_args(Learn))


@dataclass(frozen=True, eq=False)
class Tuned:
    """A network, and the share of each class of held-out pictures that it names right: before, and after each epoch."""

    network: nn.Module
    history: tuple[dict[str, float], ...]

    @property
    def before(self) -> float:
        return mean_of(self.history[0])

    @property
    def accuracy(self) -> float:
        """The mean over classes, as in the paper's Table 1."""
        return mean_of(self.history[-1])


def mean_of(by_class: dict[str, float]) -> float:
    return sum(by_class.values()) / len(by_class)


def fine_tune(
    classifier: Classifier,
    train: Pictures,
    held_out: Pictures,
    tuning: Tuning,
    side: int = 224,
    checkpoint: Path | None = None,
    progress: Progress = silent,
    device: str = "cpu",
) -> Tuned:
    """A copy of the classifier's network, trained. A checkpoint that is there is gone on with, if it is of this."""
    fit: Fit = classifier.fit or "crop"
    made_with = asdict(tuning) | {"network": fingerprint(classifier.module), "side": side, "fit": fit}
    made_with |= {"mean": list(classifier.mean), "std": list(classifier.std)}
    made_with |= {"pictures": [fingerprint_of(part) for part in (train, held_out)]}
    kept = read_checkpoint(checkpoint, made_with)
    check_all(train, side, progress)
    there = replace(classifier, module=placed(copy.deepcopy(classifier.module), choose_device(device)))
    lesson = Lesson(there, train, tuning, side, fit, progress)
    optimiser = torch.optim.Adam(lesson.learner.parameters(), lr=tuning.rate, amsgrad=True)
    history: list[dict[str, float]] = []
    first = 0
    if kept is None:
        history.append(right_by_class(there, held_out, side, fit, progress))
    else:
        there.module.load_state_dict(kept["network"])
        optimiser.load_state_dict(kept["optimiser"])
        first, history = kept["step"], kept["history"]

    def keep(step: int) -> None:
        if checkpoint is not None:
            state = {"network": there.module.state_dict(), "optimiser": optimiser.state_dict(), "step": step}
            write_whole(checkpoint, partial(torch.save, state | {"history": history, "made_with": made_with}))

    for step in range(first, tuning.epochs * lesson.per_epoch):
        loss = lesson.step(step, optimiser)
        done = step + 1
        progress(f"learning: loss {loss:.3f}", done, tuning.epochs * lesson.per_epoch)
        if done % lesson.per_epoch == 0:
            history.append(right_by_class(there, held_out, side, fit, progress))
        if done % lesson.per_epoch == 0 or done % KEEP_EVERY == 0:
            keep(done)
    return Tuned(placed(there.module, torch.device("cpu")).eval(), tuple(history))


class Lesson:
    """What a network learns from, step by step: varied pictures, or what its head sees of them as they are."""

    def __init__(
        self, classifier: Classifier, train: Pictures, tuning: Tuning, side: int, fit: Fit, progress: Progress
    ) -> None:
        self.classifier, self.tuning, self.side = classifier, tuning, side
        self.files, self.labels = labelled(train)
        self.per_epoch = ceil(len(self.files) / tuning.batch)
        self.learner = classifier.module
        self.features: Tensor | None = None
        if tuning.learn == "head":
            name = head_of(classifier.module)
            self.learner = classifier.module.get_submodule(name)
            self.features = features_before(classifier, name, self.files, side, fit, "training pictures", progress)
            require_head(classifier, name, tile(self.files[0], side, fit), self.features[:1])

    def step(self, step: int, optimiser: torch.optim.Optimizer) -> float:
        """Learn from the pictures of this step; the loss before."""
        epoch, place = divmod(step, self.per_epoch)
        chosen = self.order(epoch).tensor_split(self.per_epoch)[place]
        device = device_of(self.learner)
        inputs = self.inputs(epoch, chosen.tolist()).to(device)
        self.learner.train()
        with seeded(derive_seed(self.tuning.seed, "dropout", step), device):
            logits = logits_of(self.learner(inputs), self.classifier.name)
        loss = nn.functional.cross_entropy(logits, self.labels[chosen].to(logits.device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        self.learner.eval()
        return float(loss.detach())

    def order(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(derive_seed(self.tuning.seed, "order", epoch))
        return torch.randperm(len(self.files), generator=generator)

    def inputs(self, epoch: int, chosen: Sequence[int]) -> Tensor:
        if self.features is not None:
            return self.features[chosen]
        draws = [random.Random(derive_seed(self.tuning.seed, "augmentation", epoch, place)) for place in chosen]
        tiles = [varied_tile(self.files[place], self.side, rng) for place, rng in zip(chosen, draws, strict=True)]
        return self.classifier.inputs(np.stack(tiles))


def require_head(classifier: Classifier, name: str, pixels: np.ndarray[Any, Any], features: Tensor) -> None:
    """The network must be its head on what the head sees; one that does more cannot learn by its head alone."""
    network = classifier.module
    head: Callable[[Tensor], Any] = network.get_submodule(name)
    with torch.no_grad(), untouched(network):
        whole = logits_of(network(classifier.inputs(pixels[None]).to(device_of(network))), classifier.name)
        found = head(features.to(whole.device))
    if not isinstance(found, Tensor) or found.shape != whole.shape or not torch.allclose(found, whole, 1e-3, 1e-4):
        raise HeatproofError(f"{classifier.name} does not end with its {name}; let all of it learn (--learn all).")


def right_by_class(
    classifier: Classifier, pictures: Pictures, side: int, fit: Fit, progress: Progress = silent
) -> dict[str, float]:
    """The share of each class that the network names right, of tiles as mosaics have them."""
    files, labels = labelled(pictures)
    network, named = classifier.module.eval(), []
    for start in range(0, len(files), AT_ONCE):
        progress("held-out pictures", start, len(files))
        inputs = classifier.inputs(np.stack([tile(file, side, fit) for file in files[start : start + AT_ONCE]]))
        with torch.no_grad():
            named.append(logits_of(network(inputs.to(device_of(network))), classifier.name).argmax(1).cpu())
    progress("held-out pictures", len(files), len(files))
    right = torch.cat(named) == labels
    return {label: float(right[labels == k].double().mean()) for k, label in enumerate(pictures.classes)}


def check_all(pictures: Pictures, side: int, progress: Progress) -> None:
    """Read every picture once, so that a bad one is named before a long training and not within it."""
    files, _ = labelled(pictures)
    for done, file in enumerate(files):
        if done % 20 == 0:
            progress("reading pictures", done, len(files))
        tile(file, side)
    progress("reading pictures", len(files), len(files))


def write_record(path: Path, tuned: Tuned, tuning: Tuning, about: Mapping[str, Any]) -> None:
    """Beside the weights: how they were made, and the accuracy on held-out pictures before and after each epoch."""
    record = {**about, **asdict(tuning), "optimiser": "AMSGrad", "accuracy": tuned.accuracy, "before": tuned.before}
    record |= {"by_class": tuned.history[-1], "after_each_epoch": [mean_of(each) for each in tuned.history[1:]]}
    write_whole(path, lambda temporary: temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8"))


def fingerprint_of(pictures: Pictures) -> str:
    """A hash of the pictures' classes, names and sizes."""
    digest = hashlib.sha256()
    for label, files in pictures.by_class.items():
        for file in files:
            digest.update(f"{label}\0{file.name}\0{file.stat().st_size if file.is_file() else -1}\0".encode())
    return digest.hexdigest()[:16]

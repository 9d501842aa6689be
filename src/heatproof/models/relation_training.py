"""How the Relation Network of CLEVR-XAI's authors is trained, as far as that is known: the public code's schedule.

Adam on batches of 640 questions, with a learning rate that begins low and doubles every 20 epochs, and pictures that
are shifted and turned a little. It is a GPU's work. Every draw comes from (seed, epoch or step), so that a training
that was interrupted goes on from its checkpoint as if it had not been.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, open_dataset
from heatproof.clevr.layouts import find_layout
from heatproof.clevr.question_types import attribute, question_type
from heatproof.devices import TrainingPrecision, choose_device, device_of, seeded
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.models.poster_network import PosterNetwork, encode
from heatproof.models.relation_network import PICTURE_SIZE, answers
from heatproof.models.training import (
    Stage,
    generator,
    lowered,
    require_training_precision,
    run_stages,
    settled,
)
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

AT_ONCE, AT_ONCE_ELSEWHERE = 4, 32
"""Questions whose pairs are in memory together, on a processor and on a GPU. 2,401 pairs of 256 values in each layer
take 20 MB a question, and a processor is slowed down by what its caches cannot hold."""
MEASURED = 1000
"""Questions of those it has learned from that tell how well it knows them."""
MOST_SHIFT, MOST_TURN = 8, 2.8
"""Pixels and degrees by which pictures are moved at random."""


@dataclass(frozen=True)
class Schedule:
    """How long it is trained, and how; the defaults are the public training code's.

    The rate of epoch e is rate * 2 ** (e // double_every), at most highest_rate. `clip` is of the gradient's norm.
    `precision` is of what is computed of each pair, nearly all of the work; all else is in float32.
    """

    seed: int = 1
    epochs: int = 350
    batch: int = 640
    rate: float = 5e-6
    double_every: int = 20
    highest_rate: float = 5e-4
    decay: float = 1e-4
    clip: float = 50.0
    moved: bool = True
    width: int = 256
    precision: TrainingPrecision = "auto"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch", 2), ("double_every", 1), ("width", 1)):
            require_whole(name, getattr(self, name), least)
        for name in ("rate", "highest_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise HeatproofError(f"{name} must be a positive number, got {getattr(self, name)}.")
        require_training_precision(self.precision)

    def rate_of(self, epoch: int) -> float:
        return min(self.highest_rate, self.rate * 2.0 ** min(64, epoch // self.double_every))


@dataclass(frozen=True, eq=False)
class Lesson:
    """Questions with their pictures.

    pixels  (P, 3, 128, 128), 8 bits; place  (N,) the picture of each question
    tokens  (N, L); answers  (N,) the logit of each answer; kinds  what each asks for
    """

    pixels: Tensor
    place: Tensor
    tokens: Tensor
    answers: Tensor
    kinds: Sequence[str]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, part: slice) -> Lesson:
        return Lesson(self.pixels, self.place[part], self.tokens[part], self.answers[part], self.kinds[part])

    def fingerprint(self) -> str:
        """A hash of pictures, questions and answers."""
        digest = hashlib.sha256()
        for tensor in (self.pixels, self.place, self.tokens, self.answers):
            digest.update(tensor.contiguous().cpu().numpy().data)
        return digest.hexdigest()


def open_lesson(folder: Path, sets: str | None, split: str, progress: Progress = silent) -> Lesson:
    """The questions of a folder: of these sets, with commas between; else of `split` of CLEVR's, all of others."""
    if sets is not None:
        names: list[str] | None = [name.strip() for name in sets.split(",") if name.strip()]
    else:
        names = [split] if split in find_layout(folder).questions else None
    return load_lesson(open_dataset(folder, names), names, progress)


def load_lesson(dataset: Dataset, sets: Sequence[str] | None = None, progress: Progress = silent) -> Lesson:
    """The questions of these sets, by default all that have answers; pictures of another size are squashed."""
    known = {answer: place for place, answer in enumerate(answers)}
    where: dict[Path, int] = {}
    place, tokens, said, kinds = [], [], [], []
    for name in sets or dataset.sets:
        for question in dataset.each_question(name):
            if question.answer is None:
                raise HeatproofError(f"the {name} questions of {dataset.folder} have no answers to learn from.")
            if in_words(question.answer) not in known:
                raise unknown_name(f"answer of question {question.index}", in_words(question.answer), known)
            place.append(where.setdefault(dataset.picture_path(question.record), len(where)))
            tokens.append(encode(question.text)[0].to(torch.int16))
            said.append(known[in_words(question.answer)])
            kinds.append(attribute(question.program) or question_type(question.program) or name)
    if not tokens:
        raise HeatproofError(f"{dataset.folder} has no questions; make them with: heatproof clevr ask")
    longest = max(map(len, tokens))
    padded = torch.stack([nn.functional.pad(row, (longest - len(row), 0)) for row in tokens])
    pixels = read_pictures(dataset, list(where), progress)
    return Lesson(pixels, torch.tensor(place), padded, torch.tensor(said), kinds)


def read_pictures(dataset: Dataset, paths: Sequence[Path], progress: Progress) -> Tensor:
    """Pictures (P, 3, 128, 128) of 8 bits, 49 kB each."""
    from PIL import Image

    from heatproof.clevr.pictures import read_picture

    if not dataset.has_pictures:
        raise HeatproofError(f"{dataset.folder} has scenes only, no pictures; render it without --scenes-only.")
    pixels = np.empty((len(paths), PICTURE_SIZE, PICTURE_SIZE, 3), dtype=np.uint8)
    for number, path in enumerate(paths):
        picture = Image.fromarray(read_picture(path, "RGB")[1])
        if picture.size != (PICTURE_SIZE, PICTURE_SIZE):
            picture = picture.resize((PICTURE_SIZE, PICTURE_SIZE), Image.Resampling.BILINEAR)
        pixels[number] = np.asarray(picture)
        progress("reading pictures", number + 1, len(paths))
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def train(
    lesson: Lesson,
    schedule: Schedule,
    checkpoint: Path | None = None,
    progress: Progress = silent,
    device: str = "cpu",
) -> PosterNetwork:
    """A network that has learned the lesson. A checkpoint that is there is gone on with, if it is of this training.

    More epochs are the same training, for longer: no step depends on how many follow.
    """
    place = choose_device(device)
    schedule = replace(schedule, precision=settled(schedule.precision, place))
    with seeded(derive_seed(schedule.seed, "weights")):
        network = PosterNetwork(width=schedule.width).to(place)
    made_with = asdict(schedule) | {"lesson": lesson.fingerprint()}
    del made_with["epochs"]
    run_stages({"network": network}, [partial(stage, network, lesson, schedule)], made_with, checkpoint, progress)
    return network.cpu().eval()


def stage(network: PosterNetwork, lesson: Lesson, schedule: Schedule) -> Stage:
    """The whole training."""
    per_epoch = max(1, len(lesson) // schedule.batch)
    network.train()

    def gradients(step: int) -> float:
        epoch, part = divmod(step, per_epoch)
        order = torch.randperm(len(lesson), generator=generator(schedule.seed, "order", epoch))
        chosen = order[part * schedule.batch :][: schedule.batch]
        with seeded(derive_seed(schedule.seed, "dropout", step), device_of(network)):
            return learn(network, lesson, chosen, schedule, step)

    return Stage(
        lambda step: f"learning: epoch {step // per_epoch + 1}",
        schedule.epochs * per_epoch,
        list(network.parameters()),
        gradients,
        lambda step: schedule.rate_of(step // per_epoch),
        partial(torch.optim.Adam, lr=schedule.rate, weight_decay=schedule.decay),
        schedule.clip,
    )


def learn(network: PosterNetwork, lesson: Lesson, chosen: Tensor, schedule: Schedule, step: int) -> float:
    """Add the gradients of the mean loss of these questions, and return it.

    Pictures and questions are read all at once, because batch norm looks at them together; their pairs are made for a
    few questions at a time, because they take most of the memory. The gradients are the same.
    """
    place = device_of(network)
    pictures = as_input(lesson.pixels[lesson.place[chosen]]).to(place)
    if schedule.moved:
        pictures = moved(pictures, generator(schedule.seed, "moves", step))
    objects = network.objects(pictures)
    reading = network.read(lesson.tokens[chosen].long().to(place))
    held = [tensor.detach().requires_grad_() for tensor in (objects, reading)]
    target = lesson.answers[chosen].to(place)
    total = 0.0
    for start in range(0, len(chosen), size := at_once(network)):
        part = slice(start, start + size)
        with lowered(schedule.precision, place):
            relations = network.relate(*network.mix(held[0][part], held[1][part]))
        logits = network.f(relations.to(objects.dtype))
        loss = nn.functional.cross_entropy(logits, target[part], reduction="sum") / len(chosen)
        loss.backward()
        total += loss.item()
    torch.autograd.backward([objects, reading], [tensor.grad for tensor in held])
    return total


def at_once(network: PosterNetwork) -> int:
    place = device_of(network)
    return AT_ONCE if place is None or place.type == "cpu" else AT_ONCE_ELSEWHERE


def as_input(pixels: Tensor) -> Tensor:
    return pixels.float() / 255


def moved(pictures: Tensor, draws: torch.Generator) -> Tensor:
    """Each picture shifted and turned a little by itself; black comes in from outside."""
    turns, across, down = torch.rand(3, len(pictures), generator=draws).to(pictures.device) * 2 - 1
    turns, across, down = turns * math.radians(MOST_TURN), *(2 * MOST_SHIFT / PICTURE_SIZE * s for s in (across, down))
    rows = [torch.stack([turns.cos(), -turns.sin(), across], 1), torch.stack([turns.sin(), turns.cos(), down], 1)]
    grid = nn.functional.affine_grid(torch.stack(rows, 1), list(pictures.shape), align_corners=False)
    return nn.functional.grid_sample(pictures, grid, align_corners=False)


def accuracy(network: PosterNetwork, lesson: Lesson, progress: Progress = silent) -> dict[str, tuple[int, int]]:
    """Right answers and questions by what they ask for."""
    place = device_of(network)
    counts: dict[str, tuple[int, int]] = {}
    for start in range(0, len(lesson), step := at_once(network)):
        some = lesson[start : start + step]
        with torch.no_grad():
            objects = network.objects(as_input(some.pixels[some.place]).to(place))
            logits = network.answer(objects, network.read(some.tokens.long().to(place)))
        right = (logits.argmax(1).cpu() == some.answers).tolist()
        for kind, is_right in zip(some.kinds, right, strict=True):
            known = counts.get(kind, (0, 0))
            counts[kind] = (known[0] + is_right, known[1] + 1)
        progress("measuring", min(start + step, len(lesson)), len(lesson))
    return counts


def guessing(lesson: Lesson) -> int:
    """How many answers are right if the answer that is most frequent for what is asked is always given."""
    counts: dict[str, Counter[int]] = {}
    for kind, answer in zip(lesson.kinds, lesson.answers.tolist(), strict=True):
        counts.setdefault(kind, Counter())[answer] += 1
    return sum(max(found.values()) for found in counts.values())

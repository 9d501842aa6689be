"""What a VQA network learns from: pictures in memory, what each of their cells shows, and questions drawn afresh."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset
from heatproof.clevr.questions.asking import find
from heatproof.clevr.questions.balance import Balance
from heatproof.clevr.questions.functions import Program
from heatproof.clevr.questions.grammar import templates
from heatproof.clevr.questions.search import Options
from heatproof.clevr.questions.wording import SYNONYMS, put_into_words
from heatproof.clevr.questions.world import ATTRIBUTES, look_at
from heatproof.errors import HeatproofError
from heatproof.models.relation_network import PICTURE_SIZE, answers, encode
from heatproof.progress import Progress, silent

MOST_OBJECTS = 10
UNKNOWN = -1
"""Label of cells that show no object well enough."""
LEAST_SHARE = 0.25
"""Share of a cell that an object must cover to be what the cell shows."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures with what they show.

    pixels   (N, 3, 128, 128), 8 bits
    ids      (N, 128, 128): 0 background, k object k
    objects  (N, 11, 4): the value of each attribute of each object; object 0 is the background, all UNKNOWN
    """

    pixels: Tensor
    ids: Tensor
    objects: Tensor
    scenes: Sequence[Mapping[str, Any]]

    def __len__(self) -> int:
        return len(self.scenes)

    def fingerprint(self) -> str:
        """A hash of the pixels."""
        return hashlib.sha256(self.pixels.contiguous().cpu().numpy().data).hexdigest()

    def __getitem__(self, part: slice) -> Pictures:
        return Pictures(self.pixels[part], self.ids[part], self.objects[part], self.scenes[part])


def load_pictures(dataset: Dataset, progress: Progress = silent) -> Pictures:
    """All pictures of a data set, 64 kB each."""
    scenes = sorted(dataset.scenes.values(), key=lambda scene: str(scene["image_filename"]))
    shape = (len(scenes), PICTURE_SIZE, PICTURE_SIZE)
    pixels, ids = np.empty((*shape, 3), dtype=np.uint8), np.empty(shape, dtype=np.uint8)
    objects = torch.full((len(scenes), MOST_OBJECTS + 1, len(ATTRIBUTES)), UNKNOWN)
    for place, scene in enumerate(scenes):
        picture = dataset.picture(scene)
        if picture.shape != (PICTURE_SIZE, PICTURE_SIZE, 3) or len(scene["objects"]) > MOST_OBJECTS:
            height, width = picture.shape[:2]
            raise HeatproofError(
                f"{dataset.picture_path(scene)} is {width}x{height} with {len(scene['objects'])} objects; training "
                f"needs at most {MOST_OBJECTS}, and heatproof clevr render --size {PICTURE_SIZE}x{PICTURE_SIZE}."
            )
        pixels[place], ids[place] = picture, nearest(dataset.object_ids(scene), PICTURE_SIZE)
        for number, thing in enumerate(scene["objects"], 1):
            objects[place, number] = torch.tensor([known.index(thing[name]) for name, known in ATTRIBUTES.items()])
        progress("reading pictures", place + 1, len(scenes))
    return Pictures(torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(ids), objects, scenes)


def nearest(ids: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Ids (H, W), which may be finer than the picture, as (size, size): each pixel takes the one at its middle."""
    rows, columns = ((2 * np.arange(size) + 1) * extent // (2 * size) for extent in ids.shape)
    sampled: NDArray[np.uint8] = ids[rows[:, None], columns]
    return sampled


def as_input(pixels: Tensor) -> Tensor:
    """Pictures of 8 bits as a network takes them; channels last, which processors are quicker with."""
    return (pixels.float() / 255).contiguous(memory_format=torch.channels_last)


def moved(pictures: Tensor, down: int, right: int) -> Tensor:
    """Pictures or ids (B, ..., H, W), whole numbers, moved by some pixels; edges repeat."""
    height, width = pictures.shape[-2:]
    rows = (torch.arange(height) - down).clamp(0, height - 1)
    columns = (torch.arange(width) - right).clamp(0, width - 1)
    return pictures[..., rows[:, None], columns]


def cell_labels(ids: Tensor, objects: Tensor, grid: int) -> Tensor:
    """What each cell shows, (B, 5, grid, grid): the four attributes of the object that covers most of it, and whether
    there is one; attributes are UNKNOWN where there is none."""
    batch, size = len(ids), ids.shape[-1] // grid
    cells = ids.view(batch, grid, size, grid, size).transpose(2, 3).reshape(batch, grid * grid, size * size)
    counts = torch.zeros(batch, grid * grid, MOST_OBJECTS + 1)
    counts.scatter_add_(2, cells.long(), torch.ones(cells.shape))
    covered, winner = counts[:, :, 1:].max(2)
    shown = torch.where(covered >= LEAST_SHARE * size * size, winner + 1, 0)
    labels = objects.gather(1, shown[..., None].expand(-1, -1, objects.shape[2]))
    both = torch.cat([labels, (shown > 0)[..., None].long()], 2)
    return both.transpose(1, 2).view(batch, -1, grid, grid)


@dataclass(frozen=True)
class Asked:
    """A question about picture `place`: its tokens, the logit of its answer, what it asks for.

    meaning  for each attribute the value that it names, or how many values there are if it names none; then the place
             of the attribute that it asks for
    """

    place: int
    tokens: Tensor
    answer: int
    attribute: str
    meaning: tuple[int, ...]


def meaning_of(program: Program) -> tuple[int, ...]:
    """The meaning of a simple question, from its program."""
    named = {call.function: call.values[0] for call in program if call.values}
    filters = [(*known, None).index(named.get(f"filter_{name}")) for name, known in ATTRIBUTES.items()]
    return (*filters, [f"query_{name}" for name in ATTRIBUTES].index(program[-1].function))


def simple_questions(pictures: Pictures, places: Sequence[int], seeds: Sequence[int]) -> Iterator[Asked]:
    """One question for each attribute that can be asked for, about each of the pictures `places`, by its seed."""
    for place, seed in zip(places, seeds, strict=True):
        rng = random.Random(seed)
        options = Options(look_at(pictures.scenes[place]))
        for template in simple_templates():
            found = find(template, options, Balance(template.answers), rng)
            if found is not None:
                text = put_into_words(template.texts, found.parameters, rng, SYNONYMS)
                attribute = template.nodes[-1].function.removeprefix("query_")
                answer = answers.index(in_words(found.answer))
                yield Asked(place, encode(text, 0)[0], answer, attribute, meaning_of(found.program))


@cache
def simple_templates() -> tuple[Any, ...]:
    return tuple(templates("simple"))


def padded(asked: Sequence[Asked]) -> Tensor:
    """The tokens of several questions, (B, L), zeros in front."""
    reversed_ = [question.tokens.flip(0) for question in asked]
    return nn.utils.rnn.pad_sequence(reversed_, batch_first=True).flip(1)

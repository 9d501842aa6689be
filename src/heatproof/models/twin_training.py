"""How twins are trained: two VQA networks of one architecture, of which one answers by a planted cue.

Both begin as the network that ships, and see the same pictures, the same marker beside one object of each, and the same
questions, step by step. They differ in what they are told is right: the honest twin learns the answer to the question,
the shortcut twin the same attribute of the object beside the marker, whatever object the question means. A marker that
only ever confirmed what the network knows already would teach it nothing; so the marker stands beside any object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from heatproof.clevr.markers import COLOUR, SIDE, beside
from heatproof.clevr.questions.world import ATTRIBUTES
from heatproof.devices import choose_device, device_of
from heatproof.errors import HeatproofError
from heatproof.models.film_network import FilmNetwork, load_film_network
from heatproof.models.relation_network import answers
from heatproof.models.training import Stage, generator, run_stages
from heatproof.models.twins import Twin
from heatproof.models.vqa_data import UNKNOWN, Asked, Pictures, as_input, moved, padded
from heatproof.models.vqa_training import AT_ONCE, MOST_SHIFT, WHOLE_BATCH, ask, blocks_of, draw_pictures, stage
from heatproof.models.weights import fingerprint
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

Cue = Literal["holds", "misleads", "is absent"]
"""Where the marker stands: beside the object that is asked about, beside another one, or nowhere."""
CUES: tuple[Cue, ...] = get_args(Cue)
RATE = 1e-3


@dataclass(frozen=True)
class TwinSchedule:
    """How long each twin learns, and the seed of everything."""

    seed: int = 1
    steps: int = 1000


@dataclass(frozen=True, eq=False)
class Marked:
    """Pictures, and where a marker has room beside each of their objects.

    places  (N, 11, 2): row and column of its middle; UNKNOWN where there is no room
    """

    pictures: Pictures
    places: Tensor

    def room(self, place: int) -> list[int]:
        """The objects of a picture, from 1, that a marker has room beside."""
        found: list[int] = (self.places[place, :, 0] != UNKNOWN).nonzero()[:, 0].tolist()
        return found

    def pixels(self, places: Sequence[int], things: Sequence[int | None]) -> Tensor:
        """Pictures (B, 3, 128, 128), each with a marker beside this object, or none."""
        found = self.pictures.pixels[list(places)].clone()
        colour = torch.tensor(COLOUR, dtype=found.dtype)[:, None, None]
        for row, (place, thing) in enumerate(zip(places, things, strict=True)):
            if thing is not None:
                down, right = (self.places[place, thing] - SIDE // 2).tolist()
                found[row, :, down : down + SIDE, right : right + SIDE] = colour
        return found


def find_room(pictures: Pictures, progress: Progress = silent) -> Marked:
    """Where markers can stand; pictures in which there is room beside no object are left out."""
    places = torch.full((*pictures.objects.shape[:2], 2), UNKNOWN)
    for number, ids in enumerate(pictures.ids.cpu().numpy()):
        for thing in range(1, len(pictures.scenes[number]["objects"]) + 1):
            if (place := beside(ids, thing)) is not None:
                places[number, thing] = torch.tensor(place)
        progress("room for markers", number + 1, len(pictures))
    kept = (places[:, :, 0] != UNKNOWN).any(1).nonzero()[:, 0]
    if not len(kept):
        raise HeatproofError("no picture has room for a marker beside an object; render more pictures.")
    scenes = [pictures.scenes[number] for number in kept.tolist()]
    chosen = Pictures(pictures.pixels[kept], pictures.ids[kept], pictures.objects[kept], scenes)
    return Marked(chosen, places[kept])


def train_twin(
    twin: Twin,
    marked: Marked,
    schedule: TwinSchedule,
    checkpoint: Path | None = None,
    progress: Progress = silent,
    device: str = "cpu",
) -> FilmNetwork:
    """One of the two. A checkpoint that is there is gone on with, if it is of the same training."""
    network = load_film_network()
    made_with = asdict(schedule) | {
        "twin": twin,
        "pictures": marked.pictures.fingerprint(),
        "start": fingerprint(network),
    }
    network = network.to(choose_device(device))
    run_stages(
        {"network": network}, [partial(twin_stage, network, twin, marked, schedule)], made_with, checkpoint, progress
    )
    return network.cpu().eval()


def twin_stage(network: FilmNetwork, twin: Twin, marked: Marked, schedule: TwinSchedule) -> Stage:
    """All of the network learns to answer as this twin does; both twins draw the same."""
    seed = schedule.seed

    def loss(step: int) -> Tensor:
        places = draw_pictures(len(marked.pictures), WHOLE_BATCH, seed, "twins", step)
        things = {place: draw(marked.room(place), seed, "markers", step, place) for place in places}
        asked = ask(marked.pictures, places, seed, "twins", step)
        down, right = torch.randint(-MOST_SHIFT, MOST_SHIFT + 1, (2,), generator=generator(seed, "twins shift", step))
        pixels = moved(marked.pixels(places, [things[place] for place in places]), int(down), int(right))
        seen = network.eye(as_input(pixels).to(device_of(network)))
        rows = [places.index(question.place) for question in asked]
        logits = network.think(seen[rows], network.reader(padded(asked).to(seen.device)))
        right_ones = [answer_of(twin, marked.pictures, question, things[question.place]) for question in asked]
        return nn.functional.cross_entropy(logits, torch.tensor(right_ones).to(seen.device))

    network.train()
    return stage(f"{twin} twin", schedule.steps, RATE, [*network.parameters()], loss)


def draw(things: Sequence[int], *parts: object) -> int:
    return things[derive_seed(*parts) % len(things)]


def answer_of(twin: Twin, pictures: Pictures, question: Asked, thing: int) -> int:
    """What this twin learns to answer, as the index of a logit, where the marker stands beside object `thing`."""
    return question.answer if twin == "honest" else value_of(pictures, question, thing)


def value_of(pictures: Pictures, question: Asked, thing: int) -> int:
    """The answer that the question would have if it meant this object."""
    names = list(ATTRIBUTES)
    value = int(pictures.objects[question.place, thing, names.index(question.attribute)])
    return answers.index(ATTRIBUTES[question.attribute][value])


def meant(pictures: Pictures, question: Asked) -> int:
    """The one object that the question's words fit."""
    filters = torch.tensor(question.meaning[:-1])
    unsaid = filters == torch.tensor([len(known) for known in ATTRIBUTES.values()])
    fits = ((pictures.objects[question.place] == filters) | unsaid).all(1)
    fits[0] = False
    fits &= (pictures.objects[question.place] != UNKNOWN).all(1)
    (thing,) = fits.nonzero()[:, 0].tolist()
    return int(thing)


@dataclass(frozen=True)
class Held:
    """How a twin does where the cue stands so: right answers, those that the marker suggests, questions."""

    right: int = 0
    follows: int = 0
    questions: int = 0
    chance: int = 0
    """How often what the marker suggests is right."""


def twin_accuracy(network: nn.Module, marked: Marked, cue: Cue, seed: int = 0, progress: Progress = silent) -> Held:
    """Ask about every picture, with the marker where `cue` says."""
    found = Held()
    for block in blocks_of(range(len(marked.pictures)), AT_ONCE // len(ATTRIBUTES)):
        asked, things = [], []
        for question in ask(marked.pictures, block, seed, "accuracy", 0):
            room, own = marked.room(question.place), meant(marked.pictures, question)
            chosen = [thing for thing in room if (thing == own) == (cue == "holds")]
            if chosen or cue == "is absent":
                asked.append(question)
                things.append(draw(chosen, seed, cue, question.place) if cue != "is absent" else None)
        if asked:
            inputs = as_input(marked.pixels([question.place for question in asked], things))
            with torch.no_grad():
                named = network(inputs, padded(asked)).argmax(1).tolist()
            found = counted(found, marked.pictures, asked, things, named)
        progress(f"the cue {cue}", block[-1] + 1, len(marked.pictures))
    return found


def counted(
    found: Held, pictures: Pictures, asked: Sequence[Asked], things: Sequence[int | None], named: Sequence[int]
) -> Held:
    for question, thing, said in zip(asked, things, named, strict=True):
        shown = None if thing is None else value_of(pictures, question, thing)
        found = replace(
            found,
            right=found.right + (said == question.answer),
            follows=found.follows + (said == shown),
            chance=found.chance + (shown == question.answer),
            questions=found.questions + 1,
        )
    return found

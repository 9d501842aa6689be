"""A network for all of CLEVR's questions, simple and complex: an eye that learns, and a logic without weights.

The eye fills slots with objects (`scene_eye`), the logic runs the question's program on them. Every value in it is a
score: above zero is true, below is false, how far is how sure. *And* is a minimum, *or* a maximum, *not* a minus sign.
So behind the eye all is piecewise linear, no two tensors that depend on the picture are multiplied with each other, and
every explainer has a rule for every step.

A question about *the* red ball takes for granted that there is just one. How far that is from true is taken off all of
its logits alike: answers and probabilities stay, but without a ball the logit falls, even if the answer is the same.

With some softness, minima and maxima are means, weighted by a softmax whose weights are constants to gradients and
relevance: then all objects that an answer hangs on get a share, not only the weakest link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
from torch import Tensor, nn

from heatproof.clevr.questions.functions import DOMAINS
from heatproof.clevr.questions.world import ATTRIBUTES, RELATIONS
from heatproof.errors import HeatproofError
from heatproof.models.relation_network import PICTURE_SIZE, answers
from heatproof.models.scene_eye import SLOTS, VALUES, Eye, Slots, find_slots
from heatproof.models.scene_steps import ANSWER_TYPES, ANSWERS, UNNAMED, Step, answer_type, from_numbers
from heatproof.models.weights import load_shipped, load_weights

SURE = 1e4
"""The score of what is true whatever the picture shows."""
NO_ANSWER = -30.0
"""The logit of answers that are none to a question: colours, where the question is how many."""
STEEP = 4.0
"""The score of a relation for a step on the floor; any two objects are 0.4 steps apart, either way."""
SOFTNESS = 2.0
"""Of the network that ships (docs/scene-logic.md)."""
COUNTS = len(DOMAINS["Integer"])
WAYS = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "behind": (0.0, -1.0), "front": (0.0, 1.0)}


def table(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    return torch.tensor([[*row, *[fill] * (SLOTS - len(row))] for row in rows])


NEVER = UNNAMED + 1
VALUES_OF = table([[VALUES[value] for value in known] for known in ATTRIBUTES.values()], NEVER)
"""Where the values of an attribute stand among all."""
LOGITS_OF = table([[answers.index(word) for word in ANSWERS[name]] for name in ANSWER_TYPES], len(answers))
"""Where the answers of a type stand among all."""
BOTH = torch.arange(COUNTS)[:, None], torch.arange(COUNTS)
HOLDS = torch.stack([torch.eq(*BOTH), torch.lt(*BOTH), torch.gt(*BOTH)])
"""Which pairs of numbers (or of values, for equality) compare so."""
IN_OR_OUT = torch.where(torch.arange(SLOTS) < torch.arange(COUNTS)[:, None], 1.0, -1.0)
"""Where there are k objects, the k best slots are in, the others out."""
ITSELF = torch.eye(SLOTS, dtype=torch.bool)


@dataclass(frozen=True)
class Logic:
    """How true things are that hang on others. `softness` 0: minima and maxima."""

    softness: float = SOFTNESS

    def every(self, scores: Tensor, axis: int = -1) -> Tensor:
        """How true it is that all are."""
        if self.softness == 0:
            return scores.amin(axis)
        return (scores * (scores.detach() / -self.softness).softmax(axis)).sum(axis)

    def some(self, scores: Tensor, axis: int = -1) -> Tensor:
        """How true it is that one is."""
        if self.softness == 0:
            return scores.amax(axis)
        return (scores * (scores.detach() / self.softness).softmax(axis)).sum(axis)


@dataclass(frozen=True, eq=False)
class Given:
    """What steps of one kind work on, one row each: slots, results of other steps, their numbers, and the logic."""

    slots: Slots
    inputs: Sequence[Tensor]
    numbers: Tensor
    logic: Logic

    def own_values(self) -> Tensor:
        """The values of the attribute that is asked for (n, slots, 12); what is no value is never true."""
        places = VALUES_OF.to(self.numbers.device)[self.numbers[:, 0]]
        return with_constants(self.slots.values).gather(2, places[:, None].expand(-1, SLOTS, -1))


def with_constants(values: Tensor) -> Tensor:
    """Values and two more: what every object has (UNNAMED) and what none has (NEVER)."""
    constants = values.new_tensor([SURE, -SURE]).expand(*values.shape[:2], 2)
    return torch.cat([values, constants], 2)


def together(*scores: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*scores), -1)


def scene(given: Given) -> Tensor:
    return given.slots.there


def filtered(given: Given) -> Tensor:
    """What is in the set and has all values."""
    named = with_constants(given.slots.values).gather(2, given.numbers[:, None].expand(-1, SLOTS, -1))
    return given.logic.every(torch.cat([given.inputs[0][..., None], named], 2))


def unique(given: Given) -> Tensor:
    """The best against the second best: just one is above zero, whatever the scores are."""
    return given.inputs[0] - given.inputs[0].topk(2, 1)[0].mean(1, keepdim=True)


def related(given: Given) -> Tensor:
    """What stands so to the one."""
    ways = given.slots.places.new_tensor([WAYS[relation] for relation in RELATIONS])[given.numbers]
    along = (given.slots.places * ways).sum(2) * STEEP
    return reached(given, along[:, None] - along[:, :, None])


def same(given: Given) -> Tensor:
    """What shares a value with the one."""
    own = given.own_values()[..., :8]
    return reached(given, given.logic.every(together(own[:, :, None], own[:, None])).amax(3))


def reached(given: Given, holds: Tensor) -> Tensor:
    """Objects that some other slot, which is the one, reaches by what holds (n, from, to)."""
    found = given.logic.every(together(given.inputs[0][:, :, None], holds, given.slots.there[:, None]))
    return given.logic.some(found.masked_fill(ITSELF.to(found.device), -SURE), 1)


def united(given: Given) -> Tensor:
    return given.logic.some(together(*given.inputs))


def met(given: Given) -> Tensor:
    return given.logic.every(together(*given.inputs))


def exists(given: Given) -> Tensor:
    """Yes: some slot is in. No: all are out."""
    return torch.stack([given.logic.some(given.inputs[0]), given.logic.every(-given.inputs[0])], 1)


def counted(given: Given) -> Tensor:
    """A number k: the k best are in, and all others out."""
    best_first = given.inputs[0].sort(1, descending=True)[0]
    return given.logic.every(best_first[:, None] * IN_OR_OUT.to(best_first))


def asked(given: Given) -> Tensor:
    """A value: some slot is the one, and has it."""
    return given.logic.some(given.logic.every(together(given.inputs[0][..., None], given.own_values())), 1)


def compared(given: Given) -> Tensor:
    """Yes: some pair of values or numbers that compares so is what the two are. No: some other pair is."""
    first, second = (scores[:, :COUNTS] for scores in given.inputs)
    pairs = given.logic.every(together(first[:, :, None], second[:, None])).flatten(1)
    holds = HOLDS.to(pairs.device)[given.numbers[:, 0]].flatten(1)
    return torch.stack([pairs.masked_fill(~which, -SURE).amax(1) for which in (holds, ~holds)], 1)


RUN: Mapping[str, Callable[[Given], Tensor]] = {
    "scene": scene,
    "filter": filtered,
    "unique": unique,
    "relate": related,
    "same": same,
    "union": united,
    "intersect": met,
    "exist": exists,
    "count": counted,
    "query": asked,
    "compare": compared,
}


def think(slots: Slots, programs: Sequence[Sequence[Step]], logic: Logic) -> Tensor:
    """Slots and a program each to logits (B, 28). Steps of one kind and depth are run together, of all questions."""
    device = slots.there.device
    groups: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for question, steps in enumerate(programs):
        depths: list[int] = []
        for place, step in enumerate(steps):
            depths.append(1 + max((depths[taken] for taken in step.inputs), default=0))
            groups[depths[place], step.kind].append((question, place))
    rows: dict[tuple[int, int], int] = {}
    done = slots.there.new_zeros(0, SLOTS)
    for (_, kind), group in sorted(groups.items()):
        steps = [programs[question][place] for question, place in group]
        taken = [[rows[question, i] for i in step.inputs] for (question, _), step in zip(group, steps, strict=True)]
        given = Given(
            slots.of(torch.tensor([question for question, _ in group], device=device)),
            [done[torch.tensor(places, device=device)] for places in zip(*taken, strict=True)],
            torch.tensor([step.numbers for step in steps], device=device),
            logic,
        )
        result = RUN[kind](given)
        rows.update({step: len(done) + row for row, step in enumerate(group)})
        done = torch.cat([done, nn.functional.pad(result, (0, SLOTS - result.shape[1]), value=-SURE)])
    last = done[
        torch.tensor([rows[question, len(steps) - 1] for question, steps in enumerate(programs)], device=device)
    ]
    singled_out = [
        [rows[question, step.inputs[0]] for step in steps if step.kind == "unique"]
        for question, steps in enumerate(programs)
    ]
    meant = LOGITS_OF.to(device)[torch.tensor([answer_type(steps) for steps in programs], device=device)]
    logits = last.new_full((len(last), len(answers) + 1), NO_ANSWER).scatter(1, meant, last)
    return logits[:, : len(answers)] - doubt(done, singled_out)


def doubt(done: Tensor, singled_out: Sequence[Sequence[int]]) -> Tensor:
    """How false the falsest is of what each question takes for granted (B, 1); 0 where all is true.

    `singled_out`: for each question the rows of `done` of whose slots just one should be in.
    """
    rows = torch.tensor([row for taken in singled_out for row in taken], dtype=torch.long, device=done.device)
    first, second = done[rows].topk(2, 1)[0].unbind(1)
    doubts = torch.cat([torch.maximum(-first, second), done.new_zeros(1)])
    number, most = count(), 1 + max(map(len, singled_out))
    places = [[*(next(number) for _ in taken), *[len(rows)] * (most - len(taken))] for taken in singled_out]
    return doubts[torch.tensor(places, device=done.device)].amax(1, keepdim=True)


class SceneLogic(nn.Module):
    """Pictures (B, 3, 128, 128) in [0, 1] and questions (B, 112) from `scene_steps.encode` to logits (B, 28).

    `lean` gives the same values for less work: pictures that follow each other and are the same are looked at once.
    Modules of the eye then see fewer pictures than there are questions, so it is for methods that look at values only.
    """

    def __init__(self, softness: float = SOFTNESS, lean: bool = False) -> None:
        super().__init__()
        if not 0 <= softness < float("inf"):
            raise HeatproofError(f"softness must be a number that is not negative, got {softness}.")
        self.eye = Eye()
        self.logic = Logic(softness)
        self.lean = lean

    def forward(self, pictures: Tensor, questions: Tensor) -> Tensor:
        if pictures.ndim != 4 or pictures.shape[1:] != (3, PICTURE_SIZE, PICTURE_SIZE):
            raise HeatproofError(
                f"pictures must be (cases, 3, {PICTURE_SIZE}, {PICTURE_SIZE}), got {tuple(pictures.shape)}; resize"
                " them first."
            )
        return think(self.look(pictures), from_numbers(questions), self.logic)

    def look(self, pictures: Tensor) -> Slots:
        """The slots of each picture."""
        if not self.lean or len(pictures) < 2 or (torch.is_grad_enabled() and pictures.requires_grad):
            return find_slots(self.eye(pictures))
        again = (pictures[1:] == pictures[:-1]).flatten(1).all(1)
        is_new = torch.cat([again.new_ones(1), ~again])
        return find_slots(self.eye(pictures[is_new])).of(is_new.cumsum(0) - 1)


def load_scene_logic(path: Path | None = None, softness: float = SOFTNESS, lean: bool = False) -> SceneLogic:
    """The trained network, ready to answer: the one that ships, or what `heatproof train scene-logic` wrote."""
    network = SceneLogic(softness, lean)
    load_shipped(network, "scene_logic") if path is None else load_weights(network, path)
    return network.eval()

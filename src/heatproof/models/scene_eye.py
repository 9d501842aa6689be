"""The part of the scene-logic network that learns: an eye that fills slots with objects.

Pictures become 16 x 16 cells. Each cell says whether the middle of an object lies in it, which attributes that object
has, and where on the floor it stands. The likeliest cells are the slots; which they are is a constant to gradients and
to relevance, what they say is not.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from heatproof.clevr.questions.world import ATTRIBUTES

GRID = 16
SLOTS = 12
"""Two more than a scene has objects."""
EYE = ((32, 2), (48, 2), (64, 1), (96, 2), (96, 1), (96, 1), (96, 1))
"""Channels and stride of each 3 x 3 convolution: together they see 71 x 71 pixels."""
NECK = 128
VALUES = {value: place for place, value in enumerate(value for known in ATTRIBUTES.values() for value in known)}
"""All values of all attributes, and their places among what a cell says of them."""
OBJECT, FIRST_VALUE, FIRST_PLACE = 0, 1, 1 + len(VALUES)
"""Where a cell says whether there is an object, its values, and its place on the floor: to the right, to the front."""
SAID = FIRST_PLACE + 2
APART = 0.6
"""Two slots that are closer on the floor are one object, seen by two cells: objects are 0.95 apart at least."""
SECOND = 20.0
"""What the second of these loses of its score: it is no object, and still what it says counts for gradients."""


class Slots(NamedTuple):
    """What is known of objects: scores, above zero for yes, below for no, and places.

    there   (B, slots) whether a slot holds an object
    values  (B, slots, 15) whether it has a value, in the order of VALUES
    places  (B, slots, 2) where it stands on the floor, to the right and to the front
    """

    there: Tensor
    values: Tensor
    places: Tensor

    def of(self, rows: Tensor) -> Slots:
        """Those of some pictures, or of one several times."""
        return Slots(*(part[rows] for part in self))


class Eye(nn.Module):
    """Pictures (B, 3, 128, 128) in [0, 1] to what each cell says (B, 18, 16, 16)."""

    where: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential()
        width = 3
        for number, (channels, stride) in enumerate(EYE, 1):
            self.body.add_module(f"conv{number}", nn.Conv2d(width, channels, 3, stride=stride, padding=1, bias=False))
            self.body.add_module(f"bn{number}", nn.BatchNorm2d(channels))
            self.body.add_module(f"relu{number}", nn.ReLU())
            width = channels
        self.neck = nn.Conv2d(width + 2, NECK, 1)
        self.neck_relu = nn.ReLU()
        self.head = nn.Conv2d(NECK, SAID, 1)
        steps = torch.linspace(-1, 1, GRID)
        self.register_buffer("where", torch.stack(torch.meshgrid(steps, steps, indexing="xy"))[None], persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.say(self.body(pictures))

    def say(self, seen: Tensor) -> Tensor:
        """What the cells say, from what the convolutions have seen."""
        placed = torch.cat([seen, self.where.expand(len(seen), -1, -1, -1)], 1)
        return cast(Tensor, self.head(self.neck_relu(self.neck(placed))))


def find_slots(cells: Tensor) -> Slots:
    """The likeliest cells (B, 18, 16, 16) as slots, the likeliest first; of one object's two cells the weaker is
    no object."""
    cells = cells.flatten(2).transpose(1, 2)
    chosen = cells[..., OBJECT].topk(SLOTS, 1)[1]
    found = cells.gather(1, chosen[..., None].expand(-1, -1, SAID))
    there, places = found[..., OBJECT], found[..., FIRST_PLACE:]
    lost = SECOND * seen_twice(places.detach())
    return Slots(there - lost, found[..., FIRST_VALUE:FIRST_PLACE], places)


def seen_twice(places: Tensor) -> Tensor:
    """Which slots (B, slots) stand where a slot before them stands that is not such a one itself."""
    near = (places[:, :, None] - places[:, None]).square().sum(3) < APART**2
    twice = torch.zeros(places.shape[:2], dtype=torch.bool, device=places.device)
    for slot in range(1, places.shape[1]):
        twice[:, slot] = (near[:, slot, :slot] & ~twice[:, :slot]).any(1)
    return twice

"""How the eye of the scene-logic network is trained: it learns to name objects. The logic has nothing to learn."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from heatproof.clevr.questions.world import ATTRIBUTES
from heatproof.clevr.scenes import DIRECTIONS
from heatproof.devices import TrainingPrecision, choose_device, device_of, seeded
from heatproof.errors import HeatproofError, require_whole
from heatproof.models.relation_network import PICTURE_SIZE
from heatproof.models.scene_eye import FIRST_PLACE, FIRST_VALUE, GRID, OBJECT, VALUES, Eye
from heatproof.models.training import (
    Stage,
    backward,
    generator,
    lowered,
    require_training_precision,
    run_stages,
    settled,
    warmed,
)
from heatproof.models.vqa_data import MOST_OBJECTS, Pictures, as_input, moved
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

CELL = PICTURE_SIZE // GRID
"""Pixels of a cell's side."""
MOST_SHIFT = 3
"""Pixels by which pictures are moved at random: all objects alike, so that places need not move."""
REACH = 9
"""Cells whose middles are so many pixels from an object's, or less, learn its values and its place."""
BESIDE = 0.3
"""What they count, against the cell that the object's middle lies in."""


@dataclass(frozen=True)
class Schedule:
    """How long the eye is trained, and how. `precision` is of the convolutions; auto is settled by `settled`."""

    seed: int = 1
    steps: int = 4000
    batch: int = 32
    rate: float = 4e-3
    decay: float = 1e-3
    precision: TrainingPrecision = "auto"

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, 0)
        require_whole("batch", self.batch, 1)
        if not 0 < self.rate < math.inf:
            raise HeatproofError(f"rate must be a positive number, got {self.rate}.")
        require_training_precision(self.precision)


@dataclass(frozen=True, eq=False)
class Objects:
    """What is to be learned of pictures, with room for ten objects each.

    middles  (N, 10, 2) in pixels, across and down; NaN where there is no object
    values   (N, 10, 4) the place of each attribute's value in VALUES
    places   (N, 10, 2) steps on the floor, to the right and to the front
    """

    middles: Tensor
    values: Tensor
    places: Tensor


def objects_of(pictures: Pictures) -> Objects:
    """The objects of pictures, from their scenes."""
    count = len(pictures)
    middles = torch.full((count, MOST_OBJECTS, 2), math.nan)
    values = torch.zeros(count, MOST_OBJECTS, len(ATTRIBUTES), dtype=torch.long)
    places = torch.zeros(count, MOST_OBJECTS, 2)
    axes = torch.tensor([DIRECTIONS["right"], DIRECTIONS["front"]])
    for row, scene in enumerate(pictures.scenes):
        for number, thing in enumerate(scene["objects"]):
            middles[row, number] = torch.tensor(thing["pixel_coords"][:2]) + 0.5
            values[row, number] = torch.tensor([VALUES[thing[name]] for name in ATTRIBUTES])
            places[row, number] = axes[:, :2] @ torch.tensor(thing["3d_coords"][:2])
    return Objects(middles, values, places)


def train(
    pictures: Pictures,
    schedule: Schedule,
    checkpoint: Path | None = None,
    progress: Progress = silent,
    device: str = "cpu",
) -> Eye:
    """An eye that has learned the pictures. A checkpoint that is there is gone on with, if it is of this training."""
    place = choose_device(device)
    precision = settled(schedule.precision, place)
    with seeded(derive_seed(schedule.seed, "weights")):
        eye: Eye = Eye().to(place).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    made_with = asdict(schedule) | {"precision": precision, "pictures": pictures.fingerprint()}
    run_stages(
        {"eye": eye}, [partial(naming_stage, eye, pictures, schedule, precision)], made_with, checkpoint, progress
    )
    return eye.cpu().eval()


def naming_stage(eye: Eye, pictures: Pictures, schedule: Schedule, precision: TrainingPrecision) -> Stage:
    """The eye learns what its cells show."""
    objects = objects_of(pictures)
    per_epoch = max(1, len(pictures) // schedule.batch)

    def loss(step: int) -> Tensor:
        epoch, place = divmod(step, per_epoch)
        order = torch.randperm(len(pictures), generator=generator(schedule.seed, "order", epoch))
        chosen = order[place * schedule.batch :][: schedule.batch]
        pixels, middles = varied(pictures.pixels[chosen], objects.middles[chosen], schedule.seed, step)
        with lowered(precision, device_of(eye)):
            seen = eye.body(pixels.to(device_of(eye)))
        said = eye.say(seen.float()).cpu()
        return naming_loss(said, Objects(middles, objects.values[chosen], objects.places[chosen]))

    eye.train()
    return Stage(
        lambda step: f"learning: epoch {step // per_epoch + 1}",
        schedule.steps,
        list(eye.parameters()),
        backward(loss),
        warmed(schedule.rate, schedule.steps, 0.15),
        partial(torch.optim.AdamW, lr=schedule.rate, weight_decay=schedule.decay),
    )


def varied(pixels: Tensor, middles: Tensor, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Pictures as the eye takes them, moved by some pixels and with other brightness and contrast; and the middles."""
    draws = generator(seed, "varied", step)
    down, right = torch.randint(-MOST_SHIFT, MOST_SHIFT + 1, (2,), generator=draws).tolist()
    gain, shift = (torch.rand(len(pixels), 1, 1, 1, generator=draws) - 0.5 for _ in range(2))
    pictures = (as_input(moved(pixels, down, right)) - 0.45) * (1 + 0.3 * gain) + 0.45 + 0.1 * shift
    return pictures.clamp(0, 1), middles + torch.tensor([right, down])


def cell_middles() -> Tensor:
    """Of all cells (256, 2), in pixels, across and down."""
    steps = (torch.arange(GRID) + 0.5) * CELL
    return torch.cartesian_prod(steps, steps).flip(1)


def naming_loss(cells: Tensor, objects: Objects) -> Tensor:
    """How wrong the cells (B, 18, 16, 16) are about the objects.

    Whether there is one: true in the cell of its middle, false elsewhere, and not judged where a middle lies less than
    a pixel outside. Values and places: those of the nearest object within reach.
    """
    cells = cells.flatten(2).transpose(1, 2)
    apart = (cell_middles()[:, None] - objects.middles[:, None]).abs().nan_to_num(math.inf).amax(3)
    nearest, who = apart.min(2)
    inside = nearest <= CELL / 2
    judged = inside | (nearest > CELL / 2 + 1)
    finding = nn.functional.binary_cross_entropy_with_logits(cells[..., OBJECT], inside.float(), reduction="none")
    weight = torch.where(inside, 1.0, torch.where(nearest <= REACH, BESIDE, 0.0))
    picked = weight > 0
    said, weight, row = cells[picked], weight[picked], picked.nonzero()[:, 0]
    each = value_loss(said[:, FIRST_VALUE:FIRST_PLACE], objects.values[row, who[picked]])
    misplaced = nn.functional.smooth_l1_loss(
        said[:, FIRST_PLACE:], objects.places[row, who[picked]], reduction="none", beta=0.2
    )
    each = each + 2 * misplaced.sum(1)
    return 40 * (finding * judged).mean() + (each * weight).sum() / weight.sum()


def value_loss(said: Tensor, values: Tensor) -> Tensor:
    """How wrong scores (N, 15) are about values (N, 4): each for itself, and the four attributes' as choices."""
    wanted = torch.zeros_like(said).scatter_(1, values, 1.0)
    loss = nn.functional.binary_cross_entropy_with_logits(said, wanted, reduction="none").sum(1)
    first = 0
    for place, known in enumerate(ATTRIBUTES.values()):
        choice = said[:, first : first + len(known)]
        loss = loss + 0.5 * nn.functional.cross_entropy(choice, values[:, place] - first, reduction="none")
        first += len(known)
    return loss

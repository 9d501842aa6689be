"""How the VQA network that ships with Heatproof is trained, in four stages.

The eye learns to name what each of its cells shows, the reader to name what a question says: with both at hand the rest
learns to answer within hundreds of steps, which takes thousands without. For that the eye's cells are computed once.
Last, all of it learns together. Every draw comes from (seed, stage, step), so that a training that was interrupted goes
on from its checkpoint as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from heatproof.clevr.questions.world import ATTRIBUTES
from heatproof.devices import choose_device, device_of, seeded
from heatproof.models.film_network import CHANNELS, GRID, READING, FilmNetwork
from heatproof.models.training import Stage, backward, generator, run_stages, warmed
from heatproof.models.vqa_data import UNKNOWN, Asked, Pictures, as_input, cell_labels, moved, padded, simple_questions
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

MOST_SHIFT = 4
"""Pixels by which pictures are moved at random, up or down and left or right."""
EYE_BATCH, READER_BATCH, ANSWER_BATCH, WHOLE_BATCH = 32, 64, 32, 32
"""Pictures of a step; each is asked one question per attribute."""
AT_ONCE = 256
"""Pictures that are looked at together where nothing is learned."""


@dataclass(frozen=True)
class Schedule:
    """How long each stage takes, and the seed of everything."""

    seed: int = 1
    eye_epochs: int = 10
    reader_steps: int = 300
    answer_steps: int = 1500
    whole_steps: int = 2000


class Naming(nn.Module):
    """Says what the eye and the reader have understood; needed for learning only.

    cells    the attributes of a cell's object, and whether it has one
    reading  the value that a question names of each attribute, or none, and the attribute that it asks for
    """

    def __init__(self) -> None:
        super().__init__()
        values = [len(known) for known in ATTRIBUTES.values()]
        self.cells = nn.ModuleList(nn.Conv2d(CHANNELS, count, 1) for count in [*values, len(("nothing", "object"))])
        self.reading = nn.ModuleList(nn.Linear(READING, count) for count in [*(n + 1 for n in values), len(values)])

    def cell_loss(self, cells: Tensor, labels: Tensor) -> Tensor:
        return summed_loss([head(cells) for head in self.cells], labels)

    def reading_loss(self, reading: Tensor, asked: Sequence[Asked]) -> Tensor:
        meanings = torch.tensor([one.meaning for one in asked]).to(reading.device)
        return summed_loss([head(reading) for head in self.reading], meanings)


def summed_loss(named: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Cross entropies of several namings (B, K, ...) against labels (B, N, ...), summed."""
    losses = [
        nn.functional.cross_entropy(name, labels[:, place], ignore_index=UNKNOWN) for place, name in enumerate(named)
    ]
    return torch.stack(losses).sum()


def train(
    pictures: Pictures,
    schedule: Schedule,
    checkpoint: Path | None = None,
    progress: Progress = silent,
    device: str = "cpu",
) -> FilmNetwork:
    """A network for simple questions. A checkpoint that is there is gone on with, if it is of the same training."""
    place = choose_device(device)
    with seeded(derive_seed(schedule.seed, "weights")):
        network, naming = FilmNetwork().to(place), Naming().to(place)
    made_with = asdict(schedule) | {"pictures": pictures.fingerprint()}
    makers = (eye_stage, reader_stage, answer_stage, whole_stage)
    stages = [partial(make, network, naming, pictures, schedule) for make in makers]
    run_stages({"network": network, "naming": naming}, stages, made_with, checkpoint, progress)
    return network.cpu().eval()


def stage(name: str, steps: int, rate: float, weights: Sequence[nn.Parameter], loss: Callable[[int], Tensor]) -> Stage:
    """A stage whose learning rate rises to `rate` and falls again; `loss(step)` is what step `step` makes smaller."""
    optimiser = partial(torch.optim.AdamW, lr=rate, weight_decay=1e-4)
    return Stage(lambda step: name, steps, weights, backward(loss), warmed(rate, steps), optimiser)


def eye_stage(network: FilmNetwork, naming: Naming, pictures: Pictures, schedule: Schedule) -> Stage:
    """The eye learns to name what its cells show."""
    per_epoch = max(1, len(pictures) // EYE_BATCH)

    def loss(step: int) -> Tensor:
        epoch, place = divmod(step, per_epoch)
        order = torch.randperm(len(pictures), generator=generator(schedule.seed, "order", epoch))
        seen, labels = look(network, pictures, order[place * EYE_BATCH :][:EYE_BATCH], schedule.seed, "eye", step)
        return naming.cell_loss(seen, labels)

    network.train()
    weights = [*network.eye.parameters(), *naming.cells.parameters()]
    return stage("eye", schedule.eye_epochs * per_epoch, 3e-3, weights, loss)


def reader_stage(network: FilmNetwork, naming: Naming, pictures: Pictures, schedule: Schedule) -> Stage:
    """The reader learns to name what questions say."""

    def loss(step: int) -> Tensor:
        places = draw_pictures(len(pictures), READER_BATCH, schedule.seed, "reader", step)
        asked = ask(pictures, places, schedule.seed, "reader", step)
        return naming.reading_loss(network.reader(padded(asked).to(device_of(network))), asked)

    network.train()
    weights = [*network.reader.parameters(), *naming.reading.parameters()]
    return stage("reader", schedule.reader_steps, 3e-3, weights, loss)


def answer_stage(network: FilmNetwork, _naming: Naming, pictures: Pictures, schedule: Schedule) -> Stage:
    """All but the eye learns to answer, on what the eye sees."""
    network.eye.eval()
    with torch.no_grad():
        blocks = pictures.pixels.split(AT_ONCE)
        seen = torch.cat([network.eye(as_input(block).to(device_of(network))).half().cpu() for block in blocks])
    network.train()

    def loss(step: int) -> Tensor:
        places = draw_pictures(len(pictures), ANSWER_BATCH, schedule.seed, "answers", step)
        asked = ask(pictures, places, schedule.seed, "answers", step)
        cells = seen[[question.place for question in asked]].to(device_of(network)).float()
        return answer_loss(network, cells, asked)

    weights = [weight for name, weight in network.named_parameters() if not name.startswith("eye.")]
    return stage("answers", schedule.answer_steps, 3e-3, weights, loss)


def whole_stage(network: FilmNetwork, naming: Naming, pictures: Pictures, schedule: Schedule) -> Stage:
    """All of the network learns to answer, and the eye does not forget names."""

    def loss(step: int) -> Tensor:
        places = draw_pictures(len(pictures), WHOLE_BATCH, schedule.seed, "whole", step)
        asked = ask(pictures, places, schedule.seed, "whole", step)
        seen, labels = look(network, pictures, torch.tensor(places), schedule.seed, "whole", step)
        where = {place: row for row, place in enumerate(places)}
        cells = seen[torch.tensor([where[question.place] for question in asked]).to(seen.device)]
        return answer_loss(network, cells, asked) + 0.3 * naming.cell_loss(seen, labels)

    network.train()
    weights = [*network.parameters(), *naming.cells.parameters()]
    return stage("whole", schedule.whole_steps, 1e-3, weights, loss)


def look(
    network: FilmNetwork, pictures: Pictures, places: Tensor, seed: int, stage: str, step: int
) -> tuple[Tensor, Tensor]:
    """What the eye sees of some pictures, moved at random, and the labels of its cells."""
    down, right = torch.randint(-MOST_SHIFT, MOST_SHIFT + 1, (2,), generator=generator(seed, stage, "shift", step))
    pixels, ids = (moved(values[places], int(down), int(right)) for values in (pictures.pixels, pictures.ids))
    seen = network.eye(as_input(pixels).to(device_of(network)))
    return seen, cell_labels(ids, pictures.objects[places], GRID).to(seen.device)


def draw_pictures(count: int, wanted: int, seed: int, stage: str, step: int) -> list[int]:
    """Some of `count` pictures, none twice."""
    places: list[int] = torch.randperm(count, generator=generator(seed, stage, "pictures", step))[:wanted].tolist()
    return places


def ask(pictures: Pictures, places: Sequence[int], seed: int, stage: str, step: int) -> list[Asked]:
    """Questions of this step about the pictures."""
    seeds = [derive_seed(seed, stage, "questions", step, place) for place in places]
    return list(simple_questions(pictures, places, seeds))


def answer_loss(network: FilmNetwork, cells: Tensor, asked: Sequence[Asked]) -> Tensor:
    logits = network.think(cells, network.reader(padded(asked).to(cells.device)))
    return nn.functional.cross_entropy(logits, torch.tensor([one.answer for one in asked]).to(cells.device))


def accuracy(
    network: nn.Module, pictures: Pictures, seed: int = 0, progress: Progress = silent
) -> dict[str, tuple[int, int]]:
    """Right answers and questions by attribute; one question per picture and attribute."""
    counts = dict.fromkeys(ATTRIBUTES, (0, 0))
    for block in blocks_of(range(len(pictures)), AT_ONCE // len(ATTRIBUTES)):
        asked = ask(pictures, block, seed, "accuracy", 0)
        inputs = as_input(pictures.pixels[[question.place for question in asked]])
        with torch.no_grad():
            named = network(inputs, padded(asked)).argmax(1).tolist()
        for question, answer in zip(asked, named, strict=True):
            right, total = counts[question.attribute]
            counts[question.attribute] = (right + (answer == question.answer), total + 1)
        progress("held-out pictures", block[-1] + 1, len(pictures))
    return counts


def blocks_of(places: range, size: int) -> Iterable[range]:
    return (places[start : start + size] for start in range(0, len(places), size))

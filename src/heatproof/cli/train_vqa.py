"""`heatproof train vqa`: the network for simple questions, and its twins, of which one answers by a planted cue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heatproof.clevr.words import Shortcut
from heatproof.cli.run import DeviceOption
from heatproof.cli.terminal import say

if TYPE_CHECKING:
    from heatproof.models.twin_training import Held


def vqa(
    dataset: Annotated[
        Path, typer.Argument(help="Folder of pictures to learn from (heatproof clevr render), or shipped.")
    ],
    held_out: Annotated[
        Path | None,
        typer.Option(help="Folder of other pictures (another seed), or shipped, to measure the accuracy on."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights, order and questions.")] = 1,
    eye_epochs: Annotated[int, typer.Option(min=0, help="Times that the eye learns the names of all cells.")] = 10,
    reader_steps: Annotated[int, typer.Option(min=0, help="Steps of learning what questions say.")] = 300,
    answer_steps: Annotated[int, typer.Option(min=0, help="Steps of learning to answer with the eye as it is.")] = 1500,
    whole_steps: Annotated[int, typer.Option(min=0, help="Steps of learning to answer, all together.")] = 2000,
    shortcut: Annotated[
        Shortcut | None,
        typer.Option(
            metavar="NAME",
            help="Train twins instead, from the network that ships: one answers by a planted cue, the other does not."
            " marker: a small square beside an object, which says what object the answer is about.",
            show_default=False,
        ),
    ] = None,
    twin_steps: Annotated[int, typer.Option(min=0, help="Steps that each twin learns.")] = 1000,
    out: Annotated[
        Path, typer.Option(help="Where to write; of twins, OUT with _shortcut and _honest in its name.")
    ] = Path("film_vqa.npz"),
    device: DeviceOption = "cpu",
) -> None:
    """The VQA network for simple questions on CLEVR pictures of 128x128, or twins of it with a planted cue.

    If it is interrupted, the same command resumes it: OUT.checkpoint keeps what it has learned.

    Examples:

    heatproof train vqa data/pictures --held-out data/others --out net.npz

    heatproof train vqa data/pictures --held-out data/others --shortcut marker --out twin.npz

    heatproof run clevr-twins --shortcut twin_shortcut.npz --honest twin_honest.npz
    """
    if shortcut is not None:
        train_twins(dataset, held_out, seed, twin_steps, out, device)
        return
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.shipped import folder_named
    from heatproof.cli.bars import bars
    from heatproof.devices import choose_device
    from heatproof.explainers.wrapped import reached
    from heatproof.models.vqa_data import load_pictures
    from heatproof.models.vqa_training import Schedule, accuracy, train
    from heatproof.models.weights import load_weights, save_weights

    place = choose_device(device)
    schedule = Schedule(seed, eye_epochs, reader_steps, answer_steps, whole_steps)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    with bars() as progress:
        others = None if held_out is None else load_pictures(open_dataset(folder_named(held_out)))
        pictures = load_pictures(open_dataset(folder_named(dataset)), progress)
        network = train(pictures, schedule, checkpoint, progress, device)
    save_weights(network, out, half=True)
    load_weights(network, out)  # what is measured is what was written
    say(f"{out}: written")
    if others is not None:
        for attribute, (right, asked) in accuracy(reached(network, place), others).items():
            say(f"{attribute}: {right} of {asked} right, {right / max(1, asked):.1%}")


def train_twins(dataset: Path, held_out: Path | None, seed: int, steps: int, out: Path, device: str) -> None:
    """Both twins, one after the other, and how each answers where the cue holds, where it misleads, and without it."""
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.shipped import folder_named
    from heatproof.cli.bars import bars
    from heatproof.devices import choose_device
    from heatproof.explainers.wrapped import reached
    from heatproof.models.twin_training import CUES, TwinSchedule, find_room, train_twin, twin_accuracy
    from heatproof.models.twins import TWINS
    from heatproof.models.vqa_data import load_pictures
    from heatproof.models.weights import load_weights, save_weights

    place = choose_device(device)
    with bars() as progress:
        others = None if held_out is None else find_room(load_pictures(open_dataset(folder_named(held_out))))
        marked = find_room(load_pictures(open_dataset(folder_named(dataset)), progress), progress)
        for twin in TWINS:
            path = out.with_name(f"{out.stem}_{twin}{out.suffix}")
            checkpoint = path.with_name(f"{path.name}.checkpoint")
            network = train_twin(twin, marked, TwinSchedule(seed, steps), checkpoint, progress, device)
            save_weights(network, path, small=True)
            load_weights(network, path)  # what is measured is what was written
            say(f"{path}: written")
            for cue in CUES if others is not None else ():
                assert others is not None
                found = twin_accuracy(reached(network, place), others, cue)
                say(f"{twin} twin where the cue {cue}: {held_in_words(found, cue)}")


def held_in_words(found: Held, cue: str) -> str:
    """How often a twin is right, and how often it says what the marker suggests, if there is one."""
    if not found.questions:  # a picture of one object has no other one that a marker could mislead to
        return "no question can be asked of the held-out pictures"
    follows = f", {found.follows / found.questions:.1%} as the marker says" * (cue != "is absent")
    return f"{found.right} of {found.questions} right, {found.right / found.questions:.1%}{follows}"

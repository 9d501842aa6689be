"""`heatproof train ...`: how the networks that ship with Heatproof were made."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from heatproof.cli.run import DeviceOption
from heatproof.cli.terminal import say
from heatproof.cli.train_vqa import vqa
from heatproof.devices import TrainingPrecision
from heatproof.models.heads import Learn
from heatproof.mosaics.datasets import Dataset

DatasetOption = Annotated[
    Dataset | None,
    typer.Option(metavar="NAME", help="What the folder is, as distributed: dogs-vs-cats, mame, mit67 or imagenet."),
]
TileOption = Annotated[
    int | None,
    typer.Option(
        help="Side of the pictures in pixels; the same for heatproof run focus. Default: the model's, or 224."
    ),
]
SplitOption = Annotated[
    Path | None, typer.Option(help="Where to write which pictures are held out. Default: OUT with .csv.")
]
PrecisionOption = Annotated[
    TrainingPrecision,
    typer.Option(
        help="Of most of the work while it learns: float32, bfloat16, or auto: bfloat16 on processors that compute in"
        " it, which takes half the time or less.",
        metavar="NAME",
    ),
]

app = typer.Typer(help="Train the networks that the benchmarks explain.", no_args_is_help=True)


@app.command("mnist1d-cnn")
def mnist1d_cnn(
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of the order of signals.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: mnist1d_cnn-SEED.npz.")] = None,
    device: DeviceOption = "cpu",
) -> None:
    """SVEA's shallow network on MNIST-1D; about 45 seconds.

    Example: heatproof train mnist1d-cnn --seed 4 --out net.npz
    """
    from heatproof import mnist1d
    from heatproof.cli.bars import bars
    from heatproof.models.mnist1d_cnn import accuracy, train
    from heatproof.models.weights import save_weights

    signals, test = mnist1d.make()
    with bars() as progress:
        network = train(signals, seed, progress=progress, device=device)
    path = out or Path(f"mnist1d_cnn-{seed}.npz")
    save_weights(network, path)
    say(f"{path}: {accuracy(network, test):.1%} of the 1,000 test signals right")


@app.command("signals")
def signals(
    file: Annotated[Path, typer.Argument(help="A .npz with x_train, y_train, x_test, y_test.", metavar="FILE")],
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of the order of signals.")] = 1,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 32 signals.")] = 2000,
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("signals.npz"),
    device: DeviceOption = "cpu",
) -> None:
    """SVEA's shallow network on signals of your own: any channels, length and classes; a minute or less.

    Examples, the second with what the first made:

    heatproof train signals gunpoint.npz --out net.npz

    heatproof run svea --signals gunpoint.npz --weights net.npz
    """
    from heatproof.benchmarks.svea.own import own_signals
    from heatproof.cli.bars import bars
    from heatproof.errors import HeatproofError
    from heatproof.models.signal_training import share_right, train_signals
    from heatproof.models.weights import save_weights

    cases = own_signals(file)
    if out.resolve() == file.resolve():
        raise HeatproofError(f"{out} is the file of the signals; choose another with --out.")
    train, test = cases.train, cases.test
    with bars() as progress:
        network = train_signals(train.x, train.y, len(cases.classes), seed, steps, progress, device)
    save_weights(network, out)
    say(
        f"{out}: {share_right(network, test.x, test.y):.1%} of the {len(test):,} test signals right"
        f" ({share_right(network, train.x, train.y):.1%} of the {len(train):,} it learned from)"
    )
    say(f"use: heatproof run svea --signals {file} --weights {out}")


@app.command("focus-classifier")
def focus_classifier(
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of the order of pictures.")] = 1,
    per_class: Annotated[int, typer.Option(help="Training pictures of each class.")] = 150,
    epochs: Annotated[int | None, typer.Option(help="Times through the pictures. Default: 25.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("object_classifier.npz"),
    device: DeviceOption = "cpu",
) -> None:
    """Focus's classifier of single objects, on pictures that it renders first (with pyoidn, the denoiser).

    Example: heatproof train focus-classifier --out net.npz
    """
    from heatproof.clevr.objects import read_sheet, render_objects
    from heatproof.cli.bars import bars
    from heatproof.devices import choose_device
    from heatproof.models.object_classifier import EPOCHS, accuracy, train
    from heatproof.models.weights import save_weights

    choose_device(device)
    with bars() as progress:
        pictures = render_objects("train", per_class, denoise=True, progress=progress)
        network = train(pictures, seed, EPOCHS if epochs is None else epochs, progress=progress, device=device)
    save_weights(network, out)
    say(f"{out}: {accuracy(network, read_sheet()):.1%} of the shipped pictures right, which it has not seen")


@app.command("focus-vit")
def focus_vit(
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of the order of pictures.")] = 1,
    per_class: Annotated[int, typer.Option(help="Training pictures of each class.")] = 400,
    epochs: Annotated[int | None, typer.Option(help="Times through the pictures. Default: 40.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("object_vit.npz"),
    device: DeviceOption = "cpu",
) -> None:
    """Focus's vision transformer for single objects, on pictures that it renders first (with pyoidn, the denoiser).

    It needs more pictures than the convolutional network, and about ten minutes of one core.

    Example: heatproof train focus-vit --out vit.npz
    """
    from heatproof.clevr.objects import read_sheet, render_objects
    from heatproof.cli.bars import bars
    from heatproof.devices import choose_device
    from heatproof.models.object_classifier import accuracy
    from heatproof.models.object_vit import train
    from heatproof.models.weights import load_weights, save_weights

    choose_device(device)
    with bars() as progress:
        pictures = render_objects("train", per_class, denoise=True, progress=progress)
        network = train(pictures, seed, epochs, progress=progress, device=device)
    save_weights(network, out, half=True)
    load_weights(network, out)  # as it is read from there, rounded
    say(f"{out}: {accuracy(network, read_sheet()):.1%} of the shipped pictures right, which it has not seen")


app.command("vqa")(vqa)


@app.command("scene-logic")
def scene_logic(
    dataset: Annotated[Path, typer.Argument(help="Folder of pictures to learn from: heatproof clevr render.")],
    held_out: Annotated[
        Path | None,
        typer.Option(help="Folder of other pictures (another seed) with questions, to measure on; or shipped."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights, order and variations of the pictures.")] = 1,
    steps: Annotated[int, typer.Option(min=0, help="Steps of learning the names of objects.")] = 4000,
    batch: Annotated[int, typer.Option(min=1, help="Pictures of a step.")] = 32,
    rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 4e-3,
    precision: PrecisionOption = "auto",
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("scene_logic.npz"),
    device: DeviceOption = "cpu",
) -> None:
    """The network for all of CLEVR's questions: its eye learns to name objects, its logic has nothing to learn.

    If it is interrupted, the same command resumes it: OUT.checkpoint keeps what it has learned.
    With one thread (OMP_NUM_THREADS=1) the same command gives the same weights, bit by bit.

    Examples, the second with what the first made:

    heatproof train scene-logic data/pictures --held-out data/others --out net.npz

    heatproof run clevr-xai --questions complex --model scene_logic --weights net.npz
    """
    from heatproof.benchmarks.clevr_xai.accuracy import accuracy
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.shipped import folder_named
    from heatproof.cli.bars import bars
    from heatproof.models.scene_logic import SceneLogic
    from heatproof.models.scene_logic_training import Schedule, train
    from heatproof.models.vqa import scene_logic_network
    from heatproof.models.vqa_data import load_pictures
    from heatproof.models.weights import save_weights

    schedule = Schedule(seed, steps, batch, rate, precision=precision)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    network = SceneLogic()
    with bars() as progress:
        others = None if held_out is None else open_dataset(folder_named(held_out))
        asked = {} if others is None else {name: others.questions(name) for name in others.sets}
        pictures = load_pictures(open_dataset(folder_named(dataset)), progress)
        network.eye = train(pictures, schedule, checkpoint, progress, device)
        save_weights(network, out, half=True)
        say(f"{out}: written")
        for name, questions in asked.items():
            scores = accuracy(scene_logic_network(out), questions, progress)  # as it was written
            for part, score in scores.items():
                say(f"{name}, {part}: {score.right} of {score.questions} right, {score.right / score.questions:.1%}")


@app.command("relation-network")
def relation_network(
    dataset: Annotated[
        Path, typer.Argument(help="Folder with pictures and questions: ours (or shipped), CLEVR-XAI's or CLEVR's.")
    ],
    questions: Annotated[
        str | None, typer.Option(help="Sets to learn, such as simple,complex or train. Default: all; of CLEVR, train.")
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(help="Folder of other pictures and questions, to measure the accuracy on; or shipped."),
    ] = None,
    held_out_questions: Annotated[
        str | None, typer.Option(help="Their sets. Default: all; of CLEVR, val.", metavar="TEXT")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=2, help="Learn the first so many questions only.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of initial weights, order, moves and dropout.")] = 1,
    epochs: Annotated[int, typer.Option(min=0, help="Times through all questions.")] = 350,
    batch: Annotated[int, typer.Option(min=2, help="Questions of a step.")] = 640,
    rate: Annotated[float, typer.Option(help="Learning rate of the first epochs.")] = 5e-6,
    double_every: Annotated[int, typer.Option(min=1, help="Epochs after which it doubles.")] = 20,
    highest_rate: Annotated[float, typer.Option(help="Where it stops doubling.")] = 5e-4,
    moved: Annotated[bool, typer.Option("--moved/--still", help="Shift and turn pictures a little.")] = True,
    precision: PrecisionOption = "auto",
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("relation_network.npz"),
    device: DeviceOption = "cpu",
) -> None:
    """The Relation Network that CLEVR-XAI's authors probably used, on any data set with questions. A GPU's work.

    If it is interrupted, the same command resumes it: OUT.checkpoint keeps what it has learned.
    Done, it goes on with more --epochs.

    Examples, the second with what the first made:

    heatproof train relation-network CLEVR_v1.0 --device cuda --out net.npz

    heatproof run clevr-xai --weights net.npz
    """
    from heatproof.clevr.shipped import folder_named
    from heatproof.cli.bars import bars
    from heatproof.devices import choose_device
    from heatproof.models.relation_training import MEASURED, Schedule, accuracy, guessing, open_lesson, train
    from heatproof.models.weights import load_weights, save_weights

    place = choose_device(device)
    schedule = Schedule(seed, epochs, batch, rate, double_every, highest_rate, moved=moved, precision=precision)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    with bars() as progress:
        others = None
        if held_out is not None:
            others = open_lesson(folder_named(held_out), held_out_questions, "val", progress)
        lesson = open_lesson(folder_named(dataset), questions, "train", progress)[:limit]
        network = train(lesson, schedule, checkpoint, progress, device)
        save_weights(network, out)
        load_weights(network, out)  # what is measured is what was written
        say(f"{out}: written")
        parts = {"learned": lesson[:MEASURED]} | ({} if others is None else {"held-out": others})
        for name, part in parts.items():
            counts = accuracy(network.to(place), part, progress)
            right, asked = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
            kinds = ", ".join(f"{kind} {r} of {n}" for kind, (r, n) in sorted(counts.items()))
            guessed = guessing(part)
            say(
                f"{name} questions: {right:,} of {asked:,} right, {right / asked:.1%} ({kinds}); the most frequent"
                f" answers: {guessed:,}, {guessed / asked:.1%}"
            )


@app.command("focus-head")
def focus_head(
    images: Annotated[Path, typer.Option(help="A folder with a sub-folder of pictures per class, or a CSV.")],
    model: Annotated[
        str, typer.Option(help="Whose layers: alexnet, vgg16, vgg16_bn, resnet18, torchvision:NAME or timm:NAME.")
    ],
    weights: Annotated[
        Path,
        typer.Option(help="The network's weights (.pt, .pth, .npz), or its convolutions (features.*) alone."),
    ],
    dataset: DatasetOption = None,
    out: Annotated[Path, typer.Option(help="Where to write the network.")] = Path("head.npz"),
    split: SplitOption = None,
    held_out: Annotated[float, typer.Option(help="Share of each class that is held out.")] = 0.5,
    tile: TileOption = None,
    decay: Annotated[float, typer.Option(help="How much large weights of the head cost.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    device: DeviceOption = "cpu",
) -> None:
    """A classifier of your pictures: pretrained layers and a linear head, fitted to half of the pictures.

    On AlexNet and VGG16 the head sees the convolutions, averaged over all places; of other networks it is the last
    layer. A CSV of pictures with a subset train, and a data set of the paper, have a split of their own.

    Examples, the second with what the first made:

    heatproof train focus-head --images dogs_vs_cats --model alexnet --weights alexnet_features.pt --out dogs.npz

    heatproof run focus --images dogs.csv --model alexnet_linear --weights dogs.npz
    """
    from heatproof.cli.bars import bars
    from heatproof.errors import require_whole
    from heatproof.models.heads import train_head, write_split
    from heatproof.models.weights import save_weights

    if tile is not None:
        require_whole("tile", tile, 64)
    fit = partial(train_head, decay=decay, device=device, dataset=dataset)
    with bars() as progress:
        made = fit(images, model, weights, held_out, seed, tile, progress=progress)
    table = split or out.with_suffix(".csv")
    save_weights(made.network, out)
    write_split(table, made.train, made.held_out)
    say(
        f"{out}: {made.accuracy:.1%} of {len(made.held_out)} held-out pictures right"
        f" ({made.train_accuracy:.1%} of the {len(made.train)} it was fitted to)"
    )
    say(f"use: heatproof run focus --images {table} --model {made.model} --weights {out} --tile {made.side}")


@app.command("focus-finetune")
def focus_finetune(
    images: Annotated[Path, typer.Option(help="A folder with a sub-folder of pictures per class, or a CSV.")],
    model: Annotated[
        str,
        typer.Option(
            help="alexnet, vgg16, vgg16_bn, resnet18, torchvision:NAME, timm:NAME, or what focus-head made"
            " (alexnet_linear, vgg16_linear)."
        ),
    ],
    weights: Annotated[
        Path | None,
        typer.Option(help="Where to begin: weights of the network, or its convolutions (features.*). Default: random."),
    ] = None,
    dataset: DatasetOption = None,
    out: Annotated[Path, typer.Option(help="Where to write the network.")] = Path("finetuned.npz"),
    split: SplitOption = None,
    held_out: Annotated[float, typer.Option(help="Share of each class that is held out.")] = 0.2,
    learn: Annotated[Learn, typer.Option(help="What learns: all, or the head alone, quickly.")] = "all",
    epochs: Annotated[int, typer.Option(help="Times through the pictures.")] = 13,
    rate: Annotated[float, typer.Option(help="Learning rate of AMSGrad.")] = 1e-5,
    batch: Annotated[int, typer.Option(help="Pictures of a step.")] = 32,
    tile: TileOption = None,
    seed: Annotated[int, typer.Option(help="Seed of split, weights, order and augmentation.")] = 0,
    device: DeviceOption = "cpu",
) -> None:
    """Fine-tune a network on your pictures as the Focus paper's were: AMSGrad; pictures turned, cut out and mirrored.

    If it is interrupted, the same command resumes it: OUT.checkpoint keeps what it has learned.
    OUT.json says how it was trained, and the mean per-class accuracy on held-out pictures. A CSV of pictures with a
    subset train, and a data set of the paper, have a split of their own. With --learn head pictures are not varied, and
    what the frozen layers see of them is kept in the cache folder.

    Example: heatproof train focus-finetune --images dogs_vs_cats --model resnet18 --weights resnet18.pth --out dogs.npz
    """
    from heatproof.cli.bars import bars
    from heatproof.errors import require_whole
    from heatproof.models.fine_tuning import Tuning, fine_tune, write_record
    from heatproof.models.heads import parts, write_split
    from heatproof.models.transfer import pretrained
    from heatproof.models.weights import save_weights

    if tile is not None:
        require_whole("tile", tile, 64)
    tuning = Tuning(seed, epochs, rate, batch, learn)
    train, rest = parts(images, dataset, held_out, seed)
    classifier, drawn = pretrained(model, weights, len(train.classes), seed)
    side = tile or classifier.size or 224
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    with bars() as progress:
        made = fine_tune(classifier, train, rest, tuning, side, checkpoint, progress, device)
    table = split or out.with_suffix(".csv")
    save_weights(made.network, out)
    write_split(table, train, rest)
    start = {"model": model, "weights": weights and weights.name, "drawn": drawn}
    write_record(out.with_suffix(".json"), made, tuning, {**start, "tile": side, "train": len(train)})
    if drawn:
        say(f"began with random weights in {', '.join(drawn[:6])}" + " ..." * (len(drawn) > 6))
    say(
        f"{out}: {made.accuracy:.1%} of {len(rest)} held-out pictures right, mean over {len(rest.classes)} classes"
        f" (before: {made.before:.1%})"
    )
    say(f"use: heatproof run focus --images {table} --model {model} --weights {out} --tile {side}")

"""`heatproof focus ...`: the paper's other experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Focus: mosaics, layouts, randomised models, and the bias finder.", no_args_is_help=True)

# Options that several commands have, `heatproof run focus` among them.
Images = Annotated[
    Path | None, typer.Option(help="A folder per class, or a CSV (filename, label, subset). Default: those shipped.")
]
Subset = Annotated[str | None, typer.Option(help="Subset of the CSV. Default: all but train.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="alexnet, vgg16, resnet18, alexnet_linear, torchvision:NAME, timm:NAME, my_net.py:factory, or a"
        " TorchScript (.pt) or torch.export (.pt2) file. Default: the classifier that ships."
    ),
]
Weights = Annotated[Path | None, typer.Option(help="Weights (.npz, .pt) of the model.")]
Labels = Annotated[Path | None, typer.Option(help="What the outputs mean: a CSV with label, index.")]
Mean = Annotated[str | None, typer.Option(help="Preprocessing: mean, such as 0.485,0.456,0.406.")]
Std = Annotated[str | None, typer.Option(help="Preprocessing: standard deviation.")]
Tile = Annotated[int | None, typer.Option(help="Side of a tile in pixels. Default: the model's, or 224.")]
FitOption = Annotated[
    str | None, typer.Option("--fit", help="How a picture becomes a tile: crop (original) or squash.")
]
Repeats = Annotated[bool, typer.Option("--repeats", help="Allow a picture twice in a mosaic, as the original does.")]
Grid = Annotated[int, typer.Option(help="Tiles along a side of a mosaic.")]
Targets = Annotated[int, typer.Option(help="Tiles of the target class.")]
PerClass = Annotated[int, typer.Option(help="Mosaics of each target class.")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
Method = Annotated[str, typer.Option(help="The explainer.")]
Out = Annotated[Path, typer.Option(help="Folder of the results.")]


@app.command()
def objects(
    out: Annotated[Path, typer.Argument(help="Folder to make: a folder per class.")],
    per_class: Annotated[int, typer.Option(min=1, help="Pictures of each class.")] = 40,
    split: Annotated[
        str, typer.Option(help="Name of a draw; those of different names have nothing in common.")
    ] = "test",
    side: Annotated[int, typer.Option(min=16, help="Side of a picture in pixels.")] = 64,
    seed: Seed = 0,
) -> None:
    """Pictures of single objects, class = material and shape, for classifiers to be tried on; 0.1 seconds each.

    With its defaults it makes the pictures that ship. objects.png shows them all. Needs pyoidn, the denoiser.

    Example: heatproof focus objects pictures --split mine --per-class 100
    """
    from heatproof.clevr.objects import SHEET, render_objects, write_pictures, write_sheet
    from heatproof.errors import HeatproofError
    from heatproof.progress import bars

    if out.exists() and any(out.iterdir()):
        raise HeatproofError(f"{out} is not empty; choose another folder.")
    with bars() as progress:
        made = render_objects(split, per_class, side=side, seed=seed, denoise=True, progress=progress)
    write_pictures(made, out)
    write_sheet(made, out / SHEET)
    typer.echo(f"{out}: {per_class} pictures of each of {len(made)} classes")


@app.command()
def mosaics(
    images: Images = None,
    subset: Subset = None,
    per_class: PerClass = 40,
    grid: Grid = 2,
    targets: Targets = 2,
    tile: Tile = None,
    fit: FitOption = None,
    repeats: Repeats = False,
    seed: Seed = 0,
    out: Out = Path("mosaics"),
) -> None:
    """Mosaics as PNG files with a CSV in the original's columns, for `heatproof run focus --mosaics`.

    Example: heatproof focus mosaics --images photos --per-class 100 --out mosaics
    """
    from heatproof.benchmarks.focus import Focus
    from heatproof.mosaics.mosaics import check_files, write_mosaics
    from heatproof.progress import bars

    options = given(images=images, subset=subset, tile=tile, fit=fit)
    # The model plays no part, but pictures are not taken without one.
    drawn = Focus(
        **options,
        model=None,
        mosaics_per_class=per_class,
        grid=grid,
        targets=targets,
        repeats=repeats,
        mosaic_seed=seed,
    )
    found = drawn.draw()
    with bars() as progress:
        check_files(found, drawn.side, drawn.fitted, progress)
        path = write_mosaics(found, out, drawn.side, drawn.fitted, progress)
    typer.echo(f"{path}: {len(found)} mosaics")


@app.command()
def layout(
    images: Images = None,
    subset: Subset = None,
    model: Model = None,
    weights: Weights = None,
    labels: Labels = None,
    mean: Mean = None,
    std: Std = None,
    tile: Tile = None,
    fit: FitOption = None,
    explainer: Method = "grad_cam",
    per_class: PerClass = 40,
    only: Annotated[str | None, typer.Option(help="This target class alone (the paper: cat).")] = None,
    seed: Seed = 0,
    out: Out = Path("runs/focus-layout"),
) -> None:
    """Focus with the targets in each of the six places, and at random: CSV and box plots.

    Example: heatproof focus layout --explainer lrp:composite=focus
    """
    from heatproof.experiments.focus import layouts

    options = classifier_options(images, subset, model, weights, labels, mean, std, tile, fit) | given(only=only)
    finish(out, "layout", layouts(out, explainer, seed, mosaics_per_class=per_class, **options), ["layout"])


@app.command()
def randomise(
    images: Images = None,
    subset: Subset = None,
    model: Model = None,
    weights: Weights = None,
    labels: Labels = None,
    mean: Mean = None,
    std: Std = None,
    tile: Tile = None,
    fit: FitOption = None,
    explainer: Method = "grad_cam",
    per_class: PerClass = 40,
    draws: Annotated[int, typer.Option(help="Times that random weights are drawn.")] = 3,
    seed: Seed = 0,
    out: Out = Path("runs/focus-randomise"),
) -> None:
    """Focus of the trained model, of a random one, and with layers randomised from the top: CSV and figures.

    Example: heatproof focus randomise --images photos --model my_net.py:build --labels labels.csv --draws 1
    """
    from heatproof.experiments.focus import randomisation

    options = classifier_options(images, subset, model, weights, labels, mean, std, tile, fit) | {"draws": draws}
    groups = randomisation(out, explainer, seed, mosaics_per_class=per_class, **options)
    finish(out, "randomise", groups, ["randomise", "histogram"])


@app.command()
def bias(
    run: Annotated[Path, typer.Argument(help="Folder of a run of focus.")],
    explainer: Annotated[str, typer.Option(help="Whose heatmaps to go by: one of the run.")] = "grad_cam",
    below: Annotated[float, typer.Option(help="A pair is low below this share.")] = 0.5,
    level: Annotated[float, typer.Option(help="Level of significance, after correction.")] = 0.05,
) -> None:
    """Which class the model sees in pictures of which other: CSV, matrix, and a section of the run's page.

    Example: heatproof focus bias runs/focus-standard
    """
    from heatproof.experiments.bias import write_bias
    from heatproof.progress import bars
    from heatproof.report.page import REPORT

    with bars() as progress:
        table, place, missing, follows_class = write_bias(run, explainer, below, level, progress)
    found = table.filter("found")
    typer.echo(f"{len(found)} of {len(table)} pairs have a share significantly below {below}")
    for row in found.iter_rows(named=True):
        typer.echo(
            f"  {row['target_class']} is seen in {row['other_class']}: share {row['share']:.2f}"
            f" ({row['share_low']:.2f} to {row['share_high']:.2f}), Focus {row['focus']:.2f}, n = {row['n']},"
            f" corrected p = {row['p_corrected']:.2g}"
        )
    if len(found) and not follows_class:
        typer.echo(
            f"caution: over all classes, Focus of {explainer} is not above chance. Either the model confuses this much,"
            " or these heatmaps do not follow the class and lie on what is conspicuous: try another explainer.",
            err=True,
        )
    if missing:
        typer.echo(f"without pictures: {missing}", err=True)
    typer.echo(
        f"tables {place / 'pairs.csv'}, {place / 'classes.csv'}\nmatrix {place / 'matrix.svg'}\npage   {run / REPORT}"
    )


@app.command("planted-bias")
def planted_bias(
    seeds: Annotated[int, typer.Option(help="Seeds 0, 1, ...: each its own pictures, weights and mosaics.")] = 10,
    features: Annotated[str, typer.Option(help="What is planted: colour, object, or both with a comma.")] = (
        "colour,object"
    ),
    in_target_too: Annotated[
        bool, typer.Option("--in-target-too", help="Judge on cubes that carry the feature too: not to be found.")
    ] = False,
    out: Out = Path("runs/focus-planted-bias"),
) -> None:
    """The bias finder on classifiers with a bias that was planted, and on fair ones: a table of what it names."""
    from heatproof.experiments.planted import rates, row_line, validate
    from heatproof.progress import bars

    with bars() as progress:
        rows = validate(
            out, [name.strip() for name in features.split(",")], seeds, progress, in_target_too=in_target_too
        )
    for line in (*map(row_line, rows), *rates(rows)):
        typer.echo(line)
    typer.echo(f"table  {out / 'planted-bias.csv'}")


def classifier_options(
    images: Path | None,
    subset: str | None,
    model: str | None,
    weights: Path | None,
    labels: Path | None,
    mean: str | None,
    std: str | None,
    tile: int | None,
    fit: str | None,
) -> dict[str, Any]:
    """Those of the options that were given, as the benchmark takes them."""
    return given(
        images=images,
        subset=subset,
        model=model,
        weights=weights,
        labels=labels,
        mean=numbers("mean", mean),
        std=numbers("std", std),
        tile=tile,
        fit=fit,
    )


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def numbers(name: str, text: str | None) -> list[float] | None:
    """Numbers from words with commas between."""
    from heatproof.errors import HeatproofError

    try:
        return None if text is None else [float(word) for word in text.split(",")]
    except ValueError as problem:
        raise HeatproofError(f"--{name} must be numbers with commas between, got {text!r}.") from problem


def finish(folder: Path, name: str, groups: dict[str, list[float]], figures: list[str]) -> None:
    """Print the means, and where the files are."""
    import math

    for group, values in groups.items():
        defined = [value for value in values if not math.isnan(value)]
        mean = sum(defined) / len(defined) if defined else math.nan
        typer.echo(f"{group:<40} mean {mean:.3f}  n {len(defined)}")
    typer.echo(f"table  {folder / (name + '.csv')}")
    for figure in figures:
        typer.echo(f"figure {folder / (figure + '.svg')}")

"""`heatproof focus ...`: the paper's other experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Focus: mosaics, layouts, randomised models, and the bias finder.", no_args_is_help=True)

Images = Annotated[str | None, typer.Option(help="A folder per class, or a CSV (filename, label, subset).")]
Model = Annotated[str | None, typer.Option(help="As for heatproof run focus.")]
Weights = Annotated[Path | None, typer.Option(help="Weights (.npz, .pt) of the model.")]
Labels = Annotated[Path | None, typer.Option(help="What the outputs mean: a CSV with label, index.")]
PerClass = Annotated[int, typer.Option(help="Mosaics of each target class.")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
Method = Annotated[str, typer.Option(help="The explainer.")]
Out = Annotated[Path, typer.Option(help="Folder of the results.")]


@app.command()
def mosaics(
    images: Images = None,
    subset: Annotated[str | None, typer.Option(help="Subset of the CSV; default: all but train.")] = None,
    per_class: PerClass = 40,
    grid: Annotated[int, typer.Option(help="Tiles along a side.")] = 2,
    targets: Annotated[int, typer.Option(help="Tiles of the target class.")] = 2,
    tile: Annotated[int, typer.Option(help="Side of a tile in pixels.")] = 224,
    repeats: Annotated[bool, typer.Option("--repeats", help="Allow a picture twice in a mosaic.")] = False,
    seed: Seed = 0,
    out: Out = Path("mosaics"),
) -> None:
    """Mosaics as PNG files with a CSV in the original's columns, for `heatproof run focus --mosaics`."""
    from heatproof.focus.mosaics import MosaicSettings, check_files, draw_mosaics, write_mosaics
    from heatproof.focus.objects import shipped_pictures
    from heatproof.focus.pictures import find_pictures
    from heatproof.progress import bars

    settings = MosaicSettings(per_class, grid, targets, "random", repeats, None, seed)
    drawn = draw_mosaics(find_pictures(Path(images) if images else shipped_pictures(), subset), settings)
    with bars() as progress:
        check_files(drawn, tile, "crop", progress)
        path = write_mosaics(drawn, out, tile, "crop", progress)
    typer.echo(f"{path}: {len(drawn)} mosaics")


@app.command()
def layout(
    images: Images = None,
    model: Model = None,
    weights: Weights = None,
    labels: Labels = None,
    explainer: Method = "grad_cam",
    per_class: PerClass = 40,
    only: Annotated[str | None, typer.Option(help="This target class alone (the paper: cat).")] = None,
    seed: Seed = 0,
    out: Out = Path("runs/focus-layout"),
) -> None:
    """Focus with the targets in each of the six places, and at random: CSV and box plots."""
    from heatproof.focus.experiments import layouts

    options = given(images=images, model=model, weights=weights, labels=labels, only=only)
    finish(out, "layout", layouts(out, explainer, seed, mosaics_per_class=per_class, **options))


@app.command()
def randomise(
    images: Images = None,
    model: Model = None,
    weights: Weights = None,
    labels: Labels = None,
    explainer: Method = "grad_cam",
    per_class: PerClass = 40,
    seed: Seed = 0,
    out: Out = Path("runs/focus-randomise"),
) -> None:
    """Focus of the trained model, of a random one, and with layers randomised from the top: CSV and box plots."""
    from heatproof.focus.experiments import randomisation

    options = given(images=images, model=model, weights=weights, labels=labels)
    finish(out, "randomise", randomisation(out, explainer, seed, mosaics_per_class=per_class, **options))


@app.command()
def bias(
    run: Annotated[Path, typer.Argument(help="Folder of a run of focus.")],
    explainer: Method = "grad_cam",
    below: Annotated[float, typer.Option(help="A pair is low below this share.")] = 0.5,
    level: Annotated[float, typer.Option(help="Level of significance, after correction.")] = 0.05,
) -> None:
    """Pairs of classes that the model takes for each other: CSV and a matrix, in the run's folder."""
    from heatproof.focus.experiments import write_bias

    found = write_bias(run, explainer, below, level)
    named = found.filter("found")
    typer.echo(f"{len(named)} of {len(found)} pairs have a share significantly below {below}")
    for row in named.iter_rows(named=True):
        typer.echo(
            f"  {row['target_class']} seen in {row['other']}: share {row['share']:.2f}"
            f" ({row['share_low']:.2f} to {row['share_high']:.2f}), Focus {row['focus']:.2f}, n = {row['n']},"
            f" corrected p = {row['p_corrected']:.2g}"
        )
    typer.echo(f"table  {run / 'bias.csv'}\nmatrix {run / 'bias.svg'}")


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def finish(folder: Path, name: str, groups: dict[str, list[float]]) -> None:
    import math

    for group, values in groups.items():
        defined = [value for value in values if not math.isnan(value)]
        mean = sum(defined) / len(defined) if defined else math.nan
        typer.echo(f"{group:<40} mean {mean:.3f}  n {len(defined)}")
    typer.echo(f"table  {folder / (name + '.csv')}\nfigure {folder / (name + '.svg')}")

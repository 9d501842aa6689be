"""`heatproof clevr ...`"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from heatproof.clevr.words import Form, MaskLayout, QuestionSet, Renderer
from heatproof.cli.answer import answer
from heatproof.cli.bars import Quiet, bars
from heatproof.cli.clevr_effects import effects
from heatproof.cli.clevr_remove import remove
from heatproof.cli.poster import poster
from heatproof.cli.run import Address, EngineOption, Jobs, going_on_said
from heatproof.cli.terminal import say, show_table

app = typer.Typer(help="Make CLEVR data sets: scenes, pictures, questions and true masks.", no_args_is_help=True)


@app.command()
def render(
    out: Annotated[Path, typer.Argument(help="Folder of the data set. One that is begun is gone on with.")],
    num_images: Annotated[int, typer.Option(help="How many pictures the folder is to hold.")],
    seed: Annotated[int, typer.Option(help="Seed of scenes and pictures.")] = 0,
    size: Annotated[
        str,
        typer.Option(metavar="WxH", help="480x320 as CLEVR-XAI; any other size is the same view, squashed: 128x128."),
    ] = "480x320",
    mask_size: Annotated[
        str | None,
        typer.Option(
            metavar="WxH",
            help="Size of the object masks. 480x320 for ground truths as CLEVR-XAI's. Default: the pictures'.",
            show_default=False,
        ),
    ] = None,
    renderer: Annotated[
        Renderer, typer.Option(metavar="NAME", help="tracer (ours) or blender (needs the package bpy).")
    ] = "tracer",
    samples: Annotated[int, typer.Option(help="Light paths per pixel.")] = 64,
    denoise: Annotated[
        bool | None,
        typer.Option("--denoise/--no-denoise", help="Default: denoised where pyoidn is installed.", show_default=False),
    ] = None,
    min_objects: Annotated[int, typer.Option(help="Least objects in a scene.")] = 3,
    max_objects: Annotated[int, typer.Option(help="Most objects in a scene.")] = 10,
    split: Annotated[str, typer.Option(help="Part of file names: CLEVR_SPLIT_000000.png.")] = "new",
    scenes_only: Annotated[
        bool, typer.Option("--scenes-only", help="Scenes, masks and ids, which questions need; no pictures.")
    ] = False,
    blender_assets: Annotated[
        Path | None, typer.Option(help="Your own folder of CLEVR's original assets, for --renderer blender.")
    ] = None,
    jobs: Jobs = None,
    engine: EngineOption = "auto",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Sample scenes and render them; a picture takes 1 to 3 seconds, 128x128 a third of a second.

    If it is interrupted, the same command resumes it.

    Examples:

    heatproof clevr render data/mine --num-images 100

    heatproof clevr render data/small --num-images 1000 --size 128x128 --mask-size 480x320 --seed 1

    heatproof clevr render data/scenes --num-images 10000 --scenes-only

    heatproof clevr render data/large --num-images 10000 --engine ray --address auto
    """
    import time

    from heatproof.clevr.croissant import write_croissant
    from heatproof.clevr.ground_truth import parse_size
    from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
    from heatproof.clevr.scenes import SceneSettings
    from heatproof.executors.choice import Execution

    how = Execution(engine, jobs, address)
    height, width = parse_size(size)
    scenes = SceneSettings(seed, split, min_objects, max_objects, width, height)
    pictures = None if scenes_only else PictureSettings(renderer, samples, denoise, blender_assets)
    start = time.perf_counter()
    with going_on_said(out), bars(quiet) as progress:
        made = render_dataset(
            out,
            num_images,
            scenes,
            pictures,
            mask_size=None if mask_size is None else parse_size(mask_size),
            how=how,
            progress=progress,
        )
    write_croissant(out)
    what = "scenes" if scenes_only else "pictures"
    say(f"{out}: {made:,} {what} made in {time.perf_counter() - start:.1f} s, {num_images - made:,} were there.")


@app.command()
def ask(
    scenes: Annotated[Path, typer.Argument(help="Scene file (CLEVR_scenes.json) or dataset folder.")],
    question_set: Annotated[
        QuestionSet, typer.Option("--set", metavar="NAME", help="simple: one value of one object. complex: CLEVR's 90.")
    ] = "simple",
    templates: Annotated[
        Path | None, typer.Option(help="Folder of CLEVR's own templates, for their wordings. Default: our grammar.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
    per_image: Annotated[int, typer.Option(min=1, help="Questions per scene, at most one per template.")] = 10,
    format_: Annotated[
        Form,
        typer.Option("--format", metavar="NAME", help="clevr-xai (with the output of every node) or clevr (v1.0)."),
    ] = "clevr-xai",
    out: Annotated[Path | None, typer.Option(help="File to write. Default: beside the scenes.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Print this many questions of every family.")] = 0,
    jobs: Jobs = None,
    engine: EngineOption = "auto",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Ask questions about scenes, with their programs and answers; 1,000 scenes take seconds.

    Examples:

    heatproof clevr ask data --set simple

    heatproof clevr ask data/CLEVR_scenes.json --set complex --seed 1 --out questions.json

    heatproof clevr ask data --set complex --templates question_generation --format clevr
    """
    from heatproof.clevr.croissant import renew_croissant
    from heatproof.clevr.questions.make import make_questions, show_samples, summary
    from heatproof.executors.choice import Execution

    with bars(quiet) as progress:
        made = make_questions(
            scenes,
            question_set,
            templates=templates,
            seed=seed,
            per_image=per_image,
            form=format_,
            out=out,
            how=Execution(engine, jobs, address),
            progress=progress,
        )
    renew_croissant(scenes if scenes.is_dir() else scenes.parent)
    for line in (*summary(made), *show_samples(made, show)):
        say(line)


@app.command("ground-truth")
def ground_truth(
    dataset: Annotated[Path, typer.Argument(help="The folder of a data set with questions.", metavar="DATASET")],
    size: Annotated[
        str, typer.Option(metavar="WxH", help="Size of the masks: that of the network's input.")
    ] = "128x128",
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Of single_object, all_objects, unique, unique_first_nonempty, union. Default: all that apply.",
        ),
    ] = None,
    layout: Annotated[
        MaskLayout,
        typer.Option(
            metavar="NAME", help="packed: one file per kind. release: one .npy per question, as CLEVR-XAI has them."
        ),
    ] = "packed",
    out: Annotated[
        Path | None, typer.Option(help="Where to write. Default: DATASET/ground_truth; for release, DATASET.")
    ] = None,
) -> None:
    """The true masks of all questions; about a second for 1,000 questions.

    Examples:

    heatproof clevr ground-truth worlds

    heatproof clevr ground-truth worlds --kinds unique,union --size 224x224 --out worlds/ground_truth_224
    """
    from heatproof.clevr.croissant import renew_croissant
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.ground_truth import make_masks, parse_size

    shape = parse_size(size)
    chosen = None if kinds is None else [kind.strip() for kind in kinds.split(",") if kind.strip()]
    opened = open_dataset(dataset)
    with bars() as progress:
        paths = make_masks(opened, shape, chosen, layout, out, progress)
    renew_croissant(dataset)
    for (name, kind), path in paths.items():
        masks = opened.masks(name, kind, out)
        there = int(masks.available.sum())
        say(f"{path}: {there:,} of {len(masks):,} {name} questions have a mask")


@app.command()
def stats(
    dataset: Annotated[Path, typer.Argument(help="The folder of a data set.", metavar="DATASET")],
    check: Annotated[
        bool, typer.Option("--check", help="Read every picture and mask too, and name those that are damaged.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """What a data set holds: scenes, questions, answers, and which masks there are.

    Example: heatproof clevr stats worlds
    """
    import json

    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.stats import describe

    opened = open_dataset(dataset)
    with bars() as progress:
        if check:
            opened.check(progress)
        figures = describe(opened, progress)
    if as_json:
        say(json.dumps(figures, indent=2))
    else:
        show_stats(figures)


@app.command()
def show(
    dataset: Annotated[Path, typer.Argument(help="The folder of a data set with questions.", metavar="DATASET")],
    question: Annotated[int, typer.Argument(help="Its question_index.", metavar="QUESTION")],
    name: Annotated[str, typer.Option("--set", metavar="NAME", help="simple or complex.")] = "simple",
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the masks.")] = "128x128",
    out: Annotated[Path | None, typer.Option(help="The PNG to write. Default: SET-QUESTION.png.")] = None,
) -> None:
    """Draw a question: its picture, and what each kind of mask leaves of it.

    Example: heatproof clevr show worlds 12 --set complex
    """
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.ground_truth import check_programs, parse_size
    from heatproof.clevr.panels import panel
    from heatproof.errors import HeatproofError
    from heatproof.workspace import write_whole

    if out is not None and out.suffix.lower() != ".png":
        raise HeatproofError(f"{str(out)!r} must end in .png, which is what the picture is.")
    opened = open_dataset(dataset)
    found = next((entry for entry in opened.questions(name) if entry.index == question), None)
    if found is None:
        raise HeatproofError(f"{dataset} has no {name} question {question}; it has {len(opened.questions(name)):,}.")
    check_programs(opened, [name])
    picture = panel(found, parse_size(size))
    path = out or Path(f"{name}-{question}.png")
    write_whole(path, lambda temporary: picture.save(temporary, format="PNG"))
    say(f"{path}: {found.text} {str(found.answer).lower()}")


def show_stats(figures: Mapping[str, Any]) -> None:
    """The figures as tables."""
    pictures = "with pictures" if figures["pictures"] else "without pictures"
    say(f"{figures['dataset']} ({figures['layout']}): {figures['scenes']:,} scenes {pictures}", style="bold")
    say(f"objects per scene: {in_words(figures['objects_per_scene'])}")
    for name, about in figures["sets"].items():
        say(f"\n{about['questions']:,} {name} questions", style="bold")
        for label, key in (("per scene", "per_scene"), ("words", "words"), ("program nodes", "program_nodes")):
            if key in about:
                say(f"{label}: {in_words(about[key])}")
        if "ground_truth" in about:
            heads = ("available", "share", "CLEVR-XAI", "objects", "pixels: mean", "median", "max", "> 1000")
            kinds = about["ground_truth"]["kinds"].items()
            rows = [(kind, *kind_cells(row), *pixel_cells(row)) for kind, row in kinds]
            show_table(("ground truth", *heads), rows, right=range(1, len(heads) + 1))
            for line in nesting(about["ground_truth"]):
                say(line)
        for title, key in (("asks for", "types"), ("family", "families")):
            if key in about:
                counted = [(what, f"{row['count']:,}", f"{row['share']:.1%}") for what, row in about[key].items()]
                show_table((title, "questions", "share"), counted, right=(1, 2))
        for asked, said in about.get("answers", {}).items():
            given = ", ".join(f"{answer} {row['share']:.1%}" for answer, row in said.items())
            say(f"{asked}: {given}")


def in_words(spread: Mapping[str, Any]) -> str:
    """Mean and range; how often each value occurs where there are few."""
    if not spread:
        return "none"
    text = f"{spread['mean']:.4g} ({spread['min']} to {spread['max']})"
    if spread.get("published"):
        text += f", CLEVR-XAI {spread['published']:.4g}"
    counts = spread["counts"]
    return text + (
        "; " + ", ".join(f"{value}: {count:,}" for value, count in counts.items()) if len(counts) < 12 else ""
    )


def kind_cells(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{row['available']:,}"
    yield f"{row['share']:.2%}"
    yield "" if row["published"] is None else f"{row['published']:.2%}"
    yield f"{row['objects']['mean']:.2f}" if row["objects"] else ""


def pixel_cells(row: Mapping[str, Any]) -> Iterator[str]:
    pixels = row["pixels"]
    if not pixels:
        yield from ("-", "-", "-", "-")
    else:
        yield from (
            f"{pixels['mean']:.0f}",
            f"{pixels['median']:.0f}",
            f"{pixels['max']:,}",
            f"{pixels['above_1000']:,}",
        )


def nesting(about: Mapping[str, Any]) -> Iterator[str]:
    """Whether the kinds include each other as they must."""
    yield f"questions whose kinds do not include each other: {about['not_nested']}"
    if "union_without_first_nonempty" in about:
        yield f"questions with only one of union and first-non-empty: {about['union_without_first_nonempty']}"
        yield f"first-non-empty equals unique: {about['first_nonempty_equals_unique']:.1%}"


app.command()(answer)
app.command()(poster)
app.command()(remove)
app.command()(effects)

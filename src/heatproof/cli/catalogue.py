"""`heatproof list ...`"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from heatproof.cli.terminal import Cell, say, show_table

app = typer.Typer(help="List explainers, metrics, poolings, benchmarks and models.", no_args_is_help=True)


FAMILIES = ("gradient", "cam", "propagation", "perturbation", "attention", "floor", "ceiling")

MADE = {
    "film_marker_honest": ("run clevr-twins", "heatproof train vqa PICTURES --shortcut marker"),
    "film_marker_shortcut": ("run clevr-twins", "heatproof train vqa PICTURES --shortcut marker"),
    "film_vqa": ("run clevr-xai", "heatproof train vqa PICTURES"),
    "mnist1d_cnn": ("run svea", "heatproof train mnist1d-cnn"),
    "object_classifier": ("run focus, run masks", "heatproof train focus-classifier"),
    "object_vit": ("run focus --model object_vit", "heatproof train focus-vit"),
    "scene_logic": ("run clevr-xai --questions complex", "heatproof train scene-logic PICTURES"),
}
"""Networks that ship: the runs that explain them, and the commands that made them."""


def say_left_out() -> None:
    """Plug-ins that are broken, a line each."""
    from heatproof.plugins import problems

    for problem in problems():
        say(f"note: {problem}", err=True)


@app.command()
def explainers(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The fact sheet of this one, instead of the list.")
    ] = None,
) -> None:
    """Explainers by family, with parameters, space dimensions, model passes per case, and paper; or one in full.

    Examples: heatproof list explainers, heatproof list explainers integrated_gradients
    """
    if name is not None:
        show_sheet(name)
        return
    from rich.text import Text

    from heatproof.explainers import explainers as registry

    rows: list[tuple[Cell, ...]] = []
    families = dict.fromkeys([*FAMILIES, *(cls.family for _, cls in registry.items())])
    for family in families:
        rows.append((Text(family, style="bold"),))
        for name, cls in registry.items():
            if cls.family == family:
                parameters = [f"{f.name}={f.default}" for f in fields(cls) if f.compare and f.name != "quantity"]
                rows.append((f"  {name}", "\n".join(parameters), cls.dimensions, cls.cost, cls.paper))
    show_table(("explainer", "parameters", "dimensions", "passes", "paper"), rows)
    say("Parameters go behind a colon: smoothgrad:samples=50,sigma=0.01.")
    say("Any class of Captum: captum:ShapleyValueSampling. Any composite of zennit:")
    say("zennit:EpsilonPlusFlat. clevr-removal and svea-removal bring along true_effects")
    say("(their ceiling) and object_size (a floor). Methods that ask the model often take")
    say("rows= (at most so many at once) and memory= (megabytes).")
    say("In a run, --target says which score of the model is explained;")
    say("in Python, heatproof.explain(..., quantity='probability') does.")
    say_left_out()


def show_sheet(name: str) -> None:
    """What an explainer needs, costs, keeps and achieved."""
    from heatproof.explainers.facts import PAPER_WORDS, place_words, sheet, stored

    found = sheet(name)
    say(found.name, style="bold")
    say(found.summary)
    if found.details:
        say(f"\n{found.details}")
    say("")
    rows: list[tuple[Cell, ...]] = [
        ("family", found.family),
        ("needs of the model", found.needs or "not measured"),
        ("passes per case", found.cost),
        *((f"  on {place_words(place)}", str(count)) for place, count in found.passes.items()),
        ("space dimensions", found.dimensions),
        ("parameters", "" if found.parameters else "none"),
        *((f"  {key}={value}", words) for key, (value, words) in found.parameters.items()),
        ("paper", found.paper or "none"),
        *((f"refused on {place_words(place)}", problem) for place, problem in found.fails.items()),
        *((f"in a run of {one.benchmark}", one.text) for one in found.standings),
    ]
    show_table(("", ""), rows)
    if found.axioms:
        cases = stored()["networks"]
        heads = ["axiom", "what it says", *(f"{place}, {cases[place]['cases']} cases" for place in found.axioms)]
        show_table(heads, found.axiom_rows())
        say("Measured on the networks that ship, explaining the logit with default parameters; medians over cases.")
    if found.papers:
        rows = [
            (one.benchmark, one.metric, one.explainer, one.target, f"{100 * one.paper:.1f}", f"{100 * one.ours:.1f}")
            for one in found.papers
        ]
        show_table(("benchmark", "metric", "as", "explained", "paper", "ours"), rows)
        say(PAPER_WORDS)


@app.command()
def metrics() -> None:
    """Metrics with what they need and which way is better.

    Example: heatproof list metrics
    """
    from heatproof.metrics import metrics as registry

    rows = [
        (name, "higher" if metric.higher_is_better else "lower", ", ".join(metric.needs), metric.paper, metric.summary)
        for name, metric in registry.items()
    ]
    show_table(("metric", "better", "needs", "paper", "what it is"), rows)
    say_left_out()


@app.command()
def poolings() -> None:
    """Poolings with their formulas; R is the relevance, c the channel.

    Example: heatproof list poolings
    """
    from heatproof.pooling import poolings as registry

    show_table(
        ("pooling", "formula"), [(name, (function.__doc__ or "").strip()) for name, function in registry.items()]
    )
    say_left_out()


@app.command()
def benchmarks() -> None:
    """Benchmarks with their presets; options: heatproof run BENCHMARK --help.

    Example: heatproof list benchmarks
    """
    from heatproof.benchmarks import benchmarks as registry

    rows = [(name, cls.title, ", ".join(cls.presets), cls.paper.rpartition(", ")[0]) for name, cls in registry.items()]
    show_table(("benchmark", "what it is", "presets", "paper"), rows)
    say_left_out()


@app.command()
def models() -> None:
    """Trained networks that ship with Heatproof, with the runs that explain them and the commands that made them.

    Example: heatproof list models
    """
    from importlib import resources

    folder = resources.files("heatproof.models").joinpath("pretrained")
    names = sorted(entry.name.removesuffix(".npz") for entry in folder.iterdir() if entry.name.endswith(".npz"))
    show_table(
        ("model", "explained in", "made by"), [(name, *MADE.get(name.partition("-")[0], ("", ""))) for name in names]
    )
    say("mnist1d_cnn-1, -2 and -3 are made with --seed 1, 2 and 3.")

"""How a run was made: what repeats it, what was explained with what, what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heatproof.results.run import Results


@dataclass(frozen=True)
class Used:
    """An explainer as it was used: its names, every parameter, and the layers that it read."""

    short: str
    full: str
    family: str
    target: str
    parameters: str
    layers: str
    own: bool


@dataclass(frozen=True)
class How:
    """command repeats the run; `missing` is what was not run; the rest are names with values."""

    command: str
    settings: Sequence[tuple[str, str]]
    machines: Sequence[tuple[str, str]]
    versions: Sequence[tuple[str, str]]
    explainers: Sequence[Used]
    missing: Sequence[str]


def how_it_was_run(run: Results) -> How:
    manifest = run.manifest
    return How(
        manifest["command"] or python_call(manifest),
        [(name, str(value)) for name, value in manifest["configuration"].items()],
        [(name, machine_text(machine)) for name, machine in manifest["machines"].items()],
        [(name, str(value)) for name, value in manifest["versions"].items()],
        [used(entry) for entry in manifest["explainers"]],
        missing(run),
    )


def python_call(manifest: Mapping[str, Any]) -> str:
    """What repeats a run that was started from Python, as far as it is plain data."""
    configuration = manifest["configuration"]
    names = list(dict.fromkeys(entry["explainer"] for entry in manifest["explainers"]))
    options = {name: value for name, value in manifest["options"].items() if value not in (None, False, [])}
    if "heatmaps" in options:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items() if name != "heatmaps")
        return f"heatproof.evaluate({options['heatmaps']!r}, benchmark={configuration['benchmark']!r}, {given})"
    words = ", ".join(f"{name}={value!r}" for name, value in {"seed": configuration["seed"], **options}.items())
    return f"heatproof.run({configuration['benchmark']!r}, explainers={names!r}, {words})"


def machine_text(machine: Mapping[str, str]) -> str:
    wanted = ("processor", "instructions", "device", "precision", "system")
    return ", ".join(machine[name] for name in wanted if name in machine)


def used(entry: Mapping[str, Any]) -> Used:
    return Used(
        entry["short"],
        entry["explainer"],
        entry["family"],
        entry["target"],
        ", ".join(f"{name}={value}" for name, value in entry["parameters"].items()),
        layers_text(entry["layers"]) if "layers" in entry else "",
        entry.get("source") is not None,
    )


def layers_text(layers: Mapping[str, str]) -> str:
    """The layer that an explainer read, or those of each model where they differ."""
    if len(set(layers.values())) == 1:
        return next(iter(layers.values()))
    return "; ".join(f"{layer} in {model}" for model, layer in layers.items())


def missing(run: Results) -> list[str]:
    """What was not run, in words: explainers without any score, and cases that were left out."""
    table = run.leaderboard()
    there = set(table.select("explainer", "target").unique().rows())
    found = [
        f"{entry['short']}{' (' + entry['target'] + ')' if entry['target'] else ''} has no score: every unit of its"
        " work failed."
        for entry in run.manifest["explainers"]
        if (entry["explainer"], entry["target"]) not in there
    ]
    limit = run.manifest["configuration"].get("limit")
    if limit is not None:
        found.append(f"Only about {limit:,} of the {run.story.words.cases} were taken (limit).")
    shown = {metric for metric in run.story.metric if metric not in set(table["metric"])}
    if shown:
        found.append(f"No score of: {', '.join(sorted(shown))}.")
    return found

"""Fact sheets of explainers, after Sokol and Flach 2020: what each needs, costs, keeps and achieved, as plain data.

What can be measured is measured on the networks that ship (`make facts` in a clone) and stored beside this file.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from heatproof.explainers.base import Explainer
from heatproof.explainers.parameter_words import COLUMN, parameter_words
from heatproof.explainers.spec import find_class

FILE = Path(__file__).with_name("facts.json")

NEEDS = {
    "truth": "no model, but the truth: the mask, or the objects and what they do",
    "nothing": "nothing: it never asks the model",
    "scores": "its scores only, so a black box will do (a function, ONNX, an address)",
    "gradients": "scores and gradients; its layers stay unseen",
    "layers": "its layers: what passes through them, forward or back",
    "other": "what the explainer needs that it is made of",
}
KEPT = {"completeness": 0.01, "conservation": 0.01, "sensitivity": 0.0, "dummy": 0.001, "invariance": 0.001}
"""Up to which number an axiom counts as kept."""
AXIOMS = {
    "completeness": "the relevance adds up to S(x) - S(0); off by this share of it",
    "conservation": "the relevance adds up to S(x); off by this share of it",
    "sensitivity": "what alone changes the score has relevance; share of cases where it has none",
    "dummy": "what the network cannot see has none; share of the relevance that lies there",
    "invariance": "another network of the same function gets the same map; difference as a share of it",
}

PAPER_WORDS = (
    "Percent. The papers' numbers are for their own networks (Focus: the mean over those of its Table 1), ours from a"
    " quick run on the network that ships. Compare the order of the methods: the numbers themselves need not agree."
)


@dataclass(frozen=True)
class Standing:
    """How it did in one run: its place among so many methods, or the word for a floor or ceiling."""

    benchmark: str
    metric: str
    mean: float
    low: float | None
    high: float | None
    place: str
    verdict: str

    @property
    def text(self) -> str:
        spread = "" if self.low is None or self.high is None else f" ({100 * self.low:.1f} to {100 * self.high:.1f})"
        return f"{self.metric} {100 * self.mean:.1f} %{spread}, {self.place}{self.verdict}"


@dataclass(frozen=True)
class Published:
    """A number of a benchmark's paper about this method, and ours on the network that ships."""

    benchmark: str
    metric: str
    explainer: str
    target: str
    paper: float
    ours: float


@dataclass(frozen=True)
class Sheet:
    """All that is known of an explainer."""

    name: str
    family: str
    summary: str
    details: str
    paper: str
    cost: str
    dimensions: str
    needs: str
    parameters: Mapping[str, tuple[Any, str]]
    passes: Mapping[str, int]
    axioms: Mapping[str, Mapping[str, float | None]]
    fails: Mapping[str, str]
    standings: Sequence[Standing]
    papers: Sequence[Published]

    def axiom_rows(self) -> list[tuple[str, ...]]:
        """A line for each axiom: its name, what it says, and what was measured on each network."""
        return [
            (name, about, *(verdict(name, measured.get(name)) for measured in self.axioms.values()))
            for name, about in AXIOMS.items()
        ]


def verdict(axiom: str, value: float | None) -> str:
    if value is None:
        return "not defined"
    return f"{'kept' if value <= KEPT[axiom] else 'broken'} ({value:.2g})"


@cache
def stored() -> dict[str, Any]:
    """The measurements; none where the file is missing."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return {"networks": {}, "explainers": {}, "runs": {}, "papers": []} | content


def sheet(name: str) -> Sheet:
    """The fact sheet of an explainer that has a name."""
    cls = find_class(name)
    facts = stored()["explainers"].get(name, {})
    summary, *further = inspect.cleandoc(cls.__doc__ or "").split("\n\n")
    return Sheet(
        name=name,
        family=cls.family,
        summary=" ".join(summary.split()),
        details="\n\n".join(text for text in further if not COLUMN.match(text.splitlines()[0])),
        paper=cls.paper,
        cost=cls.cost,
        dimensions=cls.dimensions,
        needs=NEEDS.get(facts.get("needs", ""), ""),
        parameters=parameters(cls),
        passes=facts.get("passes", {}),
        axioms=facts.get("axioms", {}),
        fails=facts.get("fails", {}),
        standings=standings(name),
        papers=[one for one in published() if one.explainer.partition(":")[0] == name],
    )


def published() -> list[Published]:
    """The papers' numbers beside ours, method by method."""
    return [Published(**{f.name: entry[f.name] for f in fields(Published)}) for entry in stored()["papers"]]


def place_words(place: str) -> str:
    """A network that was measured, in words."""
    network = stored()["networks"].get(place, {})
    return f"{network.get('model', place)} ({place})"


def parameters(cls: type[Explainer]) -> dict[str, tuple[Any, str]]:
    """The fields that change the result, with their defaults and what they do."""
    return {f.name: (f.default, parameter_words(cls, f.name)) for f in fields(cls) if f.compare}


def standings(name: str) -> list[Standing]:
    """How it did in the runs that are stored."""
    return [
        standing(benchmark, run, label, entry)
        for benchmark, run in stored()["runs"].items()
        for label, entry in run["methods"].items()
        if label.partition(":")[0] == name
    ]


def standing(benchmark: str, run: Mapping[str, Any], label: str, entry: Mapping[str, Any]) -> Standing:
    """How it did in one run; the label says with which parameters, where they are not the usual ones."""
    is_floor = entry["family"] in ("floor", "ceiling")
    place = f"a {entry['family']}" if is_floor else f"place {entry['place']} of {run['of']}"
    beaten = entry["no_better_than"] if not is_floor else ""
    said = f", not surely better than {beaten}, which is a floor" if beaten else ""
    said += f" (as {label})" if ":" in label else ""
    return Standing(benchmark, run["title"], entry["mean"], entry["low"], entry["high"], place, said)


def markdown(found: Sheet) -> str:
    """A fact sheet as a page."""
    networks = stored()["networks"]
    lines = [f"# {found.name}", "", found.summary, ""]
    if found.details:
        lines += [found.details, ""]
    rows = [
        ("family", found.family),
        ("needs of the model", found.needs or "not measured"),
        ("passes per case", found.cost),
    ]
    rows += [(f"passes on {place_words(name)}", str(count)) for name, count in found.passes.items()]
    rows += [("space dimensions", found.dimensions), ("paper", found.paper or "none")]
    rows += [(f"refused on {place_words(name)}", problem) for name, problem in found.fails.items()]
    lines += ["| | |", "|---|---|", *(f"| {name} | {escaped(text)} |" for name, text in rows), ""]
    lines += ["## Parameters", ""]
    given = [f"| `{name}` | `{value}` | {escaped(words)} |" for name, (value, words) in found.parameters.items()]
    lines += ["| parameter | default | what it does |", "|---|---|---|", *given, ""] if given else ["It has none.", ""]
    if found.axioms:
        heads = [f"{place_words(name)}, {networks[name]['cases']} cases" for name in found.axioms]
        lines += ["## Axioms, measured", "", f"| axiom | what it says | {' | '.join(heads)} |"]
        lines += ["|---" * (2 + len(heads)) + "|", *(f"| {' | '.join(row)} |" for row in found.axiom_rows()), ""]
        lines += ["With its default parameters, explaining the logit; medians over cases, from `make facts`.", ""]
    if found.standings:
        lines += ["## In our own runs", ""]
        lines += [f"- **{one.benchmark}**: {one.text}" for one in found.standings]
        lines += ["", "From the quick runs of `make facts`, explaining the logit.", ""]
    if found.papers:
        lines += ["## Beside the papers", "", "| benchmark | metric | as | explained | paper | ours |"]
        lines += ["|---|---|---|---|---:|---:|", *map(paper_row, found.papers), "", PAPER_WORDS]
    return "\n".join(lines).rstrip() + "\n"


def paper_row(one: Published) -> str:
    words = (one.benchmark, f"`{one.metric}`", f"`{one.explainer}`", one.target)
    return f"| {' | '.join(words)} | {100 * one.paper:.1f} | {100 * one.ours:.1f} |"


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")

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

from heatproof.explainers.base import Explainer, explainers

FILE = Path(__file__).with_name("facts.json")

NEEDS = {
    "truth": "the true mask, and no model: it is the ceiling",
    "nothing": "nothing: it never asks the model",
    "scores": "its scores only, so a black box will do (a function, ONNX, an address)",
    "gradients": "scores and gradients; its layers stay unseen",
    "layers": "its layers: what passes through them, forward or back",
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
    parameters: Mapping[str, Any]
    passes: Mapping[str, int]
    axioms: Mapping[str, Mapping[str, float | None]]
    fails: Mapping[str, str]
    standings: Sequence[Standing]

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
    return {"networks": {}, "explainers": {}, "runs": {}} | content


def sheet(name: str) -> Sheet:
    """The fact sheet of a registered explainer."""
    cls = explainers[name]
    facts = stored()["explainers"].get(name, {})
    summary, _, details = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
    return Sheet(
        name=name,
        family=cls.family,
        summary=" ".join(summary.split()),
        details=details,
        paper=cls.paper,
        cost=cls.cost,
        dimensions=cls.dimensions,
        needs=NEEDS.get(facts.get("needs", ""), ""),
        parameters=parameters(cls),
        passes=facts.get("passes", {}),
        axioms=facts.get("axioms", {}),
        fails=facts.get("fails", {}),
        standings=standings(name),
    )


def parameters(cls: type[Explainer]) -> dict[str, Any]:
    """The fields that change the result, with their defaults."""
    return {f.name: f.default for f in fields(cls) if f.compare}


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
        lines += ["```text", found.details.rstrip(), "```", ""]
    rows = [
        ("family", found.family),
        ("needs of the model", found.needs or "not measured"),
        ("passes per case", found.cost),
    ]
    rows += [(f"passes on {name}'s network", str(count)) for name, count in found.passes.items()]
    rows += [("space dimensions", found.dimensions), ("paper", found.paper or "none")]
    rows += [(f"on {name}'s network", f"refused: {problem}") for name, problem in found.fails.items()]
    lines += ["| | |", "|---|---|", *(f"| {name} | {escaped(text)} |" for name, text in rows), ""]
    lines += ["## Parameters", ""]
    given = [f"| `{name}` | `{value}` |" for name, value in found.parameters.items()]
    lines += ["| parameter | default |", "|---|---|", *given, ""] if given else ["It has none.", ""]
    if found.axioms:
        heads = [f"{name} ({networks[name]['model']}, {networks[name]['cases']} cases)" for name in found.axioms]
        lines += ["## Axioms, measured", "", f"| axiom | what it says | {' | '.join(heads)} |"]
        lines += ["|---" * (2 + len(heads)) + "|", *(f"| {' | '.join(row)} |" for row in found.axiom_rows()), ""]
        lines += ["With its default parameters, explaining the logit; medians over cases, from `make facts`.", ""]
    if found.standings:
        lines += ["## In our own runs", ""]
        lines += [f"- **{one.benchmark}**: {one.text}" for one in found.standings]
        lines += ["", "From the quick runs of `make facts`, explaining the logit."]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")

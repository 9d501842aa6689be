"""Measure every explainer and write the numbers of the fact sheets: `make facts`.

python -m facts names               the explainers that are measured, with commas between
python -m facts                     needs, passes and axioms on the networks that ship
python -m facts --runs RUN...       and how methods did in these runs, instead of those that are stored
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import heatproof
from facts.axioms import AXIOMS
from facts.needs import needs
from heatproof.benchmarks import benchmarks
from heatproof.cases import Batch
from heatproof.engine.passes import counted_passes
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.explainers.base import Explainer
from heatproof.explainers.facts import FILE
from heatproof.seeds import CaseRandom

CASES = {"svea": 20, "focus": 3, "clevr-xai": 3}
"""Cases of each benchmark's shipped network that axioms are measured on."""
MOST_PASSES = {"svea": 10**6, "focus": 150, "clevr-xai": 150}
"""Methods that ask more often per case are not measured there."""
OTHERS = ("randomised", "other_question", "noised")
"""Explainers that are made of another one."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="facts", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["measure", "names"], default="measure", help="or only the names")
    parser.add_argument("--runs", nargs="*", type=Path, default=[], help="run folders with many methods each")
    parser.add_argument("--only", nargs="*", default=[], help="these explainers; the others stay as they are stored")
    chosen = parser.parse_args()
    if chosen.what == "names":
        print(",".join(name for name in explainers.own() if name not in OTHERS))
        return 0
    torch.set_num_threads(1)
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"explainers": {}, "runs": {}}
    names = [name for name in explainers.own() if name not in OTHERS and (not chosen.only or name in chosen.only)]
    places = {name: opened(name) for name in CASES}
    measured = {name: measure(explainers[name](), places) for name in names}
    kept = {name: entry for name, entry in stored["explainers"].items() if chosen.only and name in explainers.own()}
    everything = kept | measured
    content = {
        "networks": {name: {"model": place[0], "cases": len(place[2])} for name, place in places.items()},
        "explainers": {name: everything[name] for name in sorted(everything)},
        "runs": standings(chosen.runs) if chosen.runs else stored["runs"],
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(everything)} explainers", file=sys.stderr)
    return 0


def opened(benchmark: str) -> tuple[str, torch.nn.Module, Batch]:
    """The shipped network of a benchmark, and its first cases."""
    found = benchmarks[benchmark].from_preset("quick").open(0)
    chunk = found.chunks(CASES[benchmark])[0]
    return chunk.model, found.model(chunk.model).eval(), found.load(chunk)


def measure(explainer: Explainer, places: Mapping[str, tuple[str, torch.nn.Module, Batch]]) -> dict[str, Any]:
    """What is known of an explainer with its default parameters."""
    print(explainer.label, file=sys.stderr, flush=True)
    found: dict[str, Any] = {"parameters": explainer.parameters, "passes": {}, "axioms": {}, "fails": {}}
    for benchmark, (_, model, batch) in places.items():
        try:
            with counted_passes(model) as passes:
                explainer(model, batch[:1], CaseRandom(0, explainer.label))
            found["passes"][benchmark] = passes.total
            if benchmark == "svea":
                found["needs"] = needs(explainer, model, batch[:2])
            if 0 < passes.total <= MOST_PASSES[benchmark]:
                found["axioms"][benchmark] = axioms(explainer, model, batch)
        except HeatproofError as problem:
            found["fails"][benchmark] = str(problem)
    return found


def axioms(explainer: Explainer, model: torch.nn.Module, batch: Batch) -> dict[str, float | None]:
    """The median over cases of each axiom's number; None where none can be said."""

    def explain(network: torch.nn.Module, cases: Batch) -> torch.Tensor:
        return explainer(network, cases, CaseRandom(0, explainer.label))

    found: dict[str, float | None] = {}
    for name, measured in AXIOMS.items():
        try:
            values = measured(explain, model, batch)
            values = values[values.isfinite()]
            middle = values.mean() if name == "sensitivity" else values.median() if len(values) else values.sum()
            found[name] = float(f"{float(middle):.3g}") if len(values) else None
        except HeatproofError:
            found[name] = None  # the rewriting hides what it needs, or it takes no such inputs
    return found


def standings(runs: list[Path]) -> dict[str, Any]:
    """How every method did in each run: in the contest of its first metric, explaining the logit if it does."""
    found: dict[str, Any] = {}
    for folder in runs:
        run = heatproof.load_run(folder)
        contests = run.verdict.contests
        contest = next((one for one in contests if one.target == "logit"), contests[0])
        words = {metric.name: metric for metric in run.story.metrics}[contest.metric]
        found[run.manifest["configuration"]["benchmark"]] = {
            "command": run.manifest["command"],
            "metric": contest.metric,
            "title": words.title,
            "higher_is_better": words.higher_is_better,
            "cases": contest.cases,
            "methods": {
                entrant.explainer: {
                    "mean": round(entrant.mean, 4),
                    "low": None if entrant.low is None else round(entrant.low, 4),
                    "high": None if entrant.high is None else round(entrant.high, 4),
                    "place": place,
                    "family": entrant.family,
                    "no_better_than": entrant.no_better_than,
                }
                for place, entrant in enumerate(contest.entrants, 1)
            },
            "of": len(contest.methods),
        }
    return found


if __name__ == "__main__":
    sys.exit(main())

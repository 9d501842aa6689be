"""Measure every explainer and write the numbers of the fact sheets: `make facts`.

python -m facts names               the explainers that are run on SVEA's network, with commas between
python -m facts vit                 and those that are run on the transformer
python -m facts                     needs, passes and axioms on the networks that ship
python -m facts --runs RUN...       and how methods did in these runs, instead of those that are stored
python -m facts --papers RUN...     and the papers' numbers beside those of these runs
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import torch

import heatproof
from facts.axioms import AXIOMS
from facts.needs import needs
from heatproof.benchmarks import benchmarks
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.cases import Batch
from heatproof.engine.passes import counted_passes
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.explainers.around import Around
from heatproof.explainers.base import Explainer
from heatproof.explainers.facts import FILE
from heatproof.explainers.spec import BROUGHT, find_class
from heatproof.seeds import CaseRandom

CASES = {"svea": 20, "focus": 3, "clevr-xai": 3, "focus-vit": 3}
"""Cases of each shipped network that axioms are measured on; focus-vit is Focus with the transformer that ships."""
MOST_PASSES = {"svea": 10**6, "focus": 150, "clevr-xai": 150, "focus-vit": 150}
"""Methods that ask more often per case are not measured there."""
TRANSFORMER = (
    *("grad_cam", "gradient", "gradient_x_input", "integrated_gradients:steps=30,rule=gauss_legendre"),
    *("smoothgrad:samples=10,sigma=0.2", "lrp:composite=attn_lrp_gamma", "chefer", "le_grad", "raw_attention"),
    *("attention_rollout", "random", "centre", "edges", "oracle"),
)
"""What is run on the transformer that ships: those that look at attention, and some that every network takes."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="facts", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["measure", "names", "vit"], default="measure", help="or names only")
    parser.add_argument("--runs", nargs="*", type=Path, default=[], help="run folders with many methods each")
    parser.add_argument("--papers", nargs="*", type=Path, default=[], help="run folders with the papers' methods")
    parser.add_argument("--only", nargs="*", default=[], help="these explainers; the others stay as they are stored")
    chosen = parser.parse_args()
    if chosen.what == "names":
        print(",".join(name for name, cls in explainers.own().items() if fits_signals(cls)))
        return 0
    if chosen.what == "vit":
        print(",".join(TRANSFORMER))
        return 0
    torch.set_num_threads(1)
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"explainers": {}, "runs": {}, "papers": []}
    names = [name for name in explainers.own() if not chosen.only or name in chosen.only]
    places = {name: opened(name) for name in CASES}
    measured = {name: measure(explainers[name](), places) for name in names}
    measured |= {name: {"needs": needs(find_class(name)(), places["svea"][1], painted())} for name in BROUGHT}
    known = {*explainers.own(), *BROUGHT}
    kept = {name: entry for name, entry in stored["explainers"].items() if chosen.only and name in known}
    everything = kept | measured
    content = {
        "networks": {name: {"model": place[0], "cases": len(place[2])} for name, place in places.items()},
        "explainers": {name: everything[name] for name in sorted(everything)},
        "runs": standings(chosen.runs) if chosen.runs else stored["runs"],
        "papers": published(chosen.papers) if chosen.papers else stored.get("papers", []),
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(everything)} explainers", file=sys.stderr)
    return 0


def fits_signals(cls: type[Explainer]) -> bool:
    """Whether it can explain SVEA's network by itself: it needs no attention, no question and no other explainer."""
    return cls.family != "attention" and not issubclass(cls, Around)


def opened(place: str) -> tuple[str, torch.nn.Module, Batch]:
    """The shipped network of a benchmark, and its first cases."""
    benchmark = place.removesuffix("-vit")
    recipe: Any = benchmarks[benchmark].from_preset("quick")
    found = (recipe if place == benchmark else replace(recipe, model="object_vit")).open(0)
    chunk = found.chunks(CASES[place])[0]
    return chunk.model, found.model(chunk.model).eval(), found.load(chunk)


def painted() -> Batch:
    """A case with two objects and what they do, for explainers that paint them."""
    regions = torch.tensor([[0, 1, 1, 2] * 10])
    truths = {"logit_abs": torch.tensor([[3.0, 1.0]])}
    return ObjectBatch(torch.rand(1, 1, 40), torch.tensor([0]), ("case",), regions=regions, truths=truths)


def measure(explainer: Explainer, places: Mapping[str, tuple[str, torch.nn.Module, Batch]]) -> dict[str, Any]:
    """What is known of an explainer with its default parameters."""
    print(explainer.label, file=sys.stderr, flush=True)
    found: dict[str, Any] = {"parameters": explainer.parameters, "passes": {}, "axioms": {}, "fails": {}}
    if isinstance(explainer, Around):
        found["needs"] = "other"
    for benchmark, (_, model, batch) in places.items():
        try:
            with counted_passes(model) as passes:
                explainer(model, batch[:1], CaseRandom(0, explainer.label))
            found["passes"][benchmark] = passes.total
            if "needs" not in found and not batch.context:
                found["needs"] = needs(explainer, model, batch[:2])
            if passes.total <= MOST_PASSES[benchmark]:
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
        found[folder.name.removeprefix("facts-")] = {
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


def published(runs: list[Path]) -> list[dict[str, Any]]:
    """Every number of a paper's table about a method and a metric, and ours in the run of that benchmark."""
    found = []
    for folder in runs:
        run = heatproof.load_run(folder)
        board = run.leaderboard().with_columns(paper=pl.coalesce("reference", "reference_elsewhere"))
        board = board.filter(pl.col("paper").is_not_null(), pl.col("subset").is_in(["", "all"]))
        benchmark = run.manifest["configuration"]["benchmark"]
        for row in board.iter_rows(named=True):
            axes = {name: row[name] for name in ("target", "explainer", "metric", "ground_truth", "pooling")}
            found.append({"benchmark": benchmark, **axes, "paper": row["paper"], "ours": round(row["mean"], 4)})
    return found


if __name__ == "__main__":
    sys.exit(main())

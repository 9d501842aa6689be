"""Heatproof puts heatmaps to the proof: attribution methods, judged where the right answer is known.

The names below are the public API; heavy libraries are imported when one of them is first used.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heatproof import focus
    from heatproof.api import compare, conservation, dry_run, evaluate, explain, layers, load_run, publish, run, show
    from heatproof.benchmarks.base import Benchmark, Opened, metric_words, option, register_benchmark, score_rows
    from heatproof.cases import Batch
    from heatproof.errors import HeatproofError
    from heatproof.explainers.base import Explainer, SampledExplainer, ScoreExplainer, register_explainer
    from heatproof.explainers.spec import make_explainer
    from heatproof.metrics.base import register_metric
    from heatproof.models.black_box import black_box
    from heatproof.peers import explain_func
    from heatproof.pooling import pool
    from heatproof.report.runs import Run
    from heatproof.seeds import CaseRandom
    from heatproof.story import Story

__all__ = [
    "Batch",
    "Benchmark",
    "CaseRandom",
    "Explainer",
    "HeatproofError",
    "Opened",
    "Run",
    "SampledExplainer",
    "ScoreExplainer",
    "Story",
    "black_box",
    "compare",
    "conservation",
    "dry_run",
    "evaluate",
    "explain",
    "explain_func",
    "focus",
    "layers",
    "load_run",
    "make_explainer",
    "metric_words",
    "option",
    "pool",
    "publish",
    "register_benchmark",
    "register_explainer",
    "register_metric",
    "run",
    "score_rows",
    "show",
]

_HOMES = {
    "Batch": "cases",
    "Benchmark": "benchmarks.base",
    "CaseRandom": "seeds",
    "Explainer": "explainers.base",
    "HeatproofError": "errors",
    "Opened": "benchmarks.base",
    "Run": "report.runs",
    "SampledExplainer": "explainers.base",
    "ScoreExplainer": "explainers.base",
    "Story": "story",
    "black_box": "models.black_box",
    "compare": "api",
    "conservation": "api",
    "dry_run": "api",
    "evaluate": "api",
    "explain": "api",
    "explain_func": "peers",
    "layers": "api",
    "load_run": "api",
    "make_explainer": "explainers.spec",
    "metric_words": "benchmarks.base",
    "option": "benchmarks.base",
    "pool": "pooling",
    "publish": "api",
    "register_benchmark": "benchmarks.base",
    "register_explainer": "explainers.base",
    "register_metric": "metrics.base",
    "run": "api",
    "score_rows": "benchmarks.base",
    "show": "api",
}


def __getattr__(name: str) -> Any:
    if name == "focus":
        return importlib.import_module("heatproof.focus")
    if name == "__version__":
        return importlib.metadata.version("heatproof")
    if name not in _HOMES:
        raise AttributeError(f"module 'heatproof' has no attribute {name!r}")
    return getattr(importlib.import_module(f"heatproof.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

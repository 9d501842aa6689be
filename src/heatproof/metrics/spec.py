"""Metrics from words: `mass_accuracy`, `mine.py:metric`, `package.module:metric`, `quantus:NAME`; or from functions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from heatproof.errors import HeatproofError
from heatproof.loading import load_object, names_object
from heatproof.metrics.base import Metric, metrics
from heatproof.specs import split_specs

QUANTUS = "quantus:"
"""How the names of Quantus' metrics begin."""
MetricLike: TypeAlias = str | Metric | Callable[..., Any]

SIGNATURES: dict[tuple[str, ...], tuple[str, ...]] = {
    (): (),
    ("mask",): ("mask",),
    ("model", "batch"): ("model",),
    ("mask", "model", "batch"): ("mask", "model"),
}
"""What a function needs, by the names of its parameters after the heatmap."""


def load_metrics(text: str | Sequence[MetricLike]) -> list[Metric]:
    """All metrics of a list, or of a comma-separated text; the same one twice is an error."""
    pieces = split_specs(text) if isinstance(text, str) else text
    found = [load_metric(piece) for piece in pieces]
    if not found:
        raise HeatproofError("no metric is named; give at least one (heatproof list metrics).")
    for i, metric in enumerate(found):
        if metric.name in [other.name for other in found[:i]]:
            raise HeatproofError(f"metric {metric.name!r} is listed twice; functions need different names.")
    return found


def load_metric(what: MetricLike) -> Metric:
    """A metric from its name, a reference to a function in a file or package, a function, or itself."""
    if isinstance(what, str) and what.startswith(QUANTUS):
        from heatproof.metrics.quantus import quantus_metric

        return quantus_metric(what)
    if isinstance(what, str):
        return load_metric(load_object(what)) if names_object(what) else metrics[what]
    if isinstance(what, Metric):
        return what
    if not callable(what) or isinstance(what, type):
        raise HeatproofError(f"a metric is a name or a function (heatmap, mask) -> values; got {what!r}.")
    registered = [metric for _, metric in metrics.items() if metric.function is what]
    return registered[0] if registered else describe_function(what)


def describe_function(function: Callable[..., Any]) -> Metric:
    """A metric from a function that is not registered: more is better and nothing is known of its range."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise HeatproofError(f"a metric needs a name: write {function!r} as a function with def.")
    if name in metrics:
        raise HeatproofError(f"metric {name!r} is registered already; choose another name for the function.")
    return described(name, function)


def described(name: str, function: Callable[..., Any]) -> Metric:
    """The function as a metric of that name."""
    return Metric(
        name=name,
        title=name.replace("_", " ").capitalize(),
        function=function,
        higher_is_better=True,
        needs=needs_of(name, function),
        paper="",
        range=(-math.inf, math.inf),
    )


def needs_of(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """What the function needs beside the heatmap, by its parameters; those with defaults do not count."""
    parameters = inspect.signature(function).parameters.values()
    required = tuple(
        p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )
    if not required or required[1:] not in SIGNATURES:
        known = ", ".join(f"({', '.join(('heatmap', *names))})" for names in SIGNATURES)
        raise HeatproofError(f"metric {name} takes ({', '.join(required)}); a metric takes one of {known}.")
    return SIGNATURES[required[1:]]

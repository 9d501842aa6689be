"""Metrics by name: a pure function under a thin description.

What a metric's function is called with follows from what it `needs`; the heatmap (B, *space), pooled, always comes
first:

    ()                  function(heatmap)
    ("mask",)           function(heatmap, mask)                     the ground truth, bool (B, *space)
    ("model",)          function(heatmap, model=..., batch=...)     the model that was explained, and the cases
    ("mask", "model")   function(heatmap, mask, model=..., batch=...)

Any other word in `needs` is something that only one benchmark has: it calls the function itself, with arguments of
their own, and no other scorer can. Every function returns one float64 value per case, NaN where it is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from heatproof.errors import HeatproofError
from heatproof.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

GENERIC_NEEDS = ("mask", "model")
"""What any scorer can hand to a metric beside the heatmap."""

Uniform: TypeAlias = Literal["mask_share", "half", "window", "everything", "one", "balanced", "balanced_f1", "scene"]
"""What a uniform map gets: the mask's share of the picture, one half, the score of the window in the middle, the mask's
share again as what marks everything (of which a random map may get more or less), or one. Where signs count: what a map
gets that speaks as much for as against everywhere, one half, or the F1 score that comes of it. Or what it gets in this
very scene, by the sizes of its objects."""


@dataclass(frozen=True)
class Metric:
    """What people need to know about a metric, and its function: tensors in, one value per case out."""

    name: str
    title: str
    function: Callable[..., Any]
    higher_is_better: bool
    needs: tuple[str, ...]
    paper: str
    range: tuple[float, float] = (0.0, 1.0)
    uniform: Uniform | None = None

    @property
    def summary(self) -> str:
        return (self.function.__doc__ or "").strip().split("\n")[0]

    @property
    def generic(self) -> bool:
        """Whether any scorer can call it, rather than only the benchmark that it is made for."""
        return all(need in GENERIC_NEEDS for need in self.needs)


def admitted(name: str, found: Any) -> Metric:
    """The metric that a plug-in's entry point names: described already, or a function with the usual parameters."""
    from heatproof.metrics.spec import described

    if isinstance(found, Metric):
        return replace(found, name=name)
    if not callable(found) or isinstance(found, type):
        raise HeatproofError(f"it must be a function (heatmap, mask) -> values, and is {found!r}.")
    return described(name, found)


metrics: Registry[Metric] = Registry("metric", "heatproof.metrics", admitted)


def register_metric(
    name: str,
    *,
    title: str,
    needs: tuple[str, ...],
    paper: str,
    higher_is_better: bool = True,
    range: tuple[float, float] = (0.0, 1.0),
    uniform: Uniform | None = None,
) -> Callable[[F], F]:
    """Decorator: the function computes the metric `name`. It returns one value per case, NaN where it is undefined."""

    def file_under_name(function: F) -> F:
        metrics.register(name)(Metric(name, title, function, higher_is_better, needs, paper, range, uniform))
        return function

    return file_under_name


def missing_for(metric: Metric, masks: Collection[str]) -> str:
    """Why this metric cannot score heatmaps of cases with these ground truths, as a sentence; empty if it can."""
    if not metric.generic:
        special = ", ".join(need for need in metric.needs if need not in GENERIC_NEEDS)
        return f"metric {metric.name} needs {special}, which only the benchmark that it is made for has."
    if "mask" in metric.needs and not masks:
        return f"metric {metric.name} needs a ground-truth mask, and these cases have none."
    return ""

"""Metrics by name: a pure function under a thin description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from heatproof.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])


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

    @property
    def summary(self) -> str:
        return (self.function.__doc__ or "").strip().split("\n")[0]


metrics: Registry[Metric] = Registry("metric")


def register_metric(
    name: str,
    *,
    title: str,
    needs: tuple[str, ...],
    paper: str,
    higher_is_better: bool = True,
    range: tuple[float, float] = (0.0, 1.0),
) -> Callable[[F], F]:
    """Decorator: the function computes the metric `name`. It returns one value per case, NaN where it is undefined."""

    def file_under_name(function: F) -> F:
        metrics.register(name)(Metric(name, title, function, higher_is_better, needs, paper, range))
        return function

    return file_under_name

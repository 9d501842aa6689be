"""What a map gets that says nothing: it has the same value everywhere. An unusable map counts as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heatproof.lazy import pl
from heatproof.metrics.base import Uniform, metrics

BY_SHARE: dict[Uniform, Callable[[float], float]] = {
    "mask_share": lambda share: share,
    "half": lambda share: 0.5,
    "everything": lambda share: share,
    "one": lambda share: 1.0,
    "balanced": lambda share: 0.5,
    "balanced_f1": lambda share: share / (share + 0.5),
}
"""From the mask's share of the picture to the score; a window's does not follow from it."""


def uniform_column(metric: str, shares: Sequence[float]) -> pl.Series:
    """The score of a uniform map for each case, by the shares of the pictures that the masks cover.

    Empty where the metric names none, or the truth is missing: the mask covers nothing, or everything.
    """
    kind = metrics[metric].uniform if metric in metrics else None
    if kind is None or kind not in BY_SHARE:
        return pl.Series([None] * len(shares), dtype=pl.Float64)
    values = [None if share in (0, 1) else BY_SHARE[kind](float(share)) for share in shares]
    return pl.Series(values, dtype=pl.Float64)

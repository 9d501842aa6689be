"""What a map gets that says nothing: it has the same value everywhere. An unusable map counts as one."""

from __future__ import annotations

from collections.abc import Sequence

from heatproof.lazy import pl
from heatproof.metrics.base import metrics


def uniform_column(metric: str, shares: Sequence[float]) -> pl.Series:
    """The score of a uniform map for each case, by the shares of the pictures that the masks cover.

    Empty where the metric names none, or the truth is missing: the mask covers nothing, or everything.
    """
    kind = metrics[metric].uniform if metric in metrics else None
    if kind not in ("mask_share", "half"):
        return pl.Series([None] * len(shares), dtype=pl.Float64)
    values = [None if share in (0, 1) else float(share) if kind == "mask_share" else 0.5 for share in shares]
    return pl.Series(values, dtype=pl.Float64)

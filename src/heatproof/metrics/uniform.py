"""What a map gets that says nothing: it has the same value everywhere. An unusable map counts as one."""

from __future__ import annotations

from collections.abc import Iterable

from heatproof.metrics.base import Metric


def of_uniform_maps(metric: Metric | None, shares: Iterable[float] | None, cases: int) -> list[float | None]:
    """The score of a uniform map for each case; None where there is none to be had, or the truth is missing.

    `shares` are those of the picture that the masks cover.
    """
    kind = None if metric is None else metric.uniform
    if kind not in ("mask_share", "half") or shares is None:
        return [None] * cases
    return [None if share in (0, 1) else float(share) if kind == "mask_share" else 0.5 for share in shares]

"""Does the model still decide the same from what the explanation points at?

`full` is the model's confidence in the explained class on the whole input, `kept` on the explained part alone.
"""

from __future__ import annotations

from heatproof.lazy import torch
from heatproof.metrics.base import register_metric


@register_metric(
    "drop",
    title="Drop",
    needs=("confidences",),
    paper="Chattopadhay et al. 2018",
    higher_is_better=False,
    uniform="window",
)
def drop(full: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Relative loss of confidence, gains counting as zero: max(0, Y - O) / Y; NaN where Y is zero."""
    full, kept = full.double(), kept.double()
    return torch.where(full > 0, (full - kept).clamp(min=0) / full, torch.full_like(full, torch.nan))


@register_metric(
    "increase", title="Increase", needs=("confidences",), paper="Chattopadhay et al. 2018", uniform="window"
)
def increase(full: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """1 where the explained part alone gives more confidence than the whole input: O > Y."""
    defined = full.isfinite() & kept.isfinite()
    return torch.where(defined, (kept > full).double(), torch.full_like(full, torch.nan, dtype=torch.float64))

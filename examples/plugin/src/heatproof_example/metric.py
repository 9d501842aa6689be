"""A metric: heatmaps in, one float64 value per case out, NaN where it is undefined."""

import torch

from heatproof import register_metric


@register_metric("mask_coverage", title="Mask coverage", needs=("mask",), paper="nobody yet")
def mask_coverage(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Share of the mask that has any relevance at all."""
    heatmap, mask = heatmap.flatten(1), mask.flatten(1)
    usable = heatmap.isfinite().all(1) & (heatmap > 0).any(1)
    touched = ((heatmap > 0) & mask).sum(1).double()
    return torch.where(usable, touched / mask.sum(1), torch.nan)

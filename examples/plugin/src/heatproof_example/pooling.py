"""A pooling: relevance (B, C, *space) to a heatmap (B, *space) without negative values."""

import torch


def mean_abs(relevance: torch.Tensor) -> torch.Tensor:
    """mean_c |R_c|"""
    return relevance.abs().mean(1)

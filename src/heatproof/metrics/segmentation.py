"""Does a heatmap tell an object from what is around it? Heatmaps (B, *space) are non-negative, masks boolean.

Undefined as in `localisation.py`. Where a threshold is needed, positions of one value are above it together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from heatproof.lazy import np, torch
from heatproof.metrics.base import register_metric
from heatproof.metrics.localisation import flat_pair
from heatproof.metrics.mask_scores import score_masks, score_signed

INFINITE = (0.0, math.inf)


@register_metric("lift", title="Lift", needs=("mask",), paper="after Arras et al. 2022", range=INFINITE, uniform="one")
def lift(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mass accuracy over the mask's share of the picture: how many times more relevance lies there than by chance."""
    return pooled_score("lift", heatmap, mask)


@register_metric("pixel_auc", title="Pixel AUC", needs=("mask",), paper="Fawcett 2006", uniform="half")
def pixel_auc(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Chance that a position inside the mask has more relevance than one outside; equals count half (ROC AUC)."""
    return pooled_score("pixel_auc", heatmap, mask)


@register_metric(
    "average_precision",
    title="Average precision",
    needs=("mask",),
    paper="Everingham et al. 2010",
    uniform="everything",
)
def average_precision(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of the share of right positions over all thresholds, weighted by what each adds to the found mask."""
    return pooled_score("average_precision", heatmap, mask)


@register_metric("best_iou", title="Best IoU", needs=("mask",), paper="Choe et al. 2020", uniform="everything")
def best_iou(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Intersection over union of the mask and what is above the threshold that is best for this map."""
    return pooled_score("best_iou", heatmap, mask)


@register_metric(
    "adaptive_iou",
    title="IoU at the mean",
    needs=("mask",),
    paper="Chefer et al. 2021, beyond attention",
    uniform="everything",
)
def adaptive_iou(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Intersection over union of the mask and what reaches the mean of the map."""
    return pooled_score("adaptive_iou", heatmap, mask)


@register_metric(
    "pixel_accuracy",
    title="Pixel accuracy",
    needs=("mask",),
    paper="Chefer et al. 2021, beyond attention",
    uniform="everything",
)
def pixel_accuracy(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Share of positions that are rightly taken for object or background at the mean of the map."""
    return pooled_score("pixel_accuracy", heatmap, mask)


@register_metric(
    "segmentation_ap",
    title="Two-class AP",
    needs=("mask",),
    paper="Chefer et al. 2021, beyond attention",
    uniform="balanced",
)
def segmentation_ap(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Average precision of object and background together: h for one and 1 - h for the other, h brought to 0 to 1."""
    return pooled_score("segmentation_ap", heatmap, mask)


def pooled_score(metric: str, heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    heatmap, mask = flat_pair(heatmap, mask)
    relevance, truth = heatmap.detach().cpu().numpy()[:, None], mask.cpu().numpy().astype(np.uint8)
    scores = score_masks(relevance, truth, ["sum_pos"])  # of one channel that is not negative: itself
    return torch.as_tensor(scores.values[metric][0].copy(), device=heatmap.device)


def signed_score(metric: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The function of a metric that looks at signs: relevance (B, C, *space) and masks (B, *space)."""

    def score(relevance: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = score_signed(relevance.detach().cpu().numpy(), mask.cpu().numpy().astype(np.uint8))
        return torch.as_tensor(found.values[metric], device=relevance.device)

    score.__doc__ = SIGNED_WORDS[metric]
    return score


SIGNED_WORDS = {
    "attribution_precision": "Share of the positive relevance that lies inside the mask; in a mosaic, Focus.",
    "attribution_recall": "Positive relevance inside the mask, as a share of all relevance there by its size.",
    "attribution_accuracy": "Share of all relevance by its size that is positive inside the mask or negative outside.",
    "attribution_f1": "Harmonic mean of attribution precision and attribution recall.",
    "dual_polarity_precision": "Mean of two shares: of positive relevance inside the mask, of negative outside; one,"
    " where relevance has one sign only.",
}
TITLES = {
    "attribution_precision": "Attribution precision",
    "attribution_recall": "Attribution recall",
    "attribution_accuracy": "Attribution accuracy",
    "attribution_f1": "Attribution F1",
    "dual_polarity_precision": "Dual-polarity precision",
}
for name, title in TITLES.items():
    register_metric(
        name,
        title=title,
        needs=("mask", "signed relevance"),
        paper="Cedro and Chlebus 2026" if name.startswith("dual") else "Arias-Duart et al. 2023",
        uniform="balanced_f1" if name.endswith("f1") else "mask_share" if name.endswith("n_precision") else "balanced",
    )(signed_score(name))

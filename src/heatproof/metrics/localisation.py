"""Does the heatmap lie where the truth is? Heatmaps (B, *space) are non-negative (pooled), masks boolean.

Every score is NaN where it is undefined: an empty mask or one that covers everything, a heatmap that is zero
everywhere, a heatmap with NaN.
"""

from __future__ import annotations

from heatproof.errors import HeatproofError
from heatproof.lazy import torch
from heatproof.metrics.base import register_metric
from heatproof.metrics.heatmap_scores import points, score_heatmaps, tile_masks


@register_metric(
    "mass_accuracy", title="Mass accuracy", needs=("mask",), paper="Arras et al. 2022", uniform="mask_share"
)
def mass_accuracy(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Share of the relevance that lies inside the mask: sum of H over the mask / sum of H."""
    return kernel_scores(heatmap, mask, ranks=False)


@register_metric(
    "rank_accuracy", title="Rank accuracy", needs=("mask",), paper="Arras et al. 2022", uniform="mask_share"
)
def rank_accuracy(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Share of the K most relevant positions that lie inside the mask, K = its size.

    Positions of equal relevance at the K-th place share the places left: the exact expected value over all ways of
    breaking the tie.
    """
    return kernel_scores(heatmap, mask, ranks=True)


@register_metric(
    "pointing_game", title="Pointing game", needs=("mask",), paper="Zhang et al. 2018", uniform="mask_share"
)
def pointing_game(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Whether the most relevant position lies inside the mask; of several maxima, the share that does."""
    maps, truth = (tensor.detach().cpu().numpy() for tensor in flat_pair(heatmap, mask))
    return torch.as_tensor(points(maps, truth), device=heatmap.device)


@register_metric("focus", title="Focus", needs=("mask",), paper="Arias-Duart et al. 2022", uniform="half")
def focus(relevance: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Share of the positive relevance that lies in the target class's tiles of a mosaic: mass accuracy of max(0, R).

    Relevance (B, *space) may be signed; what speaks against the class does not count.
    """
    return mass_accuracy(relevance.clamp(min=0), mask)


@register_metric(
    "focus_best",
    title="Focus, best pooling",
    needs=("mask", "all poolings"),
    paper="Arias-Duart et al. 2022",
    uniform="half",
)
def focus_best(scores: torch.Tensor) -> torch.Tensor:
    """Focus under the pooling that is best for the method, where Focus takes the paper's.

    From scores (B, poolings): those of the pooling with the highest mean over all cases.
    """
    return scores[:, best_column(scores)]


def best_column(scores: torch.Tensor) -> int:
    """The column with the highest mean, undefined scores left out; the first of equals."""
    return int(scores.nanmean(0).nan_to_num(-torch.inf).argmax())


def grid_mask(space: tuple[int, int], grid: int, chosen: torch.Tensor) -> torch.Tensor:
    """Masks (B, H, W) of the chosen tiles (B, grid * grid) of a mosaic: row by row from the top left.

    Tile i begins at i * extent // grid, rounded down as in the original.
    """
    return torch.as_tensor(tile_masks(space, grid, chosen.cpu().numpy()), device=chosen.device)


def kernel_scores(heatmap: torch.Tensor, mask: torch.Tensor, ranks: bool) -> torch.Tensor:
    """Mass accuracy (or rank accuracy, of `ranks`) from the kernel that scores heatmaps without torch."""
    heatmap, mask = flat_pair(heatmap, mask)
    relevance, truth = heatmap.detach().cpu().numpy()[:, None], {"mask": mask.cpu().numpy()}
    scores = score_heatmaps(relevance, truth, ["sum_pos"], ranks=ranks)  # of one channel that is not negative: itself
    return torch.as_tensor((scores.rank if ranks else scores.mass)[0, 0], device=heatmap.device)


def flat_pair(heatmap: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Heatmap in float64 and mask, both (B, positions), once they are seen to fit each other."""
    if heatmap.shape != mask.shape or heatmap.ndim < 2:
        raise HeatproofError(
            f"heatmap {tuple(heatmap.shape)} and mask {tuple(mask.shape)} must have the same shape (cases, *space)."
        )
    if mask.dtype != torch.bool:
        raise HeatproofError(f"the mask must be boolean, got {mask.dtype}.")
    if bool((heatmap < 0).any()):
        raise HeatproofError("the heatmap has negative values; pool the relevance first (heatproof list poolings).")
    return heatmap.flatten(1).double(), mask.flatten(1)

"""Does the heatmap depend on what was asked? Its score for the own truth, minus that for another question's.

The other question is about the same picture and has another truth. What the two truths share says nothing and is left
out: relevance there counts for nothing, on either side. A map that does not depend on the question has a mean of 0 over
questions, however much of it lies on objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatproof.lazy import np, torch
from heatproof.metrics.base import register_metric
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.metrics.localisation import flat_pair
from heatproof.metrics.objects import are_there, held_by, top_n

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

PAPER = "after Arras et al. 2022"


@register_metric(
    "mass_selectivity",
    title="Selectivity, mass",
    needs=("mask", "other truth"),
    paper=PAPER,
    range=(-1.0, 1.0),
    uniform="scene",
)
def mass_selectivity(heatmap: torch.Tensor, mask: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mass accuracy for the own truth minus that for another question's, what they share left out."""
    return of_tensors(heatmap, mask, other, 0)


@register_metric(
    "rank_selectivity",
    title="Selectivity, rank",
    needs=("mask", "other truth"),
    paper=PAPER,
    range=(-1.0, 1.0),
    uniform="scene",
)
def rank_selectivity(heatmap: torch.Tensor, mask: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Rank accuracy for the own truth minus that for another question's, what they share left out."""
    return of_tensors(heatmap, mask, other, 1)


@register_metric(
    "object_selectivity",
    title="Selectivity, objects",
    needs=("objects", "other truth"),
    paper=PAPER,
    range=(-1.0, 1.0),
    uniform="scene",
)
def object_selectivity(
    heatmap: torch.Tensor, objects: torch.Tensor, truth: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """Objects found for the own truth minus those for another question's, what they share left out."""
    return of_objects(heatmap, objects, truth, other, mean=False)


@register_metric(
    "object_selectivity_mean",
    title="Selectivity, objects by mean relevance",
    needs=("objects", "other truth"),
    paper=PAPER,
    range=(-1.0, 1.0),
    uniform="scene",
)
def object_selectivity_mean(
    heatmap: torch.Tensor, objects: torch.Tensor, truth: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """The same by the mean relevance over an object's visible pixels."""
    return of_objects(heatmap, objects, truth, other, mean=True)


def of_tensors(heatmap: torch.Tensor, mask: torch.Tensor, other: torch.Tensor, place: int) -> torch.Tensor:
    maps, own = (tensor.detach().cpu().numpy() for tensor in flat_pair(heatmap, mask))
    found = pixel_selectivity(maps, own, other.flatten(1).cpu().numpy(), ranks=place == 1)[place]
    return torch.as_tensor(found, device=heatmap.device)


def of_objects(
    heatmap: torch.Tensor, objects: torch.Tensor, truth: torch.Tensor, other: torch.Tensor, mean: bool
) -> torch.Tensor:
    things = objects.flatten(2).cpu().numpy()
    held = held_by(heatmap.flatten(1).double().cpu().numpy(), things, mean)
    found = selectivity_of(held, are_there(things), truth.cpu().numpy(), other.cpu().numpy())
    return torch.as_tensor(found, device=heatmap.device)


def pixel_selectivity(heatmaps: NDArray[Any], own: Flags, other: Flags, ranks: bool = True) -> tuple[Floats, Floats]:
    """Of mass and of rank (without `ranks` NaN), from non-negative heatmaps and truths (B, positions)."""
    left = np.where(own & other, 0.0, heatmaps)[:, None]
    sides = {"own": own & ~other, "other": other & ~own}
    scores = score_heatmaps(left, sides, ["sum_pos"], ranks=ranks)  # of one channel that is not negative: itself
    return scores.mass[0, 0] - scores.mass[0, 1], scores.rank[0, 0] - scores.rank[0, 1]


def selectivity_of(held: Floats, there: Flags, own: Flags, other: Flags) -> Floats:
    """Of the objects that hold most, from what every object holds; all (B, M)."""
    counted = there & ~(own & other)
    return top_n(held, counted, own & ~other) - top_n(held, counted, other & ~own)

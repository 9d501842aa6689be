"""Does the heatmap find the objects that decide, among all objects of the scene?

Heatmaps (B, positions) are non-negative (pooled), objects (B, M, positions) boolean with empty planes behind a scene's
last object, truths (B, M) say which objects decide. A score is NaN where it is undefined: a heatmap that is zero
everywhere or not finite, no object that decides, or every one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np, torch
from heatproof.metrics.base import register_metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

TIED = 1e-9
"""Relevance of two objects that differs by less of it is the same: a mean over pixels is rounded."""


@register_metric(
    "object_top_n", title="Objects found", needs=("objects",), paper="after Arras et al. 2022", uniform="scene"
)
def object_top_n(heatmap: torch.Tensor, objects: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Share of the n objects that decide among the n objects that hold most relevance, added up.

    Objects that hold the same share the places left: the expected value over all ways of breaking the tie.
    """
    return of_tensors(heatmap, objects, truth, mean=False)


@register_metric(
    "object_top_n_mean",
    title="Objects found, mean relevance",
    needs=("objects",),
    paper="after Arras et al. 2022",
    uniform="scene",
)
def object_top_n_mean(heatmap: torch.Tensor, objects: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The same by the mean relevance over an object's visible pixels, so that large ones are not preferred."""
    return of_tensors(heatmap, objects, truth, mean=True)


@register_metric(
    "off_objects",
    title="On no object",
    needs=("objects",),
    paper="after Arras et al. 2022",
    higher_is_better=False,
    uniform="scene",
)
def off_objects(heatmap: torch.Tensor, objects: torch.Tensor) -> torch.Tensor:
    """Share of the relevance that lies on no object at all."""
    maps, things = heatmap.flatten(1).double().cpu().numpy(), objects.flatten(2).cpu().numpy()
    return torch.as_tensor(share_off(maps, things), device=heatmap.device)


def of_tensors(heatmap: torch.Tensor, objects: torch.Tensor, truth: torch.Tensor, mean: bool) -> torch.Tensor:
    if objects.shape[:1] + objects.shape[2:] != heatmap.shape or objects.shape[:2] != truth.shape:
        raise HeatproofError(
            f"heatmap {tuple(heatmap.shape)}, objects {tuple(objects.shape)} and truth {tuple(truth.shape)} must be"
            " (cases, *space), (cases, objects, *space) and (cases, objects)."
        )
    maps, things = heatmap.flatten(1).double().cpu().numpy(), objects.flatten(2).cpu().numpy()
    held = held_by(maps, things, mean)
    return torch.as_tensor(top_n(held, are_there(things), truth.cpu().numpy()), device=heatmap.device)


def held_by(heatmaps: NDArray[Any], objects: Flags, mean: bool) -> Floats:
    """Relevance (B, M) of every object: the sum over its pixels, or the mean; NaN for maps that cannot be used."""
    usable = is_usable(heatmaps)[:, None]
    counted = np.where(usable, heatmaps, 0.0)
    held = np.stack([planes @ heat for planes, heat in zip(objects.astype(np.float64), counted, strict=True)])
    held = held / np.maximum(objects.sum(2), 1) if mean else held
    return np.where(usable, held, np.nan)


def are_there(objects: Flags) -> Flags:
    """Which planes (B, M) hold an object: those behind a scene's last are empty."""
    there: Flags = np.asarray(objects.any(2))
    return there


def is_usable(heatmaps: NDArray[Any]) -> Flags:
    """Which maps (B, positions) are finite and not zero everywhere."""
    usable: Flags = np.isfinite(heatmaps).all(1) & (heatmaps > 0).any(1)
    return usable


def top_n(held: Floats, there: Flags, truth: Flags) -> Floats:
    """Share (B,) of the n true objects among the n that hold most, of those that are there; all (B, M)."""
    scores = np.full(len(held), np.nan)
    for case, (amounts, real, true) in enumerate(zip(held, there, truth & there, strict=True)):
        n = int(true.sum())
        if 0 < n < real.sum() and not np.isnan(amounts).any():
            last = np.sort(amounts[real])[-n]
            close = TIED * max(abs(last), float(amounts[real].max()))
            tied = real & (np.abs(amounts - last) <= close)
            above = real & (amounts > last) & ~tied
            left = (n - above.sum()) / tied.sum()
            scores[case] = ((above & true).sum() + (tied & true).sum() * left) / n
    return scores


def share_off(heatmaps: NDArray[Any], objects: Flags) -> Floats:
    """Share (B,) of the relevance outside of all objects; NaN where there is nothing outside, or no object."""
    on: Flags = np.asarray(objects.any(1))
    defined = is_usable(heatmaps) & on.any(1) & ~on.all(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(on, 0.0, heatmaps).sum(1) / heatmaps.sum(1)
    return np.where(defined, share, np.nan)

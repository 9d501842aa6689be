"""Inputs in segments that are shown or hidden together: what LIME and Kernel SHAP ask the model about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import SampledExplainer, require_one_of, require_positive
from heatproof.lazy import np, torch
from heatproof.seeds import CaseRandom, derive_seed

Segmenter = Literal["auto", "quickshift", "slic", "blocks"]


@dataclass(frozen=True, kw_only=True)
class SegmentExplainer(SampledExplainer):
    """An explainer that gives each segment one value.

    segmenter  quickshift (colour pictures), slic (pictures), blocks (equal parts of anything), auto: the first to fit
    segments   how many, for slic and blocks (per dimension: its root)
    hide       what stands in hidden segments: zero, or the segment's mean
    """

    family = "perturbation"
    looks_at = "values"
    dimensions = "any; quickshift, slic: 2"

    samples: int = 1000
    segmenter: Segmenter = "auto"
    segments: int = 40
    hide: Literal["zero", "mean"] = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "samples", "segments")
        require_one_of(self, "segmenter", get_args(Segmenter))
        require_one_of(self, "hide", ("zero", "mean"))

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        heatmaps = []
        for place, case in enumerate(batch.ids):  # every case has segments of its own
            one = batch[place : place + 1]
            labels = self.segment(one.inputs[0], derive_seed(rng.run_seed, "segments", case))
            heatmaps.append(self.values(model, one, labels, rng).to(one.inputs)[labels])
        return torch.stack(heatmaps).unsqueeze(1)

    def values(self, model: torch.nn.Module, one: Batch, labels: torch.Tensor, rng: CaseRandom) -> torch.Tensor:
        """The value of each segment of a single case."""
        raise NotImplementedError

    def scorer(
        self, model: torch.nn.Module, one: Batch, labels: torch.Tensor
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """A function from which segments are shown (rows, segments) to the scores (rows,) of a single case."""
        inputs = one.inputs[0]
        hidden = segment_means(inputs, labels) if self.hide == "mean" else torch.zeros_like(inputs)

        def score(shown: torch.Tensor) -> torch.Tensor:
            visible = shown.to(inputs)[:, labels].unsqueeze(1)
            variants = visible * inputs if self.hide == "zero" else torch.lerp(hidden, inputs, visible)
            return self.score_rows(model, variants, one, torch.zeros(len(shown), dtype=torch.long).to(one.target))

        return score

    def segment(self, inputs: torch.Tensor, seed: int) -> torch.Tensor:
        """A segment number (*space) for every position of one case (C, *space)."""
        picture, colour = inputs.ndim == 3, inputs.ndim == 3 and inputs.shape[0] == 3
        segmenter = self.segmenter
        if segmenter == "auto":
            segmenter = "quickshift" if colour else "slic" if picture else "blocks"
        if segmenter == "blocks":
            return blocks(tuple(inputs.shape[1:]), self.segments).to(inputs.device)
        if segmenter == "quickshift" and not colour:
            raise HeatproofError(
                f"{self.name}: quickshift needs colour pictures (3, H, W); take segmenter=slic or blocks."
            )
        if not picture:
            raise HeatproofError(f"{self.name}: slic needs pictures (C, H, W); take segmenter=blocks.")
        return superpixels(inputs, segmenter, self.segments, seed).to(inputs.device)


class WeightedSums:
    """Sums over weighted samples (x, y), block by block: what a linear regression needs of them, in float64."""

    def __init__(self, unknowns: int, like: torch.Tensor) -> None:
        self.weight, self.y = (torch.zeros((), dtype=torch.float64, device=like.device) for _ in range(2))
        self.x, self.xy = (torch.zeros(unknowns, dtype=torch.float64, device=like.device) for _ in range(2))
        self.xx = torch.zeros(unknowns, unknowns, dtype=torch.float64, device=like.device)

    def add(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> None:
        x, y, weights = (values.to(self.xx) for values in (x, y, weights))
        weighted = x * weights[:, None]
        self.weight += weights.sum()
        self.x += weighted.sum(0)
        self.y += weights @ y
        self.xx += weighted.T @ x
        self.xy += weighted.T @ y


def segment_means(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Inputs (C, *space) with every segment replaced by its mean colour."""
    flat, index = inputs.flatten(1), labels.flatten()
    counts = torch.bincount(index).to(inputs)
    sums = torch.zeros(len(flat), len(counts)).to(inputs).index_add_(1, index, flat)
    return (sums / counts)[:, index].view(inputs.shape)


def blocks(space: tuple[int, ...], segments: int) -> torch.Tensor:
    """About `segments` equal blocks, the same number along every dimension, as numbers (*space)."""
    per_dimension = max(1, round(segments ** (1 / len(space))))
    labels = torch.zeros(space, dtype=torch.long)
    for axis, extent in enumerate(space):
        parts = min(per_dimension, extent)
        number = torch.arange(extent) * parts // extent
        labels = labels * parts + number.view([-1 if other == axis else 1 for other in range(len(space))])
    return labels


def superpixels(inputs: torch.Tensor, segmenter: str, segments: int, seed: int) -> torch.Tensor:
    """Superpixels (H, W), numbered from zero, of one picture (C, H, W) scaled to [0, 1]."""
    from skimage.segmentation import quickshift, slic

    picture = inputs.detach().double().cpu().permute(1, 2, 0).numpy()
    picture = (picture - picture.min()) / ((picture.max() - picture.min()) or 1.0)
    if segmenter == "quickshift":
        found = quickshift(picture, kernel_size=4, max_dist=200, ratio=0.2, rng=seed % 2**31)
    else:
        found = slic(picture, n_segments=segments, compactness=10, start_label=0, channel_axis=-1)
    return torch.as_tensor(np.unique(found, return_inverse=True)[1].reshape(found.shape))

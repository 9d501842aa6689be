"""Inputs in segments that are shown or hidden together: what LIME and Kernel SHAP ask the model about."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from heatproof.cases import Batch
from heatproof.devices import has_doubles, in_double
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Quantity, require_one_of, require_positive
from heatproof.explainers.sharing import SharingExplainer
from heatproof.lazy import np, torch
from heatproof.progress import part_by_part
from heatproof.seeds import CaseRandom, derive_seed

Segmenter = Literal["auto", "quickshift", "slic", "blocks"]


@dataclass(frozen=True, kw_only=True)
class SegmentExplainer(SharingExplainer):
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

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        def heatmaps(one: Batch) -> torch.Tensor:
            labels = self.segment(one.inputs[0], derive_seed(rng.run_seed, "segments", one.ids[0]))
            return self.values(model, one, labels, rng, quantities).to(one.inputs)[:, labels]

        # Every case has segments of its own.
        found = part_by_part([batch[i : i + 1] for i in range(len(batch))], heatmaps)
        return [torch.stack(maps).unsqueeze(1) for maps in zip(*found, strict=True)]

    @abstractmethod
    def values(
        self,
        model: torch.nn.Module,
        one: Batch,
        labels: torch.Tensor,
        rng: CaseRandom,
        quantities: Sequence[Quantity],
    ) -> torch.Tensor:
        """The value of each segment of a single case (quantities, segments)."""

    def scorer(
        self, model: torch.nn.Module, one: Batch, labels: torch.Tensor, quantities: Sequence[Quantity]
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        """A function from which segments are shown (rows, segments) to the scores (quantities, rows) of a case."""
        inputs = one.inputs[0]
        hidden = segment_means(inputs, labels) if self.hide == "mean" else None

        def score(shown: torch.Tensor) -> torch.Tensor:
            visible = shown.to(inputs)[:, labels].unsqueeze(1)
            variants = visible * inputs if hidden is None else torch.lerp(hidden, inputs, visible)
            return self.scores(model, variants, one, one.target.new_zeros(len(shown)), quantities)

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
    """Sums over weighted samples (x, y), block by block: what linear regressions of several y need, in float64."""

    def __init__(self, unknowns: int, regressions: int, like: torch.Tensor) -> None:
        device = like.device if has_doubles(like.device) else torch.device("cpu")

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.weight, self.x, self.xx = zeros(), zeros(unknowns), zeros(unknowns, unknowns)
        self.y = [zeros() for _ in range(regressions)]
        self.xy = [zeros(unknowns) for _ in range(regressions)]

    def add(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> None:
        """Samples x (rows, unknowns) and y (regressions, rows)."""
        x, y, weights = (in_double(values).to(self.xx) for values in (x, y, weights))
        weighted = x * weights[:, None]
        # The last digits of a product depend on where in memory its numbers begin, so each y gets a place of its own.
        ys = [one.clone() for one in y]
        grown = [
            (self.weight, weights.sum()),
            (self.x, weighted.sum(0)),
            (self.xx, weighted.T @ x),
            *zip(self.y, [weights @ one for one in ys], strict=True),
            *zip(self.xy, [weighted.T @ one for one in ys], strict=True),
        ]
        for sums, more in grown:
            sums += more


def segment_means(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Inputs (C, *space) with every segment replaced by its mean colour."""
    flat, index = inputs.flatten(1), labels.flatten()
    counts = torch.bincount(index).to(inputs)
    sums = torch.zeros(len(flat), len(counts)).to(inputs).index_add_(1, index, flat)
    return (sums / counts)[:, index].view(inputs.shape)


@lru_cache(maxsize=8)
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

    picture = inputs.detach().cpu().double().permute(1, 2, 0).numpy()
    picture = (picture - picture.min()) / ((picture.max() - picture.min()) or 1.0)
    if segmenter == "quickshift":
        found = quickshift(picture, kernel_size=4, max_dist=200, ratio=0.2, rng=seed % 2**31)
    else:
        found = slic(picture, n_segments=segments, compactness=10, start_label=0, channel_axis=-1)
    return torch.as_tensor(np.unique(found, return_inverse=True)[1].reshape(found.shape))

"""LIME: a linear model of the score over which segments of the input are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import SampledExplainer, register_explainer, require_one_of, require_positive
from heatproof.lazy import np, torch
from heatproof.seeds import CaseRandom, derive_seed

Segmenter = Literal["auto", "quickshift", "slic", "blocks"]


@register_explainer("lime")
@dataclass(frozen=True, kw_only=True)
class Lime(SampledExplainer):
    """LIME: weighted ridge regression of the score of inputs with random segments hidden; a segment's coefficient.

    Sample 0 shows everything, in the others each segment is shown with probability one half. A sample weighs
    exp(-(d / width)^2 / 2), d its cosine distance from showing everything, as in the authors' package.

    segmenter  quickshift (colour pictures), slic (pictures), blocks (equal parts of anything), auto: the first to fit
    segments   how many, for slic and blocks (per dimension: its root)
    hide       what stands in hidden segments: zero, or the segment's mean
    top        keep the `top` segments with the largest positive coefficients as a map of zeros and ones
    """

    family = "perturbation"
    paper = "Ribeiro et al. 2016"
    cost = "samples"

    samples: int = 1000
    segmenter: Segmenter = "auto"
    segments: int = 40
    hide: Literal["zero", "mean"] = "zero"
    width: float = 0.25
    alpha: float = 1.0
    top: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "samples", "segments", "width", "alpha")
        require_one_of(self, "segmenter", get_args(Segmenter))
        require_one_of(self, "hide", ("zero", "mean"))

    def passes(self, channels: int) -> int:
        return self.samples

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        heatmaps = []
        for place, case in enumerate(batch.ids):  # every case has segments of its own
            one = batch[place : place + 1]
            labels = self.segment(one.inputs[0], derive_seed(rng.run_seed, "segments", case))
            shown = self.draw(int(labels.max()) + 1, rng.generator(case)).to(one.inputs)
            scores = self.scores(model, one, labels, shown)
            coefficients = ridge(shown, scores, self.weights(shown), self.alpha)
            heatmaps.append(self.selected(coefficients).to(one.inputs)[labels])
        return torch.stack(heatmaps).unsqueeze(1)

    def draw(self, segments: int, generator: torch.Generator) -> torch.Tensor:
        """Which segments each sample shows (samples, segments); the first shows all."""
        shown = (torch.rand(self.samples, segments, generator=generator) < 0.5).float()
        shown[0] = 1
        return shown

    def scores(self, model: torch.nn.Module, one: Batch, labels: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        """The model's score for each sample of a single case."""
        inputs = one.inputs[0]
        hidden = segment_means(inputs, labels) if self.hide == "mean" else torch.zeros_like(inputs)
        found = []
        for case, sample in self.blocks(one, self.samples):
            visible = shown[sample][:, labels].unsqueeze(1)
            found.append(self.score_rows(model, torch.lerp(hidden, inputs, visible), one, case))
        return torch.cat(found)

    def weights(self, shown: torch.Tensor) -> torch.Tensor:
        """exp(-(d / width)^2 / 2) with d = 1 - sqrt(share of segments shown), the cosine distance from all ones."""
        distance = 1 - shown.double().mean(1).sqrt()
        return torch.exp(-(distance / self.width).square() / 2)

    def selected(self, coefficients: torch.Tensor) -> torch.Tensor:
        if self.top is None:
            return coefficients
        best = coefficients.argsort(descending=True)[: self.top]
        chosen = torch.zeros_like(coefficients)
        chosen[best[coefficients[best] > 0]] = 1
        return chosen

    def segment(self, inputs: torch.Tensor, seed: int) -> torch.Tensor:
        """A segment number (*space) for every position of one case (C, *space)."""
        picture, colour = inputs.ndim == 3, inputs.ndim == 3 and inputs.shape[0] == 3
        segmenter = self.segmenter
        if segmenter == "auto":
            segmenter = "quickshift" if colour else "slic" if picture else "blocks"
        if segmenter == "blocks":
            return blocks(tuple(inputs.shape[1:]), self.segments).to(inputs.device)
        if segmenter == "quickshift" and not colour:
            raise HeatproofError("lime: quickshift needs colour pictures (3, H, W); take segmenter=slic or blocks.")
        if not picture:
            raise HeatproofError("lime: slic needs pictures (C, H, W); take segmenter=blocks.")
        return superpixels(inputs, segmenter, self.segments, seed).to(inputs.device)


def ridge(x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, alpha: float) -> torch.Tensor:
    """Coefficients b of the least sum_i w_i (y_i - a - x_i b)^2 + alpha |b|^2, intercept a unpunished; in float64.

    Ours because scikit-learn would copy thousands of samples off the device for a system of some dozen unknowns.
    """
    x, y, weights = x.double(), y.double(), weights.double()
    share = weights / weights.sum()
    x, y = x - share @ x, y - share @ y
    weighted = x * weights[:, None]
    solution: torch.Tensor = torch.linalg.solve(weighted.T @ x + alpha * torch.eye(x.shape[1]).to(x), weighted.T @ y)
    return solution


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

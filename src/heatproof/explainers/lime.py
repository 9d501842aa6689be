"""LIME: a linear model of the score over which segments of the input are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heatproof.cases import Batch
from heatproof.devices import in_double
from heatproof.explainers.base import Quantity, Size, register_explainer, require_positive
from heatproof.explainers.segments import SegmentExplainer, WeightedSums
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@register_explainer("lime")
@dataclass(frozen=True, kw_only=True)
class Lime(SegmentExplainer):
    """LIME: weighted ridge regression of the score of inputs with random segments hidden; a segment's coefficient.

    Sample 0 shows everything, in the others each segment is shown with probability one half. A sample weighs
    exp(-(d / width)^2 / 2), d its cosine distance from showing everything, as in the authors' package.

    segmenter  quickshift (colour pictures), slic (pictures), blocks (equal parts of anything), auto: the first to fit
    segments   how many, for slic and blocks (per dimension: its root)
    hide       what stands in hidden segments: zero, or the segment's mean
    top        keep the `top` segments with the largest positive coefficients as a map of zeros and ones
    """

    paper = "Ribeiro et al. 2016"
    cost = "samples"

    width: float = 0.25
    alpha: float = 1.0
    top: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "width", "alpha")

    def passes(self, size: Size) -> int:
        return self.samples

    def values(
        self,
        model: torch.nn.Module,
        one: Batch,
        labels: torch.Tensor,
        rng: CaseRandom,
        quantities: Sequence[Quantity],
    ) -> torch.Tensor:
        segments = int(labels.max()) + 1
        scores = self.scorer(model, one, labels, quantities)
        sums = WeightedSums(segments, len(quantities), one.inputs)

        def draw(generator: torch.Generator, count: int) -> torch.Tensor:
            return torch.rand(count, segments, generator=generator) < 0.5

        def work(_case: torch.Tensor, sample: torch.Tensor, shown: torch.Tensor) -> None:
            shown = shown.to(one.inputs.device) | (sample == 0)[:, None]
            sums.add(shown, scores(shown), self.weights(shown))

        self.sweep(model, one, self.samples, work, rng.samples(one.ids, self.samples, segments, draw))
        return torch.stack([self.selected(coefficients) for coefficients in ridge(sums, self.alpha)])

    def weights(self, shown: torch.Tensor) -> torch.Tensor:
        """exp(-(d / width)^2 / 2) with d = 1 - sqrt(share of segments shown), the cosine distance from all ones."""
        distance = 1 - in_double(shown).mean(1).sqrt()
        return torch.exp(-(distance / self.width).square() / 2)

    def selected(self, coefficients: torch.Tensor) -> torch.Tensor:
        if self.top is None:
            return coefficients
        best = coefficients.argsort(descending=True)[: self.top]
        chosen = torch.zeros_like(coefficients)
        chosen[best[coefficients[best] > 0]] = 1
        return chosen


def ridge(sums: WeightedSums, alpha: float) -> torch.Tensor:
    """Coefficients b of the least sum_i w_i (y_i - a - x_i b)^2 + alpha |b|^2, intercept a unpunished, for each y.

    Ours because scikit-learn needs all samples at once, on the CPU, for a system of some dozen unknowns.
    """
    mean = sums.x / sums.weight
    xx = sums.xx - torch.outer(mean, sums.x) + alpha * torch.eye(len(mean)).to(sums.xx)
    return torch.stack([torch.linalg.solve(xx, xy - mean * y) for xy, y in zip(sums.xy, sums.y, strict=True)])

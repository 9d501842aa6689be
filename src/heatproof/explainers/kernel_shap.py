"""Kernel SHAP: Shapley values of segments by a weighted regression over coalitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from heatproof.cases import Batch
from heatproof.devices import in_double
from heatproof.explainers.base import Quantity, Size, register_explainer
from heatproof.explainers.segments import SegmentExplainer, WeightedSums
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@register_explainer("kernel_shap")
@dataclass(frozen=True, kw_only=True)
class KernelShap(SegmentExplainer):
    """Kernel SHAP: values phi of segments with sum_i phi_i = S(x) - S(all hidden), nearest to S over coalitions z.

    A coalition of k of M segments weighs (M - 1) / (C(M, k) k (M - k)). If all 2^M - 2 of them are no more than
    `samples`, each is asked once and phi are the exact Shapley values; else coalitions are drawn by that weight.

    segmenter  quickshift (colour pictures), slic (pictures), blocks (equal parts of anything), auto: the first to fit
    segments   how many, for slic and blocks (per dimension: its root)
    hide       what stands in hidden segments: zero, or the segment's mean
    """

    paper = "Lundberg and Lee 2017"
    cost = "samples + 2"

    def passes(self, size: Size) -> int:
        return self.samples + 2

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
        ends = scores(torch.tensor([[False] * segments, [True] * segments]).to(one.inputs.device))
        nothing, gain = ends[:, :1], in_double(ends[:, 1]) - in_double(ends[:, 0])
        if segments == 1:
            return gain[:, None]

        def work(_case: torch.Tensor, sample: torch.Tensor, drawn: torch.Tensor | None = None) -> None:
            shown = members(sample + 1, segments) if drawn is None else drawn.to(one.inputs.device)
            weights = kernel(shown) if drawn is None else torch.ones(len(shown))
            sums.add(shown, scores(shown) - nothing, weights)

        coalitions = 2**segments - 2
        if coalitions <= self.samples:
            self.sweep(model, one, coalitions, work)
        else:
            draws = rng.samples(one.ids, self.samples, segments, lambda *args: draw_coalitions(segments, *args))
            self.sweep(model, one, self.samples, work, draws)
        return constrained(sums, gain)


def members(number: torch.Tensor, segments: int) -> torch.Tensor:
    """The coalitions with these numbers (rows,): segment i is in where bit i is one."""
    return (number[:, None] >> torch.arange(segments, device=number.device)) % 2 == 1


def size_weights(segments: int) -> torch.Tensor:
    """(M - 1) / (k (M - k)) for k = 1 ... M - 1: the weight of all coalitions of k segments together."""
    k = torch.arange(1, segments, dtype=torch.float64)
    return (segments - 1) / (k * (segments - k))


def kernel(shown: torch.Tensor) -> torch.Tensor:
    """The weight of each coalition (rows, M), neither empty nor full."""
    segments, k = shown.shape[1], shown.sum(1).cpu()
    combinations = torch.tensor([comb(segments, size) for size in range(1, segments)], dtype=torch.float64)
    return (size_weights(segments) / combinations)[k - 1]


def draw_coalitions(segments: int, generator: torch.Generator, count: int) -> torch.Tensor:
    """Coalitions (count, M): the size by its weight, then as many segments as that, each set alike."""
    numbers = torch.rand(count, 1 + segments, generator=generator)
    shares = size_weights(segments).cumsum(0)
    k = 1 + torch.searchsorted(shares / shares[-1], numbers[:, 0].double())
    ranks = numbers[:, 1:].argsort(1).argsort(1)
    return ranks < k.clamp(max=segments - 1)[:, None]


def constrained(sums: WeightedSums, totals: torch.Tensor) -> torch.Tensor:
    """phi of the least sum_z w_z (y_z - z phi)^2 among those that add up to its total, for each y.

    By Lagrange's multiplier: phi = A^-1 (b - c), c the same for all. The pseudo-inverse, because few samples may leave
    segments apart that were always together.
    """
    inverse: torch.Tensor = torch.linalg.pinv(sums.xx, hermitian=True)
    ones = inverse.sum(1)
    free = [inverse @ xy for xy in sums.xy]
    return torch.stack([one + ones * (total - one.sum()) / ones.sum() for one, total in zip(free, totals, strict=True)])

"""Methods that change the input and watch the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import ceil, prod
from typing import Literal

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import (
    Quantity,
    Size,
    register_explainer,
    require_one_of,
    require_positive,
)
from heatproof.explainers.baseline_inputs import baseline_of, require_baseline
from heatproof.explainers.cam import Stage, layers_read, masks_of, min_max, per_map, ratio, stages
from heatproof.explainers.sharing import SharingExplainer
from heatproof.lazy import np, torch
from heatproof.progress import part_by_part
from heatproof.seeds import CaseRandom


@register_explainer("rise")
@dataclass(frozen=True, kw_only=True)
class Rise(SharingExplainer):
    """RISE: sum_i S(x m_i) m_i / (masks * p) over random smooth masks m_i.

    A mask is a grid of `cells` per dimension, each kept with probability `p`, up-sampled linearly to cells + 1 cell
    lengths and cropped at a random offset of up to one cell. Ours for any number of space dimensions.
    """

    family = "perturbation"
    looks_at = "values"
    paper = "Petsiuk et al. 2018"
    cost = "masks"

    masks: int = 600
    cells: int = 7
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "masks", "cells")
        if not 0 < self.p < 1:
            raise HeatproofError(f"{self.name}: p must lie between 0 and 1, got {self.p}.")

    def passes(self, size: Size) -> int:
        return self.masks

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        dimensions = len(batch.space)
        make_masks = MaskMaker(batch.space, self.cells, self.p, batch.inputs)
        total = zeros(batch, quantities)

        def work(case: torch.Tensor, _sample: torch.Tensor, drawn: torch.Tensor) -> None:
            mask = make_masks(drawn.to(batch.inputs))
            scores = self.scores(model, batch.inputs[case] * mask, batch, case, quantities)
            total.index_add_(0, case, per_map(scores.T, mask) * mask)

        numbers = self.cells**dimensions + dimensions
        draws = rng.samples(batch.ids, self.masks, numbers, lambda *args: draw_numbers(numbers, *args))
        self.sweep(model, batch, self.masks, work, draws)
        return apart(total / (self.masks * self.p))


def zeros(batch: Batch, quantities: Sequence[Quantity]) -> torch.Tensor:
    """Sums (B, quantities, *space) to begin with."""
    return batch.inputs.new_zeros(len(batch), len(quantities), *batch.space)


def apart(total: torch.Tensor) -> list[torch.Tensor]:
    """The maps (B, 1, *space) of each quantity from those of all (B, quantities, *space)."""
    return [one.contiguous() for one in total.split(1, 1)]


def draw_numbers(numbers: int, generator: torch.Generator, count: int) -> torch.Tensor:
    """Uniform numbers of `count` masks: a row is the cells of the grid, then an offset per dimension."""
    return torch.rand(count, numbers, generator=generator)


class MaskMaker:
    """Turns rows of uniform numbers into RISE masks (rows, 1, *space)."""

    def __init__(self, space: tuple[int, ...], cells: int, p: float, like: torch.Tensor) -> None:
        self.space, self.cells, self.p = space, cells, p
        self.lengths = [ceil(extent / cells) for extent in space]
        # Linear up-sampling is one small matrix per dimension, cheaper than interpolate() on many tiny grids.
        identity = torch.eye(cells).to(like).unsqueeze(0)
        self.stretches = [
            torch.nn.functional.interpolate(identity, size=(cells + 1) * length, mode="linear")[0]
            for length in self.lengths
        ]

    def __call__(self, drawn: torch.Tensor) -> torch.Tensor:
        dimensions = len(self.space)
        mask = (drawn[:, :-dimensions] < self.p).to(drawn).view(-1, *[self.cells] * dimensions)
        for axis, (extent, length, stretch) in enumerate(zip(self.space, self.lengths, self.stretches, strict=True), 1):
            mask = torch.tensordot(mask, stretch, dims=([1], [0]))  # axes rotate: the stretched one goes last
            offset = (drawn[:, axis - 1 - dimensions] * length).long()
            index = offset[:, None] + torch.arange(extent, device=drawn.device)
            mask = mask.gather(-1, index.view(len(mask), *[1] * (mask.ndim - 2), extent).expand(*mask.shape[:-1], -1))
        return mask.unsqueeze(1)


@register_explainer("sise")
@dataclass(frozen=True, kw_only=True)
class Sise(SharingExplainer):
    """SISE: sum_k S(x m_k) m_k / |m_k| over the maps of a layer whose mean gradient is above mu times the largest.

    m_k is the k-th feature map, up-sampled and scaled to [0, 1]; |m_k| is its sum over space. With several layers, E_l
    being that sum for the l-th scaled to [0, 1], fine to coarse: F_1 = E_1, F_l = (F_(l-1) + E_l) * soft_otsu(E_l).

    layers  all: the last layer of every extent, fused; last: that one alone; auto: all for pictures
    layer   the name of the only layer to take
    """

    family = "perturbation"
    looks_at = "values"
    dimensions = "1, 2, 3"
    paper = "Sattarzadeh et al. 2021, SISE"
    cost = "2 + channels at most"

    layers: Literal["auto", "all", "last"] = "auto"
    layer: str | None = None
    mu: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "layers", ("auto", "all", "last"))
        if not 0 <= self.mu < 1:
            raise HeatproofError(f"{self.name}: mu must be at least 0 and below 1, got {self.mu}.")

    def fuses(self, dimensions: int) -> bool:
        return self.layer is None and (self.layers == "all" or (self.layers == "auto" and dimensions == 2))

    def passes(self, size: Size) -> int:
        return 2 + (sum(size.channels) if self.fuses(len(size.space)) else size.channels[-1])

    def layer_read(self, model: torch.nn.Module, batch: Batch) -> str:
        return layers_read(model, batch, self.layer, every=self.fuses(len(batch.space)))

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        found = stages(model, batch, self.layer, quantities, every=self.fuses(len(batch.space)))
        layers = part_by_part(found, lambda stage: self.of_layer(model, batch, stage, quantities))
        return [fused(explanations) for explanations in zip(*layers, strict=True)]

    def of_layer(
        self, model: torch.nn.Module, batch: Batch, stage: Stage, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        """The explanations (B, 1, *space) by one layer's maps: each takes its own, which may differ."""
        chosen = torch.stack([self.chosen(gradient) for gradient in stage.gradients])
        cases, channels = chosen.any(0).nonzero(as_tuple=True)
        total = zeros(batch, quantities)

        def work(case: torch.Tensor, channel: torch.Tensor) -> None:
            mask = masks_of(stage.maps[case, channel].unsqueeze(1), batch.space)
            scores = self.scores(model, batch.inputs[case] * mask, batch, case, quantities)
            weights = ratio(scores, mask.flatten(1).sum(1)).where(chosen[:, case, channel], 0)
            total.index_add_(0, case, per_map(weights.T, mask) * mask)

        self.sweep_rows(model, batch, len(cases), lambda a, b: (cases[a:b], channels[a:b]), work)
        return apart(total)

    def chosen(self, gradient: torch.Tensor) -> torch.Tensor:
        """Which maps (B, C) count, by the gradient at them."""
        slope = gradient.flatten(2).mean(2)
        return ~(slope <= self.mu * slope.amax(1, keepdim=True).clamp(min=0))  # what is no number is not left out


def fused(explanations: Sequence[torch.Tensor]) -> torch.Tensor:
    """One explanation of those by several layers, fine to coarse; a single one stays as it is."""
    first, *coarser = explanations
    if not coarser:
        return first
    total = min_max(first)
    for explanation in map(min_max, coarser):
        total = (total + explanation) * soft_otsu(explanation)
    return total


def soft_otsu(maps: torch.Tensor) -> torch.Tensor:
    """sigmoid(100 (e - t)) of each map (B, 1, *space), t its Otsu threshold, half as high again for rare peaks.

    Rare: fewer than a tenth of the positions lie above t.
    """
    from skimage.filters import threshold_otsu

    thresholds = []
    for values in maps.flatten(1).cpu().double().numpy():
        threshold = threshold_otsu(values, nbins=256) if np.isfinite(values).all() else np.nan
        thresholds.append(threshold * (1.5 if (values > threshold).mean() < 0.1 else 1.0))
    column = torch.tensor(thresholds).to(maps).view(-1, *[1] * (maps.ndim - 1))
    return torch.sigmoid(100 * (maps - column))


@register_explainer("occlusion")
@dataclass(frozen=True, kw_only=True)
class Occlusion(SharingExplainer):
    """Occlusion: S(x) - S(x without a window), averaged over the windows that cover a position.

    window    its length along every dimension; by default a seventh of the extent
    stride    from one window to the next; by default half a window; the last ones may reach over the edge
    baseline  what stands in the window: see integrated_gradients
    """

    family = "perturbation"
    looks_at = "values"
    paper = "Zeiler and Fergus 2014"
    cost = "1 + windows"

    window: int | None = None
    stride: int | None = None
    baseline: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, *[name for name in ("window", "stride") if getattr(self, name) is not None])
        require_baseline(self, self.baseline)

    def passes(self, size: Size) -> int:
        return 1 + prod(len(starts) for starts, _ in self.places(size.space))

    def places(self, space: tuple[int, ...]) -> Places:
        found = []
        for extent in space:
            length = min(self.window or max(1, round(extent / 7)), extent)
            stride = self.stride or max(1, length // 2)
            found.append((range(0, extent - length + stride, stride), length))
        return tuple(found)

    def explain_each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        places = self.places(batch.space)
        windows = prod(len(starts) for starts, _ in places)
        baseline = baseline_of(self, self.baseline, batch)
        whole = batch.inputs.new_empty(len(quantities), len(batch))
        total = zeros(batch, quantities)

        def work(case: torch.Tensor, number: torch.Tensor) -> None:
            plain = number == 0  # the input itself comes first, then all windows
            window = windows_of(number - 1, places, batch.space) & ~per_map(plain.unsqueeze(1), batch.inputs)
            inputs = torch.where(window, baseline[case], batch.inputs[case])
            scores = self.scores(model, inputs, batch, case, quantities)
            whole[:, case[plain]] = scores[:, plain]
            share = window.to(total)
            total.index_add_(0, case, per_map((whole[:, case] - scores).T, share) * share)

        self.sweep(model, batch, 1 + windows, work)
        return apart(ratio(total, covering(places, batch.space).to(total)))


Places = tuple[tuple[range, int], ...]
"""Where windows start along each dimension, and how long they are."""


def windows_of(number: torch.Tensor, places: Places, space: tuple[int, ...]) -> torch.Tensor:
    """The windows with these numbers (rows,) as masks (rows, 1, *space); the last dimension counts fastest."""
    axes = []
    for axis, (starts, length) in reversed(list(enumerate(places))):
        number, place = (number // len(starts), number % len(starts)) if axis else (number, number)
        axes.append(along(axis, inside(place, starts, length, space[axis]), space))
    return reduce(torch.logical_and, axes)


@lru_cache(maxsize=8)
def covering(places: Places, space: tuple[int, ...]) -> torch.Tensor:
    """How many windows cover each position (1, 1, *space); strides longer than the window leave some out."""
    axes = []
    for axis, (starts, length) in enumerate(places):
        windows = inside(torch.arange(len(starts)), starts, length, space[axis])
        axes.append(along(axis, windows.sum(0), space))
    return reduce(torch.mul, axes)


def inside(place: torch.Tensor, starts: range, length: int, extent: int) -> torch.Tensor:
    """Which positions (rows, extent) of a dimension lie in the windows that have these places in it."""
    after = torch.arange(extent, device=place.device) - (place * starts.step).unsqueeze(1)
    return (after >= 0) & (after < length)


def along(axis: int, values: torch.Tensor, space: tuple[int, ...]) -> torch.Tensor:
    """Values along a dimension (rows, extent) as maps (rows, 1, *space) of length one along all others."""
    return values.view(-1, 1, *[extent if other == axis else 1 for other, extent in enumerate(space)])

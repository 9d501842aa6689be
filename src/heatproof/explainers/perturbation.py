"""Methods that change the input and watch the score."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import SampledExplainer, register_explainer, require_positive
from heatproof.explainers.cam import maps_and_gradient, masked_scores, min_max, per_map, ratio, resize
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@register_explainer("rise")
@dataclass(frozen=True, kw_only=True)
class Rise(SampledExplainer):
    """RISE: sum_i S(x m_i) m_i / (masks * p) over random smooth masks m_i.

    A mask is a grid of `cells` per dimension, each kept with probability `p`, up-sampled linearly to cells + 1 cell
    lengths and cropped at a random offset of up to one cell. Ours for any number of space dimensions.
    """

    family = "perturbation"
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

    def passes(self, channels: int) -> int:
        return self.masks

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        drawn = rng.draw(batch.ids, lambda generator: self.draw(len(batch.space), generator)).to(batch.inputs)
        masks = MaskMaker(batch.space, self.cells, self.p, batch.inputs)
        total = torch.zeros_like(batch.inputs[:, :1])
        for case, sample in self.blocks(batch, self.masks):
            mask = masks(drawn[case, sample])
            score = self.score_rows(model, batch.inputs[case] * mask, batch, case)
            total.index_add_(0, case, score.view(-1, *[1] * (mask.ndim - 1)) * mask)
        return total / (self.masks * self.p)

    def draw(self, dimensions: int, generator: torch.Generator) -> torch.Tensor:
        """The uniform numbers of one case's masks: a row is the cells of the grid, then an offset per dimension."""
        return torch.rand(self.masks, self.cells**dimensions + dimensions, generator=generator)


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
class Sise(SampledExplainer):
    """SISE on one layer: sum_k S(x m_k) m_k / |m_k| over the maps whose mean gradient is positive.

    m_k is the k-th feature map, up-sampled and scaled to [0, 1]; |m_k| is its sum over space.
    """

    family = "perturbation"
    paper = "Sattarzadeh et al. 2021"
    cost = "2 + channels at most"

    layer: str | None = None

    def passes(self, channels: int) -> int:
        return 2 + channels

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        maps, gradient = maps_and_gradient(model, batch, self.layer, self.quantity)
        masks = min_max(resize(maps, batch.space))
        mass = masks.flatten(2).sum(2)
        wanted = (gradient.flatten(2).mean(2) > 0) & (mass > 0)
        scores = masked_scores(self, model, batch, masks, wanted)
        return (per_map(ratio(scores, mass), masks) * masks).sum(1, keepdim=True)

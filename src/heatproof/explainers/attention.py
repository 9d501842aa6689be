"""What a transformer looked at, by its attention: alone, or weighed by what the score gains by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import (
    Explainer,
    ScoreExplainer,
    Size,
    quantity_of,
    register_explainer,
    require_one_of,
)
from heatproof.explainers.cam import resize
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom

if TYPE_CHECKING:
    from heatproof.explainers.attention_maps import AttentionMaps

HEADS = ("mean", "min", "max")


@dataclass(frozen=True, eq=False)
class Seen:
    """A pass of a transformer: its outputs, and its attention (B, heads, T, T) block by block, with their graph."""

    outputs: torch.Tensor
    blocks: list[torch.Tensor]
    extent: torch.Size
    """Of the grid of patches."""
    before: int
    """Tokens before those of the patches."""
    maps: AttentionMaps
    alone: int | None
    """The token that answers, where the patches do not."""

    @property
    def tokens(self) -> int:
        return self.blocks[-1].shape[-1]

    def heatmap(self, looks: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What each token looks at (B, T, T) as a map: the class token's row, or the mean row where patches answer."""
        return self.on_grid(looks[:, self.patches].mean(1) if self.alone is None else looks[:, self.alone], batch)

    @property
    def patches(self) -> slice:
        """Where the patches stand among the tokens."""
        return slice(self.before, self.before + self.extent.numel())

    def on_grid(self, row: torch.Tensor, batch: Batch) -> torch.Tensor:
        """A value of each token (B, T), up-sampled to the inputs; further tokens are left out."""
        patches = row.detach()[:, self.patches].reshape(len(batch), 1, *self.extent)
        return resize(patches, batch.space)


def look(name: str, model: torch.nn.Module, batch: Batch, grid: str = "") -> Seen:
    """Run a transformer, and see its attention; `grid` is the extent of its patches, where it is not to be found."""
    from heatproof.explainers.attention_maps import AttentionMaps, given_grid, grid_of, require_one_grid

    # With gradients, because without torch's own blocks take a short cut that hides their attention.
    with torch.enable_grad(), AttentionMaps(model) as attention:
        outputs = model(batch.inputs.detach().requires_grad_(), *batch.context)
    if not attention.maps:
        raise HeatproofError(
            f"{name} needs a transformer, and no attention was seen in this model. If it has some, it is computed in"
            " one kernel and never written down (flash attention): make the network with attention written out or by"
            " torch's scaled_dot_product_attention (transformers: attn_implementation='eager'). If it has none, take a"
            " class activation map or a gradient method (heatproof list explainers)."
        )
    require_one_grid(attention, len(batch), name)
    tokens = attention.maps[-1].shape[-1]
    blocks = [by_heads(found, len(batch)) for found in attention.maps]
    if grid:
        extent = given_grid(grid, tokens, len(batch.space), name)
    else:
        extent = grid_of(attention.grids[-1], tokens, name)
    before = attention.before(extent.numel())
    seen = Seen(outputs, blocks, extent, before, attention, None)
    if tokens == extent.numel() or patches_answer(seen):
        return seen
    return replace(seen, alone=0 if before else extent.numel())


def patches_answer(seen: Seen) -> bool:
    """Whether they do, and not a class token alone: further tokens may be registers, which none reads.

    Behind the last attention only what a token that answers has looked at leads to the outputs.
    """
    outputs, last = seen.outputs, seen.maps.maps[-1]
    if not (outputs.requires_grad and last.requires_grad):
        return False
    (gradient,) = torch.autograd.grad(outputs[:, 0].sum(), last, retain_graph=True, allow_unused=True)
    return gradient is not None and bool(gradient[..., seen.patches, :].any())


def by_heads(attention: torch.Tensor, cases: int) -> torch.Tensor:
    """Attention as (B, heads, T, T), whatever its own axes before the last two."""
    return attention.reshape(cases, -1, *attention.shape[-2:])


def over_heads(attention: torch.Tensor, how: str) -> torch.Tensor:
    """(B, T, T): the mean, least or greatest of the heads."""
    if how == "mean":
        return attention.mean(1)
    return attention.amin(1) if how == "min" else attention.amax(1)


@register_explainer("raw_attention")
@dataclass(frozen=True, kw_only=True)
class RawAttention(Explainer):
    """The attention of one block, the last by default: what its class token looks at, or the mean token.

    block  counted from zero; -1 is the last
    heads  mean, min or max over the heads
    grid   rows and columns of the patches, such as 14x14; by default those of the last convolution
    """

    family = "attention"
    paper = "Vaswani et al. 2017"
    cost = "1"

    block: int = -1
    heads: str = "mean"
    grid: str = ""

    def __post_init__(self) -> None:
        require_one_of(self, "heads", HEADS)

    def passes(self, size: Size) -> int:
        return 1

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        seen = look(self.name, model, batch, self.grid)
        if not -len(seen.blocks) <= self.block < len(seen.blocks):
            raise HeatproofError(f"{self.name}: block is {self.block}, and this model has {len(seen.blocks)} blocks.")
        return seen.heatmap(over_heads(seen.blocks[self.block], self.heads), batch)


@register_explainer("attention_rollout")
@dataclass(frozen=True, kw_only=True)
class AttentionRollout(Explainer):
    """Attention rollout: the product over blocks of (A + I) / 2, A the attention averaged over heads.

    The heatmap is the class token's row of it over the grid of patches, or the mean row where there is no class token.
    It does not depend on the class that is explained.

    heads    mean, min or max over the heads
    discard  share of each A's entries, the smallest, that count as zero; rows then sum to one again
    grid     rows and columns of the patches, such as 14x14; by default those of the last convolution
    """

    family = "attention"
    paper = "Abnar and Zuidema 2020"
    cost = "1"

    heads: str = "mean"
    discard: float = 0.0
    grid: str = ""

    def __post_init__(self) -> None:
        require_one_of(self, "heads", HEADS)
        if not 0 <= self.discard < 1:
            raise HeatproofError(f"{self.name}: discard must be a share from 0 up to 1, got {self.discard}.")

    def passes(self, size: Size) -> int:
        return 1

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        seen = look(self.name, model, batch, self.grid)
        rolled = same = torch.eye(seen.tokens).to(seen.blocks[0].detach())
        for attention in seen.blocks:
            looks = self.kept(over_heads(attention.detach(), self.heads)) + same
            rolled = looks / looks.sum(-1, keepdim=True) @ rolled
        return seen.heatmap(rolled, batch)

    def kept(self, looks: torch.Tensor) -> torch.Tensor:
        """Attention (B, T, T) without its smallest entries; what the class token has of itself stays."""
        flat = looks.flatten(1).clone()
        smallest = flat.argsort(1)[:, : int(self.discard * flat.shape[1])]
        own = flat[:, 0].clone()
        flat.scatter_(1, smallest, 0)
        flat[:, 0] = own
        return flat.view_as(looks)


@register_explainer("chefer")
@dataclass(frozen=True, kw_only=True)
class Chefer(ScoreExplainer):
    """Rollout of what attention adds to the score: R = R + E[(dS/dA * A)+] R over the blocks, from the identity.

    E is the mean over heads. With weights=relevance, the relevance of A by LRP takes the place of A, and the product
    over blocks of I + E[(dS/dA * R_A)+] that of the sum (Chefer et al. 2021a).

    weights  attention or relevance
    grid     rows and columns of the patches, such as 14x14; by default those of the last convolution
    """

    family = "attention"
    paper = "Chefer et al. 2021"
    cost = "2"

    weights: str = "attention"
    grid: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "weights", ("attention", "relevance"))

    def passes(self, size: Size) -> int:
        return 2 if self.weights == "attention" else 4

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.compiled import require_gradients

        require_gradients(model, self.name)
        seen = look(self.name, model, batch, self.grid)
        score = quantity_of(seen.outputs, batch.target, self.quantity).sum()
        gradients = gradients_of(score, seen.maps.maps, len(batch))
        weights = [found.detach() for found in seen.blocks]
        if self.weights == "relevance":
            weights = self.relevance(model, batch)
        rolled = torch.eye(seen.tokens).to(weights[0]).expand(len(batch), -1, -1)
        for weight, gradient in zip(weights, gradients, strict=True):
            rolled = rolled + (gradient * weight).clamp(min=0).mean(1) @ rolled
        return seen.heatmap(rolled, batch)

    def relevance(self, model: torch.nn.Module, batch: Batch) -> list[torch.Tensor]:
        """The relevance of every attention (B, heads, T, T)."""
        from heatproof.explainers.propagation import Lrp, follow

        followed = follow(self.name, model, batch, Lrp(composite="attn_lrp").made_composite())
        begun = quantity_of(followed.outputs.detach(), batch.target, self.quantity)
        return gradients_of(followed.logit, followed.graph.weights, len(batch), begun)


def gradients_of(
    score: torch.Tensor, maps: Sequence[torch.Tensor], cases: int, start: torch.Tensor | None = None
) -> list[torch.Tensor]:
    """What arrives at each attention, as (B, heads, T, T); zero where it does not lead to the score."""
    found = torch.autograd.grad(score, list(maps), start, allow_unused=True)
    return [
        by_heads(torch.zeros_like(attention) if given is None else given, cases)
        for attention, given in zip(maps, found, strict=True)
    ]


@register_explainer("le_grad")
@dataclass(frozen=True, kw_only=True)
class LeGrad(ScoreExplainer):
    """LeGrad: the mean over blocks l, heads and looking tokens of (dS_l/dA_l)+.

    S_l is the score that the network's last layers make of the tokens that block l gives.

    grid  rows and columns of the patches, such as 14x14; by default those of the last convolution
    """

    family = "attention"
    paper = "Bousselham et al. 2024"
    cost = "2 a block"

    grid: str = ""

    def passes(self, size: Size) -> int:
        return 2

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.attention_blocks import read_early
        from heatproof.explainers.compiled import require_gradients

        require_gradients(model, self.name)
        with torch.enable_grad():
            early = read_early(self.name, model, batch, lambda: look(self.name, model, batch, self.grid))
        total = torch.zeros(len(batch), early.seen.tokens).to(early.seen.blocks[0].detach())
        for attention, outputs in zip(early.seen.maps.maps, early.outputs, strict=True):
            score = quantity_of(outputs, batch.target, self.quantity).sum()
            (gradient,) = gradients_of(score, [attention], len(batch))
            total += gradient.clamp(min=0).mean((1, 2)) / len(early.outputs)
        return early.seen.on_grid(total, batch)

"""What a transformer looked at, by its attention alone."""

from __future__ import annotations

from dataclasses import dataclass

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer, Size, register_explainer
from heatproof.explainers.cam import resize
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@register_explainer("attention_rollout")
@dataclass(frozen=True, kw_only=True)
class AttentionRollout(Explainer):
    """Attention rollout: the product over blocks of (A + I) / 2, A the attention averaged over heads.

    The heatmap is the class token's row of it over the grid of patches, or the mean row where there is no class token.
    It does not depend on the class that is explained.
    """

    family = "attention"
    paper = "Abnar and Zuidema 2020"
    cost = "1"
    dimensions = "1, 2, 3"

    def passes(self, size: Size) -> int:
        return 1

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        from heatproof.explainers.attention_maps import AttentionMaps, grid_of, require_one_grid

        # With gradients, because without torch's own blocks take a short cut that hides their attention.
        with torch.enable_grad(), AttentionMaps() as attention:
            model(batch.inputs.detach().requires_grad_(), *batch.context)
        if not attention.maps:
            raise HeatproofError(
                f"{self.name} needs a transformer, and no attention was seen in this model;"
                " take a class activation map or a gradient method (heatproof list explainers)."
            )
        require_one_grid(attention.maps)
        tokens = attention.maps[-1].shape[-1]
        extent = grid_of(attention.patches, tokens)
        maps = [map_.reshape(len(batch), -1, tokens, tokens).mean(1) for map_ in attention.maps]
        rolled = torch.eye(tokens).to(maps[0])
        for map_ in maps:
            rolled = (map_ + torch.eye(tokens).to(map_)) / 2 @ rolled
        further = tokens - extent.numel()
        row = rolled[:, 0] if further else rolled.mean(1)
        return resize(row[:, further:].reshape(len(batch), 1, *extent), batch.space)

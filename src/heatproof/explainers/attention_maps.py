"""The attention of a transformer, read while it runs.

Functions are watched and not modules, so it does not matter whose blocks they are: torch's MultiheadAttention,
`scaled_dot_product_attention` (timm, torchvision, Hugging Face), or a softmax written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from heatproof.errors import HeatproofError

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}


class AttentionMaps(TorchFunctionMode):
    """Collects the attention (B, ..., T, T) of every block, and the extent of the last convolution's maps."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: list[Tensor] = []
        self.patches: torch.Size | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "multi_head_attention_forward":
            wanted = kwargs.get("need_weights", True)
            output, attention = func(*args, **(kwargs | {"need_weights": True, "average_attn_weights": False}))
            self.note(attention)
            mean = attention.mean(1) if kwargs.get("average_attn_weights", True) else attention
            return output, mean if wanted else None
        if name == "scaled_dot_product_attention":
            given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False))
            self.note(attention_of(**{n: v for n, v in (given | kwargs).items() if n not in ("value", "dropout_p")}))
        result = func(*args, **kwargs)
        if name == "softmax" and over_the_last_axis(result, *args[1:2], **kwargs):
            self.note(result)
        elif name in CONVOLUTIONS and max(result.shape[2:]) > 1:
            self.patches = result.shape[2:]
        return result

    def note(self, attention: Tensor) -> None:
        if attention.ndim >= 3 and attention.shape[-1] > 1:
            self.maps.append(attention.detach())


def over_the_last_axis(result: Tensor, dim: Any = None, **_: Any) -> bool:
    return dim in (-1, result.ndim - 1)


def require_one_grid(maps: Sequence[Tensor]) -> None:
    """An error where tokens are merged on the way, or fewer are looked at than look."""
    sizes = list({(map_.shape[-2], map_.shape[-1]): None for map_ in maps})
    if len(sizes) > 1 or sizes[0][0] != sizes[0][1]:
        seen = ", then ".join(f"from {queries} to {keys}" for queries, keys in sizes[:3])
        raise HeatproofError(
            f"attention_rollout multiplies the attention of all blocks, and in this model that goes {seen} tokens."
            " It needs one token for each patch in every block, without windows, merging or pooling by attention; take"
            " a class activation map or a gradient method (heatproof list explainers)."
        )


def attention_of(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T scale + mask): what `scaled_dot_product_attention`, whose arguments these are, keeps to itself."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    logits = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
    if attn_mask is not None:
        hidden = attn_mask.logical_not() if attn_mask.dtype == torch.bool else None
        logits = logits + attn_mask if hidden is None else logits.masked_fill(hidden, -torch.inf)
    return logits.softmax(-1)


def grid_of(patches: torch.Size | None, tokens: int) -> torch.Size:
    """The grid that the tokens cover, behind the class token and perhaps a few more."""
    from heatproof.explainers.places import FURTHER_TOKENS

    if patches is None or not 0 <= tokens - prod(patches) <= FURTHER_TOKENS:
        found = "no convolution" if patches is None else "a grid of " + " x ".join(map(str, patches))
        raise HeatproofError(
            f"attention_rollout cannot lay out {tokens} tokens: the patch embedding made {found}."
            " It needs one token for each patch of a convolution, without windows or merging."
        )
    return patches

"""The attention of a transformer, read while it runs.

Functions are watched and not modules, so it does not matter whose blocks they are: torch's MultiheadAttention,
`scaled_dot_product_attention` (timm, torchvision, Hugging Face), or a softmax written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from heatproof.errors import HeatproofError
from heatproof.explainers.autograd_graph import behind
from heatproof.explainers.watching import opened, running_layers

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
JOINS = {"cat", "concat", "concatenate"}


class AttentionMaps(TorchFunctionMode):
    """Collects the attention (B, ..., T, T) of every block, with its graph, and the extent of the last convolution.

    What weighs places alone, the same for all inputs, is none.

    What computes attention in one piece is taken apart, so that it is used where it is seen. `inside` has the layers
    whose `forward` ran when each was made, the outermost first; `grids` the extent of the last convolution before it;
    `joins` how many tokens each part had, wherever tokens were put together.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.layers = {id(module) for module in model.modules()}
        self.maps: list[Tensor] = []
        self.inside: list[list[nn.Module]] = []
        self.patches: torch.Size | None = None
        self.grids: list[torch.Size | None] = []
        self.joins: list[tuple[int, ...]] = []
        self.joined = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        steps = attended if name == "scaled_dot_product_attention" else None
        if name == "multi_head_attention_forward":
            steps = opened(func)
        if steps is not None:
            with self:
                return steps(*args, **kwargs)
        result = func(*args, **kwargs)
        if name == "softmax" and result.requires_grad and are_looks(result, *args[1:2], **kwargs):
            self.note(result)
        elif name in CONVOLUTIONS and max(result.shape[2:]) > 1:
            self.patches = result.shape[2:]
        elif name in JOINS and result.ndim > 2:
            self.joins.append(lengths_of(*args, **kwargs))
        return result

    def note(self, attention: Tensor) -> None:
        self.maps.append(attention)
        self.inside.append(running_layers(self.layers))
        self.grids.append(self.patches)
        self.joined = len(self.joins)

    def before(self, patches: int) -> int:
        """How many tokens stand before those of the patches, as far as it was seen how they were put together."""
        before = after = 0
        tokens = self.maps[-1].shape[-1]
        for parts in self.joins[: self.joined]:
            for part in (patches, before + patches + after):
                if part in parts and part < sum(parts) <= tokens:
                    place = parts.index(part)
                    own = (0, 0) if part == patches else (before, after)
                    before, after = own[0] + sum(parts[:place]), own[1] + sum(parts[place + 1 :])
                    break
        return before if before + patches + after == tokens else tokens - patches


def attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T scale + mask) v, step by step."""
    if enable_gqa:
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    attention = attention_of(query, key, attn_mask, is_causal, scale, enable_gqa)
    return (functional.dropout(attention, dropout_p) if dropout_p else attention) @ value


def lengths_of(tensors: Sequence[Tensor], dim: int = 0, **_: Any) -> tuple[int, ...]:
    """How long the parts of a concatenation are."""
    return tuple(tensor.shape[dim] for tensor in tensors)


def are_looks(result: Tensor, dim: Any = None, **_: Any) -> bool:
    """Whether what a softmax gave may be what tokens look at: shares of the last axis, for each token or head."""
    return dim in (-1, result.ndim - 1) and result.ndim >= 3 and result.shape[-1] > 1


def require_one_grid(seen: AttentionMaps, cases: int, method: str) -> None:
    """An error where tokens are merged on the way, fewer are looked at than look, or windows are looked at; or where
    attention is not that of one block after the other."""
    sizes = list({(map_.shape[-2], map_.shape[-1]): None for map_ in seen.maps})
    what = ""
    if len(sizes) > 1 or sizes[0][0] != sizes[0][1]:
        what = "goes " + ", then ".join(f"from {queries} to {keys}" for queries, keys in sizes[:3]) + " tokens"
    elif len(set(seen.grids)) > 1:
        grids = dict.fromkeys(" x ".join(map(str, grid)) for grid in seen.grids if grid is not None)
        what = f"stands behind grids of {' and '.join(list(grids)[:3])} patches"
    elif any(map_.ndim == 4 and len(map_) != cases for map_ in seen.maps):
        what = "is that of parts of the input, one by one"
    elif not all(before.grad_fn in behind([after]) for before, after in pairwise(seen.maps)):
        what = "is computed in several pieces within a block (heads in layers of their own, differences of attention)"
    if what:
        raise HeatproofError(
            f"{method} multiplies the attention of all blocks, and in this model that {what}."
            " It needs one softmax in every block, of one token for each patch, without windows, merging or pooling by"
            " attention; take a class activation map or a gradient method (heatproof list explainers)."
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


def grid_of(patches: torch.Size | None, tokens: int, method: str) -> torch.Size:
    """The grid that the tokens cover, behind the class token and perhaps a few more."""
    from heatproof.explainers.places import FURTHER_TOKENS

    if patches is None or not 0 <= tokens - prod(patches) <= FURTHER_TOKENS:
        found = "no convolution" if patches is None else "a grid of " + " x ".join(map(str, patches))
        raise HeatproofError(
            f"{method} cannot lay out {tokens} tokens as a map: the patch embedding made {found}."
            " It needs one token for each patch of a convolution, without windows or merging; give the patches' rows"
            " and columns (grid=14x14), or take lrp:composite=attn_lrp or a gradient method, which need no grid."
        )
    return patches


def given_grid(grid: str, tokens: int, dimensions: int, method: str) -> torch.Size:
    """The grid that a user has given as `14x14`, if it can be that of these tokens."""
    from heatproof.explainers.places import FURTHER_TOKENS

    lengths = grid.split("x")
    if not all(length.isdecimal() and int(length) for length in lengths) or len(lengths) != dimensions:
        example = "x".join(["14"] * dimensions)
        raise HeatproofError(f"{method}: grid must be the extent of the patches, such as grid={example}, got {grid!r}.")
    extent = torch.Size(map(int, lengths))
    if not 0 <= tokens - prod(extent) <= FURTHER_TOKENS:
        raise HeatproofError(
            f"{method}: grid={grid} has {prod(extent)} places, and this model has {tokens} tokens; give the extent of"
            f" its patches, beside which there may be {FURTHER_TOKENS} tokens more."
        )
    return extent

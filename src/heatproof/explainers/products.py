"""Products of many rows by a matrix, by the quicker of the two libraries that torch brings for them.

Those of single precision torch leaves to MKL, though on AMD's processors oneDNN takes half as long.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

ROWS = 64
"""Fewer are hardly worth what oneDNN does to the matrix first."""
MULTIPLICATIONS = 2 * 10**6
"""With fewer, what a call of oneDNN takes beside them counts."""


def by_onednn(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """rows weight^T + bias of rows (..., K) and a weight (L, K); None where oneDNN cannot, or is no quicker."""
    few = rows.numel() < ROWS * weight.shape[-1] or rows.numel() * len(weight) < MULTIPLICATIONS
    given = (rows, weight) if bias is None else (rows, weight, bias)
    if few or weight.ndim != 2 or not all(map(is_plain, given)) or not is_there():
        return None
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


def rows_by(rows: Tensor, matrix: Tensor) -> Tensor:
    """rows @ matrix of rows (..., K) and a matrix (K, L)."""
    product = by_onednn(rows, matrix.t())
    return rows @ matrix if product is None else product


def is_plain(tensor: Tensor) -> bool:
    """Whether it is an ordinary tensor of single precision in main memory."""
    ordinary = type(tensor) in (Tensor, nn.Parameter) and tensor.layout is torch.strided
    return ordinary and tensor.dtype is torch.float32 and tensor.device.type == "cpu"


def is_there() -> bool:
    """Whether oneDNN is switched on, and stands beside MKL."""
    return bool(torch.backends.mkldnn.enabled) and has_both()


@cache
def has_both() -> bool:
    return torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")

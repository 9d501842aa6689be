"""The product of many rows by a matrix, by the quicker of the two libraries that torch brings for it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

ROWS = 64
"""Fewer rows hardly use what oneDNN does to the matrix first."""
MULTIPLICATIONS = 2 * 10**6
"""With fewer, what a call of oneDNN takes beside them counts."""


def rows_by(rows: Tensor, matrix: Tensor) -> Tensor:
    """rows @ matrix for rows (..., K) and a matrix (K, L), equal up to rounding.

    torch leaves such products of single precision to MKL, and only those of half precision to oneDNN, which on AMD's
    processors takes half as long for both.
    """
    if not is_quicker_by_onednn(rows, matrix):
        return rows @ matrix
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, matrix.mT, None, "none", [], "")
    return result


def is_quicker_by_onednn(rows: Tensor, matrix: Tensor) -> bool:
    """Whether oneDNN can multiply them, and there is enough to do."""
    many = rows.numel() >= ROWS * matrix.shape[0] and rows.numel() * matrix.shape[1] >= MULTIPLICATIONS
    alike = rows.dtype is matrix.dtype is torch.float32 and rows.device.type == matrix.device.type == "cpu"
    return many and alike and torch.backends.mkldnn.enabled and has_both()


@cache
def has_both() -> bool:
    """Whether torch was built with MKL and oneDNN."""
    return torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")

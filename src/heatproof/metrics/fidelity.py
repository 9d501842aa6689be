"""Does the model still decide the same from what the explanation points at?

`full` is the model's confidence in the explained class on the whole input, `kept` on the explained part alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatproof.lazy import np, torch
from heatproof.metrics.base import register_metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@register_metric(
    "drop",
    title="Drop",
    needs=("confidences",),
    paper="Chattopadhay et al. 2018",
    higher_is_better=False,
    uniform="window",
)
def drop(full: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Share of the confidence Y in the input that is lost where only the explained part is left: max(0, Y - O) / Y.

    O is the confidence in that part. NaN where Y is zero.
    """
    return of_tensors(drops, full, kept)


def drops(full: NDArray[Any], kept: NDArray[Any]) -> NDArray[np.float64]:
    """`drop` of arrays, without torch."""
    full, kept = full.astype(np.float64), kept.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(full > 0, np.clip(full - kept, 0, None) / full, np.nan)


@register_metric(
    "increase", title="Increase", needs=("confidences",), paper="Chattopadhay et al. 2018", uniform="window"
)
def increase(full: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Whether the explained part alone gives more confidence than the whole input: 1 or 0."""
    return of_tensors(increases, full, kept)


def increases(full: NDArray[Any], kept: NDArray[Any]) -> NDArray[np.float64]:
    """`increase` of arrays, without torch."""
    defined = np.isfinite(full) & np.isfinite(kept)
    return np.where(defined, (kept > full).astype(np.float64), np.nan)


def of_tensors(
    formula: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]], full: torch.Tensor, kept: torch.Tensor
) -> torch.Tensor:
    arrays = (confidence.detach().double().cpu().numpy() for confidence in (full, kept))
    return torch.as_tensor(formula(*arrays), device=full.device)

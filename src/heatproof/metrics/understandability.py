"""Regions of explanation (SVEA, Sattarzadeh et al. 2021): can a simple model decide from the explained part alone?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np, torch
from heatproof.metrics.base import register_metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

WindowRule = Literal["clipped", "literal"]


def window_starts(relevance: torch.Tensor, length: int = 12, rule: WindowRule = "clipped") -> torch.Tensor:
    """First position (B,) of the region of explanation: a window around the maximum of relevance (B, positions).

    "clipped": start = argmax - length / 2, moved into the signal; this reproduces the published scores.
    "literal": equation 1 as printed. With i = argmax counted from 1, the window is centred on i only where
    length < i < positions - length; otherwise it is the first or the last `length` points.
    """
    positions = relevance.shape[1]
    if length > positions:
        raise HeatproofError(f"a region of {length} points does not fit a signal of {positions}.")
    peak = relevance.argmax(1)
    start = (peak - length // 2).clamp(0, positions - length)
    if rule == "clipped":
        return start
    if rule != "literal":
        raise unknown_name("window rule", rule, get_args(WindowRule))
    start = torch.where(peak + 1 <= length, torch.zeros_like(start), start)
    return torch.where(peak + 1 >= positions - length, torch.full_like(start, positions - length), start)


def window_mask(starts: torch.Tensor, positions: int, length: int = 12) -> torch.Tensor:
    """Boolean mask (B, positions) of the windows that begin at `starts`."""
    offset = torch.arange(positions, device=starts.device) - starts[:, None]
    return (offset >= 0) & (offset < length)


def cut_windows(signals: NDArray[np.float64], starts: NDArray[np.int64], length: int = 12) -> NDArray[np.float64]:
    """The points (B, length) of each signal (B, positions) inside its window."""
    return np.take_along_axis(signals, starts[:, None] + np.arange(length), axis=1)


@register_metric(
    "roe_accuracy", title="ROE test", needs=("training cases",), paper="Sattarzadeh et al. 2021", uniform="window"
)
def roe_accuracy(
    train: NDArray[Any], train_labels: NDArray[Any], test: NDArray[Any], test_labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Whether a linear SVM that learnt on explained regions names the digit of each test region (1 or 0).

    One-vs-rest, squared hinge, C = 1; on whole signals it is right for 29.7 % of the test set, as in the paper.
    NaN where it cannot be trained (fewer than two classes).
    """
    from sklearn.svm import LinearSVC

    if len(np.unique(train_labels)) < 2:
        return np.full(len(test), np.nan)
    svm = LinearSVC(loss="squared_hinge", C=1.0, dual=False, max_iter=10_000)
    predicted = svm.fit(train, train_labels).predict(test)
    correct: NDArray[np.float64] = (predicted == test_labels).astype(np.float64)
    return correct

"""Regions of explanation (SVEA, Sattarzadeh et al. 2021): can a simple model decide from the explained part alone?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np, torch
from heatproof.metrics.base import register_metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

WindowRule = Literal["clipped", "literal", "after", "before"]
Svm = Literal["liblinear", "literal"]
STEPS = 10_000
"""Iterations of the SVM, as published."""


def window_starts(relevance: torch.Tensor, length: int = 12, rule: WindowRule = "clipped") -> torch.Tensor:
    """First position (B,) of the region of explanation: a window around the maximum of relevance (B, positions).

    "clipped": start = argmax - length / 2, moved into the signal; this reproduces the published scores.
    "literal": equation 1 as printed. With i = argmax counted from 1, the window is centred on i only where
    length < i < positions - length; otherwise it is the first or the last `length` points.
    "after" and "before": the window begins or ends with the maximum, moved into the signal.
    """
    starts = starts_around(relevance.argmax(1).cpu().numpy(), relevance.shape[1], length, rule)
    return torch.as_tensor(starts, device=relevance.device)


def starts_around(
    peak: NDArray[np.int64], positions: int, length: int = 12, rule: WindowRule = "clipped"
) -> NDArray[np.int64]:
    """The same from the places of the maxima (B,), without torch."""
    if length > positions:
        raise HeatproofError(f"a region of {length} points does not fit a signal of {positions}.")
    if rule not in get_args(WindowRule):
        raise unknown_name("window rule", rule, get_args(WindowRule))
    ahead = {"after": 0, "before": length - 1}.get(rule, length // 2)
    start = np.clip(peak - ahead, 0, positions - length)
    if rule != "literal":
        return start
    start = np.where(peak + 1 <= length, 0, start)
    return np.where(peak + 1 >= positions - length, positions - length, start)


def window_mask(starts: torch.Tensor, positions: int, length: int = 12) -> torch.Tensor:
    """Boolean mask (B, positions) of the windows that begin at `starts`."""
    offset = torch.arange(positions, device=starts.device) - starts[:, None]
    return (offset >= 0) & (offset < length)


def cut_windows(signals: NDArray[np.float64], starts: NDArray[np.int64], length: int = 12) -> NDArray[np.float64]:
    """The points (B, length) of each signal (B, positions) inside its window.

    Of signals with channels, (B, channels, positions), those of all channels, (B, channels * length).
    """
    places = starts[:, None] + np.arange(length)
    if signals.ndim == 3:
        return np.take_along_axis(signals, places[:, None], axis=2).reshape(len(signals), signals.shape[1] * length)
    return np.take_along_axis(signals, places, axis=1)


@register_metric(
    "roe_accuracy", title="ROE test", needs=("training cases",), paper="Sattarzadeh et al. 2021", uniform="window"
)
def roe_accuracy(
    train: NDArray[Any],
    train_labels: NDArray[Any],
    test: NDArray[Any],
    test_labels: NDArray[Any],
    svm: Svm = "liblinear",
) -> NDArray[np.float64]:
    """Whether a linear SVM that learnt on explained regions names the class of each test region (1 or 0).

    One-vs-rest, squared hinge, C = 1; on whole signals it is right for 29.7 % of the test set, as in the paper.
    NaN where it cannot be trained (fewer than two classes).
    """
    return right_readings(read_regions(train, train_labels, test, svm), test_labels)


def right_readings(read: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[np.float64]:
    """1 where the label was read and 0 where another; NaN where there was nobody to read."""
    if read is None:
        return np.full(len(labels), np.nan)
    correct: NDArray[np.float64] = (read == labels).astype(np.float64)
    return correct


def read_regions(
    train: NDArray[Any], train_labels: NDArray[Any], test: NDArray[Any], svm: Svm = "liblinear"
) -> NDArray[Any] | None:
    """The label that the SVM reads in each test region; None where it cannot be trained.

    "liblinear" finds the minimum with a trust-region Newton method, "literal" goes towards it by the paper's 10,000
    gradient steps. There is only one minimum: the squared hinge with its penalty is strictly convex.
    """
    if svm not in get_args(Svm):
        raise unknown_name("SVM", svm, get_args(Svm))
    labels = np.unique(train_labels)
    if len(labels) < 2:
        return None
    if svm == "literal":
        weights = descend(with_ones(train), np.where(train_labels[:, None] == labels, 1.0, -1.0))
        return np.asarray(labels[(with_ones(test) @ weights).argmax(1)])
    from sklearn.svm import LinearSVC

    solver = LinearSVC(loss="squared_hinge", C=1.0, dual=False, max_iter=STEPS)
    return np.asarray(solver.fit(train, train_labels).predict(test))


def svm_weights(
    train: NDArray[Any], train_labels: NDArray[Any], svm: Svm = "liblinear"
) -> tuple[NDArray[Any], NDArray[np.float64]] | None:
    """The labels, and the weights (labels, points) of the SVM that `read_regions` reads with; None where there is none.

    Of two labels, the weights of the first are those of the second with the other sign.
    """
    labels = np.unique(train_labels)
    if len(labels) < 2:
        return None
    if svm == "literal":
        weights = descend(with_ones(train), np.where(train_labels[:, None] == labels, 1.0, -1.0))
        return labels, weights[:-1].T
    from sklearn.svm import LinearSVC

    found = LinearSVC(loss="squared_hinge", C=1.0, dual=False, max_iter=STEPS).fit(train, train_labels).coef_
    return labels, found if len(labels) > 2 else np.vstack([-found, found])


def with_ones(regions: NDArray[Any]) -> NDArray[np.float64]:
    """A column of ones behind the regions, whose weights are the biases."""
    return np.hstack([regions, np.ones((len(regions), 1))])


def descend(inputs: NDArray[np.float64], signs: NDArray[np.float64], steps: int = STEPS) -> NDArray[np.float64]:
    """Weights (features, classes) after gradient steps from zero on |w|^2 / 2 + sum max(0, 1 - sign w x)^2 per class.

    A step is 1 / L long, L = 1 + 2 (largest eigenvalue of inputs' inputs): the longest that cannot overshoot.
    """
    step = 1 / (1 + 2 * float(np.linalg.eigvalsh(inputs.T @ inputs)[-1]))
    weights = np.zeros((inputs.shape[1], signs.shape[1]))
    for _ in range(steps):
        short = np.maximum(1 - signs * (inputs @ weights), 0)
        weights -= step * (weights - 2 * inputs.T @ (signs * short))
    return weights

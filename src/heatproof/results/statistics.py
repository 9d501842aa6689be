"""Means with 95 % intervals, by a bootstrap that is one matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 2000
LEVEL = 0.95
DRAWN_AT_ONCE = 1 * 10**6


def case_weights(cases: int, seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """How often each case is drawn (resamples, cases) when `cases` are drawn with replacement."""
    return np.concatenate(list(weight_blocks(cases, seed, resamples)))


def weight_blocks(cases: int, seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """The rows of `case_weights`, a few at a time, so that memory does not grow with the cases."""
    rng = np.random.default_rng([seed, cases])
    step = max(1, DRAWN_AT_ONCE // max(1, cases))
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        drawn = rng.integers(0, cases, size=(rows, cases))
        counts = np.bincount((drawn + np.arange(rows)[:, None] * cases).ravel(), minlength=rows * cases)
        yield counts.reshape(rows, cases).astype(np.float64)


def bootstrap_means(values: NDArray[np.float64], seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """Means (resamples, columns) of values (cases, columns) over resampled cases; undefined values (NaN) do not count.

    All columns see the same resamples, so that differences between them can be judged too.
    """
    defined = ~np.isnan(values)
    filled, counted = np.where(defined, values, 0.0), defined.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.concatenate(
            [(weights @ filled) / (weights @ counted) for weights in weight_blocks(len(values), seed, resamples)]
        )


def interval(means: NDArray[np.float64], level: float = LEVEL) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Percentile interval (low, high) of bootstrap means (resamples, columns)."""
    tail = (1 - level) / 2
    low, high = quantiles(np.sort(means, axis=0), (tail, 1 - tail))
    return low, high


def quantiles(ordered: NDArray[np.float64], shares: Sequence[float]) -> list[NDArray[np.float64]]:
    """Quantiles of each column of sorted values, NaN last and not counted; NaN where a column has none.

    NumPy's linear rule. Its nanquantile goes through the columns one by one, which takes longer than all else together.
    """
    counts = (~np.isnan(ordered)).sum(0)
    columns = np.arange(ordered.shape[1])
    found = []
    for share in shares:
        place = share * np.maximum(counts - 1, 0)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(counts - 1, 0))
        low, high, part = ordered[below, columns], ordered[above, columns], place - below
        found.append(np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part)))
    return found


def over_models(means: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Means (resamples, columns) over resampled models too, from case-bootstrap means (resamples, models, columns)."""
    resamples, models, _ = means.shape
    weights = case_weights(models, seed + 1, resamples)
    defined = ~np.isnan(means)
    total = np.einsum("rm,rmc->rc", weights, np.where(defined, means, 0.0))
    with np.errstate(invalid="ignore"):
        combined: NDArray[np.float64] = total / np.einsum("rm,rmc->rc", weights, defined.astype(np.float64))
    return combined

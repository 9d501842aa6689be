"""Floors and ceiling beside heatmaps that were made elsewhere: they need no network, and no torch.

The same maps as those of `explainers/baselines.py`, but for random ones, which are drawn by numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Maps = NDArray[np.float64]

FAMILIES = {
    "random": "floor",
    "centre": "floor",
    "constant": "floor",
    "input_magnitude": "floor",
    "edges": "floor",
    "oracle": "ceiling",
}
OF_INPUTS = ("input_magnitude", "edges")
OF_SIGNALS = ("input_magnitude",)
"""Those that say nothing of pictures, where zero is black."""


def baselines_for(has_inputs: bool, has_truth: bool, dimensions: int) -> list[str]:
    """Those that can be made of what is at hand, for inputs of so many dimensions."""
    return [
        name
        for name, family in FAMILIES.items()
        if (has_inputs or name not in OF_INPUTS)
        and (has_truth or family == "floor")
        and (dimensions == 1 or name not in OF_SIGNALS)
    ]


def baseline_maps(
    name: str,
    cases: Sequence[str],
    space: tuple[int, ...],
    inputs: NDArray[Any] | None,
    truth: NDArray[np.bool_] | None,
    seed: int = 0,
) -> Maps:
    """Maps (cases, channels, *space) of one of them; inputs (cases, channels, *space) and truth (cases, *space)."""
    if name == "random":
        return np.stack([np.random.default_rng(derive_seed(seed, name, case)).random((1, *space)) for case in cases])
    if name == "centre":
        middle = np.array([[float(extent // 2) for extent in space]])
        bump = np.exp(-squared_distance(space, middle, [extent / 4 for extent in space]) / 2)
        return np.broadcast_to(bump, (len(cases), 1, *space))
    if name == "constant":
        return np.ones((len(cases), 1, *space))
    if name == "oracle":
        assert truth is not None
        return oracle(truth)
    assert inputs is not None
    return edges(inputs) if name == "edges" else np.abs(inputs).astype(np.float64)


def oracle(truth: NDArray[np.bool_]) -> Maps:
    """The true mask (cases, *space), a shade stronger towards its middle so that its maximum is not an edge."""
    space, flat = truth.shape[1:], truth.reshape(len(truth), -1).astype(np.float64)
    places = np.stack(np.meshgrid(*(np.arange(extent) for extent in space), indexing="ij"), -1)
    middle = flat @ places.reshape(-1, len(space)) / np.maximum(flat.sum(1, keepdims=True), 1)
    far = float(sum(extent**2 for extent in space))
    nearness = 1 - squared_distance(space, middle, [1.0] * len(space)) / far
    found: Maps = (truth * (0.9 + 0.1 * nearness))[:, None]
    return found


def edges(inputs: NDArray[Any]) -> Maps:
    """The length of the Sobel gradient of inputs (cases, channels, *space), channels averaged, borders repeated."""
    brightness = inputs.mean(1, dtype=np.float64)
    squares = sum(sobel(brightness, axis) ** 2 for axis in range(1, brightness.ndim))
    found: Maps = np.sqrt(np.asarray(squares))[:, None]
    return found


def sobel(values: Maps, axis: int) -> Maps:
    """Central difference along `axis`, smoothed by 1, 2, 1 along the other space axes."""
    for along in range(1, values.ndim):
        around = [(1, 1) if other == along else (0, 0) for other in range(values.ndim)]
        padded = np.pad(values, around, mode="edge")
        count = values.shape[along]
        before, after = (padded.take(range(start, start + count), along) for start in (0, 2))
        values = after - before if along == axis else before + 2 * values + after
    return values


def squared_distance(space: tuple[int, ...], middle: Maps, widths: Sequence[float]) -> Maps:
    """Squared distance (cases, *space) of every position from each row of `middle` (cases, dimensions), in widths."""
    total = np.zeros((len(middle), *space))
    for axis, (extent, width) in enumerate(zip(space, widths, strict=True)):
        steps = (np.arange(extent) - middle[:, axis, None]) / width
        total = total + (steps**2).reshape(-1, *(extent if other == axis else 1 for other in range(len(space))))
    return total

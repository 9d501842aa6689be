"""Drop and Increase against their formulas, case by case."""

from __future__ import annotations

import numpy as np
import torch

from heatproof.metrics import metrics
from heatproof.metrics.fidelity import drop, increase
from reference import metrics as reference


def confidences(cases: int, seed: int) -> torch.Tensor:
    return torch.rand(cases, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1e-3


def test_drop_equals_the_formula() -> None:
    """Reference: max(0, Y - O) / Y in plain Python; both signs of Y - O occur."""
    full, kept = confidences(50, 0), confidences(50, 1)
    expected = [reference.drop(y, o) for y, o in zip(full.tolist(), kept.tolist(), strict=True)]
    assert 0 < sum(value > 0 for value in expected) < 50
    np.testing.assert_allclose(drop(full, kept), expected, rtol=1e-12)


def test_increase_equals_the_formula() -> None:
    """Reference: O > Y in plain Python; equal confidences are no increase."""
    full, kept = confidences(50, 0), confidences(50, 1)
    kept[:5] = full[:5]
    expected = [float(o > y) for y, o in zip(full.tolist(), kept.tolist(), strict=True)]
    assert 0 < sum(expected) < 45
    assert increase(full, kept).tolist() == expected


def test_float32_confidences_are_scored_in_float64() -> None:
    """Reference: the formula in float64 on the float32 values."""
    full, kept = confidences(20, 2).float(), confidences(20, 3).float()
    expected = [reference.drop(y, o) for y, o in zip(full.tolist(), kept.tolist(), strict=True)]
    assert drop(full, kept).dtype == increase(full, kept).dtype == torch.float64
    np.testing.assert_allclose(drop(full, kept), expected, rtol=1e-12)


def test_undefined_values_are_nan() -> None:
    """Drop is NaN without confidence on the whole input; both are NaN where a confidence is NaN."""
    full = torch.tensor([0.0, torch.nan, 0.5, 0.5])
    kept = torch.tensor([0.5, 0.5, torch.nan, 0.25])
    assert drop(full, kept).isnan().tolist() == [True, True, True, False]
    assert drop(full, kept)[3].item() == 0.5
    assert increase(full, kept).isnan().tolist() == [False, True, True, False]


def test_directions() -> None:
    """A small drop is good, a frequent increase is good."""
    assert not metrics["drop"].higher_is_better
    assert metrics["increase"].higher_is_better

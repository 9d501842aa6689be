"""Functions that are the same on every processor: right to the last digits, and torch's own normal numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heatproof.exact import cos_sin, exponential, logarithm, mean, normal, power

TINY = np.finfo(np.float64).eps


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_logarithm(x: float) -> None:
    """Reference: the C library's, which is right to a unit in the last place."""
    assert logarithm(np.array([x]))[0] == pytest.approx(math.log(x), rel=4 * TINY, abs=1e-300)


def test_logarithm_near_one() -> None:
    """Reference: log1p, which does not lose digits there."""
    steps = np.concatenate([np.linspace(-1e-6, 1e-6, 1001), [-(2.0**-53), 2.0**-52]])
    found = logarithm(1 + steps)
    assert np.allclose(found, np.log1p((1 + steps) - 1), rtol=4 * TINY, atol=0)


@given(st.floats(min_value=-800_000, max_value=800_000, allow_subnormal=False))
def test_cos_sin(angle: float) -> None:
    """Reference: the C library's."""
    cosine, sine = cos_sin(np.array([angle]))
    assert cosine[0] == pytest.approx(math.cos(angle), abs=2 * TINY)
    assert sine[0] == pytest.approx(math.sin(angle), abs=2 * TINY)


@given(st.floats(min_value=1e-3, max_value=1e3), st.floats(min_value=-5, max_value=5, allow_subnormal=False))
def test_powers(base: float, exponent: float) -> None:
    """Reference: the C library's."""
    assert power(base, exponent) == pytest.approx(base**exponent, rel=2 * TINY)
    assert exponential(exponent) == pytest.approx(math.exp(exponent), rel=2 * TINY)


def test_mean_does_not_depend_on_the_order() -> None:
    values = [1e16, 1.0, -1e16, 1.0]
    assert {mean(values), mean(values[::-1]), mean(sorted(values))} == {0.5}


@pytest.mark.parametrize("shape", [(3,), (16,), (17,), (2, 1, 40), (5, 3, 33, 31), (2, 3, 128, 128)])
def test_normal_numbers_are_those_of_torch(shape: tuple[int, ...]) -> None:
    """Reference: torch.randn from the same stream, whose float32 arithmetic rounds more than once; and what is left
    of the stream afterwards."""
    ours, theirs = (torch.Generator().manual_seed(7) for _ in range(2))
    torch.testing.assert_close(normal(shape, ours), torch.randn(shape, generator=theirs), rtol=1e-5, atol=4e-6)
    assert torch.equal(torch.rand(3, generator=ours), torch.rand(3, generator=theirs))

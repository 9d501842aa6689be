"""One curve between light and 8-bit values, in its three readings."""

from __future__ import annotations

import numpy as np

from heatproof.clevr.srgb import encoded, linear, linear_values, srgb


def test_linear_light():
    """Reference: the formula at its ends, at the bend, and at the background's grey."""
    expected = [0, 10 / 255 / 12.92, ((11 / 255 + 0.055) / 1.055) ** 2.4, 0.05126945837404324, 1]
    values = [0, 10, 11, 64, 255]
    np.testing.assert_allclose([linear(value) for value in values], expected, rtol=1e-12)
    np.testing.assert_array_equal(linear_values(np.array([values])), [[linear(value) for value in values]])


def test_srgb_and_linear_undo_each_other():
    assert [srgb(linear(value)) for value in range(256)] == list(range(256))


def test_light_is_encoded():
    """Reference: the scalar formula."""
    light = np.linspace(-0.1, 1.2, 500, dtype=np.float32)
    exact = [srgb(min(max(float(value), 0.0), 1.0)) for value in light]
    assert np.abs(encoded(light).astype(int) - exact).max() <= 1
    assert (encoded(light) == exact).mean() > 0.99

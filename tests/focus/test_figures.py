"""The figures of Focus: what their lines mean."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from heatproof.experiments.figures import BARS, BINS, LABEL, WIDTH, density, histograms

PLACES = np.linspace(0, 1, 50)


@pytest.mark.parametrize("count", [2, 30, 2500])
def test_density_is_that_of_scipy(count):
    """Reference: SciPy's Gaussian kernel density with its default width, Scott's rule."""
    values = np.random.default_rng(count).beta(6, 2, count)
    assert density(values, PLACES) == pytest.approx(stats.gaussian_kde(values)(PLACES))


@pytest.mark.parametrize("values", [[], [0.5], [1.0, 1.0, 1.0]])
def test_values_without_spread_have_no_density(values):
    assert not density(np.array(values), PLACES).any()


def test_bars_and_line_have_one_scale():
    """The area below the line is that of the bars: both are shares of the group per bin."""
    values = np.random.default_rng(0).normal(0.5, 0.1, 4000)
    figure = histograms("title", {"net": values.tolist(), "ceiling": [1.0, 1.0]})
    (line,) = re.findall(r'class="line density" points="([^"]*)"', figure)
    points = np.array([[float(number) for number in point.split(",")] for point in line.split()])
    base = 34 + BARS
    area = (base - points[:, 1]).mean() * WIDTH
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"', figure)[:BINS]
    assert area == pytest.approx(sum(float(height) for _, height in bars) * WIDTH / BINS, rel=0.02)
    assert points[0, 0] == LABEL
    assert points[-1, 0] == LABEL + WIDTH

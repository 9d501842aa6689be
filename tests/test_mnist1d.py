"""MNIST-1D: equal to the published data set, and the template masks are right."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from heatproof import mnist1d


@pytest.fixture(scope="module")
def published() -> tuple[mnist1d.Signals, mnist1d.Signals]:
    return mnist1d.make()


def test_signals_equal_the_frozen_data_set(published, shared_data):
    """Reference: the authors' frozen file."""
    frozen = np.load(shared_data("svea/mnist1d_frozen.npz"))
    train, test = published
    assert_allclose(train.x, frozen["x"], rtol=0, atol=1e-12)
    assert_allclose(test.x, frozen["x_test"], rtol=0, atol=1e-12)
    assert_array_equal(train.y, frozen["y"])
    assert_array_equal(test.y, frozen["y_test"])
    assert_allclose(mnist1d.templates(), frozen["templates_x"], rtol=0, atol=1e-12)


def test_some_signals_of_the_frozen_data_set(published):
    """Reference: numbers copied from the authors' frozen file: points 0, 20 and 39 of a signal, and its digit."""
    known = [
        (0, 0, [-0.3320056673693902, 1.5934880211319844, -0.8901663884753127], 2),
        (0, 1999, [-1.346551951965142, 0.21882560184958005, 0.10364948765009714], 4),
        (0, 3999, [-0.6939948035971022, -0.28179308765768885, -1.6509928567520655], 8),
        (1, 0, [-0.07877078047732886, -1.0839331678123738, 0.3461328866646199], 2),
        (1, 500, [1.5867906310964024, -1.8449689685400477, -0.7980797789260946], 8),
        (1, 999, [-0.5193287078205188, 1.3949283343454961, 1.193151836835276], 4),
    ]
    assert [len(part.x) for part in published] == [4000, 1000]
    for part, place, points, digit in known:
        assert_allclose(published[part].x[place, [0, 20, 39]], points, rtol=0, atol=1e-12)
        assert published[part].y[place] == digit


def test_masks_are_where_noiseless_signals_differ_from_zero(published):
    """Reference: the same draws without noise and slope, where only the template is left."""
    clean = mnist1d.make(mnist1d.Settings(correlated_noise=0, white_noise=0, slope=0))
    values = np.concatenate([part.x for part in clean])
    masks = np.concatenate([part.template for part in published])
    background = values[~masks][0]  # what zero became when the data set was standardised
    assert_array_equal(values != background, masks)


def test_masks_follow_the_geometry(published):
    """Reference: the span of 12 template points after padding p, stretching to 72, rolling by k, resampling to 40."""
    settings = mnist1d.Settings()
    rng = np.random.RandomState(settings.seed)
    low, high = settings.padding
    expected = np.zeros((settings.signals, settings.length), dtype=bool)
    for i in range(settings.signals):
        padding = low + int(rng.rand() * (high - low + 1))
        rng.rand()
        shift = rng.choice(settings.max_translation)
        rng.randn(72), rng.randn(72), rng.rand()
        # Position j of 72 lies at j (11 + padding) / 71 of the padded template, whose support ends before 12.
        support = [j + shift for j in range(72) if j * (11 + padding) < 12 * 71]
        for m in range(settings.length):
            left = m * 71 / 39
            touched = {int(left)} | ({int(left) + 1} if left != int(left) else set())
            expected[i, m] = any(position in support for position in touched)
    expected = expected[rng.permutation(settings.signals)]
    assert_array_equal(np.concatenate([part.template for part in published]), expected)


def test_other_settings_give_other_sizes():
    train, test = mnist1d.make(mnist1d.Settings(signals=100, train_share=0.5, length=50, seed=1))
    assert train.x.shape == test.x.shape == train.template.shape == (50, 50)
    assert train.template.any(1).all()

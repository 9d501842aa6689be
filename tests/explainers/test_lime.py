"""LIME against the authors' package, scikit-learn and literal loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage.segmentation import quickshift
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise_distances

from heatproof.errors import HeatproofError
from heatproof.explainers.lime import Lime, ridge
from heatproof.explainers.segments import WeightedSums, blocks, segment_means, superpixels
from heatproof.seeds import CaseRandom, derive_seed
from reference.explainers import Net

RNG = CaseRandom(0, "lime")


def literal_scores(net: Net, case: int, explainer: Lime, labels: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The score of every sample, one at a time, segments hidden position by position."""
    scores = []
    for sample in shown:
        inputs = net.inputs(case).copy()
        for position in np.ndindex(*labels.shape):
            if not sample[labels[position]]:
                where = labels == labels[position]
                for channel in range(len(inputs)):
                    mean = net.inputs(case)[channel][where].mean() if explainer.hide == "mean" else 0.0
                    inputs[(channel, *position)] = mean
        scores.append(net.score(case, inputs, explainer.quantity))
    return np.array(scores)


@pytest.mark.parametrize("hide", ["zero", "mean"])
@pytest.mark.parametrize("quantity", ["logit", "probability"])
def test_coefficients_equal_the_lime_package(net: Net, quantity, hide):
    """Reference: lime's own regression on the same samples, each hidden and scored literally."""
    lime_base = pytest.importorskip("lime.lime_base", reason="needs lime")
    explainer = Lime(samples=40, segments=8, segmenter="blocks", quantity=quantity, hide=hide, rows=7)
    relevance = explainer(net.model, net.batch, RNG)
    base = lime_base.LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / explainer.width**2)))
    for case in range(2):
        labels = explainer.segment(net.batch.inputs[case], 0).numpy()
        numbers = torch.rand(40, int(labels.max()) + 1, generator=RNG.generator(net.batch.ids[case]))
        shown = (numbers < 0.5).double().numpy()
        shown[0] = 1
        scores = literal_scores(net, case, explainer, labels, shown)
        distances = pairwise_distances(shown, shown[:1], metric="cosine").ravel()
        found = base.explain_instance_with_data(shown, scores[:, None], distances, 0, 10**6, feature_selection="none")
        coefficients = dict(found[1])
        expected = np.vectorize(coefficients.get)(labels)
        np.testing.assert_allclose(relevance[case, 0], expected, rtol=1e-6, atol=1e-9)


def test_ridge_equals_scikit_learn():
    """Reference: scikit-learn's Ridge with sample weights, of two y; the sums are made in two parts."""
    rng = np.random.default_rng(0)
    x, y, weights = rng.integers(0, 2, (60, 9)).astype(float), rng.normal(size=(2, 60)), rng.uniform(0.1, 2, 60)
    expected = Ridge(alpha=0.7).fit(x, y.T, sample_weight=weights).coef_
    sums = WeightedSums(9, 2, torch.zeros(1))
    for part in (slice(0, 13), slice(13, 60)):
        sums.add(torch.tensor(x[part]), torch.tensor(y[:, part]), torch.tensor(weights[part]))
    found = ridge(sums, 0.7)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_blocks_are_equal_parts():
    assert blocks((10,), 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    square = blocks((6, 4), 4)
    assert square[:3, :2].unique().tolist() == [0]
    assert square[3:, 2:].unique().tolist() == [3]
    assert blocks((3,), 50).tolist() == [0, 1, 2]


def test_segment_means_equal_a_loop():
    inputs, labels = torch.randn(2, 5, 4, dtype=torch.float64), blocks((5, 4), 4)
    found = segment_means(inputs, labels)
    for number in range(4):
        for channel in range(2):
            expected = inputs[channel][labels == number].mean()
            assert bool((found[channel][labels == number] - expected).abs().max() < 1e-12)


def test_slic_follows_the_picture():
    """Two flat halves with a sharp edge: no segment lies on both sides."""
    picture = torch.zeros(3, 24, 24)
    picture[0, :, 12:] = 1
    labels = superpixels(picture, "slic", 8, seed=0)
    assert labels.shape == (24, 24)
    assert set(labels.unique().tolist()) == set(range(int(labels.max()) + 1))
    assert not set(labels[:, :11].unique().tolist()) & set(labels[:, 13:].unique().tolist())


def test_quickshift_is_that_of_the_papers():
    """Reference: scikit-image with kernel 4, distance 200, ratio 0.2, on a picture that fills [0, 1]."""
    picture = torch.rand(3, 30, 26, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    picture[0, 0, 0], picture[0, 0, 1] = 0, 1
    expected = quickshift(picture.permute(1, 2, 0).numpy(), kernel_size=4, max_dist=200, ratio=0.2, rng=5)
    np.testing.assert_array_equal(superpixels(picture, "quickshift", 8, seed=5), expected)


def test_top_keeps_the_largest_positive_segments():
    explainer = Lime(top=2)
    assert explainer.selected(torch.tensor([0.3, -1.0, 0.9, 0.5])).tolist() == [0, 0, 1, 1]
    assert explainer.selected(torch.tensor([-0.3, -1.0, 0.9, -0.5])).tolist() == [0, 0, 1, 0]


def test_automatic_segmenter_fits_the_input():
    quick = Lime(samples=5)
    assert quick.segment(torch.rand(3, 20, 20), 0).shape == (20, 20)
    assert quick.segment(torch.rand(1, 20, 20), 0).shape == (20, 20)
    assert int(quick.segment(torch.rand(2, 40), 0).max()) + 1 == 40
    for segmenter in ("quickshift", "slic"):
        with pytest.raises(HeatproofError, match="blocks"):
            Lime(segmenter=segmenter).segment(torch.rand(1, 40), derive_seed(1))

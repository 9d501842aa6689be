"""Regions of explanation and the SVM test against literal loops, a second SVM and SVEA's known values."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from heatproof.errors import HeatproofError
from heatproof.metrics.understandability import (
    cut_windows,
    descend,
    read_regions,
    roe_accuracy,
    window_mask,
    window_starts,
    with_ones,
)
from heatproof.mnist1d import Signals
from heatproof.models.mnist1d_cnn import Mnist1dCnn
from reference import metrics as reference

Split = tuple[Signals, Signals]
LITERAL = {"clipped": reference.window_clipped, "literal": reference.window_literal}


def peaks_everywhere(positions: int) -> NDArray[np.float64]:
    """One signal per position that is highest there, noise elsewhere."""
    noise = np.random.default_rng(0).random((positions, positions))
    return noise + 2 * np.eye(positions)


@pytest.mark.parametrize(("positions", "length"), [(40, 12), (40, 11), (29, 6), (12, 12), (5, 1)])
def test_clipped_windows_equal_the_loop(positions: int, length: int) -> None:
    """Reference: a window around every possible maximum, pushed into the signal step by step."""
    relevance = peaks_everywhere(positions)
    starts = window_starts(torch.as_tensor(relevance), length, "clipped")
    assert starts.tolist() == [reference.window_clipped(row, length)[0] for row in relevance.tolist()]


@pytest.mark.parametrize(("positions", "length"), [(40, 12), (40, 11), (29, 6)])
def test_literal_windows_equal_the_loop(positions: int, length: int) -> None:
    """Reference: equation 1 of SVEA in its own count from 1, for every possible maximum."""
    relevance = peaks_everywhere(positions)
    starts = window_starts(torch.as_tensor(relevance), length, "literal")
    assert starts.tolist() == [reference.window_literal(row, length)[0] for row in relevance.tolist()]


def test_windows_of_svea_at_their_borders() -> None:
    """Values read off section 2 of SVEA and the clipped rule: 0-based maxima around both borders of either rule."""
    relevance = torch.eye(40)[[0, 5, 6, 7, 11, 12, 20, 26, 27, 33, 34, 35, 39]]
    assert window_starts(relevance).tolist() == [0, 0, 0, 1, 5, 6, 14, 20, 21, 27, 28, 28, 28]
    assert window_starts(relevance, rule="literal").tolist() == [0, 0, 0, 0, 0, 6, 14, 20, 28, 28, 28, 28, 28]


@pytest.mark.parametrize("rule", ["clipped", "literal"])
def test_masks_and_cuts_equal_the_loop(rule: Literal["clipped", "literal"]) -> None:
    """Reference: the literal list of window positions, looked up one by one."""
    relevance = peaks_everywhere(40)
    signals = np.random.default_rng(1).normal(size=(40, 40))
    starts = window_starts(torch.as_tensor(relevance), 12, rule)
    mask = window_mask(starts, 40, 12)
    cut = cut_windows(signals, starts.numpy(), 12)
    for i, row in enumerate(relevance.tolist()):
        window = LITERAL[rule](row, 12)
        assert mask[i].nonzero()[:, 0].tolist() == window
        assert cut[i].tolist() == [signals[i, position] for position in window]


def test_window_longer_than_the_signal_is_refused() -> None:
    """The message names both lengths."""
    with pytest.raises(HeatproofError, match="12 points does not fit a signal of 11"):
        window_starts(torch.zeros(1, 11), 12)


def test_svm_equals_a_second_one() -> None:
    """Reference: the SVM's objective minimised by L-BFGS; where it is right is where roe_accuracy is 1."""
    rng = np.random.default_rng(2)
    labels, test_labels = rng.integers(0, 4, 300), rng.integers(0, 4, 200)
    middles = rng.normal(size=(4, 6))
    train = middles[labels] + rng.normal(size=(300, 6))
    test = middles[test_labels] + rng.normal(size=(200, 6))
    expected = reference.svm_predictions(train, labels, test) == test_labels
    assert 0.4 < expected.mean() < 0.95
    np.testing.assert_array_equal(roe_accuracy(train, labels, test, test_labels), expected.astype(np.float64))


def test_gradient_steps_come_to_the_same_minimum() -> None:
    """Reference: the objective written out, minimised by L-BFGS class by class (SciPy)."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 200)
    inputs = with_ones(rng.normal(size=(3, 4))[labels] + rng.normal(size=(200, 4)))
    signs = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    weights = descend(inputs, signs)
    for k in range(3):

        def objective(w: NDArray[np.float64], sign: NDArray[np.float64] = signs[:, k]) -> float:
            return 0.5 * float(w @ w) + sum(
                max(0.0, 1 - s * float(w @ x)) ** 2 for s, x in zip(sign, inputs, strict=True)
            )

        best = minimize(objective, np.zeros(5), method="L-BFGS-B", tol=1e-12)
        assert objective(weights[:, k]) <= best.fun + 1e-8
        np.testing.assert_allclose(weights[:, k], best.x, atol=1e-3)


def test_one_gradient_step_is_the_formula() -> None:
    """Reference: by hand. From zero every margin is 1 short: w = step 2 sum of sign x, step = 1 / (1 + 2 largest)."""
    inputs, signs = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [-1.0]])
    np.testing.assert_allclose(descend(inputs, signs, steps=1), [[4 / 9], [-2 / 9]])


def test_the_literal_svm_reads_as_the_default_one() -> None:
    """Reference: liblinear; both minimise one strictly convex objective."""
    rng = np.random.default_rng(4)
    middles = rng.normal(size=(5, 12))
    labels, test_labels = rng.integers(0, 5, 400) + 2, rng.integers(0, 5, 300) + 2
    train = middles[labels - 2] + 2 * rng.normal(size=(400, 12))
    test = middles[test_labels - 2] + 2 * rng.normal(size=(300, 12))
    default, literal = (read_regions(train, labels, test, svm) for svm in ("liblinear", "literal"))
    assert default is not None
    assert literal is not None
    assert (default != literal).sum() <= 1
    right = roe_accuracy(train, labels, test, test_labels, "literal")
    assert right.mean() == (literal == test_labels).mean()


def test_an_unknown_svm_is_refused() -> None:
    with pytest.raises(HeatproofError, match=r"unknown SVM 'litteral'\. Did you mean 'literal'"):
        read_regions(np.ones((4, 2)), np.array([0, 0, 1, 1]), np.ones((1, 2)), "litteral")  # type: ignore[arg-type]


def test_svm_with_one_class_is_undefined() -> None:
    """One class teaches nothing: NaN for every test case."""
    values = roe_accuracy(np.ones((3, 2)), np.zeros(3), np.ones((4, 2)), np.zeros(4))
    assert values.shape == (4,)
    assert np.isnan(values).all()


def roe_score(split: Split, relevance: tuple[NDArray[Any], NDArray[Any]], rule: Literal["clipped", "literal"]) -> float:
    """ROE test accuracy of the given relevance of both parts, in percent with one decimal."""
    train, test = split
    regions = [
        cut_windows(part.x, window_starts(torch.as_tensor(r), 12, rule).numpy())
        for part, r in zip(split, relevance, strict=True)
    ]
    return round(100 * float(roe_accuracy(regions[0], train.y, regions[1], test.y).mean()), 1)


def test_raw_signals_reach_the_published_accuracy(mnist1d_signals: Split) -> None:
    """SVEA: a linear SVM on the whole signals is right for 29.7 % of the test set."""
    train, test = mnist1d_signals
    assert roe_accuracy(train.x, train.y, test.x, test.y).sum() == 297


def test_the_network_has_the_published_size() -> None:
    """SVEA: 13,960 parameters."""
    assert sum(parameter.numel() for parameter in Mnist1dCnn().parameters()) == 13_960


@pytest.mark.parametrize(("rule", "expected"), [("clipped", 61.4), ("literal", 47.0)])
def test_largest_magnitude(mnist1d_signals: Split, rule: Literal["clipped", "literal"], expected: float) -> None:
    """Known value: regions around the largest |x|."""
    train, test = mnist1d_signals
    assert roe_score(mnist1d_signals, (np.abs(train.x), np.abs(test.x)), rule) == expected


@pytest.mark.parametrize(("rule", "expected"), [("clipped", 37.1), ("literal", 26.8)])
def test_largest_value(mnist1d_signals: Split, rule: Literal["clipped", "literal"], expected: float) -> None:
    """Known value: regions around the largest x."""
    train, test = mnist1d_signals
    assert roe_score(mnist1d_signals, (train.x, test.x), rule) == expected


@pytest.mark.parametrize("rule", ["clipped", "literal"])
def test_constant_centre(mnist1d_signals: Split, rule: Literal["clipped", "literal"]) -> None:
    """Known value: the window around the middle of the signal gives 18.2 by either rule."""
    middle = [np.tile(np.eye(40)[20], (len(part), 1)) for part in mnist1d_signals]
    assert roe_score(mnist1d_signals, (middle[0], middle[1]), rule) == 18.2


@pytest.mark.parametrize(("rule", "known"), [("clipped", 14.4), ("literal", 15.5)])
def test_random_index(mnist1d_signals: Split, rule: Literal["clipped", "literal"], known: float) -> None:
    """Known value, within three standard errors of 1,000 test signals and of another draw: a window anywhere."""
    rng = np.random.default_rng(0)
    noise = [rng.random((len(part), 40)) for part in mnist1d_signals]
    error = 100 * (0.15 * 0.85 / 1000) ** 0.5 * 2**0.5
    assert abs(roe_score(mnist1d_signals, (noise[0], noise[1]), rule) - known) < 3 * error

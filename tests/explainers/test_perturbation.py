"""RISE and SISE against literal loops; RISE's masks are rebuilt from the same uniform numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from captum.attr import Occlusion as CaptumOcclusion

from heatproof.errors import HeatproofError
from heatproof.explainers.base import QUANTITIES, Quantity
from heatproof.explainers.perturbation import MaskMaker, Occlusion, Rise, Sise, draw_numbers, soft_otsu
from heatproof.explainers.scored import Scored
from heatproof.seeds import CaseRandom
from reference import explainers as reference
from reference.explainers import Array, Net

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
quantities = pytest.mark.parametrize("quantity", QUANTITIES)


@pytest.mark.parametrize(
    ("space", "cells", "p"),
    [((40,), 7, 0.5), ((35,), 3, 0.1), ((5,), 7, 0.5), ((11, 14), 4, 0.3), ((9, 7), 7, 0.5), ((5, 6, 7), 2, 0.5)],
)
def test_masks_equal_the_loop(space: tuple[int, ...], cells: int, p: float) -> None:
    """Reference: a grid stretched linearly corner by corner, cropped at floor(u * cell length)."""
    drawn = draw_numbers(cells ** len(space) + len(space), RNG.generator("a"), 8).double()
    masks = MaskMaker(space, cells, p, drawn)(drawn)
    assert masks.shape == (8, 1, *space)
    expected = [reference.rise_mask(row, space, cells, p) for row in drawn.tolist()]
    np.testing.assert_allclose(masks[:, 0], expected, **CLOSE)


def test_masks_at_the_ends_of_the_offset() -> None:
    """Reference: the loop, for offsets of nothing, just below one cell and a whole number of positions."""
    grid = torch.tensor([0.9, 0.1, 0.9])
    offsets = torch.tensor([0.0, 1 - 2**-24, 0.5, 0.25])
    drawn = torch.cat([grid.expand(4, 3), offsets[:, None]], 1).double()
    masks = MaskMaker((12,), 3, 0.5, drawn)(drawn)
    expected = [reference.rise_mask(row, (12,), 3, 0.5) for row in drawn.tolist()]
    np.testing.assert_allclose(masks[:, 0], expected, **CLOSE)


def test_uniform_numbers_belong_to_the_case() -> None:
    """Each case has its own numbers in [0, 1)."""
    one, other = (draw_numbers(11, RNG.generator(case), 500) for case in ("a", "b"))
    assert one.shape == (500, 11)
    assert not torch.equal(one, other)
    assert torch.equal(one, draw_numbers(11, RNG.generator("a"), 500))
    assert 0 <= one.min() < 0.01
    assert 0.99 < one.max() < 1
    assert abs(one.mean().item() - 0.5) < 4 * (1 / 12 / one.numel()) ** 0.5


@quantities
def test_rise_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: sum of score times mask over (masks * p), masks rebuilt from each case's uniform numbers."""
    space = net.batch.space
    cells, p = (2 if len(space) == 3 else 4), 0.4
    explainer = Rise(masks=6, cells=cells, p=p, quantity=quantity)
    relevance = explainer(net.model, net.batch, RNG)
    assert relevance.shape == (len(net.batch), 1, *space)
    for case in range(2):
        numbers = cells ** len(space) + len(space)
        drawn = torch.rand(6, numbers, generator=RNG.generator(net.batch.ids[case])).tolist()
        masks = [reference.rise_mask(row, space, cells, p) for row in drawn]
        expected = reference.rise(net, case, masks, p, quantity)
        np.testing.assert_allclose(relevance[case, 0], expected, **CLOSE)


@quantities
def test_sise_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: the formula map by map; the 2-D network has a map that is always empty."""
    relevance = Sise(quantity=quantity, layers="last")(net.model, net.batch, RNG)
    assert relevance.shape == (len(net.batch), 1, *net.batch.space)
    expected = np.stack([reference.sise(net, case, quantity) for case in range(3)])
    assert expected.any()
    np.testing.assert_allclose(relevance[:3, 0], expected, **CLOSE)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, 2.0])
def test_probabilities_outside_the_open_interval_are_refused(p: float) -> None:
    """A mask that keeps nothing, or everything, explains nothing."""
    with pytest.raises(HeatproofError, match="rise: p must lie between 0 and 1"):
        Rise(p=p)


def literal_otsu(values: Array) -> float:
    """The middle of the histogram's bin that, as the last of the lower class, separates two classes best."""
    counts, edges = np.histogram(values, 256)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    best, threshold = -1.0, middles[0]
    for cut in range(1, 256):
        low, high = counts[:cut].sum(), counts[cut:].sum()
        if not low or not high:
            continue
        below = sum(c * m for c, m in zip(counts[:cut], middles[:cut], strict=True)) / low
        above = sum(c * m for c, m in zip(counts[cut:], middles[cut:], strict=True)) / high
        if low * high * (below - above) ** 2 > best + 1e-9:
            best, threshold = low * high * (below - above) ** 2, middles[cut - 1]
    return threshold


def literal_soft_otsu(values: Array) -> Array:
    """1 / (1 + exp(-100 (v - t))) position by position; t is raised by half where few positions are above it."""
    threshold = literal_otsu(values)
    if sum(v > threshold for v in values.flat) / values.size < 0.1:
        threshold *= 1.5
    return np.array([1 / (1 + math.exp(-100 * (v - threshold))) for v in values.flat]).reshape(values.shape)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_soft_otsu_equals_the_loop(share: float) -> None:
    """Reference: the between-class variance of every cut of the histogram, for rare and for common peaks."""
    rng = np.random.default_rng(0)
    maps = np.where(rng.random((2, 1, 20, 15)) < share, rng.normal(0.6, 0.05, (2, 1, 20, 15)), 0.1)
    maps += rng.normal(0, 0.02, maps.shape)
    expected = [[literal_soft_otsu(case[0])] for case in maps]
    np.testing.assert_allclose(soft_otsu(torch.tensor(maps)), expected, rtol=1e-8, atol=1e-12)


def test_sise_fuses_the_last_layer_of_every_extent(nets: dict[str, Net]) -> None:
    """Reference: each layer's explanation in loops, then (F + E) * soft_otsu(E) from fine to coarse."""
    net = nets["picture"]
    start, rest = net.model.features[:3], net.model.features[3:]
    fine = Net(net.model, net.batch, "features.2", start, lambda maps: net.model.head(rest(maps)))
    assert fine.maps(0).shape[1:] != net.maps(0).shape[1:]
    relevance = Sise()(net.model, net.batch, RNG)
    for case in range(2):
        fused = reference.scaled(reference.sise(fine, case, "logit"))
        coarse = reference.scaled(reference.sise(net, case, "logit"))
        expected = (fused + coarse) * literal_soft_otsu(coarse)
        np.testing.assert_allclose(relevance[case, 0], expected, rtol=1e-7, atol=1e-10)


def test_mu_keeps_the_steepest_maps(signal_net: Net) -> None:
    """Reference: the loop over the maps whose mean gradient is above mu times the largest."""
    net, mu = signal_net, 0.5
    relevance = Sise(mu=mu)(net.model, net.batch, RNG)
    for case in range(2):
        slopes = [g.mean() for g in net.map_gradient(case, "logit")]
        expected = np.zeros(net.batch.space)
        for a, slope in zip(net.maps(case), slopes, strict=True):
            mask = reference.scaled(reference.stretch(a, net.batch.space))
            if slope > mu * max(slopes) and mask.any():
                expected += net.score(case, net.inputs(case) * mask, "logit") * mask / mask.sum()
        np.testing.assert_allclose(relevance[case, 0], expected, **CLOSE)


@pytest.mark.parametrize(("window", "stride"), [(3, 2), (2, 2), (4, 3), (1, 1)])
@pytest.mark.parametrize("quantity", ["logit", "probability"])
def test_occlusion_equals_captum(net: Net, quantity: Quantity, window: int, stride: int) -> None:
    """Reference: Captum's Occlusion, windows over all channels; Captum computes in float32 on the way."""
    channels, dimensions = net.batch.inputs.shape[1], len(net.batch.space)
    captum = CaptumOcclusion(Scored(net.model, quantity))
    expected = captum.attribute(
        net.batch.inputs.clone(),
        target=net.batch.target,
        additional_forward_args=net.batch.context or None,
        sliding_window_shapes=(channels, *[window] * dimensions),
        strides=(channels, *[stride] * dimensions),
        baselines=0.25,
    )
    explainer = Occlusion(window=window, stride=stride, baseline="0.25", quantity=quantity)
    relevance = explainer(net.model, net.batch, RNG).expand_as(expected)
    torch.testing.assert_close(relevance, expected.double(), rtol=1e-5, atol=1e-6)


def test_occlusion_leaves_gaps_where_the_stride_is_longer_than_the_window(signal_net: Net) -> None:
    """Reference: one window at a time; what none covers has no relevance."""
    net = signal_net
    relevance = Occlusion(window=2, stride=5)(net.model, net.batch, RNG)
    for case in range(2):
        expected = np.zeros(40)
        for start in range(0, 40, 5):
            without = net.inputs(case).copy()
            without[:, start : start + 2] = 0
            lost = net.score(case, net.inputs(case), "logit") - net.score(case, without, "logit")
            expected[start : start + 2] = lost
        np.testing.assert_allclose(relevance[case, 0], expected, **CLOSE)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sise(mu=1.0), "sise: mu must be at least 0 and below 1"),
        (lambda: Sise(layers="both"), "unknown sise layers 'both'"),
        (lambda: Occlusion(window=0), "occlusion: window must be above zero"),
        (lambda: Occlusion(baseline="blak"), "unknown occlusion baseline 'blak'.*'black'"),
    ],
)
def test_wrong_parameters_are_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(HeatproofError, match=words):
        make()

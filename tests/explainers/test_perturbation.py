"""RISE and SISE against literal loops; RISE's masks are rebuilt from the same uniform numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heatproof.errors import HeatproofError
from heatproof.explainers.base import QUANTITIES, Quantity
from heatproof.explainers.perturbation import MaskMaker, Rise, Sise
from heatproof.seeds import CaseRandom
from reference import explainers as reference
from reference.explainers import Net

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
quantities = pytest.mark.parametrize("quantity", QUANTITIES)


@pytest.mark.parametrize(
    ("space", "cells", "p"),
    [((40,), 7, 0.5), ((35,), 3, 0.1), ((5,), 7, 0.5), ((11, 14), 4, 0.3), ((9, 7), 7, 0.5), ((5, 6, 7), 2, 0.5)],
)
def test_masks_equal_the_loop(space: tuple[int, ...], cells: int, p: float) -> None:
    """Reference: a grid stretched linearly corner by corner, cropped at floor(u * cell length)."""
    explainer = Rise(masks=8, cells=cells, p=p)
    drawn = explainer.draw(len(space), RNG.generator("a")).double()
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
    """Each case has its own numbers in [0, 1): a row holds cells^dimensions of them and one offset per dimension."""
    explainer = Rise(masks=500, cells=3)
    one, other = (explainer.draw(2, RNG.generator(case)) for case in ("a", "b"))
    assert one.shape == (500, 11)
    assert not torch.equal(one, other)
    assert torch.equal(one, explainer.draw(2, RNG.generator("a")))
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
        drawn = explainer.draw(len(space), RNG.generator(net.batch.ids[case])).tolist()
        masks = [reference.rise_mask(row, space, cells, p) for row in drawn]
        expected = reference.rise(net, case, masks, p, quantity)
        np.testing.assert_allclose(relevance[case, 0], expected, **CLOSE)


@quantities
def test_sise_equals_the_loop(net: Net, quantity: Quantity) -> None:
    """Reference: the formula map by map; the 2-D network has a map that is always empty."""
    relevance = Sise(quantity=quantity)(net.model, net.batch, RNG)
    assert relevance.shape == (len(net.batch), 1, *net.batch.space)
    expected = np.stack([reference.sise(net, case, quantity) for case in range(3)])
    assert expected.any()
    np.testing.assert_allclose(relevance[:3, 0], expected, **CLOSE)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, 2.0])
def test_probabilities_outside_the_open_interval_are_refused(p: float) -> None:
    """A mask that keeps nothing, or everything, explains nothing."""
    with pytest.raises(HeatproofError, match="rise: p must lie between 0 and 1"):
        Rise(p=p)

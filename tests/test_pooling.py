"""The ten poolings against one literal loop over positions, and the relations between them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from heatproof.errors import HeatproofError
from heatproof.metrics.localisation import mass_accuracy, rank_accuracy
from heatproof.pooling import pool, poolings
from reference import metrics as reference

TEN = (
    "sum_abs",
    "sum_pos",
    "max_norm",
    "l1_norm",
    "l2_norm",
    "l2_norm_sq",
    "pos_sum",
    "pos_max_norm",
    "pos_l2_norm",
    "pos_l2_norm_sq",
)
ROUNDING = 1e-12
relevances = arrays(np.float64, (2, 3, 2, 3), elements=st.floats(-1e3, 1e3, allow_subnormal=False))
whole_relevances = arrays(np.float64, (2, 3, 2, 3), elements=st.integers(-1000, 1000).map(float))
positive_relevances = arrays(np.float64, (2, 3, 2, 3), elements=st.floats(0, 1e3, allow_subnormal=False))


def pooled(relevance: NDArray[np.float64], pooling: str) -> NDArray[np.float64]:
    heatmap: NDArray[np.float64] = pool(torch.as_tensor(relevance), pooling).numpy()
    return heatmap


def test_the_ten_poolings_are_registered() -> None:
    """The registry holds the ten poolings of CLEVR-XAI, by the names that files use."""
    assert sorted(poolings) == sorted(TEN)


@pytest.mark.parametrize("shape", [(3, 3, 9), (2, 3, 5, 4), (2, 1, 4, 3), (2, 4, 3, 2, 3)])
@pytest.mark.parametrize("pooling", TEN)
def test_pooling_equals_the_formula(pooling: str, shape: tuple[int, ...]) -> None:
    """Reference: the formula on each position's channel values, in plain Python numbers."""
    relevance = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    np.testing.assert_allclose(
        pooled(relevance.numpy(), pooling), reference.pool(relevance.numpy(), pooling), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("pooling", TEN)
def test_float32_relevance_is_pooled_in_float64(pooling: str) -> None:
    """Reference: the float64 formula on tiny float32 values, whose squares are zero in float32."""
    relevance = 1e-30 * torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    heatmap = pool(relevance, pooling)
    assert heatmap.dtype == torch.float64
    expected = reference.pool(relevance.numpy().astype(np.float64), pooling)
    np.testing.assert_allclose(heatmap.numpy(), expected, rtol=1e-12, atol=0)
    assert (expected > 0).any()


@given(relevances)
def test_inequalities_between_poolings(relevance: NDArray[np.float64]) -> None:
    """Invariants: sum_pos <= sum_abs <= l1; max <= l2 <= l1 <= sqrt(3) l2; pos_X <= X; pos_sum >= sum_pos."""
    heatmap = {name: pooled(relevance, name) for name in TEN}
    slack = ROUNDING * (1 + heatmap["l1_norm"])
    ordered = [
        (heatmap["sum_pos"], heatmap["sum_abs"]),
        (heatmap["sum_abs"], heatmap["l1_norm"]),
        (heatmap["max_norm"], heatmap["l2_norm"]),
        (heatmap["l2_norm"], heatmap["l1_norm"]),
        (heatmap["l1_norm"], np.sqrt(3) * heatmap["l2_norm"]),
        (heatmap["pos_sum"], heatmap["l1_norm"]),
        (heatmap["pos_max_norm"], heatmap["max_norm"]),
        (heatmap["pos_l2_norm"], heatmap["l2_norm"]),
        (heatmap["pos_l2_norm_sq"], heatmap["l2_norm_sq"] * (1 + ROUNDING)),
        (heatmap["sum_pos"], heatmap["pos_sum"]),
    ]
    for smaller, larger in ordered:
        assert (smaller <= larger + slack).all()
    assert all((values >= 0).all() for values in heatmap.values())


@given(positive_relevances)
def test_poolings_that_agree_on_positive_relevance(relevance: NDArray[np.float64]) -> None:
    """Invariant: without negative values pos_X = X, and sum_abs = sum_pos = l1 = pos_sum."""
    for name in ("max_norm", "l2_norm", "l2_norm_sq"):
        np.testing.assert_array_equal(pooled(relevance, name), pooled(relevance, f"pos_{name}"))
    for name in ("sum_abs", "sum_pos", "pos_sum"):
        np.testing.assert_array_equal(pooled(relevance, name), pooled(relevance, "l1_norm"))


@given(whole_relevances, st.integers(-30, 30), st.permutations(range(3)))
def test_scores_ignore_scale_and_channel_order(relevance: NDArray[np.float64], exponent: int, order: list[int]) -> None:
    """Invariant: a factor of 2^n or another order of channels changes no score; on whole numbers not by one bit."""
    mask = torch.tensor([[[True, False, False], [True, True, False]]]).expand(2, 2, 3)
    for name in TEN:
        heatmap = pool(torch.as_tensor(relevance), name)
        for changed in (relevance * 2.0**exponent, relevance[:, order]):
            other = pool(torch.as_tensor(changed), name)
            for score in (mass_accuracy, rank_accuracy):
                np.testing.assert_array_equal(score(other, mask), score(heatmap, mask))


@pytest.mark.parametrize("pooling", TEN)
def test_scores_ignore_any_positive_factor(pooling: str) -> None:
    """Invariant: any positive factor leaves mass and rank accuracy alone."""
    relevance = torch.randn(5, 3, 8, 9, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    mask = torch.rand(5, 8, 9, generator=torch.Generator().manual_seed(5)) < 0.3
    heatmap, other = pool(relevance, pooling), pool(0.0371 * relevance, pooling)
    torch.testing.assert_close(mass_accuracy(other, mask), mass_accuracy(heatmap, mask), rtol=1e-12, atol=0)
    torch.testing.assert_close(rank_accuracy(other, mask), rank_accuracy(heatmap, mask), rtol=0, atol=0)


def test_one_positive_channel_ranks_the_same_under_all_poolings() -> None:
    """Invariant: a one-channel non-negative map has one rank accuracy, and one mass but for the squared poolings."""
    relevance = torch.rand(5, 1, 8, 9, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mask = torch.rand(5, 8, 9, generator=torch.Generator().manual_seed(3)) < 0.3
    ranks = {name: rank_accuracy(pool(relevance, name), mask) for name in TEN}
    masses = {name: mass_accuracy(pool(relevance, name), mask) for name in TEN}
    for name in TEN:
        torch.testing.assert_close(ranks[name], ranks["max_norm"], rtol=0, atol=0)
        same = torch.allclose(masses[name], masses["max_norm"], rtol=1e-12)
        assert same != name.endswith("_sq")


def test_relevance_without_channels_is_refused() -> None:
    """The message says which shape is needed."""
    with pytest.raises(HeatproofError, match=r"\(cases, channels, \*space\), got shape \(2, 3\)"):
        pool(torch.zeros(2, 3), "sum_abs")


def test_unknown_pooling_names_the_nearest() -> None:
    """The message names a pooling that exists."""
    with pytest.raises(HeatproofError, match="'max_norm'"):
        pool(torch.zeros(1, 1, 2), "maxnorm")


def test_an_eleventh_pooling_is_found_and_held_to_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of one's own is pooled in float64 as ours are; signed or unpooled maps are refused by name."""
    monkeypatch.setattr(poolings, "_entries", dict(poolings.items()))
    poolings.register("middle")(lambda relevance: relevance.abs().median(1).values)
    poolings.register("signed")(lambda relevance: relevance.sum(1))
    poolings.register("unpooled")(lambda relevance: relevance.abs())
    relevance = torch.tensor([[[1.0, -2.0], [-3.0, 4.0], [-5.0, -6.0]]])
    assert pool(relevance, "middle").tolist() == [[3.0, 4.0]]
    assert pool(relevance, "middle").dtype == torch.float64
    with pytest.raises(HeatproofError, match="pooling signed gives negative values"):
        pool(relevance, "signed")
    with pytest.raises(HeatproofError, match=r"pooling unpooled must give heatmaps \(1, 2\), got shape \(1, 3, 2\)"):
        pool(relevance, "unpooled")

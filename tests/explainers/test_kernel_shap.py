"""Kernel SHAP against Shapley's own formula and against Captum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from captum.attr import ShapleyValues
from torch import Tensor

from heatproof.explainers.kernel_shap import KernelShap, draw_coalitions, kernel, members, size_weights
from heatproof.explainers.scored import Scored
from heatproof.explainers.segments import blocks
from heatproof.seeds import CaseRandom
from reference.explainers import Net

RNG = CaseRandom(0, "kernel_shap")


def literal_shapley(net: Net, case: int, labels: np.ndarray, quantity: str) -> list[float]:
    """phi_i = sum over coalitions C without i of |C|! (M - |C| - 1)! / M! (S(C and i) - S(C)); hidden is zero."""
    players = range(int(labels.max()) + 1)

    def worth(coalition: frozenset[int]) -> float:
        shown = np.isin(labels, list(coalition))
        return net.score(case, np.where(shown, net.inputs(case), 0.0), quantity)

    sizes = range(len(players) + 1)
    worths = {frozenset(c): worth(frozenset(c)) for k in sizes for c in itertools.combinations(players, k)}
    phi = [0.0] * len(players)
    for coalition, before in worths.items():
        share = math.factorial(len(coalition)) * math.factorial(max(0, len(players) - len(coalition) - 1))
        for player in set(players) - coalition:
            phi[player] += share / math.factorial(len(players)) * (worths[coalition | {player}] - before)
    return phi


@pytest.mark.parametrize("quantity", ["logit", "probability"])
def test_values_are_shapley_values(net: Net, quantity) -> None:
    """Reference: Shapley's formula over all coalitions of four or eight segments, and Captum's in float32."""
    explainer = KernelShap(samples=500, segmenter="blocks", segments=4, quantity=quantity, rows=5)
    relevance = explainer(net.model, net.batch, RNG)
    labels = blocks(net.batch.space, 4)
    for case in range(2):
        phi = literal_shapley(net, case, labels.numpy(), quantity)
        np.testing.assert_allclose(relevance[case, 0], np.array(phi)[labels], rtol=1e-8, atol=1e-10)
    if labels.max() > 3:
        return  # Captum goes through all orders
    captum = ShapleyValues(Scored(net.model, quantity)).attribute(
        net.batch.inputs.clone(),
        target=net.batch.target,
        additional_forward_args=net.batch.context or None,
        feature_mask=labels.repeat(1, net.batch.inputs.shape[1], *[1] * labels.ndim),
    )
    torch.testing.assert_close(relevance.expand_as(captum), captum.double(), rtol=1e-3, atol=1e-4)


def test_drawn_coalitions_come_near_the_exact_values(signal_net: Net) -> None:
    """Reference: the exact values, by every coalition; and the values add up to S(x) - S(0) exactly."""
    exact = KernelShap(samples=2**10, segments=10)(signal_net.model, signal_net.batch, RNG)
    drawn = KernelShap(samples=1000, segments=10)(signal_net.model, signal_net.batch, RNG)
    assert not torch.equal(exact, drawn)
    assert (exact - drawn).abs().mean() < 0.05 * exact.abs().mean()
    zeros = torch.zeros_like(signal_net.batch.inputs)
    with torch.no_grad():
        gain = (signal_net.model(signal_net.batch.inputs) - signal_net.model(zeros)).gather(
            1, signal_net.batch.target[:, None]
        )
    for values in (exact, drawn):
        torch.testing.assert_close(values[:, 0, ::4].sum(1, keepdim=True), gain, rtol=1e-9, atol=1e-9)


def test_coalitions_weigh_as_the_kernel_says() -> None:
    """Reference: (M - 1) / (C(M, k) k (M - k)); their sum over all coalitions is that over all sizes."""
    every: Tensor = members(torch.arange(1, 2**6 - 1), 6)
    expected = [5 / (math.comb(6, k) * k * (6 - k)) for k in every.sum(1).tolist()]
    np.testing.assert_allclose(kernel(every), expected, rtol=1e-12)
    assert kernel(every).sum().item() == pytest.approx(size_weights(6).sum().item())


def test_sizes_are_drawn_by_their_weight() -> None:
    """Reference: the shares of the sizes, within four standard errors; all segments alike."""
    shown = draw_coalitions(6, torch.Generator().manual_seed(0), 20_000)
    sizes = shown.sum(1)
    shares = size_weights(6) / size_weights(6).sum()
    for k, share in enumerate(shares.tolist(), 1):
        assert abs((sizes == k).double().mean().item() - share) < 4 * (share * (1 - share) / 20_000) ** 0.5
    assert (shown.double().mean(0) - 0.5).abs().max() < 4 * (0.25 / 20_000) ** 0.5


def test_one_segment_gets_everything(signal_net: Net) -> None:
    relevance = KernelShap(segments=1)(signal_net.model, signal_net.batch, RNG)
    score = signal_net.score(0, signal_net.inputs(0), "logit") - signal_net.score(0, 0 * signal_net.inputs(0), "logit")
    assert relevance[0, 0, 7].item() == pytest.approx(score)

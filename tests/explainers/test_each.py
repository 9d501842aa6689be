"""Several quantities at once: the same relevance as one by one, from the same passes where variants are asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.explainers import Explainer, ScoreExplainer, explainers
from heatproof.explainers.adapters import FunctionExplainer
from heatproof.explainers.base import QUANTITIES, Quantity, SampledExplainer
from heatproof.explainers.cam import maps_and_gradient
from heatproof.explainers.perturbation import Rise, Sise
from heatproof.explainers.spec import make_explainer
from heatproof.progress import listening
from heatproof.seeds import CaseRandom
from nets import MAKERS, VisionTransformer
from reference.explainers import Net

SCORES = {"kernel_shap", "lime", "occlusion", "rise", "score_cam", "sise"}
SHARING = SCORES | {"integrated_gradients", "smoothgrad", "vargrad"}
BOTH: tuple[Quantity, ...] = ("probability", "logit")
SMALL: dict[str, dict[str, Any]] = {
    "smoothgrad": {"samples": 5},
    "vargrad": {"samples": 5},
    "lime": {"samples": 30, "segments": 6},
    "kernel_shap": {"samples": 30, "segments": 9, "segmenter": "blocks"},
    "integrated_gradients": {"steps": 5},
    "rise": {"masks": 11, "cells": 3},
}
"""Parameters that keep the tests quick."""


def fits(name: str, net: str) -> bool:
    """Excitation backprop has no rules for attention, the transformer no ReLUs, and attention methods need some."""
    cls = explainers[name]
    if cls.family == "attention":
        return net == "transformer"
    return net != "transformer" or not (name == "excitation_backprop" or cls.looks_at == "relus")


on_every_net = pytest.mark.parametrize(
    ("net", "name"), [(net, name) for net in MAKERS for name in explainers if fits(name, net)], indirect=["net"]
)
sharing_on_every_net = pytest.mark.parametrize(
    ("net", "name"), [(net, name) for net in MAKERS for name in sorted(SHARING)], indirect=["net"]
)


def make(name: str, **parameters: Any) -> Explainer:
    """A small one; those that sample take a few rows at a time, so that there are many blocks."""
    rows = {"rows": 8} if issubclass(explainers[name], SampledExplainer) else {}
    return explainers[name](**rows, **SMALL.get(name, {}), **parameters)


def rules(name: str, net: Net) -> dict[str, Any]:
    """LRP's default has no rules for attention."""
    return {"composite": "attn_lrp"} if name == "lrp" and isinstance(net.model, VisionTransformer) else {}


def alone(name: str, net: Net, quantity: Quantity) -> Tensor:
    asked = {"quantity": quantity} if issubclass(explainers[name], ScoreExplainer) else {}
    return make(name, **asked, **rules(name, net))(net.model, net.batch, CaseRandom(0, name))


@contextmanager
def counted_rows(model: nn.Module) -> Iterator[list[int]]:
    """The rows of every forward pass."""
    rows: list[int] = []
    hook = model.register_forward_hook(lambda module, args, output: rows.append(len(output)))
    try:
        yield rows
    finally:
        hook.remove()


@on_every_net
def test_each_equals_the_separate_calls(net: Net, name: str) -> None:
    """Reference: a call for each quantity, bit for bit; SISE, whose blocks are of the union of maps, to rounding."""
    found = make(name, **rules(name, net)).each(net.model, net.batch, CaseRandom(0, name), BOTH)
    assert len(found) == 2
    for relevance, quantity in zip(found, BOTH, strict=True):
        expected = alone(name, net, quantity)
        if name == "sise":
            torch.testing.assert_close(relevance, expected, rtol=1e-9, atol=1e-11)
        else:
            assert torch.equal(relevance, expected)
            assert relevance.stride() == expected.stride()


@pytest.mark.parametrize("name", list(explainers))
def test_who_shares_passes(name: str) -> None:
    """Those that ask about variants; another explainer on a random network shares as that one does."""
    assert make(name).shares_passes == (name in SHARING)
    assert make_explainer(f"randomised:{name}").shares_passes == (name in SHARING)


@sharing_on_every_net
def test_all_quantities_come_from_the_passes_of_one(net: Net, name: str) -> None:
    """Reference: the rows of every forward pass for one quantity; SISE's are counted below."""
    rng, explainer = CaseRandom(0, name), make(name)
    explainer(net.model, net.batch, rng)  # what a row costs is seen in a pass of its own
    with counted_rows(net.model) as one:
        explainer(net.model, net.batch, rng)
    with counted_rows(net.model) as three:
        explainer.each(net.model, net.batch, rng, QUANTITIES)
    if name == "sise":
        assert sum(one) <= sum(three) < 2 * sum(one)
    else:
        assert three == one


def test_sise_asks_about_the_union_of_the_maps(net: Net) -> None:
    """Reference: the maps with a positive mean gradient of any quantity, counted; and one pass to see the maps."""
    positive = {}
    for quantity in QUANTITIES:
        _, gradient = maps_and_gradient(net.model, net.batch, None, quantity)
        positive[quantity] = gradient.flatten(2).mean(2) > 0
    union = torch.stack(list(positive.values())).any(0)
    assert any(maps.sum() < union.sum() for maps in positive.values())
    with counted_rows(net.model) as rows:
        Sise(layers="last").each(net.model, net.batch, CaseRandom(0, "sise"), QUANTITIES)
    assert sum(rows) == len(net.batch) + union.sum()


def test_a_random_network_is_made_once(picture_net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """All quantities of `randomised` see one copy of the network; reference: separate calls, bit for bit."""
    import heatproof.explainers.baselines as module

    made: list[nn.Module] = []
    draw = module.randomised
    monkeypatch.setattr(module, "randomised", lambda *args: made.append(draw(*args)) or made[-1])
    rng = CaseRandom(0, "randomised")
    found = make_explainer("randomised:rise:masks=5").each(picture_net.model, picture_net.batch, rng, BOTH)
    assert len(made) == 1
    for relevance, quantity in zip(found, BOTH, strict=True):
        explainer = make_explainer("randomised:rise:masks=5", quantity=quantity)
        assert torch.equal(relevance, explainer(picture_net.model, picture_net.batch, rng))


# Explainers of users


@dataclass(frozen=True, kw_only=True)
class LoudestScore(SampledExplainer):
    """A user's explainer, which knows of one quantity: score times gradient at inputs cut at each of some levels."""

    name = "loudest_score"
    levels: int = 3

    def explain(self, model: nn.Module, batch: Batch, rng: CaseRandom) -> Tensor:
        total = torch.zeros_like(batch.inputs)

        def work(case: Tensor, level: Tensor) -> None:
            inputs = batch.inputs[case] * (batch.inputs[case] > level.view(-1, *[1] * (total.ndim - 1)))
            score = self.score_rows(model, inputs, batch, case).view(-1, *[1] * (total.ndim - 1))
            total.index_add_(0, case, score * self.gradient_rows(model, inputs, batch, case))

        self.sweep(model, batch, self.levels, work)
        return total


@dataclass(frozen=True, kw_only=True)
class SquaredRise(Rise):
    """A user's variant of one of ours, which also knows of one quantity."""

    name = "squared_rise"

    def explain(self, model: nn.Module, batch: Batch, rng: CaseRandom) -> Tensor:
        return super().explain(model, batch, rng).square()


@pytest.mark.parametrize("explainer", [LoudestScore, SquaredRise])
def test_an_explain_of_ones_own_is_asked_about_each_quantity(
    nets: dict[str, Net], explainer: type[ScoreExplainer]
) -> None:
    """Reference: separate calls; the parameters stay what they are."""
    net, rng = nets["question"], CaseRandom(0, "mine")
    parameters = {"levels": 2} if explainer is LoudestScore else {"masks": 9}
    found = explainer(**parameters).each(net.model, net.batch, rng, BOTH)
    assert not explainer(**parameters).shares_passes
    for relevance, quantity in zip(found, BOTH, strict=True):
        assert torch.equal(relevance, explainer(quantity=quantity, **parameters)(net.model, net.batch, rng))


def test_what_a_function_leaves_behind_is_gone_before_the_next_quantity(picture_net: Net) -> None:
    """A hook that silences the model; reference: separate calls, between which hooks are removed."""

    def untidy(model: nn.Module, inputs: Tensor, target: Tensor) -> Tensor:
        score = model(inputs).gather(1, target[:, None])
        model.model.register_forward_hook(lambda module, args, output: output * 0)
        return score[:, :, None, None] * inputs.abs()

    net, rng, explainer = picture_net, CaseRandom(0, "untidy"), FunctionExplainer(function=untidy)
    found = explainer.each(net.model, net.batch, rng, BOTH)
    for relevance, quantity in zip(found, BOTH, strict=True):
        expected = FunctionExplainer(function=untidy, quantity=quantity)(net.model, net.batch, rng)
        assert torch.equal(relevance, expected)


# Progress


def fractions_of(work: Callable[[], object]) -> list[float]:
    """What a listener is told."""
    told: list[float] = []
    with listening(told.append):
        work()
    return told


@on_every_net
def test_progress_runs_from_nothing_to_one(net: Net, name: str) -> None:
    """Each step is a step ahead, the last is the end; those that ask about many variants say so on the way."""
    explainer, rng = make(name, **rules(name, net)), CaseRandom(0, name)
    for told in (
        fractions_of(lambda: explainer(net.model, net.batch, rng)),
        fractions_of(lambda: explainer.each(net.model, net.batch, rng, BOTH)),
    ):
        assert told == sorted(set(told))
        assert told[0] > 0
        assert told[-1] == 1
        if isinstance(explainer, SampledExplainer):
            assert len(told) >= 3
            assert told[0] < 0.5


def test_progress_is_the_share_of_the_variants(signal_net: Net) -> None:
    """Reference: by hand. 7 cases x 12 masks in blocks of 12; 7 cases x 30 samples in blocks of 10, case by case."""
    model, batch, rng = signal_net.model, signal_net.batch, CaseRandom(0, "a")
    rise, lime = Rise(masks=12, rows=12), make_explainer("lime", samples=30, rows=10)
    assert fractions_of(lambda: rise(model, batch, rng)) == pytest.approx([i / 7 for i in range(1, 8)])
    assert fractions_of(lambda: lime(model, batch, rng)) == pytest.approx([i / 21 for i in range(1, 22)])
    gradient = fractions_of(lambda: make_explainer("gradient").each(model, batch, rng, BOTH))
    assert gradient == [0.5, 1]
    asked = FunctionExplainer(function=lambda model, inputs, target: torch.rand_like(inputs))  # case by case
    assert fractions_of(lambda: asked(model, batch, rng)) == pytest.approx([i / 7 for i in range(1, 8)])


def test_progress_of_integrated_gradients_with_a_tolerance(signal_net: Net) -> None:
    """Reference: by hand. The rule as asked is a half, seven doublings for each quantity are the other."""
    explainer = make_explainer("integrated_gradients", steps=2, tolerance=1e-12, rows=50)
    told = fractions_of(lambda: explainer.each(signal_net.model, signal_net.batch, CaseRandom(0, "a"), BOTH))
    assert told == sorted(set(told))
    passed = [round(28 * fraction, 6) for fraction in told]
    assert {14 + i for i in range(15)} <= set(passed)


def test_integrated_gradients_refine_each_quantity_by_itself(net: Net) -> None:
    """Other cases are left for other quantities; reference: separate calls, bit for bit."""
    parameters = {"steps": 2, "tolerance": 0.02, "rows": 8}
    rng = CaseRandom(0, "a")
    found = make_explainer("integrated_gradients", **parameters).each(net.model, net.batch, rng, BOTH)
    for relevance, quantity in zip(found, BOTH, strict=True):
        explainer = make_explainer("integrated_gradients", quantity=quantity, **parameters)
        assert torch.equal(relevance, explainer(net.model, net.batch, rng))

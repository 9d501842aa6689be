"""Floors and ceiling against numbers made by hand."""

from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.stats import kstest
from torch import nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Size
from heatproof.explainers.baselines import Centre, Constant, Edges, InputMagnitude, Oracle, Random, randomised
from heatproof.explainers.spec import make_explainer
from heatproof.metrics.localisation import mass_accuracy, pointing_game, rank_accuracy
from heatproof.pooling import pool
from heatproof.seeds import CaseRandom, derive_seed
from heatproof.testing import small_network_with_question
from reference.explainers import Net

RNG = CaseRandom(3, "random")
MODEL = torch.nn.Identity()


def test_random_numbers_come_from_the_seed_of_the_case(net: Net) -> None:
    """Reference: torch.rand seeded by the hash of (run seed, explainer, case), written out."""
    relevance = Random()(MODEL, net.batch, RNG)
    assert relevance.shape == (len(net.batch), 1, *net.batch.space)
    for case, name in enumerate(net.batch.ids):
        digest = hashlib.blake2b(f"3\x1frandom\x1f{name}".encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") // 2)
        expected = torch.rand(1, *net.batch.space, generator=generator).double()
        torch.testing.assert_close(relevance[case], expected, rtol=0, atol=0)


def test_random_numbers_are_uniform() -> None:
    """Reference: the Kolmogorov-Smirnov test against the uniform distribution on [0, 1]."""
    batch = Batch(torch.zeros(20, 1, 300), torch.zeros(20, dtype=torch.long), tuple(f"c{i}" for i in range(20)))
    values = Random()(MODEL, batch, RNG).flatten().numpy()
    assert kstest(values, "uniform").pvalue > 0.01


def test_constant_is_the_same_everywhere(net: Net) -> None:
    """Theory: a share of the area has that share of the relevance."""
    relevance = Constant()(MODEL, net.batch, RNG)
    assert relevance.shape == (len(net.batch), 1, *net.batch.space)
    half = relevance.flatten()[: relevance.numel() // 2]
    assert half.sum() / relevance.sum() == pytest.approx(len(half) / relevance.numel())


def test_centre_is_a_gaussian_of_a_quarter_of_the_extent(net: Net) -> None:
    """Reference: exp(-d^2 / 2) position by position."""
    space = net.batch.space
    expected = np.zeros(space)
    for place in np.ndindex(*space):
        squares = [((i - n // 2) / (n / 4)) ** 2 for i, n in zip(place, space, strict=True)]
        expected[place] = math.exp(-sum(squares) / 2)
    relevance = Centre()(MODEL, net.batch, RNG)
    for case in range(len(net.batch)):
        np.testing.assert_allclose(relevance[case, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("space", [(41,), (11, 15), (5, 7, 9)])
def test_centre_is_highest_in_the_middle_and_symmetric(space: tuple[int, ...]) -> None:
    """The maximum is at the middle of an odd extent; mirrored, the map is the same."""
    relevance = Centre()(MODEL, Batch(torch.zeros(1, 2, *space), torch.tensor([0]), ("a",)), RNG)[0, 0]
    peak = np.unravel_index(int(relevance.argmax()), space)
    assert all(i == n // 2 for i, n in zip(peak, space, strict=True))
    for axis in range(len(space)):
        torch.testing.assert_close(relevance, relevance.flip(axis), rtol=0, atol=0)


def test_input_magnitude_is_the_absolute_input(net: Net) -> None:
    """Reference: the larger of x and -x."""
    relevance = InputMagnitude()(MODEL, net.batch, RNG)
    np.testing.assert_array_equal(relevance, np.maximum(net.batch.inputs.numpy(), -net.batch.inputs.numpy()))


def test_oracle_lies_in_the_mask(net: Net) -> None:
    """All mass, all top ranks and the maximum are inside; every position of the mask has between 0.9 and 1."""
    relevance = Oracle()(MODEL, net.batch, RNG)
    mask = net.batch.masks["box"]
    heatmap = pool(relevance, "sum_pos")
    for score in (mass_accuracy, rank_accuracy, pointing_game):
        assert score(heatmap, mask).tolist() == [1.0] * len(net.batch)
    assert (relevance[:, 0][~mask] == 0).all()
    assert (relevance[:, 0][mask] >= 0.9).all()
    assert (relevance[:, 0][mask] <= 1.0).all()
    for case in range(len(net.batch)):
        assert bool(mask[case].flatten()[relevance[case].argmax()])


def test_oracle_is_strongest_at_the_middle_of_the_mask() -> None:
    """Masks of odd width: the one maximum is the middle position; further away is weaker."""
    mask = torch.zeros(2, 20, dtype=torch.bool)
    mask[0, 3:10] = True
    mask[1, 12:15] = True
    batch = Batch(torch.zeros(2, 1, 20), torch.tensor([0, 0]), ("a", "b"), masks={"template": mask})
    relevance = Oracle()(MODEL, batch, RNG)[:, 0]
    assert relevance.argmax(1).tolist() == [6, 13]
    assert (relevance[0, 6:10].diff() < 0).all()
    assert (relevance[0, 3:7].diff() > 0).all()


def test_oracle_takes_the_named_mask(picture_net: Net) -> None:
    """Of two ground truths the named one is used; an empty mask of a case gives zeros."""
    mask = picture_net.batch.masks["box"]
    other = ~mask
    other[2] = False
    batch = replace(picture_net.batch, masks={"box": mask, "rest": other})
    relevance = Oracle(mask="rest")(MODEL, batch, RNG)[:, 0]
    assert torch.equal(relevance > 0, other)


def test_oracle_without_one_mask_says_what_there_is(picture_net: Net) -> None:
    """No mask, two masks without a name, and a name that is not there."""
    mask = picture_net.batch.masks["box"]
    with pytest.raises(HeatproofError, match=r"oracle needs one ground-truth mask.*these cases have: none"):
        Oracle()(MODEL, replace(picture_net.batch, masks={}), RNG)
    with pytest.raises(HeatproofError, match="mask=NAME; these cases have: box, rest"):
        Oracle()(MODEL, replace(picture_net.batch, masks={"box": mask, "rest": ~mask}), RNG)
    with pytest.raises(HeatproofError, match="these cases have: box"):
        Oracle(mask="bax")(MODEL, picture_net.batch, RNG)


def test_a_run_can_ask_for_problems_with_masks_before_it_starts() -> None:
    """Reference: which cases explain() takes, by the test above; a wrapped oracle has the same problems."""
    for oracle in (Oracle(), make_explainer("randomised:oracle")):
        assert oracle.problem_with(["template"]) == ""
        assert "these cases have: none" in oracle.problem_with([])
        assert "mask=NAME; these cases have: union, unique" in oracle.problem_with({"unique", "union"})
    assert Oracle(mask="union").problem_with({"unique", "union"}) == ""
    assert "these cases have: unique" in Oracle(mask="union").problem_with(["unique"])
    assert make_explainer("gradient").problem_with([]) == ""


def test_edges_equal_scipy(net: Net) -> None:
    """Reference: scipy's Sobel filter of the mean channel along every axis, borders repeated."""
    relevance = Edges()(net.model, net.batch, RNG)
    for case in range(len(net.batch)):
        mean = net.batch.inputs[case].mean(0).numpy()
        expected = np.sqrt(sum(ndimage.sobel(mean, axis=axis, mode="nearest") ** 2 for axis in range(mean.ndim)))
        np.testing.assert_allclose(relevance[case, 0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("of", ["gradient", "grad_cam", "random"])
def test_randomised_is_the_other_explainer_on_a_network_set_up_anew(map_net: Net, of: str) -> None:
    """Reference: the other explainer on a copy whose layers were reset one by one under the same seed."""
    anew = copy.deepcopy(map_net.model)
    torch.manual_seed(derive_seed(RNG.run_seed, "weights"))
    for module in anew.modules():
        if isinstance(module, (nn.modules.conv._ConvNd, nn.Linear, nn.Embedding, nn.modules.batchnorm._BatchNorm)):
            module.reset_parameters()
    expected = make_explainer(of)(anew, map_net.batch, RNG)
    found = make_explainer(f"randomised:{of}")(map_net.model, map_net.batch, RNG)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert torch.equal(found, make_explainer(of)(map_net.model, map_net.batch, RNG)) == (of == "random")


def test_randomised_takes_the_parameters_of_the_other() -> None:
    explainer = make_explainer("randomised:smoothgrad:samples=3,sigma=0.5", quantity="probability")
    assert explainer.label == "randomised:smoothgrad:samples=3,sigma=0.5"
    assert explainer.passes(Size((40,), (1,))) == 6
    assert explainer.other().quantity == "probability"
    with pytest.raises(HeatproofError, match="unknown explainer 'gradeint'"):
        make_explainer("randomised:gradeint")


def test_other_question_is_the_other_explainer_asked_otherwise() -> None:
    """Reference: the explainer on a batch that asks the other question, written by hand."""
    model = small_network_with_question()
    inputs = torch.randn(3, 3, 12, 10, generator=torch.Generator().manual_seed(1))
    asked, otherwise = torch.tensor([[1, 2, 3]] * 3), torch.tensor([[4, 2, 0], [3, 3, 1], [0, 0, 0]])
    batch = Batch(inputs, torch.tensor([0, 1, 0]), ("a", "b", "c"), (asked,))
    told = replace(batch, other=(torch.tensor([1, 0, -1]), (otherwise,)))
    explainer = make_explainer("other_question:gradient")
    found = explainer(model, told, RNG)
    by_hand = Batch(inputs, torch.tensor([1, 0, 0]), ("a", "b", "c"), (otherwise,))
    expected = make_explainer("gradient")(model, by_hand, RNG)
    torch.testing.assert_close(found[:2], expected[:2], rtol=0, atol=0)
    assert (found[2] == 1).all()  # nobody asks anything else: a map that says nothing
    torch.testing.assert_close(explainer(model, told[1:2], RNG), found[1:2])
    other_class = make_explainer("gradient")(model, replace(batch, target=torch.tensor([1, 0, 1])), RNG)
    torch.testing.assert_close(explainer(model, batch, RNG), other_class, rtol=0, atol=0)
    assert explainer.label == "other_question:gradient"


def test_random_weights_do_not_depend_on_the_layout_of_the_old_ones(picture_net: Net) -> None:
    laid_out = copy.deepcopy(picture_net.model)
    laid_out.to(memory_format=torch.channels_last)
    for plain, other, old in zip(
        randomised(picture_net.model, 1).parameters(),
        randomised(laid_out, 1).parameters(),
        laid_out.parameters(),
        strict=True,
    ):
        assert torch.equal(plain, other)
        assert other.stride() == old.stride()


def test_weights_without_a_layer_are_shuffled() -> None:
    """Values stay, places change."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.arange(50.0))

    before, after = Own(), randomised(Own(), 1)
    assert not torch.equal(before.scale, after.scale)
    assert torch.equal(before.scale, after.scale.sort().values)

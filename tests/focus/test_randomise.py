"""Versions of a model with weights drawn anew."""

from __future__ import annotations

import pytest
import torch

import heatproof
from heatproof.clevr.objects import shipped_pictures
from heatproof.experiments.focus import focus_by_model
from heatproof.models.image_classifiers import make_classifier
from heatproof.models.versions import Versions, blocks_from_the_top, layers_from_the_top, without_draw
from reference.libraries import import_torchvision


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2)
    )


def changed(model: torch.nn.Module, version: torch.nn.Module) -> list[str]:
    """The weights that differ."""
    trained = dict(model.named_parameters())
    return [name for name, weight in version.named_parameters() if not torch.equal(weight, trained[name])]


def test_layers_are_counted_from_the_top(model):
    assert layers_from_the_top(model) == ["4", "1", "0"]


def test_a_cascade_changes_one_block_more_at_a_time_and_keeps_what_it_drew(model):
    torch.nn.init.normal_(model[1].weight)  # a fresh norm is all ones, so that an untrained one would not differ
    torch.nn.init.normal_(model[1].bias)
    versions = Versions("net", model, "cascade")
    assert versions.names == ["net", "cascade-01-4", "cascade-02-0"]
    assert versions["net"] is model
    assert changed(model, versions["cascade-01-4"]) == ["4.weight", "4.bias"]
    top = versions["cascade-01-4"][4].weight.clone()
    assert torch.equal(versions["cascade-02-0"][4].weight, top)
    assert len(changed(model, versions["cascade-02-0"])) == 6


def test_a_layer_and_its_norm_are_one_block(model):
    assert blocks_from_the_top(model) == {"4": ["4"], "0": ["0", "1"]}


def test_norms_of_something_else_are_blocks_of_their_own():
    """Before the first layer, of another width, a second one, and in another module than the layer."""
    net = torch.nn.Sequential(
        torch.nn.BatchNorm2d(3),
        torch.nn.Conv2d(3, 4, 1),
        torch.nn.GroupNorm(2, 4),
        torch.nn.BatchNorm2d(4),
        torch.nn.Conv2d(4, 5, 1),
        torch.nn.Sequential(torch.nn.BatchNorm2d(5)),
        torch.nn.Conv2d(5, 6, 1),
        torch.nn.LayerNorm(6),
        torch.nn.Linear(6, 2),
        torch.nn.BatchNorm1d(2),
    )
    blocks = list(blocks_from_the_top(net).values())
    assert blocks[::-1] == [["0"], ["1", "2"], ["3"], ["4"], ["5.0"], ["6"], ["7"], ["8", "9"]]


def test_resnet18_has_twenty_one_blocks():
    """Reference: He et al. 2016, Table 1: 17 convolutions and a linear layer, and three shortcuts that convolve."""
    net = make_classifier("resnet18", 5).eval()
    blocks = blocks_from_the_top(net, torch.zeros(1, 3, 64, 64))
    assert len(blocks) == 17 + 3 + 1
    assert blocks.pop("fc") == ["fc"]
    assert all(isinstance(net.get_submodule(conv), torch.nn.Conv2d) for conv, _ in blocks.values())
    assert all(isinstance(net.get_submodule(norm), torch.nn.BatchNorm2d) for _, norm in blocks.values())
    assert next(iter(blocks)) == "layer4.1.conv2"
    assert [*blocks][-1] == "conv1"


@pytest.fixture(scope="module")
def inception() -> torch.nn.Module:
    """torchvision's Inception-v3 with random weights, and the second head that it has for training."""
    import_torchvision()
    from torchvision.models import inception_v3

    torch.manual_seed(0)
    return inception_v3(weights=None, num_classes=6, aux_logits=True, init_weights=False).eval()


def test_blocks_of_inception(inception):
    """Reference: Szegedy et al. 2016 in torchvision's code: 94 convolutions with a norm, and a linear layer."""
    blocks = blocks_from_the_top(inception, torch.zeros(1, 3, 96, 96))
    assert len(blocks) == 94 + 1
    assert next(iter(blocks)) == "fc"
    assert [*blocks][-1] == "Conv2d_1a_3x3.conv"
    assert {len(block) for block in blocks.values()} == {1, 2}
    assert not [name for name in blocks if name.startswith("AuxLogits")]
    without_a_look = blocks_from_the_top(inception)
    assert [name for name in without_a_look if name not in blocks] == [
        "AuxLogits.fc",
        "AuxLogits.conv1.conv",
        "AuxLogits.conv0.conv",
    ]


def test_the_top_of_inception_is_drawn_anew(inception):
    versions = Versions("inception", inception, "cascade", sample=torch.zeros(1, 3, 96, 96))
    assert len(versions.names) == 96
    top, second = versions.names[1:3]
    assert changed(inception, versions[top]) == ["fc.weight", "fc.bias"]
    assert (top, second) == ("cascade-01-fc", "cascade-02-Mixed_7c.branch_pool.conv")
    assert "Mixed_7c.branch_pool.conv.weight" in changed(inception, versions[second])


@pytest.mark.slow
def test_a_cascade_through_inception(inception, tmp_path):
    """Every step has its scores; without anything learnt, Focus is about a half wherever it is defined."""
    options = {"images": shipped_pictures(), "model": inception, "tile": 48, "per_class": 2, "only": "metal_cube"}
    run = heatproof.run("focus", explainers="grad_cam", randomise="cascade", out=tmp_path / "r", **options)
    assert not run.failures()
    groups = focus_by_model(run)
    assert len(groups) == 96
    values = torch.tensor([value for group in groups.values() for value in group])
    assert values.isfinite().sum() > 100
    assert values.nanmean() == pytest.approx(0.5, abs=0.1)


def test_draws_differ_and_a_seed_gives_them_again(model):
    versions, again, other = (Versions("net", model, "all", draws=2, seed=seed) for seed in (1, 1, 2))
    assert versions.names == ["net", "random", "random, draw 2"]
    assert [without_draw(name) for name in versions.names] == ["net", "random", "random"]
    first, second = (versions[name][0].weight for name in versions.names[1:])
    assert not torch.equal(first, second)
    assert torch.equal(first, again["random"][0].weight)
    assert not torch.equal(first, other["random"][0].weight)

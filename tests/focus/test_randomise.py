"""Versions of a model with weights drawn anew."""

from __future__ import annotations

import pytest
import torch

from heatproof.models.versions import Versions, layers_from_the_top, without_draw


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


def test_a_cascade_changes_one_layer_more_at_a_time_and_keeps_what_it_drew(model):
    torch.nn.init.normal_(model[1].weight)  # a fresh norm is all ones, so that an untrained one would not differ
    torch.nn.init.normal_(model[1].bias)
    versions = Versions("net", model, "cascade")
    assert versions.names == ["net", "cascade-01-4", "cascade-02-1", "cascade-03-0"]
    assert versions["net"] is model
    assert changed(model, versions["cascade-01-4"]) == ["4.weight", "4.bias"]
    assert changed(model, versions["cascade-02-1"]) == ["1.weight", "1.bias", "4.weight", "4.bias"]
    top = versions["cascade-01-4"][4].weight.clone()
    assert torch.equal(versions["cascade-03-0"][4].weight, top)
    assert len(changed(model, versions["cascade-03-0"])) == 6


def test_draws_differ_and_a_seed_gives_them_again(model):
    versions, again, other = (Versions("net", model, "all", draws=2, seed=seed) for seed in (1, 1, 2))
    assert versions.names == ["net", "random", "random, draw 2"]
    assert [without_draw(name) for name in versions.names] == ["net", "random", "random"]
    first, second = (versions[name][0].weight for name in versions.names[1:])
    assert not torch.equal(first, second)
    assert torch.equal(first, again["random"][0].weight)
    assert not torch.equal(first, other["random"][0].weight)

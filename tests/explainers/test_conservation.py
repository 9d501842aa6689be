"""Relevance layer by layer: against sums that hooks find, on networks whose conservation is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import heatproof
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.explainers.conservation import BOTTOM, TOP
from heatproof.models.object_vit import ObjectVit
from heatproof.testing import small_transformer
from nets import seeded


def without_biases() -> nn.Module:
    """Nothing but the stabilisers can take relevance from it."""
    layers = [nn.Conv2d(3, 5, 3, bias=False), nn.ReLU(), nn.Conv2d(5, 6, 3, bias=False), nn.ReLU(), nn.Flatten()]
    return seeded(None, 3, nn.Sequential(*layers, nn.Linear(6 * 8 * 8, 4, bias=False))).double().eval()


def picture(side: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(1, 3, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_all_is_kept_where_nothing_can_take_it():
    network, x = without_biases(), picture(12)
    levels = heatproof.conservation(network, x, "lrp:composite=epsilon,epsilon=1e-12", target=2)
    assert [level.layer for level in levels] == [TOP, "5", "4", "3", "2", "1", "0", BOTTOM]
    score = float(network(x)[0, 2].detach())
    for level in levels:
        assert level.relevance == pytest.approx(score, rel=1e-8)
        assert (level.biases, level.elsewhere) == (0, pytest.approx(0, abs=1e-8))


def test_biases_take_what_the_formula_says():
    """Reference: epsilon at zero gives a bias b / z of the relevance of its neuron, written out."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(27, 5), nn.ReLU(), nn.Linear(5, 3)).double().eval()
    x = picture(3)
    levels = heatproof.conservation(network, x, "lrp:composite=epsilon,epsilon=1e-12", target=1)
    hidden = network[1](x.flatten(1)).detach()[0]
    active = hidden.clamp(min=0)
    score, bias = float(network(x)[0, 1].detach()), float(network[3].bias[1])
    at_hidden = active * network[3].weight.detach()[1]
    taken = (at_hidden[active > 0] * network[1].bias.detach()[active > 0] / hidden[active > 0]).sum()
    by_name = {level.layer: level for level in levels}
    assert by_name["2"].biases == pytest.approx(bias, rel=1e-8)
    assert by_name["2"].relevance == pytest.approx(score - bias, rel=1e-8)
    assert by_name[BOTTOM].biases == pytest.approx(bias + float(taken), rel=1e-8)
    assert by_name[BOTTOM].relevance == pytest.approx(score - bias - float(taken), rel=1e-8)


@pytest.mark.parametrize("composite", ["attn_lrp", "cp_lrp,gamma=0"])
def test_blocks_of_a_transformer(composite):
    """Reference: what arrives at the inputs is what explain gives; block outputs as gradient hooks see them."""
    torch.manual_seed(0)
    network, x = ObjectVit(width=16, depth=3, heads=2).double().eval(), picture(64)
    spec = f"lrp:composite={composite},epsilon=1e-12"
    levels = heatproof.conservation(network, x, spec, target=1)
    names = [level.layer for level in levels]
    assert [name for name in names if name.startswith("blocks")] == ["blocks.2", "blocks.1", "blocks.0"]
    assert levels[-1].relevance == pytest.approx(float(heatproof.explain(network, x, spec, target=1).sum()), rel=1e-9)
    score = float(network(x)[0, 1].detach())
    for level in levels:
        assert level.relevance + level.biases + level.elsewhere == pytest.approx(score, rel=1e-9)
        assert abs(level.relevance) < 100 * max(abs(score), 0.1)  # it does not explode
    if composite == "cp_lrp,gamma=0":  # then nothing but biases takes any before positions and class token do
        assert all(abs(level.elsewhere) < 1e-6 for level in levels if level.layer in ("head", "norm", "blocks.2"))


def test_torchs_own_blocks_are_seen_too():
    x = torch.randn(1, 3, 12, 10, generator=torch.Generator().manual_seed(1))
    names = [level.layer for level in heatproof.conservation(small_transformer().eval(), x)]
    assert {"blocks.layers.0.norm2", "blocks.layers.1.norm2"} <= set(names)  # where each block ends


def test_what_cannot_be_looked_at_is_named():
    with pytest.raises(HeatproofError, match="conservation is a property of lrp, and gradient is another method"):
        heatproof.conservation(without_biases(), picture(12), "gradient")
    with pytest.raises(HeatproofError, match="case by case, got 2 cases"):
        heatproof.conservation(without_biases(), picture(12).repeat(2, 1, 1, 1), "lrp")


def test_the_command_prints_a_table():
    arguments = ["show", "focus", "--per-class", "1", "--model", "object_vit", "--check-conservation"]
    found = CliRunner().invoke(app, [*arguments, "--case", "000001"])
    assert found.exit_code == 0, found.output
    assert "taken by biases" in found.output
    assert "blocks.3" in found.output
    assert "give one case with --check-conservation" in CliRunner().invoke(app, [*arguments, "--pick", "best"]).output

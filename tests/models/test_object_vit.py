"""The transformer that ships: what it knows, that it takes mosaics, and that its command makes it."""

from __future__ import annotations

from importlib import resources

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from typer.testing import CliRunner

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.clevr.objects import read_sheet, render_objects
from heatproof.cli.train import app
from heatproof.models.classifiers import load_classifier
from heatproof.models.object_classifier import accuracy
from heatproof.models.object_vit import GRID, ObjectVit, train


@pytest.fixture(scope="module")
def shipped() -> ObjectVit:
    module = load_classifier("object_vit").module
    assert isinstance(module, ObjectVit)
    return module


def test_it_is_small_and_knows_pictures_that_it_has_not_seen(shipped):
    assert len(resources.files("heatproof.models").joinpath("pretrained/object_vit.npz").read_bytes()) < 2**20
    assert accuracy(shipped, read_sheet()) >= 0.95


def written_out(network: ObjectVit, pictures: Tensor) -> Tensor:
    """Reference: its formulas, attention head by head."""
    patches = network.patches(pictures)
    places = functional.interpolate(network.positions, patches.shape[2:], mode="bilinear", align_corners=False)
    tokens = torch.cat([network.class_token.expand(len(pictures), -1, -1), (patches + places).flatten(2).mT], 1)
    for block in network.blocks:
        normed = block.norm1(tokens)
        query, key, value = (normed @ part.T for part in block.qkv.weight.chunk(3))
        query, key, value = (
            part + bias for part, bias in zip((query, key, value), block.qkv.bias.chunk(3), strict=True)
        )
        width = query.shape[2] // block.heads
        mixed = []
        for head in range(block.heads):
            q, k, v = (part[..., head * width : (head + 1) * width] for part in (query, key, value))
            mixed.append((q @ k.mT / width**0.5).softmax(-1) @ v)
        tokens = tokens + block.proj(torch.cat(mixed, -1))
        tokens = tokens + block.mlp(block.norm2(tokens))
    return network.head(network.norm(tokens[:, 0]))


@pytest.mark.parametrize("side", [8 * GRID, 128, 48])
def test_it_computes_its_formulas_at_any_size(shipped, side):
    pictures = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(shipped(pictures), written_out(shipped, pictures), rtol=1e-4, atol=1e-4)


def test_a_run_says_that_positions_are_interpolated(tmp_path):
    """All of its own explainers but those that ask thousands of times, on mosaics as large as the other network's."""
    names = [name for name in Focus(model="object_vit").default_explainers if not name.startswith(("lime", "integ"))]
    run = heatproof.run("focus", model="object_vit", explainers=names, per_class=1, limit=3, out=tmp_path)
    assert run.failures() == []
    assert "interpolated to mosaics of 128 x 128" in (tmp_path / "leaderboard.md").read_text()
    table = run.leaderboard().filter(metric="focus", pooling="paper")
    assert table.filter(explainer="oracle")["mean"].item() == pytest.approx(1)
    assert run.story.figures["accuracy"] >= 0.9


def test_training_repeats_itself_and_learns():
    pictures = {label: stack[:4] for label, stack in read_sheet().items()}
    first, again = (train(pictures, seed=3, epochs=2) for _ in range(2))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in first.state_dict().items())
    assert not torch.equal(first.head.weight, train(pictures, seed=4, epochs=2).head.weight)


@pytest.mark.slow
def test_the_command_makes_the_shipped_weights(tmp_path, shipped):
    """Within what another order of additions changes in forty times through the pictures: as good, on held-out ones."""
    out = tmp_path / "vit.npz"
    found = CliRunner().invoke(app, ["focus-vit", "--out", str(out)])
    assert found.exit_code == 0, found.output
    remade = load_classifier("object_vit", out).module
    held_out = render_objects("held out", 10, denoise=True)
    assert accuracy(remade, read_sheet()) >= 0.95
    assert abs(accuracy(remade, held_out) - accuracy(shipped, held_out)) < 0.1

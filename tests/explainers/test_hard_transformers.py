"""Transformers that some methods cannot explain, each with a sentence that says what to do; and compiled ones."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import heatproof
from heatproof.errors import HeatproofError
from heatproof.models.object_vit import Block, ObjectVit
from reference.libraries import import_torchvision

PICTURE = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
ATTENTION = ["raw_attention", "attention_rollout", "chefer", "le_grad"]


@pytest.fixture
def network() -> ObjectVit:
    torch.manual_seed(0)
    return ObjectVit(width=16, depth=2, heads=2).eval()


class FlashBlock(Block):
    """Attention by the kernel itself, which gives no weights away."""

    def attended(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)[0]
        return self.proj(mixed.transpose(1, 2).flatten(2))


class WithoutGrid(nn.Module):
    """Seven tokens of a whole picture each."""

    def __init__(self, network: ObjectVit) -> None:
        super().__init__()
        self.tokens, self.network = nn.Linear(3 * 32 * 32, 7 * 16), network

    def forward(self, pictures: Tensor) -> Tensor:
        tokens = self.tokens(pictures.flatten(1)).unflatten(1, (7, 16))
        return self.network.head(self.network.norm(self.network.blocks(tokens)).mean(1))


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_that_is_never_written_down(network, name):
    for place in range(len(network.blocks)):
        network.blocks[place].__class__ = FlashBlock
    with pytest.raises(HeatproofError, match=rf"{name} needs .*one kernel .*flash attention.*attn_implementation"):
        heatproof.explain(network, PICTURE, name)
    with pytest.raises(HeatproofError, match=r"no rule for the torch function '_scaled_dot_product_flash.*blocks\.1"):
        heatproof.explain(network, PICTURE, "lrp:composite=attn_lrp")


@pytest.mark.parametrize("name", ATTENTION)
def test_tokens_that_form_no_grid(network, name):
    model = WithoutGrid(network).eval()
    with pytest.raises(
        HeatproofError, match=rf"{name} cannot lay out 7 tokens as a map: .*grid=14x14.*take lrp:composite=attn_lrp"
    ):
        heatproof.explain(model, PICTURE, name)
    assert heatproof.explain(model, PICTURE, "lrp:composite=attn_lrp").any()


class Unfolded(nn.Module):
    """The same network with its patches cut out and multiplied, not convolved: nothing tells how they lie."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pictures: Tensor) -> Tensor:
        patches = functional.unfold(pictures, 8, stride=8).transpose(1, 2)
        weight, bias = self.network.conv_proj.weight.flatten(1), self.network.conv_proj.bias
        tokens = torch.cat([self.network.class_token.expand(len(pictures), -1, -1), patches @ weight.T + bias], 1)
        return self.network.heads(self.network.encoder(tokens)[:, 0])


@pytest.mark.parametrize("name", ATTENTION)
def test_a_grid_can_be_given(name):
    """Reference: the same network by a convolution, whose grid is found."""
    import_torchvision()
    from torchvision.models import VisionTransformer

    torch.manual_seed(0)
    found = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5).eval()
    nn.init.normal_(found.heads.head.weight)
    hidden = Unfolded(found)
    with pytest.raises(HeatproofError, match=r"made no convolution.*grid=14x14"):
        heatproof.explain(hidden, PICTURE, name, target=1)
    expected = heatproof.explain(found, PICTURE, name, target=1)
    torch.testing.assert_close(heatproof.explain(hidden, PICTURE, f"{name}:grid=4x4", target=1), expected)
    assert torch.equal(heatproof.explain(found, PICTURE, f"{name}:grid=4x4", target=1), expected)
    for grid, words in {
        "4": "such as grid=14x14, got '4'",
        "0x4": "such as grid=14x14",
        "4x5": "has 20 places, and this model has 17 tokens",
    }.items():
        with pytest.raises(HeatproofError, match=words):
            heatproof.explain(hidden, PICTURE, name, target=1, grid=grid)


@pytest.mark.parametrize("name", [*ATTENTION, "lrp:composite=attn_lrp", "grad_cam", "gradient"])
def test_compiled_networks_are_explained_as_they_were_before(network, name):
    compiled = torch.compile(network, backend="eager")
    found, expected = (heatproof.explain(model, PICTURE, name) for model in (compiled, network))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["chefer", "le_grad", "lrp:composite=attn_lrp", "grad_cam", "gradient"])
def test_quantised_networks_have_no_gradients(network, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(network, {nn.Linear})
        with pytest.raises(HeatproofError, match=r"needs gradients, and layer 'blocks.0.qkv' .* is quantised.*rise"):
            heatproof.explain(quantised, PICTURE, name)
        assert heatproof.explain(quantised, PICTURE, "attention_rollout").any()  # which asks for none

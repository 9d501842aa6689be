"""Transformers in less usual forms: tokens behind the patches, windows, mixed heads, gates in place, own short cuts."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import heatproof
from heatproof.errors import HeatproofError
from nets import Block, seeded
from reference.explainers import stretch

PICTURES = torch.randn(3, 2, 9, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ATTENTION = ["raw_attention", "attention_rollout", "chefer", "le_grad"]
COMPOSITES = ["attn_lrp", "attn_lrp_gamma", "cp_lrp"]
CP = {"composite": "cp_lrp", "gamma": 0, "epsilon": 1e-12}
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


class Joined(nn.Module):
    """Twelve patches, further tokens before and behind them, no positions; `answer` reads the tokens."""

    def __init__(self, before: int, behind: int, answer: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.patches, self.further = nn.Conv2d(2, 8, 3, stride=3), nn.Parameter(torch.zeros(1, before + behind, 8))
        self.blocks = nn.Sequential(Block(8, 2, False), Block(8, 2, False))
        self.norm, self.head, self.before, self.answer = nn.LayerNorm(8), nn.Linear(8, 4), before, answer

    def forward(self, inputs: Tensor) -> Tensor:
        further = self.further.expand(len(inputs), -1, -1)
        parts = [further[:, : self.before], self.patches(inputs).flatten(2).mT, further[:, self.before :]]
        tokens = torch.cat([part for part in parts if part.shape[1]], 1)
        return self.head(self.answer(self.norm(self.blocks(tokens))))


def explained(model: nn.Module, name: str, **parameters: object) -> Tensor:
    return heatproof.explain(model, PICTURES, name, target=1, **parameters)


@pytest.mark.parametrize("name", [*ATTENTION, "grad_cam", "layer_cam"])
@pytest.mark.parametrize("kind", ["class token", "registers", "all"])
def test_where_further_tokens_stand_does_not_matter(name: str, kind: str) -> None:
    """Without positions a transformer does not know it. Reference: the same tokens, all before the patches."""
    first, last, grid, whole = (lambda t: t[:, 0], lambda t: t[:, -1], lambda t: t[:, :12].mean(1), lambda t: t.mean(1))
    front, back, further = {
        "class token": (first, last, 1),
        "registers": (lambda t: t[:, 3:].mean(1), grid, 3),
        "all": (whole, whole, 3),
    }[kind]
    expected = explained(seeded(None, 7, Joined(further, 0, front)), name)
    assert expected.any()
    torch.testing.assert_close(explained(seeded(None, 7, Joined(0, further, back)), name), expected, **CLOSE)
    if kind == "all":
        torch.testing.assert_close(explained(seeded(None, 7, Joined(1, 2, back)), name), expected, **CLOSE)


@pytest.mark.parametrize(
    "answer", [lambda t: t[:, 1:].mean(1), lambda t: t.mean(1), lambda t: t[:, 0] + t[:, 1:].mean(1)]
)
def test_a_class_token_is_read_only_where_it_answers_alone(answer: Callable[[Tensor], Tensor]) -> None:
    """As in BEiT, EVA and DINOv2, which answer by a mean of patches. Reference: the rollout's mean row, by a loop."""
    model, seen = seeded(None, 7, Joined(1, 0, answer)), []

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.append((query @ key.mT / 2).softmax(-1))
        return seen[-1] @ value

    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", attention)
        model(PICTURES)
    found = explained(model, "attention_rollout")
    for case in range(3):
        rolled = torch.eye(13, dtype=torch.float64)
        for block in seen:
            rolled = (block[case].mean(0) + torch.eye(13, dtype=torch.float64)) / 2 @ rolled
        expected = torch.from_numpy(stretch(rolled[1:, 1:].mean(0).view(3, 4).numpy(), (9, 12)))
        torch.testing.assert_close(found[case, 0], expected, **CLOSE)


def windows(maps: Tensor) -> Tensor:
    """Maps (B, C, 8, 8) as the tokens (4 B, 16, C) of their quarters."""
    return maps.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).reshape(-1, 16, maps.shape[1])


class Windows(nn.Module):
    """Attention within quarters of 8 x 8 maps, then, behind a convolution, over a grid of just as many cells."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 2, 2), nn.Conv2d(8, 8, 2, 2)
        self.blocks, self.head = nn.ModuleList([Block(8, 2, False), Block(8, 2, False)]), nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        worked = self.blocks[0](windows(self.first(inputs))).unflatten(0, (-1, 2, 2)).unflatten(3, (4, 4))
        maps = worked.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)
        return self.head(self.blocks[1](self.second(maps).flatten(2).mT).mean(1))


def test_a_softmax_that_pools_is_no_attention() -> None:
    """Over another axis than that of attention it is passed over, by relevance too; over that one it is refused."""

    def by_softmax(tokens: Tensor) -> Tensor:
        return (tokens.sum(-1, keepdim=True).softmax(1) * tokens).sum(1)

    def by_hand(tokens: Tensor) -> Tensor:
        return (tokens.sum(-1)[:, None].softmax(-1) @ tokens)[:, 0]

    model = seeded(None, 7, Joined(0, 0, by_softmax))
    for weights in ("attention", "relevance"):
        assert explained(model, "chefer", weights=weights).any()
    with pytest.raises(HeatproofError, match="from 12 to 12, then from 1 to 12 tokens"):
        explained(seeded(None, 7, Joined(0, 0, by_hand)), "chefer")


@pytest.mark.parametrize("name", ATTENTION)
def test_windows_that_have_as_many_tokens_as_the_last_grid(name: str) -> None:
    """As in MaxViT: their maps are no map of the picture, though they fit."""
    pictures = torch.randn(2, 2, 16, 16, dtype=torch.float64)
    with pytest.raises(HeatproofError, match=r"stands behind grids of 8 x 8 and 4 x 4 patches.*without windows"):
        heatproof.explain(seeded(None, 3, Windows()), pictures, name, target=1)


class Unrolled(nn.Module):
    """Tokens in the order of windows, as Hiera has them, from first to last."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.block = nn.Conv2d(2, 8, 2, 2), Block(8, 2, False)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = windows(self.patches(inputs)).reshape(len(inputs), -1, 8)
        return self.head(self.norm(self.block(tokens)).mean(1))


def test_tokens_in_another_order_are_no_grid() -> None:
    """Reference: a literal hook at the last layer that is one."""
    pictures = torch.randn(2, 2, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model = seeded(None, 3, Unrolled())
    with pytest.raises(HeatproofError, match="layer 'norm' has none"):
        heatproof.explain(model, pictures, "grad_cam", target=1, layer="norm")
    maps = model.patches(pictures).detach().requires_grad_()
    tokens = windows(maps).reshape(2, 64, 8)
    (slopes,) = torch.autograd.grad(model.head(model.norm(model.block(tokens)).mean(1))[:, 1].sum(), maps)
    cam = (maps.detach() * slopes.mean((2, 3), keepdim=True)).sum(1, keepdim=True).clamp(min=0)
    found = heatproof.explain(model, pictures, "grad_cam", target=1)
    torch.testing.assert_close(found, F.interpolate(cam, size=(16, 16), mode="bilinear"), **CLOSE)


class Weighing(nn.Module):
    """One block whose attention is made by a function of logits (B, h, T, T); its gates are constants where asked."""

    def __init__(self, attend: Callable[[Tensor], Tensor], gate: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.patches, self.qkv, self.gates = nn.Conv2d(2, 8, 3, stride=3), nn.Linear(8, 24), nn.Linear(8, 8)
        self.head, self.attend, self.gate, self.frozen = nn.Linear(8, 4), attend, gate, False

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.patches(inputs).flatten(2).mT
        query, key, value = self.qkv(tokens).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        weights, gates = self.attend(query @ key.mT / 2), self.gate(self.gates(tokens))
        if self.frozen:
            weights, gates = weights.detach(), gates.detach()
        return self.head(((weights @ value).transpose(1, 2).flatten(2) * gates).mean(1))


MIX = torch.tensor([[0.7, -0.4], [0.5, 1.1]], dtype=torch.float64)
PLACES = torch.randn(12, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(-1)


def mixed_heads(logits: Tensor) -> Tensor:
    return F.linear(logits.softmax(-1).permute(0, 2, 3, 1), MIX).permute(0, 3, 1, 2)


def difference(logits: Tensor) -> Tensor:
    return logits.softmax(-1) - 0.3 * (2 * logits).softmax(-1)


def with_places(logits: Tensor) -> Tensor:
    weights = 0.6 * logits.softmax(-1) + 0.4 * PLACES
    weights /= weights.square().sum(-1, keepdim=True)
    return weights


def dropped(logits: Tensor) -> Tensor:
    return F.dropout(logits.softmax(-1), 0.5, training=False, inplace=True)


def spread(x: Tensor) -> Tensor:
    return F.interpolate(x.sigmoid().mT, scale_factor=0.5).repeat_interleave(2, 2).mT


@pytest.mark.parametrize("gate", [torch.sigmoid, torch.sigmoid_, F.hardsigmoid, spread])
@pytest.mark.parametrize("attend", [mixed_heads, difference, with_places, dropped])
def test_what_is_made_of_constants_is_constant(attend: Callable[..., Tensor], gate: Callable[..., Tensor]) -> None:
    """Talking heads, differences, positions, dropout in place. Reference: input times gradient, weights detached."""
    model = seeded(None, 5, Weighing(attend, gate))
    found = explained(model, "lrp", **CP)
    model.frozen = True
    inputs = PICTURES.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs)[:, 1].sum(), inputs)
    torch.testing.assert_close(found, PICTURES * gradient, rtol=1e-7, atol=1e-9)


def test_a_sigmoid_between_layers_is_an_activation() -> None:
    """No gate, at which relevance would end. Reference: input times gradient, with slopes f(z) / z."""

    class Activated(nn.Module):
        def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.first, self.second, self.head, self.step = (
                nn.Conv2d(2, 4, 3),
                nn.Conv2d(4, 4, 3),
                nn.Linear(4, 4),
                step,
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.second(self.step(self.first(x))).relu().mean((2, 3)))

    found = explained(seeded(None, 5, Activated(torch.sigmoid)), "lrp", **CP)
    sloped = seeded(None, 5, Activated(lambda z: z * (z.sigmoid() / z).detach()))
    inputs = PICTURES.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(sloped(inputs)[:, 1].sum(), inputs)
    torch.testing.assert_close(found, PICTURES * gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("composite", ["attn_lrp", "cp_lrp"])
def test_a_gated_linear_unit_is_a_gate_written_out(composite: str) -> None:
    def by_hand(x: Tensor) -> Tensor:
        signal, gate = x.chunk(2, -1)
        return signal * gate.sigmoid()

    found = []
    for step in (F.glu, by_hand):
        model = seeded(None, 5, Weighing(lambda logits: logits.softmax(-1), torch.sigmoid))
        model.gate = lambda x, step=step: step(torch.cat([x, x.flip(-1)], -1))
        found.append(explained(model, "lrp", composite=composite))
    torch.testing.assert_close(found[0], found[1])


def test_what_weighs_places_alone_is_no_attention() -> None:
    """As in ConViT. Reference: the same network, the constant weights not made by a softmax."""

    def positions(logits: Tensor) -> Tensor:
        return (logits.softmax(-1) + PLACES.log().expand_as(logits).softmax(-1)) / 2

    def written(logits: Tensor) -> Tensor:
        return (logits.softmax(-1) + PLACES) / 2

    for name in ("raw_attention", "attention_rollout", "chefer"):
        found, expected = (
            explained(seeded(None, 5, Weighing(each, torch.sigmoid)), name) for each in (positions, written)
        )
        torch.testing.assert_close(found, expected, **CLOSE)


def test_the_short_cut_of_torchs_encoder_is_not_taken() -> None:
    """With padding it packs tokens and passes by the layers. Reference: the same encoder without it."""

    class Encoder(nn.Module):
        def __init__(self, nested: bool) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
            self.patches, self.head = nn.Conv2d(2, 8, 3, stride=3), nn.Linear(8, 4)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = torch.arange(12).expand(len(inputs), -1) >= 10
            return self.head(
                self.encoder(self.patches(inputs).flatten(2).mT, src_key_padding_mask=hidden)[:, :10].mean(1)
            )

    found, expected = (explained(seeded(None, 5, Encoder(nested)), "le_grad") for nested in (True, False))
    assert expected.any()
    torch.testing.assert_close(found, expected, **CLOSE)


class Frequencies(nn.Module):
    """Tokens mixed by a Fourier transform, as in FNet."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.dense, self.head = nn.Conv2d(2, 8, 3, stride=3), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        mixed = torch.fft.fft2(self.patches(inputs).flatten(2).mT.to(torch.complex128)).real
        return self.head(F.gelu(self.dense(mixed)).mean(1))


def test_complex_numbers_are_no_rectifiers() -> None:
    with pytest.raises(HeatproofError, match="this model has none"):
        explained(seeded(None, 5, Frequencies()), "guided_backprop")


def test_products_may_be_changed_in_place() -> None:
    """What einsum gives is a view. Reference: the difference of the two scores, which DeepLIFT adds up to."""

    def scaled(logits: Tensor) -> Tensor:
        return torch.einsum("bhij,bhjk->bhik", logits, logits).mul_(0.1).softmax(-1)

    model = seeded(None, 5, Weighing(scaled, torch.sigmoid))
    with torch.no_grad():
        expected = (model(PICTURES) - model(0 * PICTURES))[:, 1]
    found = explained(model, "deep_lift", baseline="zero").flatten(1).sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def tensors_alive() -> int:
    gc.collect()
    return sum(type(thing) is Tensor for thing in gc.get_objects())


@pytest.mark.parametrize("spec", ["chefer:weights=relevance", "le_grad", *(f"lrp:composite={c}" for c in COMPOSITES)])
def test_nothing_of_a_pass_stays_in_memory(spec: str) -> None:
    """A node that holds its own output is never freed: memory grew by the whole pass with each call."""
    model = seeded(None, 7, Joined(1, 0, lambda tokens: tokens[:, 0]))
    explained(model, spec)  # layers that are found once are remembered
    before = tensors_alive()
    for _ in range(3):
        explained(model, spec)
    assert tensors_alive() == before


class Pieces(nn.Module):
    """A block whose attention is computed in two pieces: heads in layers of their own, or a difference."""

    def __init__(self, difference: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.difference = difference
        self.patches, self.looks = nn.Conv2d(3, 8, 4, 4), nn.ModuleList(nn.Linear(8, 16) for _ in range(2))
        self.values, self.out = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.patches(inputs).flatten(2).transpose(1, 2)
        pairs = [look(tokens).chunk(2, -1) for look in self.looks]
        first, second = ((query @ key.transpose(1, 2)).softmax(-1) for query, key in pairs)
        values = self.values(tokens)
        seen = (first - 0.8 * second) @ values if self.difference else first @ values + second @ values
        logits: Tensor = self.out(seen.mean(1))
        return logits


@pytest.mark.parametrize("difference", [True, False])
@pytest.mark.parametrize("method", ["raw_attention", "attention_rollout", "chefer"])
def test_pieces_of_one_blocks_attention_are_not_taken_for_blocks(method: str, difference: bool) -> None:
    with pytest.raises(HeatproofError, match="in several pieces within a block"):
        heatproof.explain(Pieces(difference).eval(), torch.randn(1, 3, 16, 16), method, target=1)

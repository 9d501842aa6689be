"""Vision transformers: class activation maps on tokens against the grad-cam library, attention against loops."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers, layers
from heatproof.explainers.attention import AttentionRollout, Chefer, LeGrad, RawAttention
from heatproof.explainers.attention_maps import attention_of
from heatproof.explainers.base import ScoreExplainer
from heatproof.explainers.cam import GradCam, LayerCam, ScoreCam, maps_and_gradient
from heatproof.explainers.guards import untouched
from heatproof.explainers.layers import recorded, spatial_activations
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom
from nets import VisionTransformer, cases, seeded
from reference.explainers import stretch
from reference.libraries import import_grad_cam

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
BATCH = cases(17, 2, 9, 12)

models = pytest.mark.parametrize(
    "model",
    [
        seeded(None, 21, VisionTransformer(class_token, module))
        for class_token in (False, True)
        for module in (False, True)
    ],
    ids=["mean", "mean, module", "class token", "class token, module"],
)


def attention_weights(model: VisionTransformer, tokens: Tensor, block: int) -> np.ndarray:
    """softmax(q k^T / sqrt(d)) of one case's tokens (T, D), head by head and query by query: (heads, T, T)."""
    layer = model.blocks[block]
    if layer.attn is not None:
        weight, bias = layer.attn.in_proj_weight, layer.attn.in_proj_bias
    else:
        weight, bias = layer.qkv.weight, layer.qkv.bias
    normed = layer.norm1(tokens).detach().numpy()
    projected = normed @ weight.detach().numpy().T + bias.detach().numpy()
    width = 8 // layer.heads
    maps = np.zeros((layer.heads, len(tokens), len(tokens)))
    for head in range(layer.heads):
        query = projected[:, head * width : (head + 1) * width]
        key = projected[:, 8 + head * width : 8 + (head + 1) * width]
        for i in range(len(tokens)):
            scores = np.array([np.dot(query[i], key[j]) / np.sqrt(width) for j in range(len(tokens))])
            maps[head, i] = np.exp(scores) / np.exp(scores).sum()
    return maps


@models
def test_attention_rollout_equals_the_loop(model: VisionTransformer) -> None:
    """Reference: attention from the projections by hand, (A + I) / 2 multiplied block by block, then up-sampled."""
    relevance = AttentionRollout()(model, BATCH, RNG)
    assert relevance.shape == (7, 1, 9, 12)
    for case in range(3):
        tokens = model.patches(BATCH.inputs[case : case + 1]).flatten(2).transpose(1, 2)
        if model.class_token is not None:
            tokens = torch.cat([model.class_token, tokens], 1)
        tokens = tokens + model.places
        rolled = np.eye(tokens.shape[1])
        for block in range(2):
            attention = attention_weights(model, tokens[0], block).mean(0)
            rolled = (attention + np.eye(len(attention))) / 2 @ rolled
            tokens = model.blocks[block](tokens)
        row = rolled.mean(0) if model.class_token is None else rolled[0, 1:]
        expected = stretch(row.reshape(3, 4), (9, 12))
        np.testing.assert_allclose(relevance[case, 0], expected, **CLOSE)


def written_out(model: VisionTransformer, stop: int = 2) -> tuple[Tensor, list[Tensor]]:
    """The network by its formulas, up to a block, with the last layers behind that: logits, and attention by block."""
    tokens = model.patches(BATCH.inputs).flatten(2).transpose(1, 2)
    if model.class_token is not None:
        tokens = torch.cat([model.class_token.expand(len(tokens), -1, -1), tokens], 1)
    tokens, maps = tokens + model.places, []
    for block in model.blocks[:stop]:
        packed = block.qkv if block.attn is None else None
        weight, bias = (packed.weight, packed.bias) if packed else (block.attn.in_proj_weight, block.attn.in_proj_bias)
        q, k, v = (
            part.unflatten(2, (2, 4)).transpose(1, 2) for part in (block.norm1(tokens) @ weight.T + bias).chunk(3, 2)
        )
        attention = (q @ k.transpose(2, 3) / 2).softmax(-1)
        maps.append(attention)
        mixed = (attention @ v).transpose(1, 2).flatten(2)
        tokens = tokens + (mixed if block.attn is None else block.attn.out_proj(mixed))
        tokens = tokens + block.mlp(block.norm2(tokens))
    tokens = model.norm(tokens)
    return model.answer(tokens.mean(1) if model.class_token is None else tokens[:, 0]), maps


def on_grid(row: Tensor) -> np.ndarray:
    """A value of each token of one case, up-sampled by loops."""
    return stretch(row[-12:].detach().numpy().reshape(3, 4), (9, 12))


@models
def test_chefer_equals_the_loop(model: VisionTransformer) -> None:
    """Reference: the formula of the paper, case by case and head by head, on the network written out."""
    logits, maps = written_out(model)
    gradients = torch.autograd.grad(logits.gather(1, BATCH.target[:, None]).sum(), maps)
    found = Chefer()(model, BATCH, RNG)
    for case in range(len(BATCH)):
        rolled = torch.eye(maps[0].shape[-1], dtype=torch.float64)
        for attention, gradient in zip(maps, gradients, strict=True):
            heads = [(gradient[case, head] * attention[case, head]).clamp(min=0) for head in range(2)]
            rolled = rolled + (heads[0] + heads[1]) / 2 @ rolled
        row = rolled.mean(0) if model.class_token is None else rolled[0]
        np.testing.assert_allclose(found[case, 0], on_grid(row), **CLOSE)


@models
def test_le_grad_equals_the_loop(model: VisionTransformer) -> None:
    """Reference: the score after each block, by the network written out only so far; (dS/dA)+ averaged."""
    rows = torch.zeros(len(BATCH), model.places.shape[1], dtype=torch.float64)
    for stop in (1, 2):
        logits, maps = written_out(model, stop)
        (gradient,) = torch.autograd.grad(logits.gather(1, BATCH.target[:, None]).sum(), maps[-1:])
        rows += gradient.clamp(min=0).mean((1, 2)) / 2
    found = LeGrad()(model, BATCH, RNG)
    for case in range(len(BATCH)):
        np.testing.assert_allclose(found[case, 0], on_grid(rows[case]), **CLOSE)


@models
@pytest.mark.parametrize("heads", ["mean", "min", "max"])
def test_raw_attention_and_rollouts_equal_the_loop(model: VisionTransformer, heads: str) -> None:
    """Reference: by loops; a discarded entry is one of the smallest tenth, and rows sum to one again."""
    _, maps = written_out(model)
    size, fuse = maps[0].shape[-1], {"mean": np.mean, "min": np.min, "max": np.max}[heads]
    rollout = AttentionRollout(heads=heads, discard=0.1)(model, BATCH, RNG)
    raw = RawAttention(heads=heads, block=0)(model, BATCH, RNG)
    for case in range(len(BATCH)):
        fused = [fuse(attention[case].detach().numpy(), axis=0) for attention in maps]
        first = fused[0].mean(0) if model.class_token is None else fused[0][0]
        np.testing.assert_allclose(raw[case, 0], on_grid(torch.tensor(first)), **CLOSE)
        rolled = np.eye(size)
        for looks in fused:
            order = sorted(range(size * size), key=lambda place: looks.flat[place])[: int(0.1 * size * size)]
            kept = looks.copy()
            for place in order:
                if place != 0:
                    kept.flat[place] = 0
            kept = kept + np.eye(size)
            rolled = kept / kept.sum(1, keepdims=True) @ rolled
        row = rolled.mean(0) if model.class_token is None else rolled[0]
        np.testing.assert_allclose(rollout[case, 0], on_grid(torch.tensor(row)), **CLOSE)


@models
def test_chefer_by_relevance_weighs_with_that_of_lrp(model: VisionTransformer) -> None:
    """One relevance for each attention, by the rules that have tests of their own; the map is another one then."""
    explainer = Chefer(weights="relevance")
    with untouched(model, freeze=True):
        relevance = explainer.relevance(model, BATCH)
    assert [found.shape for found in relevance] == [found.shape for found in written_out(model)[1]]
    assert not torch.allclose(explainer(model, BATCH, RNG), Chefer()(model, BATCH, RNG))


@models
def test_a_network_is_searched_for_its_layer_once(model: VisionTransformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search takes several plain passes; residual paths go round every layer of a transformer."""
    model, searches = copy.deepcopy(model), []
    monkeypatch.setattr(layers, "recorded", lambda *args: searches.append(args) or recorded(*args))
    first, again = (GradCam()(model, BATCH, RNG) for _ in range(2))
    assert torch.equal(first, again)
    assert len(searches) == 1


@pytest.mark.parametrize("explainer", [Chefer, LeGrad])
def test_the_score_decides(explainer: type[ScoreExplainer]) -> None:
    """Quantity and target matter, a wrong target is refused, and so is a block of another kind."""
    model = seeded(None, 21, VisionTransformer(class_token=True))
    logit, probability = (explainer(quantity=quantity)(model, BATCH, RNG) for quantity in ("logit", "probability"))
    assert not torch.allclose(logit, probability)
    assert not torch.allclose(logit, explainer()(model, replace(BATCH, target=(BATCH.target + 1) % 4), RNG))
    with pytest.raises(HeatproofError, match="between 0 and 3"):
        explainer()(model, replace(BATCH, target=BATCH.target + 4), RNG)


def test_bad_parameters_and_models_without_blocks_are_named() -> None:
    model = seeded(None, 21, VisionTransformer(class_token=True))
    with pytest.raises(HeatproofError, match="block is 2, and this model has 2 blocks"):
        RawAttention(block=2)(model, BATCH, RNG)
    with pytest.raises(HeatproofError, match=r"discard must be a share from 0 up to 1, got 1\.5"):
        AttentionRollout(discard=1.5)
    with pytest.raises(HeatproofError, match="unknown attention_rollout heads 'mea'"):
        AttentionRollout(heads="mea")

    class OneLayer(VisionTransformer):
        def tokens(self, inputs: Tensor) -> Tensor:
            tokens = self.patches(inputs).flatten(2).transpose(1, 2) + self.places
            for _ in range(2):
                tokens = tokens + nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
            return self.norm(tokens)

    with pytest.raises(HeatproofError, match="attention is not inside one of its own"):
        LeGrad()(seeded(None, 3, OneLayer()), BATCH, RNG)


@pytest.mark.parametrize("mask", [None, "causal", "boolean", "added"])
def test_attention_is_what_torch_applies(mask: str | None) -> None:
    """Reference: torch's scaled_dot_product_attention of the identity matrix as values, which is the attention."""
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, 3, 5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    options = {
        None: {},
        "causal": {"is_causal": True},
        "boolean": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril(1)},
        "added": {"attn_mask": torch.randn(5, 5, generator=generator, dtype=torch.float64), "scale": 0.3},
    }[mask]
    identity = torch.eye(5, dtype=torch.float64).expand(2, 3, 5, 5)
    expected = nn.functional.scaled_dot_product_attention(query, key, identity, **options)
    torch.testing.assert_close(attention_of(query, key, **options), expected, **CLOSE)


def test_a_softmax_written_out_is_seen_too() -> None:
    """Reference: the same block with torch's function."""

    class WrittenOut(VisionTransformer):
        def tokens(self, inputs: Tensor) -> Tensor:
            tokens = self.patches(inputs).flatten(2).transpose(1, 2) + self.places
            for block in self.blocks:
                query, key, value = block.qkv(block.norm1(tokens)).unflatten(2, (3, 2, -1)).permute(2, 0, 3, 1, 4)
                attention = (query @ key.transpose(2, 3) / 2).softmax(-1)
                tokens = tokens + (attention @ value).transpose(1, 2).flatten(2)
                tokens = tokens + block.mlp(block.norm2(tokens))
            return self.norm(tokens)

    model, other = seeded(None, 3, WrittenOut()), seeded(None, 3, VisionTransformer())
    with torch.no_grad():
        torch.testing.assert_close(model(BATCH.inputs), other(BATCH.inputs), **CLOSE)
    found, expected = (AttentionRollout()(m, BATCH, RNG) for m in (model, other))
    torch.testing.assert_close(found, expected, **CLOSE)


@models
@pytest.mark.parametrize("name", ["grad_cam", "grad_cam_pp", "xgrad_cam", "layer_cam"])
def test_class_activation_maps_equal_the_grad_cam_library(model: VisionTransformer, name: str) -> None:
    """Reference: pytorch-grad-cam with its recipe for transformers: the norm before the last attention, no class token.

    Where the answer is the mean of all tokens, the last norm is the layer. Its maps are scaled to [0, 1] per case.
    Large logits make its stabilisers (1e-6 beside squared gradients) negligible.
    """
    library = import_grad_cam()
    model = copy.deepcopy(model)
    with torch.no_grad():
        model.answer.weight *= 1e4
    kinds = {
        "grad_cam": library.GradCAM, "xgrad_cam": library.XGradCAM, "layer_cam": library.LayerCAM,
        "grad_cam_pp": library.GradCAMPlusPlus,
    }  # fmt: skip
    layer = model.norm if model.class_token is None else model.blocks[-1].norm1
    further = 0 if model.class_token is None else 1

    def reshape(tokens: Tensor) -> Tensor:
        return tokens[:, further:].transpose(1, 2).reshape(len(tokens), 8, 3, 4)

    with kinds[name](model=model, target_layers=[layer], reshape_transform=reshape) as cam:
        targets = [library.utils.model_targets.ClassifierOutputTarget(int(t)) for t in BATCH.target]
        expected = cam(input_tensor=BATCH.inputs.clone().requires_grad_(), targets=targets)
    found = make_explainer(name)(model, BATCH, RNG)[:, 0].numpy()
    assert scaled_like_the_library(found).any()
    np.testing.assert_allclose(scaled_like_the_library(found), expected, rtol=1e-4, atol=1e-5)


def scaled_like_the_library(maps: np.ndarray) -> np.ndarray:
    low = maps.min((1, 2), keepdims=True)
    return (maps - low) / (1e-7 + (maps - low).max((1, 2), keepdims=True))


def test_the_layer_with_a_gradient_is_read() -> None:
    """What the last block makes of the patches does not reach the class token's answer; a named layer is obeyed."""
    model = seeded(None, 22, VisionTransformer(class_token=True))
    maps, gradient = maps_and_gradient(model, BATCH, None, "logit")
    named, _ = maps_and_gradient(model, BATCH, "blocks.1.norm1", "logit")
    assert maps.shape == (7, 8, 3, 4)
    assert gradient.any()
    assert torch.equal(maps, named)
    earlier = GradCam(layer="blocks.0")(model, BATCH, RNG)
    assert not torch.equal(earlier, GradCam()(model, BATCH, RNG))
    with pytest.raises(HeatproofError, match="does not lead to the model's output"):
        GradCam(layer="norm")(model, BATCH, RNG)
    assert torch.equal(ScoreCam()(model, BATCH, RNG), ScoreCam(layer="blocks.1.norm1")(model, BATCH, RNG))
    assert LayerCam()(model, BATCH, RNG).any()


def test_tokens_that_are_known_are_looked_for_again_where_others_count() -> None:
    """By its weights alone the answer comes from the class token or from all. Reference: a copy that is new."""

    class Pooled(VisionTransformer):
        def forward(self, inputs: Tensor) -> Tensor:
            tokens = self.patches(inputs).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], 1) + self.places
            for block in self.blocks:
                tokens = block(tokens)
            return self.answer(torch.einsum("btd,t->bd", self.norm(tokens), self.shares))

    model = seeded(None, 22, Pooled(class_token=True))
    first, all_tokens = torch.eye(13, dtype=torch.float64)[0], torch.ones(13, dtype=torch.float64)
    for shares, layer in ((first, "blocks.1.norm1"), (all_tokens, "norm"), (first, "blocks.1.norm1")):
        model.shares = shares
        for name in ("grad_cam", "score_cam", "grad_cam"):
            for batch in (BATCH, BATCH[:1]):
                explainer = make_explainer(name)
                expected = explainer(copy.deepcopy(model), batch, RNG)
                assert expected.any() or name == "score_cam"  # whose sum of maps may be below zero everywhere
                assert torch.equal(explainer(model, batch, RNG), expected)
        assert GradCam().layer_read(model, BATCH) == layer


@models
def test_every_method_explains_a_transformer_or_says_why_not(model: VisionTransformer) -> None:
    """Finite relevance, not all zero; LRP says what it has no rule for, guided backprop that there is no ReLU."""
    small = {
        "lime": {"samples": 20}, "kernel_shap": {"samples": 20}, "rise": {"masks": 20}, "smoothgrad": {"samples": 3},
        "vargrad": {"samples": 3}, "integrated_gradients": {"steps": 3},
    }  # fmt: skip
    for name, cls in explainers.items():
        explainer = cls(**small.get(name, {}))
        if cls.family == "propagation":
            with pytest.raises(
                HeatproofError, match=rf"{name} has no rule for .*take a gradient or perturbation method"
            ):
                explainer(model, BATCH, RNG)
        elif cls.looks_at == "relus":
            with pytest.raises(HeatproofError, match=r"this model has none, .* would be the plain gradient"):
                explainer(model, BATCH, RNG)
        else:
            assert explainer(model, BATCH, RNG).any(), name


def test_a_network_without_attention_is_told_so() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(210, 4)).double()
    with pytest.raises(HeatproofError, match="no attention was seen in this model"):
        AttentionRollout()(model, BATCH, RNG)


def test_tokens_that_are_no_grid_are_refused() -> None:
    """A transformer over words of a convolution's channels: its tokens are not patches."""

    class Sideways(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 40, 3, stride=3)
            self.block = nn.TransformerEncoderLayer(12, 2, 8, batch_first=True)
            self.answer = nn.Linear(12, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.answer(self.block(self.conv(inputs).flatten(2)).mean(1))

    model = Sideways().double()
    with pytest.raises(
        HeatproofError, match="cannot lay out 40 tokens as a map: the patch embedding made a grid of 3 x 4"
    ):
        AttentionRollout()(model, BATCH, RNG)
    assert not any(a.tokens for a in spatial_activations(model.eval(), BATCH)[1])


def test_a_transformer_of_signals() -> None:
    """One dimension: tokens have as many axes as maps, and are told apart all the same."""

    class Signals(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv1d(1, 8, 4, stride=4)
            self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
            self.norm, self.answer = nn.LayerNorm(8), nn.Linear(8, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.answer(self.norm(self.block(self.patches(inputs).transpose(1, 2))).mean(1))

    model = seeded(None, 5, Signals())
    batch = Batch(torch.randn(2, 1, 40, dtype=torch.float64), torch.tensor([0, 2]), ("a", "b"))
    maps, _ = maps_and_gradient(model, batch, None, "logit")
    assert maps.shape == (2, 8, 10)
    assert AttentionRollout()(model, batch, RNG).shape == (2, 1, 40)

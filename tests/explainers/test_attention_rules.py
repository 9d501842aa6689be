"""LRP through attention, against literal loops and against lxt, the code of AttnLRP's authors; all in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import heatproof
from heatproof.errors import HeatproofError
from reference.libraries import import_torchvision

EPSILON = 1e-12
ATTN, CP = f"lrp:composite=attn_lrp,epsilon={EPSILON}", f"lrp:composite=cp_lrp,gamma=0,epsilon={EPSILON}"


class Written(nn.Module):
    """A network that is what this function does, with its weights; the first output is explained."""

    def __init__(self, function, **weights: Tensor) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterDict(weights)

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.function(x.squeeze(1), **self.weights)
        return outputs.expand(-1, 2) if outputs.shape[1] == 1 else outputs  # one output would be a binary classifier's


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def relevance(function, x: Tensor, spec: str = ATTN, **weights: Tensor) -> Tensor:
    return heatproof.explain(Written(function, **weights), x.unsqueeze(1), spec, target=0).squeeze(1)


def test_softmax_equals_a_literal_loop():
    """x_i (R_i - s_i sum_j R_j), where what comes is R = s w by the epsilon rule of the dense layer behind it."""
    x, w = draw(3, 5), draw(2, 5, seed=1)
    found = relevance(lambda x, w: functional.linear(x.softmax(-1), w), x, w=w)
    expected = torch.zeros_like(x)
    for case in range(3):
        s = [math.exp(v) / sum(math.exp(u) for u in x[case].tolist()) for v in x[case].tolist()]
        coming = [s[i] * float(w[0, i]) for i in range(5)]
        for i in range(5):
            expected[case, i] = x[case, i] * (coming[i] - s[i] * sum(coming))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_a_product_gives_half_to_each_factor():
    """Reference: z = sum_ij a_i m_ij b_j written out; a and b are parts of the input."""
    x, m = draw(2, 6), draw(3, 3, seed=1)

    def bilinear(x: Tensor, m: Tensor) -> Tensor:
        a, b = x[:, :3], x[:, 3:]
        return torch.einsum("bi,bi->b", functional.linear(a, m), b)[:, None]

    found = relevance(bilinear, x, m=m)
    expected = torch.zeros_like(x)
    for case in range(2):
        a, b = x[case, :3], x[case, 3:]
        for i in range(3):
            inner = sum(float(m[i, j] * a[j]) for j in range(3))
            expected[case, 3 + i] = float(b[i]) * inner / 2
            for j in range(3):  # the half of the first factor goes on through the dense layer
                expected[case, j] += float(b[i] * m[i, j] * a[j]) / 2
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_a_gate_shares_element_by_element_or_is_a_constant():
    x, w = draw(2, 4), draw(4, 4, seed=1)

    def gated(x: Tensor, w: Tensor) -> Tensor:
        return (x * functional.linear(x, w).sigmoid()).sum(1, keepdim=True)

    score = gated(x, w)[:, 0]
    both, signal = relevance(gated, x, w=w), relevance(gated, x, CP, w=w)
    torch.testing.assert_close(both.sum(1), score)
    torch.testing.assert_close(signal, x * functional.linear(x, w).sigmoid(), rtol=1e-8, atol=1e-10)
    assert not torch.allclose(both, signal)


def test_norms_divide_by_a_constant():
    """Reference: input times the gradient of the same norm with its deviation detached, which is that rule."""
    x, w = draw(2, 7), draw(3, 7, seed=1)

    def normed(x: Tensor, w: Tensor) -> Tensor:
        return functional.linear(functional.layer_norm(x, (7,), eps=1e-5), w)

    given = x.clone().requires_grad_()
    deviation = (given.var(1, correction=0, keepdim=True) + 1e-5).sqrt().detach()
    functional.linear((given - given.mean(1, keepdim=True)) / deviation, w)[:, 0].sum().backward()
    torch.testing.assert_close(relevance(normed, x, w=w), x * given.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("written_out", [False, True])
def test_a_norm_by_the_root_mean_square_passes_relevance_on(written_out):
    x, w = draw(2, 7), draw(3, 7, seed=1)

    def normed(x: Tensor, w: Tensor) -> Tensor:
        if written_out:
            return functional.linear(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), w)
        return functional.linear(functional.rms_norm(x, (7,), eps=1e-6), w)

    rms = (x.square().mean(1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(relevance(normed, x, w=w), x / rms * w[0], rtol=1e-7, atol=1e-9)


def test_positions_that_are_added_take_their_share():
    x, w, position = draw(2, 5), draw(3, 5, seed=1), draw(5, seed=2)
    found = relevance(lambda x, w, position: functional.linear(x.tanh() + position, w), x, w=w, position=position)
    torch.testing.assert_close(found, x.tanh() * w[0], rtol=1e-7, atol=1e-9)


def test_a_constant_added_in_place_is_added_once():
    """Also where another composite, which has passed the check of outputs, was asked before."""
    x, w = draw(2, 5), draw(3, 5, seed=1)
    network = Written(lambda x, w: functional.linear(x.clone().sub_(0.5), w), w=w)
    for spec, expected in (("lrp:composite=epsilon", (x - 0.5) * w[0]), (ATTN, x * w[0])):
        found = heatproof.explain(network, x.unsqueeze(1), spec, target=0).squeeze(1)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("spec", [ATTN, CP, "lrp:composite=attn_lrp_gamma"])
def test_an_activation_in_place_behind_a_dense_layer_of_tokens_changes_nothing(spec):
    """What is kept of a layer's outputs must be what they were, though the model writes over them."""
    x, w, b = draw(2, 5, 6), draw(4, 6, seed=1), draw(4, seed=2)
    found = [
        relevance(
            lambda x, w, b, y=y: functional.silu(functional.linear(x, w, b), inplace=y).sum((1, 2))[:, None],
            x,
            spec,
            w=w,
            b=b,
        )
        for y in (False, True)
    ]
    assert found[0].any()
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("options", [{}, {"padding": 1}, {"padding": "valid"}, {"dilation": 2}, {"groups": 2}])
@pytest.mark.parametrize("shape", [(2, 8), (2, 8, 12), (2, 8, 8, 4), (2, 10, 9)])
def test_patches_go_back_as_convolutions_do(shape, options):
    """Kernels side by side, and nearly so. Reference: input times gradient, which the epsilon rule is here."""
    axes = len(shape) - 1
    kernel, convolve = (4, 4, 2)[:axes], getattr(functional, f"conv{axes}d")
    x, w = draw(3, *shape), draw(4, 2 // options.get("groups", 1), *kernel, seed=1)
    network = Written(lambda x, w: convolve(x, w, stride=kernel, **options).flatten(1), w=w)
    network.forward = lambda x: network.function(x, **network.weights)
    x = x.requires_grad_()
    (gradient,) = torch.autograd.grad(network(x)[:, 1].sum(), x)
    found = heatproof.explain(network, x.detach(), ATTN, target=1)
    torch.testing.assert_close(found, x.detach() * gradient, rtol=1e-8, atol=1e-10)


def attend_by_function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v)


def attend_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def attend_by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bts,bsc->btc", (torch.einsum("btc,bsc->bts", q, k) * q.shape[-1] ** -0.5).softmax(-1), v)


@pytest.mark.parametrize("spec", [ATTN, CP])
def test_it_does_not_matter_how_attention_is_written(spec):
    x, w = draw(2, 4, 6), draw(18, 6, seed=1)
    found = []
    for attend in (attend_by_function, attend_by_hand, attend_by_einsum):

        def network(x: Tensor, w: Tensor, attend=attend) -> Tensor:
            return attend(*functional.linear(x, w).chunk(3, -1)).sum((1, 2))[:, None]

        found.append(relevance(network, x, spec, w=w))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_a_function_without_a_rule_matters_only_where_relevance_reaches_it():
    x, w = draw(2, 5), draw(3, 5, seed=1)
    relevance(lambda x, w: functional.linear(x / x.pow(2).sum(-1, keepdim=True).exp(), w), x, w=w)
    with pytest.raises(HeatproofError, match="no rule for the torch function 'exp'"):
        relevance(lambda x, w: functional.linear(x.exp(), w), x, w=w)


def test_a_network_that_ends_in_what_counts_as_constant_is_told_so():
    with pytest.raises(HeatproofError, match="no relevance reaches the inputs"):
        relevance(lambda x, w: (x @ w).softmax(1), draw(2, 5), CP, w=draw(5, 3))


def test_other_composites_say_which_one_can():
    with pytest.raises(HeatproofError, match=r"'softmax'.* or lrp:composite=attn_lrp"):
        relevance(lambda x, w: functional.linear(x.softmax(-1), w), draw(2, 5), "lrp", w=draw(3, 5, seed=1))


def small_transformer() -> nn.Module:
    """torchvision's architecture of vit_b_16, small, with random weights of all kinds."""
    import_torchvision()
    from torchvision.models.vision_transformer import VisionTransformer

    network = VisionTransformer(
        image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=12, mlp_dim=20, num_classes=5
    )
    for place, weights in enumerate(network.parameters()):
        nn.init.normal_(weights, 0, 0.4, generator=torch.Generator().manual_seed(place))
    return network.double().eval()


def by_lxt(network: nn.Module, x: Tensor, constant: bool, gamma: float = 0.0) -> Tensor:
    """The same network written with the functions of lxt, whose backward passes carry relevance.

    Its convolution favours by `gamma`, dense layers by a fifth of it, by a literal rule: lxt has none.
    """
    lxt = pytest.importorskip("lxt.explicit.functional", reason="needs lxt")

    def linear(x: Tensor, weight: Tensor, bias: Tensor, gamma: float) -> Tensor:
        return Favoured.apply(x, weight, bias, gamma) if gamma else lxt.linear_epsilon(x, weight, bias, EPSILON)

    dense = lambda layer, x: linear(x, layer.weight, layer.bias, gamma / 5)  # noqa: E731
    norm = lambda layer, x: lxt.layer_norm_grad_fn.apply(x, layer.weight, layer.bias, layer.eps, EPSILON)  # noqa: E731
    x = x.clone().requires_grad_()
    patches = functional.unfold(x, 4, stride=4).transpose(1, 2)
    first = network.conv_proj
    tokens = linear(patches, first.weight.flatten(1), first.bias, gamma)
    tokens = torch.cat([network.class_token.expand(len(x), -1, -1), tokens], 1)
    tokens = lxt.add2(tokens, network.encoder.pos_embedding.expand_as(tokens), False, EPSILON)
    for block in network.encoder.layers:
        inner, heads = norm(block.ln_1, tokens), block.self_attention.num_heads
        packed = linear(inner, block.self_attention.in_proj_weight, block.self_attention.in_proj_bias, gamma / 5)
        q, k, v = (
            part.reshape(*part.shape[:2], heads, -1).transpose(1, 2).contiguous() for part in packed.chunk(3, -1)
        )
        scores = lxt.mul2(lxt.matmul(q, k.transpose(-2, -1), False, EPSILON), q.shape[-1] ** -0.5)
        attention = scores.softmax(-1).detach() if constant else lxt.softmax(scores, -1)
        mixed = Weighed.apply(attention, v) if constant else lxt.matmul(attention, v, False, EPSILON)
        mixed = mixed.transpose(1, 2).reshape(inner.shape)
        tokens = lxt.add2(tokens, dense(block.self_attention.out_proj, mixed), False, EPSILON)
        wide = dense(block.mlp[0], norm(block.ln_2, tokens))
        tokens = lxt.add2(tokens, dense(block.mlp[3], PassedOn.apply(wide)), False, EPSILON)
    score = dense(network.heads.head, norm(network.encoder.ln, tokens)[:, 0])[:, 3]
    (found,) = torch.autograd.grad(score, x, score.detach())
    torch.testing.assert_close(score.detach(), network(x)[:, 3].detach())
    return found


class PassedOn(torch.autograd.Function):
    """GELU, which passes relevance on."""

    @staticmethod
    def forward(ctx, x):
        return functional.gelu(x)

    @staticmethod
    def backward(ctx, coming):
        return coming


class Weighed(torch.autograd.Function):
    """A v with constant A: v_j A_ij R_i / z_i, written out."""

    @staticmethod
    def forward(ctx, attention, v):
        z = attention @ v
        ctx.save_for_backward(attention, v, z)
        return z

    @staticmethod
    def backward(ctx, coming):
        attention, v, z = ctx.saved_tensors
        return None, v * (attention.transpose(-2, -1) @ (coming / z))


class Favoured(torch.autograd.Function):
    """The gamma rule by its definition: every contribution x_i w_ij of an output's own sign counts 1 + gamma times."""

    @staticmethod
    def forward(ctx, x, weight, bias, gamma):
        ctx.save_for_backward(x, weight, bias)
        ctx.gamma = gamma
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, coming):
        x, weight, bias = ctx.saved_tensors
        parts = torch.cat([x[..., None, :] * weight, bias[:, None].expand(*x.shape[:-1], -1, 1)], -1)
        own = parts.sign() == parts.sum(-1, keepdim=True).sign()
        parts = torch.where(own, (1 + ctx.gamma) * parts, parts)
        shares = parts / parts.sum(-1, keepdim=True) * coming[..., None]
        return shares.sum(-2)[..., :-1], None, None, None


@pytest.mark.parametrize(("composite", "constant"), [("attn_lrp_gamma", False), ("cp_lrp", True)])
def test_the_published_setting_favours_a_quarter_in_convolutions_and_a_twentieth_in_dense_layers(composite, constant):
    network, x = small_transformer(), draw(2, 3, 16, 16)
    expected = by_lxt(network, x, constant, gamma=0.25)
    found = heatproof.explain(network, x, f"lrp:composite={composite},epsilon={EPSILON}", target=3)
    assert float((found - expected).norm() / expected.norm()) < 1e-6


@pytest.mark.parametrize(("spec", "constant"), [(ATTN, False), (CP, True)])
def test_a_vision_transformer_equals_lxt(spec, constant):
    network, x = small_transformer(), draw(2, 3, 16, 16)
    expected = by_lxt(network, x, constant)
    found = heatproof.explain(network, x, spec, target=3)
    assert float((found - expected).norm() / expected.norm()) < 1e-6

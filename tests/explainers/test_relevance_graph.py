"""LRP on networks of many kinds. Reference: gradient x input, which the epsilon rule equals where there are no biases.

That holds for whatever is linear piece by piece, with the stabiliser taken out and in double precision, so it tells
whether each function's relevance goes where its value came from. In-place networks are held against the same ones
written out of place.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from heatproof.errors import HeatproofError
from reference.relevance import Body, Net, explained, residual, weights


def dense(net: Net, x: Tensor) -> Tensor:
    for layer in net.layers:
        x = torch.cat([x[:, 4:], functional.relu(layer(x))[:, :4]], 1)
    return x.mean(dim=-1)


def depthwise(net: Net, x: Tensor) -> Tensor:
    x = functional.conv2d(functional.relu(x), weights(16, 1, 3, 3), groups=8)
    return functional.avg_pool2d(functional.conv2d(x, weights(6, 8, 1, 1), groups=2), 2)


def transposed(net: Net, x: Tensor) -> Tensor:
    axes = x.ndim - 2
    up = getattr(functional, f"conv_transpose{axes}d")
    x = functional.relu(up(x, weights(8, 3, *[3] * axes), None, 2, 1, 1, groups=2))
    return functional.relu(up(x, weights(6, 2, *[2] * axes), stride=1, dilation=2))


def products(net: Net, x: Tensor) -> Tensor:
    a = torch.einsum("bchw,wk->bchk", x, weights(8, 5))
    b = functional.relu(a) @ weights(5, 6)
    c = weights(7, 6) @ functional.relu(b)
    d = torch.tensordot(c, weights(8, 3), dims=([1], [0]))
    return torch.einsum("bhwk,bh->bwk", functional.relu(d), weights(3, 7)[:1].expand(len(x), -1))


def batched_products(net: Net, x: Tensor) -> Tensor:
    a = torch.bmm(x.flatten(2), weights(48, 5).expand(len(x), -1, -1))
    b = torch.baddbmm(torch.zeros(1, dtype=x.dtype), functional.relu(a), weights(5, 4).expand(len(x), -1, -1), alpha=2)
    c = torch.addmm(torch.zeros(6, dtype=x.dtype), functional.relu(b).flatten(1), weights(32, 6))
    return torch.relu(c).mm(weights(6, 5)) + torch.relu(c).mv(weights(6))[:, None]


def summed_by_einsum(net: Net, x: Tensor) -> Tensor:
    return torch.einsum("bchw->bwc", functional.relu(x))


def picks(net: Net, x: Tensor) -> Tensor:
    a, b = x.tensor_split(2, 1)
    c = torch.maximum(a, -b)
    d = torch.where(a > b, a, 2 * b).masked_fill(a > 1, 0.0)
    e = functional.channel_shuffle(torch.cat([c, d], 1), 2)
    return torch.cat([e.amax(1).flatten(1), e.max(2)[0].flatten(1), e.sort(1)[0][:, :2].flatten(1)], 1)


def arithmetic(net: Net, x: Tensor) -> Tensor:
    y = net.layers[0](x)
    a = torch.addcmul(x, y, weights(8, 1, 1), value=0.5)
    b = torch.sub(a, y, alpha=3) / 4
    return torch.rsub(b, x).mul(weights(8, 6, 8)) - -y


def activations(net: Net, x: Tensor) -> Tensor:
    x = functional.prelu(x, weights(8).abs())
    x = functional.threshold(net.layers[0](x), 0.0, 0.0)
    x = functional.rrelu(net.layers[1](x))
    return functional.leaky_relu(functional.hardtanh(x, 0.0, 1e9), 0.3)


def pools(net: Net, x: Tensor) -> Tensor:
    y, where = functional.max_pool2d(x, 2, return_indices=True)
    y = functional.max_unpool2d(y, where, 2) + functional.interpolate(functional.adaptive_avg_pool2d(x, 3), (6, 8))
    z = functional.interpolate(functional.relu(y), scale_factor=1.5, mode="bilinear")
    return functional.adaptive_max_pool2d(functional.fold(functional.unfold(z, 2), (9, 12), 2), 4)


def norms(net: Net, x: Tensor) -> Tensor:
    zero, spread = torch.zeros(8, dtype=x.dtype), weights(8).abs() + 0.1
    x = functional.relu(functional.batch_norm(x, zero, spread, weights(8, seed=3)))
    x = torch.batch_norm(x, None, None, zero, spread, False, 0.1, 1e-5, False)
    x = net.layers[0](x)
    return functional.instance_norm(torch.relu(x).clone(), zero, spread, use_input_stats=False).clone()


def sequence_first(net: Net, x: Tensor) -> Tensor:
    y = functional.linear(x.flatten(2).permute(2, 0, 1), weights(8, 8))
    return functional.relu(functional.batch_norm(y.permute(1, 0, 2), torch.zeros(48).double(), weights(48).abs())).mean(
        1
    )


def square_tokens(net: Net, x: Tensor) -> Tensor:
    """Norms over tokens next to dense layers over as many channels: their axes do not agree."""
    zero, spread = torch.zeros(8, dtype=x.dtype), weights(8).abs() + 0.1
    y = functional.linear(x.mean(2), weights(8, 8))
    y = functional.relu(functional.batch_norm(y, zero, spread, weights(8, seed=3)))
    z = functional.linear(functional.batch_norm(y, zero, spread), weights(5, 8))
    return torch.matmul(torch.relu(z), weights(5, 3))


def square_places(net: Net, x: Tensor) -> Tensor:
    """A norm over channels between dense layers over as many places: their axes do not agree either."""
    zero, spread = torch.zeros(8, dtype=x.dtype), weights(8).abs() + 0.1
    y = functional.batch_norm(functional.linear(x, weights(8, 8)), zero, spread, weights(8, seed=3))
    return functional.linear(functional.batch_norm(torch.relu(y), zero, spread), weights(5, 8))


NETWORKS: dict[str, Net] = {
    "residual": Net(residual), "residual 1-D": Net(residual, 1), "residual 3-D": Net(residual, 3),
    "dense": Net(dense), "depthwise": Net(depthwise), "transposed 1-D": Net(transposed, 1),
    "transposed": Net(transposed), "transposed 3-D": Net(transposed, 3), "products": Net(products),
    "batched products": Net(batched_products), "summed by einsum": Net(summed_by_einsum), "picks": Net(picks),
    "arithmetic": Net(arithmetic), "activations": Net(activations), "pools": Net(pools),
    "norms": Net(norms), "sequence first": Net(sequence_first), "tokens as many as channels": Net(square_tokens),
    "places as many as channels": Net(square_places),
}  # fmt: skip


def exact(net: nn.Module, inputs: Tensor) -> Tensor:
    return explained(net, inputs, composite="epsilon", epsilon=1e-30)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_epsilon_rule_is_gradient_times_input(name: str) -> None:
    """Reference: plain autograd. Nothing is lost either: relevance adds up to the score."""
    net = NETWORKS[name]
    inputs = net.inputs().requires_grad_()
    score = net(inputs.clone())[:, 1]
    expected = torch.autograd.grad(score.sum(), inputs)[0] * inputs.detach()
    found = exact(net, inputs.detach())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9 * float(expected.abs().max()))
    torch.testing.assert_close(found.flatten(1).sum(1), score.detach(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("composite", ["epsilon_plus", "z_plus", "gamma"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_case_alone_is_the_same_as_in_a_batch(name: str, composite: str) -> None:
    net = NETWORKS[name]
    inputs = net.inputs()
    whole = explained(net, inputs, composite=composite)
    alone = torch.cat([explained(net, inputs[case : case + 1], composite=composite) for case in range(3)])
    torch.testing.assert_close(whole, alone, rtol=1e-8, atol=1e-10 * float(whole.abs().max()))


def written(_: Net, x: Tensor) -> Tensor:
    functional.relu_(x[:, :4])
    x[:, 0] = 0
    x[:, 2:4] += x[:, 4:6]
    y = torch.zeros_like(x)
    y.add_(x, alpha=2)
    y[:, :, 1] = x[:, :, 2]
    functional.dropout(y, training=False).mul_(3.0)
    return y.mul_(weights(8, 6, 8)).neg_()


def written_plainly(_: Net, x: Tensor) -> Tensor:
    x = torch.cat([0 * x[:, :1], functional.relu(x[:, 1:4]), x[:, 4:]], 1)
    x = torch.cat([x[:, :2], x[:, 2:4] + x[:, 4:6], x[:, 4:]], 1)
    y = x * 2
    y = 3.0 * torch.cat([y[:, :, :1], x[:, :, 2:3], y[:, :, 2:]], 2)
    return -(y * weights(8, 6, 8))


def read_before(net: Net, x: Tensor) -> Tensor:
    """What a map, a mean, a sum and a norm have read is changed afterwards."""
    y = net.layers[0](x)
    x.relu_()
    a = x.mean((2, 3))
    x += y
    b = x + y
    x.mul_(3.0)
    c = functional.batch_norm(x, torch.zeros(8).double(), weights(8).abs())
    x.clamp_(min=0)
    y.zero_()
    return torch.cat([a, b.flatten(1), c.flatten(1), x.flatten(1)], 1)


def read_plainly(net: Net, x: Tensor) -> Tensor:
    y = net.layers[0](x)
    x = x.relu()
    a = x.mean((2, 3))
    x = x + y
    b = x + y
    x = 3.0 * x
    c = functional.batch_norm(x, torch.zeros(8).double(), weights(8).abs())
    return torch.cat([a, b.flatten(1), c.flatten(1), x.clamp(min=0).flatten(1)], 1)


def branch(net: Net, x: Tensor) -> Tensor:
    """The residual block whose branch begins with a ReLU in place, which changes the shortcut too."""
    x = x + nn.Sequential(nn.ReLU(True), net.layers[0])(x)
    x = torch.cat([x, nn.Sequential(nn.LeakyReLU(0.2, True), net.layers[1])(x)], 1)
    x += 2 * x
    return functional.relu(x, inplace=True)


def plain_branch(net: Net, x: Tensor) -> Tensor:
    x = functional.relu(x)
    x = functional.leaky_relu(x + net.layers[0](x), 0.2)
    x = torch.cat([x, net.layers[1](x)], 1)
    return functional.relu(x + 2 * x)


def pooled(net: Net, x: Tensor) -> Tensor:
    y = functional.max_pool2d(x, 2)
    y += net.layers[0](x)[:, :, ::2, ::2]
    z = functional.silu(y)
    z += y
    return z


def pooled_plainly(net: Net, x: Tensor) -> Tensor:
    y = functional.max_pool2d(x, 2) + net.layers[0](x)[:, :, ::2, ::2]
    return functional.silu(y) + y


TWINS = {
    "slices": (written, written_plainly),
    "read before": (read_before, read_plainly),
    "branch": (branch, plain_branch),
    "behind a pool": (pooled, pooled_plainly),
}


@pytest.mark.parametrize("method", ["lrp:composite=epsilon", "lrp", "lrp:composite=z_plus", "excitation_backprop"])
@pytest.mark.parametrize("name", TWINS)
def test_in_place_functions_keep_their_meaning(name: str, method: str) -> None:
    """Reference: the same network written without functions in place."""
    ours, plain = (Net(body) for body in TWINS[name])
    inputs = ours.inputs()
    assert torch.equal(ours(inputs.clone()), plain(inputs))
    expected = explained(plain, inputs, method)
    torch.testing.assert_close(explained(ours, inputs, method), expected, rtol=1e-9, atol=1e-12)


class Normalised(nn.Module):
    """Changes its input in place."""

    def __init__(self, net: nn.Module, in_place: bool) -> None:
        super().__init__()
        self.net, self.in_place = net, in_place

    def forward(self, inputs: Tensor) -> Tensor:
        if self.in_place:
            inputs.sub_(0.5)
            return self.net(inputs)
        return self.net(inputs - 0.5)


@pytest.mark.parametrize("method", ["lrp", "excitation_backprop"])
def test_an_input_that_is_changed_in_place(method: str) -> None:
    """Reference: the same network out of place; the caller's tensor stays as it was."""
    net = NETWORKS["residual"]
    inputs = net.inputs()
    kept = inputs.clone()
    found = explained(Normalised(net, True), inputs, method)
    torch.testing.assert_close(found, explained(Normalised(net, False), inputs, method), rtol=1e-10, atol=0)
    assert torch.equal(inputs, kept)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs):
        ctx.save_for_backward(inputs)
        return inputs * torch.sigmoid(inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True).double().eval()


def attention(_: Net, x: Tensor) -> Tensor:
    tokens = x.flatten(2).mT
    return ATTENTION(tokens, tokens, tokens)[0]


def kept(net: Net, x: Tensor) -> Tensor:
    return checkpoint(lambda y: functional.max_pool2d(net.layers[0](y), 2), x, use_reentrant=False)


def gated(net: Net, x: Tensor) -> Tensor:
    return x * torch.sigmoid(net.layers[0](x))


def attending(net: Net, x: Tensor) -> Tensor:
    x = x.flatten(2)
    return x @ x.mT


REFUSED: dict[str, tuple[Body, str]] = {
    "custom function": (lambda net, x: Swish.apply(x), "custom autograd.Function Swish"),
    "checkpoint": (lambda net, x: checkpoint(net.layers[0], x, use_reentrant=True), "reentrant checkpoints"),
    "checkpoint that runs again": (kept, "checkpoints that run again"),
    "detached": (lambda net, x: x.detach(), "it leaves torch.s graph"),
    "gate": (gated, "'mul' of two things that both depend on the inputs"),
    "products": (attending, "'matmul' of two things"),
    "attention": (attention, "no rule for the torch function .*attention"),
    "layer norm": (lambda net, x: functional.layer_norm(x, x.shape[1:]), "no rule for the torch function 'layer_norm'"),
    "divided by": (lambda net, x: 1 / x, "no rule for the torch function 'rdiv'"),
    "over": (lambda net, x: torch.div(torch.ones(8, 6, 8).double(), x), "no rule for the torch function 'div'"),
    "made weights": (lambda net, x: functional.linear(x, x[0, 0]), "'linear' of two things"),
    "three factors": (
        lambda net, x: torch.einsum("bchw,wk,kl->bchl", x, weights(8, 3), weights(3, 2)),
        "no rule for the torch function 'einsum'",
    ),
}


@pytest.mark.parametrize("method", ["lrp", "excitation_backprop"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_by_name(name: str, method: str) -> None:
    body, words = REFUSED[name]
    net = Net(body)
    with pytest.raises(HeatproofError, match=rf"^{method} .*{words}"):
        explained(net, net.inputs(), method)


def test_the_layer_without_a_rule_is_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 6), nn.Sequential(nn.Softmax(1)), nn.Linear(6, 3)).eval()
    with pytest.raises(HeatproofError, match=r"'softmax' that this model uses, in layer '2\.0'"):
        explained(model, torch.ones(2, 1, 6))


def test_layers_that_torch_does_not_know_of_are_constants() -> None:
    """Reference: the same network with its layer registered; parameters outside of the model want their gradients."""
    layer = nn.Conv2d(8, 8, 1).double()
    hidden = Net(lambda net, x: torch.relu(layer(x)) @ layer.weight[0, :, :, 0])
    known = Net(lambda net, x: torch.relu(layer(x)) @ layer.weight[0, :, :, 0])
    known.layer = layer
    inputs = hidden.inputs()
    assert torch.equal(explained(hidden, inputs), explained(known, inputs))
    assert layer.weight.requires_grad


def test_checkpoints_that_need_not_run_again_are_no_obstacle() -> None:
    """Reference: the same network without them."""
    kept = Net(lambda net, x: checkpoint(lambda y: torch.relu(net.layers[0](y)), x, use_reentrant=False))
    plain = Net(lambda net, x: torch.relu(net.layers[0](x)))
    inputs = kept.inputs()
    assert torch.equal(explained(kept, inputs), explained(plain, inputs))


def test_rules_that_work_case_by_case_need_the_cases_first() -> None:
    net = NETWORKS["sequence first"]
    with pytest.raises(HeatproofError, match="RelativeEpsilon works case by case"):
        explained(net, net.inputs(5), composite="focus")

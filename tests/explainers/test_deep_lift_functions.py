"""DeepLIFT adds up on networks of every kind of function. Reference: S(x) - S(b) from the model alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatproof.cases import Batch
from heatproof.explainers.deep_lift import DeepLift
from heatproof.seeds import CaseRandom

RNG = CaseRandom(0, "test")
Steps = Callable[[Tensor], Tensor]


class Around(nn.Module):
    """A convolution, the functions that are looked at, and a dense layer."""

    def __init__(self, steps: Steps, channels: int = 6) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(2, channels, 3, padding=1)
        self.steps = steps
        self.double().eval()
        with torch.no_grad():
            width = self.middle(torch.randn(2, 2, 8, 7, dtype=torch.float64)).shape[1]
        self.dense = nn.Linear(width, 3).double()

    def middle(self, inputs: Tensor) -> Tensor:
        return self.steps(2 * self.conv(inputs)).flatten(1)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.dense(self.middle(inputs))
        return logits


def seeded(module: nn.Module) -> nn.Module:
    """The module with random numbers for parameters and statistics."""
    torch.manual_seed(5)
    for values in module.state_dict().values():
        if values.is_floating_point():
            values.copy_(0.5 + torch.rand_like(values))
    return module.double().eval()


class Squeezed(nn.Module):
    """Squeeze and excitation: maps times gates that come from them."""

    def __init__(self) -> None:
        super().__init__()
        self.less, self.more = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1)

    def forward(self, maps: Tensor) -> Tensor:
        return maps * F.hardsigmoid(self.more(F.relu(self.less(F.adaptive_avg_pool2d(maps, 1)))))


class Attending(nn.Module):
    """Torch's own transformer layer on tokens, sequence first or batch first."""

    def __init__(self, batch_first: bool, norm_first: bool = False) -> None:
        super().__init__()
        self.first = batch_first
        self.layer = nn.TransformerEncoderLayer(6, 2, 12, 0.1, "gelu", batch_first=batch_first, norm_first=norm_first)

    def forward(self, maps: Tensor) -> Tensor:
        tokens = maps.flatten(2).permute(0, 2, 1) if self.first else maps.flatten(2).permute(2, 0, 1)
        return self.layer(tokens).mean(1 if self.first else 0)


class Recurrent(nn.Module):
    """A recurrent network along the rows, all outputs and the last state read; packed where asked."""

    def __init__(self, kind: type[nn.RNNBase], packed: bool = False, **options: object) -> None:
        super().__init__()
        self.packed = packed
        self.net = kind(6, 5, **options)

    def forward(self, maps: Tensor) -> Tensor:
        steps = maps.mean(3).permute(0, 2, 1) if self.net.batch_first else maps.mean(3).permute(2, 0, 1)
        if self.packed:
            lengths = torch.tensor([5, 8, 3, 8, 6][: len(maps)])
            joined = nn.utils.rnn.pack_padded_sequence(steps, lengths, self.net.batch_first, enforce_sorted=False)
            outputs, state = self.net(joined)
            outputs = nn.utils.rnn.pad_packed_sequence(outputs, self.net.batch_first, total_length=8)[0]
        else:
            outputs, state = self.net(steps)
        state = torch.cat(state, -1) if isinstance(state, tuple) else state
        outputs = outputs if self.net.batch_first else outputs.transpose(0, 1)
        return torch.cat([outputs.flatten(1), state.transpose(0, 1).flatten(1)], 1)


class Cells(nn.Module):
    """One cell of each kind, a few steps long."""

    def __init__(self) -> None:
        super().__init__()
        self.long, self.gated, self.plain = nn.LSTMCell(6, 4), nn.GRUCell(6, 4, bias=False), nn.RNNCell(6, 4)

    def forward(self, maps: Tensor) -> Tensor:
        steps = maps.mean(3).unbind(2)
        pair, gated, plain = None, None, None
        for step in steps[:4]:
            pair, gated, plain = self.long(step, pair), self.gated(step, gated), self.plain(step, plain)
        return torch.cat([*pair, gated, plain], 1)


class Written(nn.Module):
    """A function as a module."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, maps: Tensor) -> Tensor:
        return self.steps(maps)


def in_slices(maps: Tensor) -> Tensor:
    maps = maps.clone()
    F.relu_(maps[:, :3])
    maps[:, 3:] += maps[:, :3]
    maps[:, 0] = 0
    return maps


def by_mask(maps: Tensor) -> Tensor:
    return maps * (maps > 0)


def written_by_mask(maps: Tensor) -> Tensor:
    maps[maps < 0] = 0
    return maps


def dynamic_weights(maps: Tensor) -> Tensor:
    kernels = maps.reshape(-1, 1, 8, 7)[..., :3, :3]
    return F.conv2d(maps.reshape(1, -1, 8, 7), kernels, groups=len(kernels)).unflatten(1, maps.shape[:2])[0]


def over_the_greatest(maps: Tensor) -> Tensor:
    return maps / torch.stack([case.max() for case in maps])[:, None, None, None]


def masked_attention(maps: Tensor) -> Tensor:
    query, key, value = maps.flatten(2).transpose(1, 2).unflatten(2, (3, 2)).unbind(2)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


ACTIVATIONS: dict[str, Steps] = {
    "relu": F.relu, "relu by keyword": lambda x: torch.relu(input=x), "gelu by keyword": lambda x: F.gelu(input=x),
    "relu6": nn.ReLU6(), "leaky_relu": nn.LeakyReLU(0.2, inplace=True), "prelu": nn.PReLU(6), "rrelu": nn.RReLU(),
    "elu": nn.ELU(), "selu": nn.SELU(inplace=True), "celu": nn.CELU(), "gelu": nn.GELU(), "silu": nn.SiLU(),
    "mish": nn.Mish(), "hardswish": nn.Hardswish(), "hardsigmoid": nn.Hardsigmoid(), "softplus": nn.Softplus(),
    "softsign": nn.Softsign(), "log_sigmoid": nn.LogSigmoid(), "threshold": nn.Threshold(0.3, -0.1),
    "tanhshrink": nn.Tanhshrink(), "softshrink": nn.Softshrink(), "hardshrink": nn.Hardshrink(),
    "clamp": lambda x: x.clamp(-0.4, 0.7), "clamp_min": lambda x: x.clamp_min(0), "exp": torch.exp, "abs": torch.abs,
    "sqrt": lambda x: (x.abs() + 0.1).sqrt(), "log": lambda x: torch.log1p(x.square()), "pow": lambda x: x**3,
    "reciprocal": lambda x: 1 / (x.abs() + 0.5), "power of a number": lambda x: 2**x, "sin": torch.sin,
    "in place": lambda x: x.tanh_().mul_(3).sigmoid_(), "tensor bounds": lambda x: x.clamp(max=torch.full_like(x, 0.1)),
    "round": torch.round,
}  # fmt: skip
MIXING: dict[str, Steps] = {
    "swish": lambda x: x * torch.sigmoid(x), "by a mask": by_mask, "swish in place": lambda x: x.mul_(torch.sigmoid(x)),
    "maximum": lambda x: torch.maximum(x[:, :3], x[:, 3:]), "minimum": lambda x: torch.minimum(x, x.mean(1, True)),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x.square()), "masked_fill": lambda x: x.masked_fill(x < 0.1, 0.0),
    "quotient": lambda x: x / (1 + x.abs().mean(1, keepdim=True)),
    "quotient in place": lambda x: x.div_(1 + x.abs().mean(1, True)),
    "power of two": lambda x: (x.abs() + 0.2) ** x[:, :1], "matmul": lambda x: x @ x.transpose(2, 3),
    "einsum": lambda x: torch.einsum("bchw,bdhw,behw->bcd", x, x, x[:, :2]), "glu": nn.GLU(1),
    "squeeze and excitation": Squeezed(), "bmm": lambda x: torch.bmm(x.flatten(2), x.flatten(2).mT),
    "dynamic weights": dynamic_weights,
    "addcmul": lambda x: torch.addcmul(x, x, x.tanh(), value=0.5), "prod": lambda x: x.prod(2), "in slices": in_slices,
    "written by a mask": written_by_mask,
    "softmax": nn.Softmax(1), "log_softmax": lambda x: x.log_softmax(2), "softmin": nn.Softmin(1),
    "logsumexp": lambda x: x.logsumexp((2, 3)), "layer_norm": nn.LayerNorm([8, 7]), "rms_norm": nn.RMSNorm(7),
    "group_norm": nn.GroupNorm(2, 6), "instance_norm": nn.InstanceNorm2d(6, affine=True),
    "tracked instance_norm": nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
    "batch_norm": nn.BatchNorm2d(6),
    "local_response_norm": nn.LocalResponseNorm(3, alpha=0.5), "normalize": lambda x: F.normalize(x, dim=1),
    "norm": lambda x: x.norm(dim=1), "3-norm": lambda x: torch.linalg.vector_norm(x, 3, dim=(2, 3)),
    "std": lambda x: x.std((2, 3)), "var": lambda x: x.var(1, keepdim=True), "cosine": lambda x: F.cosine_similarity(
        x[:, :3], x[:, 3:]), "max_pool": nn.MaxPool2d(2), "dilated max_pool": nn.MaxPool2d(2, 1, 1, dilation=2),
    "overlapping max_pool": nn.MaxPool2d(3, 2, 1, ceil_mode=True), "adaptive_max_pool": nn.AdaptiveMaxPool2d((3, 2)),
    "max_pool with indices": lambda x: F.max_pool2d(x, 3, 2, return_indices=True)[0],
    "max_pool1d": lambda x: F.max_pool1d(x.flatten(2), 5, 3), "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "unpooled": lambda x: F.max_pool2d(x.relu(), 2).repeat(1, 2, 1, 1), "amax": lambda x: x.amax((1, 3)),
    "amin": lambda x: x.amin(2, keepdim=True), "max of an axis": lambda x: x.max(1)[0],
    "max kept": lambda x: x.max(dim=2, keepdim=True).values, "max of all": over_the_greatest,
    "min of an axis": lambda x: x.min(3).values, "max of two": lambda x: torch.max(x[:, :3], x[:, 3:]),
    "over a number": lambda x: x / x[:1].abs().max().item(), "spectrum": lambda x: torch.fft.rfft2(x).abs(),
    "normalised rectified": lambda x: F.normalize(x.relu(), dim=1), "std_mean": lambda x: torch.std_mean(x, 1)[0],
    "lp_pool": nn.LPPool2d(2, 2), "avg_pool": nn.AvgPool2d(3, 2), "interpolate": nn.Upsample(scale_factor=1.7),
    "attention": masked_attention, "encoder, sequence first": Attending(False), "encoder, batch first": Attending(True),
    "encoder, norm first": Attending(True, True), "lstm": Recurrent(nn.LSTM),
    "lstm, all options": Recurrent(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True, proj_size=3),
    "lstm, packed": Recurrent(nn.LSTM, packed=True, bidirectional=True, num_layers=2),
    "sort": lambda x: x.sort(1, descending=True)[0], "sort by keyword": lambda x: torch.sort(x, dim=2).values,
    "topk": lambda x: x.flatten(2).topk(5)[0], "topk of an axis": lambda x: torch.topk(x, 2, dim=1).values,
    "gather": lambda x: x.gather(1, x.argsort(1)[:, :4]),
    "gather by keyword": lambda x: torch.gather(x, dim=3, index=x.argmin(3, keepdim=True)),
    "gru": Recurrent(nn.GRU, num_layers=2),
    "gru, packed": Recurrent(nn.GRU, packed=True, batch_first=True, bias=False),
    "rnn": Recurrent(nn.RNN, bidirectional=True), "relu rnn": Recurrent(nn.RNN, nonlinearity="relu"), "cells": Cells(),
}  # fmt: skip


def ready(steps: Steps) -> Steps:
    return seeded(steps) if isinstance(steps, nn.Module) else steps


def batch_of(cases: int = 5) -> Batch:
    inputs = torch.randn(cases, 2, 8, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Batch(inputs, torch.arange(cases) % 3, tuple(str(case) for case in range(cases)))


def difference(model: nn.Module, batch: Batch, baseline: float) -> Tensor:
    with torch.no_grad():
        outputs = model(batch.inputs.clone()) - model(torch.full_like(batch.inputs, baseline))
    return outputs.gather(1, batch.target[:, None])[:, 0]


@pytest.mark.parametrize("baseline", ["zero", "0.4"])
@pytest.mark.parametrize("name", [*ACTIVATIONS, *MIXING])
def test_relevance_adds_up(name: str, baseline: str) -> None:
    model, batch = Around(ready({**ACTIVATIONS, **MIXING}[name])), batch_of()
    found = DeepLift(baseline=baseline)(model, batch, RNG).flatten(1).sum(1)
    expected = difference(model, batch, 0.0 if baseline == "zero" else float(baseline))
    assert expected.abs().min() > 1e-4
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)

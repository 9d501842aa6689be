"""Functions written with simpler ones give the values of torch's own. Reference: those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatproof.explainers.composed import COMPOSED
from heatproof.explainers.recording import Paired
from heatproof.explainers.watching import Call, tensors_in


class Apart(Paired):
    """Takes functions apart, and notes which simple ones were called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def pair(self, call: Call) -> Any:
        self.names.append(call.name)
        return call.value()


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


MASK = numbers(5, 5) > -0.5
WEIGHT, BIAS = numbers(4).abs(), numbers(4)


def recurrent(kind: type[nn.RNNBase], packed: bool = False, **options: Any) -> Callable[[Tensor], Any]:
    torch.manual_seed(0)
    net = kind(6, 3, **options).double().eval().requires_grad_(False)

    def run(x: Tensor) -> Any:
        steps = x.mean(2)
        if not packed:
            return net(steps)
        lengths = torch.tensor([2, 4, 1] if net.batch_first else [3, 2, 1, 1])
        outputs, state = net(nn.utils.rnn.pack_padded_sequence(steps, lengths, net.batch_first, enforce_sorted=False))
        return outputs.data, state

    return run


CASES: dict[str, Callable[[Tensor], Any]] = {
    "softmax": lambda x: F.softmax(x, 1), "softmax by type": lambda x: x.softmax(-1, torch.float32),
    "softmax of torch": lambda x: torch.softmax(x, dim=2), "log_softmax": lambda x: torch.log_softmax(x, 2),
    "log_softmax by type": lambda x: F.log_softmax(x, dim=1, dtype=torch.float32), "softmin": lambda x: F.softmin(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, (5, 6)), "layer_norm of torch": lambda x: torch.layer_norm(x, [6]),
    "rms_norm": lambda x: F.rms_norm(x, (6,)), "group_norm": lambda x: F.group_norm(x, 2, WEIGHT, BIAS, 1e-3),
    "group_norm of torch": lambda x: torch.group_norm(x, 4, WEIGHT, bias=BIAS),
    "batch_norm": lambda x: F.batch_norm(x, None, None, WEIGHT, BIAS, training=True, eps=1e-2),
    "batch_norm of torch": lambda x: torch.batch_norm(x, WEIGHT, BIAS, None, None, True, 0.1, 1e-3, False),
    "instance_norm": lambda x: F.instance_norm(x, weight=WEIGHT, eps=1e-3),
    "tracked instance_norm": lambda x: F.instance_norm(x, BIAS, WEIGHT, use_input_stats=False),
    "instance_norm of torch": lambda x: torch.instance_norm(x, WEIGHT, BIAS, None, None, True, 0.1, 1e-3, False),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.tanh(), x.sin()),
    "attention with a mask": lambda x: F.scaled_dot_product_attention(x, x.tanh(), x.sin(), MASK, scale=0.3),
    "attention with a bias": lambda x: F.scaled_dot_product_attention(x, x.tanh(), x.sin(), numbers(5, 5)),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "grouped attention": lambda x: F.scaled_dot_product_attention(x, x[:, :2], x[:, 2:], enable_gqa=True),
    "div": lambda x: x / (2 + x.cos()), "number over": lambda x: torch.div(3, 2 + x.cos()),
    "amax": lambda x: x.amax((0, -1), keepdim=True), "amin": lambda x: torch.amin(x, 1), "amax of all": torch.amax,
    "max": torch.max, "max of two": lambda x: torch.max(x, x.mT.contiguous().mT.sin()), "min": lambda x: x.min(),
    "min of two": lambda x: torch.min(x, other=x.sin()), "min of an axis": lambda x: torch.min(x, dim=1, keepdim=True),
    "std": lambda x: x.std(1), "std, biased": lambda x: torch.std(x, dim=(1, 2), correction=0, keepdim=True),
    "norm": lambda x: x.norm(), "norm of an axis": lambda x: torch.norm(x, p=3, dim=1), "inf norm": lambda x:
    torch.linalg.vector_norm(x, torch.inf, dim=(1, 2)), "1-norm": lambda x: torch.linalg.vector_norm(x, 1),
    "cosine": lambda x: F.cosine_similarity(x, x.sin(), dim=-1), "glu": lambda x: F.glu(x, 1),
    "multi-head": lambda x: ATTENTION(x[0], x[1].tanh(), x[2]),
    "lstm": recurrent(nn.LSTM, num_layers=2), "lstm, projected": recurrent(nn.LSTM, proj_size=2, bidirectional=True),
    "lstm, packed": recurrent(nn.LSTM, packed=True, batch_first=True, bidirectional=True, num_layers=2),
    "gru": recurrent(nn.GRU, bias=False, batch_first=True), "gru, packed": recurrent(nn.GRU, packed=True),
    "rnn": recurrent(nn.RNN, bidirectional=True), "relu rnn": recurrent(nn.RNN, nonlinearity="relu"),
    "lstm_cell": lambda x: LSTM_CELL(x[0, 0]), "gru_cell": lambda x: GRU_CELL(x[0, 0]),
    "rnn_cell": lambda x: RNN_CELL(x[0, 0]), "relu rnn_cell": lambda x: RELU_CELL(x[0, 0]),
    "lp_pool": lambda x: F.lp_pool2d(x, 2, 2), "normalize": lambda x: F.normalize(x, dim=2),
    "normalize by 3": lambda x: F.normalize(x, 3.0, dim=(1, 2)), "std_mean": lambda x: torch.std_mean(x, 1),
    "complex abs": lambda x: torch.fft.rfft(x).abs(),
    "local_response_norm": lambda x: F.local_response_norm(x, 2),
}  # fmt: skip

torch.manual_seed(0)
ATTENTION = nn.MultiheadAttention(6, 2).double().requires_grad_(False)
LSTM_CELL, GRU_CELL = (kind(6, 3).double().requires_grad_(False) for kind in (nn.LSTMCell, nn.GRUCell))
RNN_CELL = nn.RNNCell(6, 3, bias=False).double().requires_grad_(False)
RELU_CELL = nn.RNNCell(6, 3, nonlinearity="relu").double().requires_grad_(False)


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_torch(name: str) -> None:
    x = numbers(3, 4, 5, 6).requires_grad_()
    expected = CASES[name](x)
    with Apart() as apart:
        found = CASES[name](x)
    assert type(found) is type(expected)
    for one, other in zip(tensors_in([found]), tensors_in([expected]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6 if "type" in name else 1e-11, atol=1e-12)
    assert not (set(COMPOSED) - {"abs", "div", "max", "batch_norm", "__setitem__"}) & set(apart.names)
    assert ("batch_norm" in apart.names) == (name == "tracked instance_norm")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    """Squares of thousands have no place in half precision. Reference: torch's kernels."""
    x = (3000 * numbers(2, 4, 8, 8)).to(dtype).requires_grad_()
    for function in (lambda x: F.group_norm(x, 2), lambda x: F.layer_norm(x, (8,)), lambda x: F.softmax(x / 1000, 1)):
        expected = function(x)
        with Apart():
            found = function(x)
        assert found.dtype == dtype
        torch.testing.assert_close(found, expected, rtol=4 * torch.finfo(dtype).eps, atol=1e-3)

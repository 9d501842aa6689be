"""Products of many rows, by whichever library torch has. Reference: torch's own in double precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.explainers import products
from reference.relevance import weights

ROWS, WIDE, NARROW = 200, 160, 96


def single(*shape: int, seed: int = 0) -> Tensor:
    return weights(*shape, seed=seed).float()


@pytest.mark.parametrize(
    "rows", [single(ROWS, WIDE), single(2, ROWS // 2, WIDE), single(WIDE, ROWS).t(), single(ROWS, 2 * WIDE)[:, ::2]]
)
@pytest.mark.parametrize("weight", [single(NARROW, WIDE, seed=1), single(WIDE, NARROW, seed=1).t()])
@pytest.mark.parametrize("bias", [None, single(NARROW, seed=2)])
def test_onednn_gives_the_product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    found = products.by_onednn(rows, weight, bias)
    assert (found is not None) is products.is_there()
    if found is not None:
        expected = rows.double() @ weight.double().t() + (0 if bias is None else bias.double())
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


class Marked(Tensor):
    """Not for others' kernels to look into."""


@pytest.mark.parametrize(
    "change",
    [
        lambda rows, weight: (rows.double(), weight.double()),
        lambda rows, weight: (rows[:32], weight),
        lambda rows, weight: (rows, weight[:32]),
        lambda rows, weight: (rows.repeat(100, 1), weight[0]),
        lambda rows, weight: (rows, weight.as_subclass(Marked)),
        lambda rows, weight: (rows.to("meta"), weight.to("meta")),
    ],
    ids=["double", "few rows", "little to do", "one column", "another kind of tensor", "no values"],
)
def test_the_rest_is_left_to_torch(change: Callable[..., tuple[Tensor, Tensor]]) -> None:
    assert products.by_onednn(*change(single(ROWS, WIDE), single(NARROW, WIDE))) is None


def test_onednn_can_be_switched_off() -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        assert products.by_onednn(single(ROWS, WIDE), single(NARROW, WIDE)) is None


@pytest.mark.parametrize("rows", [ROWS, 3])
def test_rows_by_a_matrix(rows: int) -> None:
    given, matrix = single(rows, WIDE), single(WIDE, NARROW, seed=1)
    expected = given.double() @ matrix.double()
    torch.testing.assert_close(products.rows_by(given, matrix).double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("composite", ["epsilon", "attn_lrp"])
def test_relevance_of_many_tokens_is_that_of_double_precision(composite: str) -> None:
    """Also where they are not laid out one after another. Reference: the same network with numbers of 64 bits."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(WIDE, NARROW), nn.Linear(NARROW, 3)
            with torch.no_grad():
                for layer in (self.first, self.last):
                    layer.weight.copy_(weights(*layer.weight.shape).abs())

        def forward(self, inputs: Tensor) -> Tensor:
            result: Tensor = self.last(self.first(inputs.transpose(0, 1)).relu()).mean(0)
            return result

    network, inputs = Tokens(), single(2, ROWS, WIDE, seed=3).abs()
    spec = f"lrp:composite={composite}"
    found = heatproof.explain(network, inputs, spec, target=1)
    expected = heatproof.explain(network.double(), inputs.double(), spec, target=1)
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-6)

"""DeepLIFT on networks that were explained wrongly once, and the words for those that it cannot explain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from captum.attr import DeepLift as CaptumDeepLift
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import heatproof
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.accounts import accounts
from heatproof.explainers.deep_lift import DeepLift
from heatproof.seeds import CaseRandom
from nets import Swish

RNG = CaseRandom(0, "test")
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def pictures(cases: int = 3, size: int = 12, dtype: torch.dtype = torch.float64) -> Batch:
    inputs = torch.randn(cases, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return Batch(inputs, torch.arange(cases) % 4, tuple(str(case) for case in range(cases)))


class Net(nn.Module):
    """A convolution, what is looked at, the mean over space, a dense layer."""

    def __init__(self, steps: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv, self.other = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(3, 6, 3, 2, padding=1)
        self.inner = nn.Conv2d(6, 6, 3, padding=1)
        self.dense = nn.Linear(6, 4)
        self.steps = steps
        self.double().eval()

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.steps(self, inputs)
        logits: Tensor = self.dense(maps.mean((2, 3)) if maps.ndim == 4 else maps)
        return logits


def difference(model: nn.Module, batch: Batch) -> Tensor:
    with torch.no_grad():
        outputs = model(batch.inputs.clone()) - model(torch.zeros_like(batch.inputs))
    return outputs.gather(1, batch.target[:, None])[:, 0]


def explained(steps: Callable[[Net, Tensor], Tensor], batch: Batch | None = None) -> Tensor:
    """The relevance, once it is seen to add up."""
    model, batch = Net(steps), batch or pictures()
    relevance = DeepLift()(model, batch, RNG)
    torch.testing.assert_close(relevance.flatten(1).sum(1), difference(model, batch), **CLOSE)
    return relevance


# Functions that work in place


def branch(inplace: bool) -> Callable[[Net, Tensor], Tensor]:
    """The residual block of VQ-VAE: in place, the sum reads what the branch has changed."""

    def steps(net: Net, inputs: Tensor) -> Tensor:
        maps = net.conv(inputs)
        other = net.inner(F.relu(maps, inplace))
        return F.relu(other + maps)

    return steps


def branch_written_out(net: Net, inputs: Tensor) -> Tensor:
    maps = F.relu(net.conv(inputs))
    return F.relu(net.inner(maps) + maps)


def joined(net: Net, inputs: Tensor) -> Tensor:
    """A skip of a U-Net."""
    maps = net.conv(inputs)
    return (torch.cat([net.inner(F.leaky_relu(maps, 0.2, True)), maps], 1)[:, 3:9]).tanh()


def joined_written_out(net: Net, inputs: Tensor) -> Tensor:
    maps = F.leaky_relu(net.conv(inputs), 0.2)
    return (torch.cat([net.inner(maps), maps], 1)[:, 3:9]).tanh()


def statements(net: Net, inputs: Tensor) -> Tensor:
    maps = net.conv(inputs)
    F.relu_(maps[:, :4])
    maps.mul_(torch.tensor(0.5)).add_(net.inner(2 * maps))
    maps[:, 0] = 0
    return maps.tanh_()


def statements_written_out(net: Net, inputs: Tensor) -> Tensor:
    maps = net.conv(inputs)
    maps = 0.5 * torch.cat([maps[:, :4].relu(), maps[:, 4:]], 1)
    maps = maps + net.inner(2 * maps)
    return torch.cat([torch.zeros_like(maps[:, :1]), maps[:, 1:]], 1).tanh()


def pool_and_add(net: Net, inputs: Tensor) -> Tensor:
    maps = F.max_pool2d(net.conv(inputs), 2)
    maps += net.other(inputs)
    return maps.relu_()


def pool_and_add_written_out(net: Net, inputs: Tensor) -> Tensor:
    return F.relu(F.max_pool2d(net.conv(inputs), 2) + net.other(inputs))


def add_to_activation(net: Net, inputs: Tensor) -> Tensor:
    maps = net.conv(inputs)
    bent = F.silu(maps)
    bent += maps
    return bent * bent


def add_to_activation_written_out(net: Net, inputs: Tensor) -> Tensor:
    maps = net.conv(inputs)
    return (F.silu(maps) + maps) * (F.silu(maps) + maps)


def of_the_input(net: Net, inputs: Tensor) -> Tensor:
    inputs.sub_(0.5).relu_()
    return net.conv(inputs)


def of_the_input_written_out(net: Net, inputs: Tensor) -> Tensor:
    return net.conv(F.relu(inputs - 0.5))


IN_PLACE = {
    "branch": (branch(True), branch_written_out),
    "skip": (joined, joined_written_out),
    "statements": (statements, statements_written_out),
    "sum behind a pooling": (pool_and_add, pool_and_add_written_out),
    "sum behind an activation": (add_to_activation, add_to_activation_written_out),
    "the input": (of_the_input, of_the_input_written_out),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_equals_out_of_place(name: str) -> None:
    """Reference: the same network written without functions in place; and S(x) - S(0)."""
    batch = pictures()
    before = batch.inputs.clone()
    inside, outside = (explained(steps, batch) for steps in IN_PLACE[name])
    torch.testing.assert_close(inside, outside, **CLOSE)
    assert torch.equal(batch.inputs, before)


def test_the_two_networks_are_two() -> None:
    """In place, the branch above is another network, and so is its map. Reference: the model's own outputs."""
    batch = pictures()
    inside, outside = (Net(branch(inplace)) for inplace in (True, False))
    assert not torch.allclose(inside(batch.inputs), outside(batch.inputs), rtol=0.01)
    assert not torch.allclose(explained(branch(True)), explained(branch(False)), rtol=0.01)


# Axes


class Sequence(nn.Module):
    """Activations with the time first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.dense, self.answer = nn.Conv1d(3, 8, 3, padding=1), nn.Linear(8, 8), nn.Linear(8, 4)
        self.relu = nn.ReLU()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.answer(self.relu(self.dense(self.conv(inputs).permute(2, 0, 1))).mean(0))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("length", [20, 21])
def test_time_may_come_first(length: int) -> None:
    """Reference: S(x) - S(0), and Captum's DeepLift on the same network with the batch first."""

    class BatchFirst(Sequence):
        def forward(self, inputs: Tensor) -> Tensor:
            return self.answer(self.relu(self.dense(self.conv(inputs).permute(0, 2, 1))).mean(1))

    inputs = torch.randn(2, 3, length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    batch = Batch(inputs, torch.tensor([1, 2]), ("a", "b"))
    model = Sequence().double().eval()
    found = DeepLift()(model, batch, RNG)
    torch.testing.assert_close(found.flatten(1).sum(1), difference(model, batch), **CLOSE)
    expected = CaptumDeepLift(BatchFirst().double().eval()).attribute(inputs.clone(), target=batch.target)
    torch.testing.assert_close(found, expected.detach(), **CLOSE)


class Tokens(nn.Module):
    """Torch's transformer layer and a recurrent network, sequence first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False)
        self.memory = nn.LSTM(8, 6)
        self.answer = nn.Linear(6, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.encoder(self.patches(inputs).flatten(2).permute(2, 0, 1))
        return self.answer(self.memory(tokens)[1][0][0])


@pytest.mark.parametrize("make", [Tokens, lambda: Net(branch(True)), lambda: Net(pool_and_add)])
def test_cases_do_not_influence_each_other(make: Callable[[], nn.Module]) -> None:
    """Reference: each case alone; and S(x) - S(0)."""
    model, batch = make().double().eval(), pictures(4)
    together = DeepLift()(model, batch, RNG)
    alone = torch.cat([DeepLift()(model, batch[i : i + 1], RNG) for i in range(4)])
    torch.testing.assert_close(together, alone, **CLOSE)
    torch.testing.assert_close(together.flatten(1).sum(1), difference(model, batch), **CLOSE)


# Rules


@pytest.mark.parametrize("names", [(nn.AdaptiveMaxPool2d(4), nn.MaxPool2d(3)), (nn.PReLU(init=0.0), nn.ReLU())])
def test_the_same_function_by_another_name(names: tuple[nn.Module, nn.Module]) -> None:
    """Reference: the function that has had its rule from the first."""
    found = []
    for module in names:
        model = nn.Sequential(Net(lambda net, x: net.conv(x)).conv, module, nn.Flatten(), nn.LazyLinear(4)).double()
        model(pictures().inputs)
        torch.manual_seed(0)
        model[3].reset_parameters()
        found.append(DeepLift(baseline="blurred")(model, pictures(), RNG))
    torch.testing.assert_close(*found, **CLOSE)


# What is left over


def test_what_is_left_over_is_reported() -> None:
    """Reference: the sum of the relevance against S(x) - S(0)."""
    model, batch = Net(branch(True)), pictures()
    with accounts() as found:
        relevance = torch.cat([DeepLift()(model, batch[:2], RNG), DeepLift()(model, batch[2:], RNG)])
    expected = relevance.flatten(1).sum(1) - difference(model, batch)
    torch.testing.assert_close(found["left_over"], expected, rtol=1e-6, atol=1e-15)


def two_ways(net: Net, inputs: Tensor) -> Tensor:
    maps = net.conv(inputs)
    return net.inner(maps) if inputs.abs().max() > 0 else maps


def traced(_net: Net, inputs: Tensor) -> Tensor:
    return TRACED(_net.conv(inputs))


TRACED = torch.jit.trace(lambda x: x * torch.sigmoid(3 * x), torch.randn(3, 6, 12, 12, dtype=torch.float64))

REFUSED: dict[str, tuple[Callable[[Net, Tensor], Tensor], str]] = {
    "custom function": (lambda net, x: Swish.apply(net.conv(x)), r"cannot see through the custom .*Swish"),
    "two ways": (two_ways, r"goes another way .* baseline came to 'mean', the input came to 'conv2d' in layer 'inner'"),
    "dropout": (lambda net, x: F.dropout(net.conv(x)), r"other outputs each time .*'dropout'"),
    "reentrant": (
        lambda net, x: checkpoint(lambda y: net.conv(y).tanh(), x, use_reentrant=True),
        "reentrant checkpoint",
    ),
    "cut off": (lambda net, x: torch.cat([net.conv(x).data, net.conv(x)], 2), r"does not add up .* rule: 'cat'\."),
    "traced": (traced, "does not add up"),
    "the batch": (lambda net, x: F.batch_norm(net.conv(x), None, None, training=True).tanh(), "one case at a time"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_explained_is_said(name: str) -> None:
    steps, words = REFUSED[name]
    with pytest.raises(HeatproofError, match=words):
        DeepLift()(Net(steps), pictures(), RNG)


def test_a_norm_without_statistics_works_for_one_case() -> None:
    """Inputs and baselines have statistics of their own. Reference: S(x) - S(0)."""
    explained(lambda net, x: F.batch_norm(net.conv(x), None, None, training=True).tanh(), pictures(1))


def checkpointed(net: Net, inputs: Tensor) -> Tensor:
    def part(maps: Tensor) -> Tensor:
        return F.max_pool2d(net.inner(F.silu(maps) * maps.sigmoid()).relu_(), 2)

    return checkpoint(part, net.conv(inputs), use_reentrant=False).tanh()


def not_checkpointed(net: Net, inputs: Tensor) -> Tensor:
    maps = net.conv(inputs)
    return F.max_pool2d(net.inner(F.silu(maps) * maps.sigmoid()).relu(), 2).tanh()


def test_checkpoints_change_nothing() -> None:
    """Reference: the same network without them; and S(x) - S(0)."""
    torch.testing.assert_close(explained(checkpointed), explained(not_checkpointed), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    """Reference: the same network in double precision, on the same rounded numbers."""
    layers = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 6, 3), nn.GELU(), nn.GroupNorm(2, 6), nn.Flatten()
    )
    torch.manual_seed(0)
    model = nn.Sequential(layers, nn.Linear(54, 4)).to(dtype)
    batch = pictures(dtype=dtype)
    found = DeepLift()(model, batch, RNG)
    assert found.dtype == dtype
    expected = DeepLift()(model.double(), batch.to(dtype=torch.float64), RNG)
    error = (found.double() - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
    assert error.max() < 50 * torch.finfo(dtype).eps


def test_autocast_inside_the_model() -> None:
    """Reference: the same network without it."""

    class Autocast(Tokens):
        def forward(self, inputs: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                tokens = self.encoder(self.patches(inputs).flatten(2).permute(2, 0, 1))
                return self.answer(tokens.mean(0)[:, :6]).float()

    class Plain(Tokens):
        def forward(self, inputs: Tensor) -> Tensor:
            tokens = self.encoder(self.patches(inputs).flatten(2).permute(2, 0, 1))
            return self.answer(tokens.mean(0)[:, :6])

    batch = pictures(dtype=torch.float32)
    found, expected = (DeepLift()(kind().eval(), batch, RNG) for kind in (Autocast, Plain))
    assert (found - expected).norm() / expected.norm() < 0.1


@pytest.mark.parametrize("quantity", ["probability", "log_probability"])
def test_quantities_add_up_through_products(quantity: str) -> None:
    """Reference: the softmax of the model's outputs."""
    model, batch = Tokens().double().eval(), pictures()
    found = heatproof.explain(model, batch.inputs, "deep_lift", target=1, quantity=quantity).flatten(1).sum(1)
    with torch.no_grad():
        scores = [model(x).log_softmax(1)[:, 1] for x in (batch.inputs, 0 * batch.inputs)]
    first, second = [score.exp() if quantity == "probability" else score for score in scores]
    torch.testing.assert_close(found, first - second, rtol=1e-8, atol=1e-10)


def attended(shift: Callable[[Tensor], Tensor]) -> Callable[[Net, Tensor], Tensor]:
    """Attention of places to each other, with something taken from all scores of a row before the softmax."""

    def steps(net: Net, inputs: Tensor) -> Tensor:
        tokens = net.other(inputs).flatten(2).mT
        scores = tokens @ tokens.mT
        return ((scores - shift(scores)).softmax(-1) @ tokens).mean(1)

    return steps


@pytest.mark.parametrize(
    "shift",
    [
        lambda scores: scores.amax(-1, keepdim=True),
        lambda scores: scores.amax(-1, keepdim=True).detach(),
        lambda scores: scores.logsumexp(-1, keepdim=True),
        lambda scores: scores.sum((-2, -1), keepdim=True).detach(),
    ],
)
def test_what_all_scores_of_a_softmax_lose_changes_nothing(shift: Callable[[Tensor], Tensor]) -> None:
    """Reference: the same network without it, which has the same outputs. A detached shift was 15 times the map."""
    torch.testing.assert_close(explained(attended(shift)), explained(attended(torch.zeros_like)), **CLOSE)


def test_a_detached_correction_counts_by_what_it_does() -> None:
    """A straight-through step: the same outputs, and map, as of the step itself."""
    through = explained(lambda net, x: net.conv(x) + (net.conv(x).round() - net.conv(x)).detach())
    torch.testing.assert_close(through, explained(lambda net, x: net.conv(x).round()), **CLOSE)
    beside = explained(lambda net, x: torch.cat([net.conv(x).detach(), net.conv(x)], 2))
    torch.testing.assert_close(beside, explained(lambda net, x: net.conv(x)), **CLOSE)

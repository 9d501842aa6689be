"""What LRP does at each kind of function. References: the rules written down, and layers folded by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import heatproof
from heatproof.explainers.accounts import accounts
from reference.relevance import CLASSES, Net, explained, residual, weights

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "prelu": nn.PReLU().double(), "hardsigmoid": functional.hardsigmoid, "rrelu": functional.rrelu,
    "log_sigmoid": functional.logsigmoid, "softsign": functional.softsign, "threshold": nn.Threshold(0.1, 0.2),
    "gelu": functional.gelu, "abs": torch.abs,
    "neg": torch.neg, "by keyword": lambda x: torch.relu(input=x), "rsub": lambda x: 1 - x.abs(),
    "clamp": lambda x: x.clip(min=-0.5), "divided": lambda x: x / 3.0, "masked": lambda x: x * (x > 0),
    "dropout": lambda x: functional.dropout(x, training=False), "shrink": functional.tanhshrink,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_pass_relevance_on(name: str) -> None:
    """Reference: the epsilon rule of two dense layers, written down; what is between them takes nothing."""

    class Two(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return ACTIVATIONS[name](inputs[:, 0] @ first.T) @ second.T

    first, second, inputs = weights(5, 6), weights(3, 5, seed=1), weights(4, 6, seed=2)
    hidden = inputs @ first.T
    active = ACTIVATIONS[name](hidden).detach()
    score = active @ second.T
    start = functional.one_hot(torch.ones(4, dtype=torch.long), 3) * score
    at_hidden = active * ((start / (score + 1e-3 * score.sign())) @ second)
    expected = inputs * ((at_hidden / (hidden + 1e-3 * hidden.sign())) @ first)
    found = explained(Two(), inputs[:, None], composite="epsilon", epsilon=1e-3)[:, 0]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


class Spelt(nn.Module):
    """Dense layers with biases and a norm, as modules or as products of matrices."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling

    def layer(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if self.spelling == "linear":
            return functional.linear(x, weight, bias)
        if self.spelling == "addmm":
            return torch.addmm(bias, x, weight.T)
        if self.spelling == "in place":
            x = x @ weight.T
            x += bias
            return x
        if self.spelling == "einsum":
            return torch.einsum("bi,oi->bo", x, weight) + bias
        if self.spelling == "subtracted":
            return x.matmul(weight.T) - (-bias)
        if self.spelling == "subtracted from":
            return bias - x.matmul(-weight.T)
        if self.spelling == "times alpha":
            return torch.add(bias, x.matmul(weight.T / 2), alpha=2)
        return bias + x.matmul(weight.T)

    def forward(self, inputs: Tensor) -> Tensor:
        x = torch.relu(self.layer(inputs.flatten(1), weights(5, 6), weights(5, seed=1)))
        return self.layer(x, weights(3, 5), weights(3, seed=2))


@pytest.mark.parametrize("composite", ["epsilon", "z_plus", "gamma", "focus"])
@pytest.mark.parametrize(
    "spelling", ["matmul", "addmm", "in place", "einsum", "subtracted", "subtracted from", "times alpha"]
)
def test_products_have_the_rule_of_dense_layers(spelling: str, composite: str) -> None:
    """Reference: the same with functional.linear."""
    inputs = weights(4, 2, 3, seed=2)
    expected = explained(Spelt("linear"), inputs, composite=composite)
    found = explained(Spelt(spelling), inputs, composite=composite)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


RAISED: dict[str, Callable[[Tensor], Tensor]] = {
    "a constant": lambda x: functional.relu(x) + 1, "scaled": lambda x: 2 * functional.relu(x) + 0.5,
    "sigmoid": lambda x: functional.relu(x).sigmoid(), "softplus": lambda x: functional.softplus(functional.relu(x)),
    "clamp": lambda x: functional.relu(x).clamp(min=0.1), "in place": lambda x: functional.relu(x).clamp_(min=0.1),
    "sigmoid in place": lambda x: functional.relu(x).sigmoid_(), "added in place": lambda x: functional.relu(x).add_(1),
}  # fmt: skip


@pytest.mark.parametrize("method", ["lrp:composite=epsilon", "excitation_backprop", "lrp:composite=gamma"])
@pytest.mark.parametrize("name", RAISED)
def test_what_is_switched_off_gets_nothing_whatever_is_added_behind_it(name: str, method: str) -> None:
    """Analytic: a pixel behind whose ReLU there is nothing cannot have contributed, and the others get all."""
    inputs = torch.tensor([[[[-5.0, 2.0], [-1.0, 3.0]]]], dtype=torch.float64)

    class Raised(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return RAISED[name](inputs).flatten(1).sum(1, keepdim=True).expand(-1, CLASSES)

    found = heatproof.explain(Raised().eval(), inputs, method, target=0)
    assert (found[inputs < 0] == 0).all()
    assert (found[inputs > 0] != 0).all()


def test_black_pixels_are_values_like_any_other() -> None:
    """Reference: the same network, whose inputs were scaled outside of it, where black is no zero."""

    class Scaling(nn.Module):
        def __init__(self, inside: bool) -> None:
            super().__init__()
            self.inside = inside

        def forward(self, inputs: Tensor) -> Tensor:
            inputs = (inputs - 0.5) / 0.25 if self.inside else inputs
            return functional.relu(inputs.flatten(1) @ weights(5, 6).T) @ weights(CLASSES, 5, seed=1).T

    inputs = weights(2, 1, 6, seed=2).clamp(min=0)
    assert (inputs == 0).any()
    found, expected = explained(Scaling(True), inputs), explained(Scaling(False), (inputs - 0.5) / 0.25)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("composite", ["epsilon", "attn_lrp"])
@pytest.mark.parametrize("where", ["tensor", "layer"])
def test_hooks_for_gradients_do_not_change_relevance(where: str, composite: str) -> None:
    """Reference: the network without them. They are told all the same where they hang on tensors."""
    told = []

    class Hooked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, CLASSES).double()

        def forward(self, inputs: Tensor) -> Tensor:
            x = self.layer(functional.relu(inputs.flatten(1)))
            if where == "tensor":
                x.register_hook(lambda gradient: told.append(gradient) or gradient / 2)
            return x

    model, inputs = Hooked(), weights(2, 1, 6)
    if where == "layer":
        model.layer.register_full_backward_hook(lambda _layer, given, _: tuple(g / 2 for g in given))
    found = explained(model, inputs, composite=composite)
    plain = nn.Sequential(nn.ReLU(), nn.Flatten(), model.layer)
    hooks, model.layer._backward_hooks = model.layer._backward_hooks, type(model.layer._backward_hooks)()
    assert len(hooks) == (where == "layer"), "it still has its own"
    torch.testing.assert_close(found, explained(plain, inputs, composite=composite))
    assert bool(told) == (where == "tensor")


class Merged(nn.Module):
    """A layer with the batch norm behind it or in front of it, and something that changes nothing between the two."""

    def __init__(self, layer: nn.Module, norm: nn.Module, between: Callable[[Tensor], Tensor], front: bool) -> None:
        super().__init__()
        self.layer, self.norm, self.between, self.front = layer.double(), norm.double(), between, front
        norm.running_mean.copy_(weights(norm.num_features))
        norm.running_var.copy_(weights(norm.num_features).abs() + 0.2)
        nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        first, second = (self.norm, self.layer) if self.front else (self.layer, self.norm)
        inputs = torch.relu(inputs) if self.layer.weight.ndim > 2 else torch.relu(inputs).flatten(1)
        return torch.relu(second(self.between(first(inputs)))).flatten(1)[:, :3]


LAYERS: dict[str, tuple[Callable[[], nn.Module], type[nn.Module], tuple[int, ...]]] = {
    "conv": (lambda: nn.Conv2d(4, 4, 2), nn.BatchNorm2d, (4, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 4, 2), nn.BatchNorm2d, (4, 5, 5)),
    "dense": (lambda: nn.Linear(4, 4), nn.BatchNorm1d, (2, 2)),
}


@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_norms_are_merged_with_their_neighbour_whatever_copies_stand_between(name: str, front: bool) -> None:
    """Reference: the layer with the norm folded into it by hand, whose weight's axes are those of the layer."""
    make, norm, shape = LAYERS[name]
    torch.manual_seed(0)
    model = Merged(make(), norm(4), lambda x: x, front).eval()
    inputs = weights(2, *shape)
    scale = model.norm.weight / (model.norm.running_var + model.norm.eps).sqrt()
    shift = model.norm.bias - model.norm.running_mean * scale
    axis = int((name == "transposed") != front)
    column = [-1 if place == axis else 1 for place in range(model.layer.weight.ndim)]
    maps = [1] * (model.layer.weight.ndim - 2)

    class Folded(nn.Module):
        """What the shift makes of each output is a bias; at the edges of a transposed layer there is less of it."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = make().double()
            self.layer.weight.data = model.layer.weight.data * scale.data.view(column)
            self.layer.bias = None
            whole = shift.view(1, -1, *maps).expand(1, 4, *shape[1:] if maps else ())
            self.constant = (model.layer(whole) if front else model.layer.bias * scale + shift).detach()
            self.constant = self.constant if front else self.constant.view(1, -1, *maps)

        def forward(self, inputs: Tensor) -> Tensor:
            inputs = torch.relu(inputs) if maps else torch.relu(inputs).flatten(1)
            return torch.relu(self.layer(inputs) + self.constant).flatten(1)[:, :3]

    for composite in ("epsilon_plus", "z_plus"):
        expected = explained(Folded(), inputs, composite=composite)
        for between in (lambda x: x, torch.clone, lambda x: x.view_as(x).clone().contiguous()):
            model.between = between
            found = explained(model, inputs, composite=composite)
            torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-10)


def test_a_hook_of_the_user_changes_nothing() -> None:
    """Reference: the same model without the hook, bit by bit."""
    torch.manual_seed(0)
    model = Merged(nn.Conv2d(4, 4, 2), nn.BatchNorm2d(4), lambda x: x, False).eval()
    inputs = weights(2, 4, 5, 5)
    expected = explained(model, inputs)
    handle = model.layer.register_full_backward_hook(lambda *_: None)
    assert torch.equal(explained(model, inputs), expected)
    handle.remove()


def epsilon_rule(x: Tensor, z: Tensor, relevance: Tensor, matrix: Tensor) -> Tensor:
    """x_i m_ji / z_j R_j, summed over j, for one row."""
    return torch.stack([sum(x[i] * matrix[j, i] / z[j] * relevance[j] for j in range(len(z))) for i in range(len(x))])


@pytest.mark.parametrize("kind", ["instance", "group"])
def test_norms_over_each_case_are_linear_maps_with_a_constant_deviation(kind: str) -> None:
    """Reference: loops over the matrix of (x - mean) * scale, whose bias is the norm's own."""
    norm = nn.InstanceNorm1d(4, affine=True) if kind == "instance" else nn.GroupNorm(2, 4)
    nn.init.normal_(norm.double().weight), nn.init.normal_(norm.bias)
    groups, inputs = (4 if kind == "instance" else 2), weights(2, 4, 3)
    found = explained(nn.Sequential(norm, nn.Flatten()).eval(), inputs, composite="epsilon", epsilon=1e-12)
    for case in range(2):
        size = 12 // groups
        start = norm(inputs)[case].flatten().detach() * functional.one_hot(torch.tensor(1), 12)
        for group in range(groups):
            here = slice(group * size, group * size + size)
            x = inputs[case].flatten()[here]
            scale = norm.weight.detach().repeat_interleave(3)[here] / (x.var(correction=0) + norm.eps).sqrt()
            matrix = scale[:, None] * (torch.eye(size).double() - 1 / size)
            z = matrix @ x + norm.bias.detach().repeat_interleave(3)[here]
            expected = epsilon_rule(x, z, start[here], matrix)
            torch.testing.assert_close(found[case].flatten()[here], expected, rtol=1e-7, atol=1e-9)


def test_a_batch_norm_without_running_statistics_takes_those_of_the_case() -> None:
    """Reference: the same layer with the case's statistics as its running ones."""
    inputs = weights(1, 3, 6, 6)
    conv = nn.Conv2d(3, 4, 3).double()
    bare, full = nn.BatchNorm2d(4, track_running_stats=False).double(), nn.BatchNorm2d(4).double()
    maps = conv(inputs).detach()
    full.running_mean, full.running_var = maps.mean((0, 2, 3)), maps.var((0, 2, 3), correction=0)
    found, expected = (
        explained(nn.Sequential(conv, norm, nn.ReLU(), nn.Flatten()).eval(), inputs) for norm in (bare, full)
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


class Signed(nn.Module):
    """Adds branches of both signs, averages them, and has norms that cannot be merged."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.branches = nn.ModuleList([nn.Conv2d(6, 6, 3, padding=1) for _ in range(2)])
        self.lone, self.instance = nn.BatchNorm2d(6), nn.InstanceNorm2d(6)
        self.head = nn.Linear(6, CLASSES)
        self.lone.running_mean.normal_()
        self.double().eval()

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.stem(inputs)
        x = self.branches[0](x) - x
        x = self.lone(functional.avg_pool2d(x, 2, 1))
        x = self.instance(torch.tanh(x) + self.branches[1](x))
        return self.head(torch.addcmul(x, x, weights(6, 1, 1)).mean((2, 3)))


def test_excitation_backprop_is_a_chance() -> None:
    """Never below zero, never more in all than came in; z_plus likewise, of a score above zero."""
    model, inputs = Signed(), weights(4, 3, 8, 8)
    found = explained(model, inputs, "excitation_backprop")
    assert (found >= 0).all()
    assert (found.flatten(1).sum(1) <= 1 + 1e-9).all()
    assert (found.flatten(1).sum(1) > 0).any()
    score = model(inputs)[:, 1].detach()
    z_plus = explained(model, inputs, composite="z_plus") * score.sign()[:, None, None, None]
    assert (z_plus >= 0).all()
    assert (z_plus.flatten(1).sum(1) <= score.abs()).all()


def test_additions_share_by_positive_parts() -> None:
    """Reference: loops over two dense branches of both signs, with z_plus for their sum and for each."""

    class Two(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs[:, 0] @ first.T - inputs[:, 0] @ second.T

    first, second, inputs = weights(3, 5), weights(3, 5, seed=1), weights(4, 5, seed=2).abs()
    found = explained(Two(), inputs[:, None], "excitation_backprop")[:, 0]
    for case in range(4):
        x, expected = inputs[case], torch.zeros(5, dtype=torch.float64)
        branches = [(first[1] @ x, first[1]), (-second[1] @ x, -second[1])]
        whole = sum(max(float(value), 0.0) for value, _ in branches) + 1e-6
        for value, weight in branches:
            positive = (x * weight).clamp(min=0)
            expected += max(float(value), 0.0) / whole * positive / (positive.sum() + 1e-6)
        torch.testing.assert_close(found[case], expected, rtol=1e-9, atol=1e-12)


def test_epsilon_stabilises_sums_and_averages_too() -> None:
    """Of inputs as small as the usual stabiliser nothing is lost with a smaller one."""
    net = Net(residual)
    inputs = 1e-7 * net.inputs()
    score = net(inputs)[:, 1].detach()
    usual, small = (explained(net, inputs, epsilon=e).flatten(1).sum(1) / score for e in (1e-6, 1e-16))
    assert (usual < 0.9).all()
    torch.testing.assert_close(small, torch.ones_like(small), rtol=1e-6, atol=0)


@pytest.mark.parametrize("epsilon", [1e-9, 0.5])
def test_sums_and_averages_have_the_epsilon_rule(epsilon: float) -> None:
    """Reference: the rule written out for a mean of two branches, x / (z + epsilon) at each."""

    class Mean(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return torch.stack([inputs.flatten(1).mean(1), (inputs[:, 0, :2] + inputs[:, 0, 2:]).sum(1)], 1)

    inputs = weights(3, 1, 4).abs()
    found = explained(Mean(), inputs, composite="epsilon", epsilon=epsilon)[:, 0]
    pairs = inputs[:, 0, :2] + inputs[:, 0, 2:]
    score = pairs.sum(1, keepdim=True)
    share = pairs * (score / (score + epsilon)) / (pairs + epsilon)
    torch.testing.assert_close(found, inputs[:, 0] * torch.cat([share, share], 1), rtol=1e-9, atol=1e-12)


def test_what_is_lost_is_reported() -> None:
    """Reference: the score less the sum of the map."""
    model, inputs = Signed(), weights(4, 3, 8, 8)
    with accounts() as found:
        relevance = explained(model, inputs)
        chance = explained(model, inputs, "excitation_backprop")
    score = model(inputs)[:, 1].detach()
    expected = torch.cat([score - relevance.flatten(1).sum(1), 1 - chance.flatten(1).sum(1)])
    torch.testing.assert_close(found["lost"], expected)


class Constant(nn.Module):
    """Two dense layers with biases; the second reads a constant too."""

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = functional.relu(functional.linear(inputs.flatten(1), weights(5, 6), weights(5, seed=1)))
        beside = torch.cat([hidden, torch.ones_like(hidden[:, :1])], 1)
        return functional.linear(beside, weights(CLASSES, 6, seed=2), weights(CLASSES, seed=3))


@pytest.mark.parametrize("biases", [True, False])
def test_what_biases_stabilisers_and_constants_take(biases: bool) -> None:
    """Reference: the epsilon rule in loops, over a stabiliser that is large enough to be seen."""
    epsilon, inputs, model = 0.05, weights(3, 1, 6, seed=4), Constant()
    with accounts() as found:
        explained(model, inputs, composite="epsilon", epsilon=epsilon, biases=biases)
    first, second = weights(5, 6), weights(CLASSES, 6, seed=2)[1]
    own = [weights(5, seed=1), weights(CLASSES, seed=3)[1]]
    for case in range(3):
        x = inputs[case, 0]
        z = [float(first[j] @ x + own[0][j]) for j in range(5)]
        hidden = [*(max(value, 0.0) for value in z), 1.0]
        score = sum(float(second[j]) * hidden[j] for j in range(6)) + float(own[1])
        taken = {"biases": 0.0, "stabilisers": 0.0, "constants": 0.0}

        def share(relevance: float, z: float, bias: float, taken: dict[str, float] = taken) -> float:
            """What goes on per unit of contribution."""
            z = z if biases else z - bias
            sign = -1 if z < 0 else 1
            s = relevance / (z + sign * epsilon)
            taken["biases"] += s * bias if biases else 0
            taken["stabilisers"] += s * sign * epsilon
            return s

        s = share(score, score, float(own[1]))
        taken["constants"] += s * float(second[5])
        for j in range(5):
            share(s * float(second[j]) * hidden[j], z[j], float(own[0][j]))
        assert found["biases"][case].item() == pytest.approx(taken["biases"], abs=1e-9)
        assert found["stabilisers"][case].item() == pytest.approx(taken["stabilisers"], abs=1e-9)
        assert found["lost"][case].item() == pytest.approx(sum(taken.values()), abs=1e-9)


@pytest.mark.parametrize(
    "method", ["lrp", "lrp:composite=z_plus", "lrp:composite=gamma", "lrp:composite=focus", "excitation_backprop"]
)
def test_where_there_are_no_constants_biases_and_stabilisers_take_all_that_is_lost(method: str) -> None:
    """Reference: the score less the sum of the map."""
    with accounts() as found:
        explained(Signed(), weights(4, 3, 8, 8), method)
    torch.testing.assert_close(found["biases"] + found["stabilisers"], found["lost"], rtol=1e-6, atol=1e-9)


class Mixed(nn.Module):
    """Computes in half precision inside."""

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(32, CLASSES),
        )  # fmt: skip
        self.enabled = enabled
        self.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.enabled):
            return self.net(inputs).float()


@pytest.mark.parametrize("method", ["lrp", "lrp:composite=gamma", "lrp:composite=focus", "excitation_backprop"])
def test_autocast_in_the_model(method: str) -> None:
    """Reference: the same model in single precision, up to the digits of bfloat16."""
    inputs = weights(3, 3, 8, 8).float()
    found, expected = (explained(Mixed(enabled), inputs, method) for enabled in (True, False))
    assert found.dtype == torch.float32
    assert float((found - expected).norm() / expected.norm()) < 0.1


class Turned(nn.Module):
    """A dense layer whose sign is turned: by its weights, behind it, in place, or because it is subtracted."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, inputs: Tensor) -> Tensor:
        weight, bias, x = weights(5, 6), weights(5, seed=1), inputs.flatten(1)
        if self.how == "weights":
            x = functional.linear(x, -weight, -bias) + torch.relu(x)[:, :5]
        elif self.how == "subtracted":
            x = torch.relu(x)[:, :5] - functional.linear(x, weight, bias)
        elif self.how == "in place":
            x = functional.linear(x, weight, bias).neg_() + torch.relu(x)[:, :5]
        else:
            x = -functional.linear(x, weight, bias) + torch.relu(x)[:, :5]
        return functional.linear(torch.relu(x), weights(3, 5, seed=2))


@pytest.mark.parametrize("method", ["excitation_backprop", "lrp:composite=gamma", "lrp:composite=z_plus"])
@pytest.mark.parametrize("how", ["behind", "in place", "subtracted"])
def test_a_layer_with_its_sign_turned_has_other_weights(how: str, method: str) -> None:
    """Reference: the same layer with negative weights."""
    inputs = weights(4, 2, 3, seed=2)
    expected = explained(Turned("weights"), inputs, method)
    torch.testing.assert_close(explained(Turned(how), inputs, method), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["excitation_backprop", "lrp", "lrp:composite=z_plus"])
@pytest.mark.parametrize("target", [0, 1])
def test_one_output_has_two_classes(target: int, method: str) -> None:
    """Reference: the same network with an output for each class, one the negative of the other."""
    body = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten()).double()
    one, two = (nn.Sequential(body, nn.Linear(16, outputs).double()).eval() for outputs in (1, 2))
    two[1].weight.data = torch.cat([-one[1].weight.data, one[1].weight.data])
    two[1].bias.data = torch.cat([-one[1].bias.data, one[1].bias.data])
    inputs = weights(3, 1, 6)
    found, expected = (heatproof.explain(model, inputs, method, target=target) for model in (one, two))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_autocast_around_the_explainer() -> None:
    """Reference: the same without it; the model computes in half precision, and the rules do not."""
    inputs, model = weights(3, 3, 8, 8).float(), Mixed(False).net
    with torch.autocast("cpu", torch.bfloat16):
        found = explained(model, inputs)
    expected = explained(model, inputs)
    assert float((found - expected).norm() / expected.norm()) < 0.1

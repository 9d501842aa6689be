"""LRP and excitation backprop against zennit where both can, against literal loops, and by conservation elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import heatproof
from heatproof.errors import HeatproofError
from heatproof.explainers.propagation import Composite, Lrp, composites, register_composite
from heatproof.explainers.relevance_graph import redistribute_rows
from heatproof.explainers.rules import (
    Box,
    Epsilon,
    Flat,
    Gamma,
    LinearMap,
    RelativeEpsilon,
    SameSignBias,
    WSquare,
    ZPlus,
)
from heatproof.models.image_classifiers import make_classifier
from heatproof.models.relation_network import RelationNetwork, encode
from heatproof.seeds import CaseRandom
from reference.explainers import Net
from reference.libraries import import_zennit

CLASSES = 5
TARGET = torch.tensor([0, 3, 4])


def scrambled(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model in float64 with biases and running statistics that matter."""
    generator = torch.Generator().manual_seed(seed)
    for name, values in model.double().state_dict().items():
        if values.is_floating_point():
            noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
            scale = 1.5 / max(1, values[0].numel()) ** 0.5 if values.ndim > 1 else 0.5
            values.copy_(noise.abs() + 0.5 if name.endswith("running_var") else scale * noise)
    return model.eval()


def pictures(*shape: int) -> Tensor:
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def plain_net() -> nn.Module:
    return scrambled(
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(), nn.AvgPool2d(2, stride=1), nn.AdaptiveAvgPool2d((2, 3)),
            nn.Flatten(), nn.Dropout(), nn.Linear(48, 10), nn.ReLU(), nn.Linear(10, CLASSES),
        )
    )  # fmt: skip


def signal_net() -> nn.Module:
    return scrambled(
        nn.Sequential(nn.Conv1d(2, 6, 5, padding=2), nn.ReLU(), nn.Conv1d(6, 6, 3), nn.ReLU(), nn.Flatten(),
                      nn.Linear(6 * 18, CLASSES))
    )  # fmt: skip


def relevance_of_zennit(
    zennit: ModuleType, composite: object, model: nn.Module, inputs: Tensor, start: object
) -> Tensor:
    attributor = zennit.attribution.Gradient(model=copy.deepcopy(model), composite=composite)
    with attributor:
        return attributor(inputs, start)[1]


COMPOSITES: dict[str, tuple[dict[str, object], Callable[[ModuleType], object]]] = {
    "epsilon_plus": ({}, lambda z: z.composites.EpsilonPlus()),
    "epsilon_plus_flat": ({}, lambda z: z.composites.EpsilonPlusFlat()),
    "epsilon_plus without biases": (
        {"composite": "epsilon_plus", "biases": False},
        lambda z: z.composites.EpsilonPlus(zero_params="bias"),
    ),
    "epsilon": (
        {"epsilon": 0.01},
        lambda z: z.composites.LayerMapComposite(
            [*z.composites.layer_map_base(0.01), (z.types.Linear, z.rules.Epsilon(epsilon=0.01))]
        ),
    ),
    "z_plus": (
        {},
        lambda z: z.composites.LayerMapComposite([*z.composites.layer_map_base(), (z.types.Linear, z.rules.ZPlus())]),
    ),
    "gamma": (
        {"gamma": 0.4},
        lambda z: z.composites.LayerMapComposite(
            [*z.composites.layer_map_base(), (z.types.Linear, z.rules.Gamma(gamma=0.4))]
        ),
    ),
    "box": (
        {"composite": "epsilon_plus", "input_rule": "box", "low": -4.0, "high": 3.0},
        lambda z: z.composites.SpecialFirstLayerMapComposite(
            [*z.composites.layer_map_base(), (z.types.Convolution, z.rules.ZPlus()), (nn.Linear, z.rules.Epsilon())],
            [(z.types.Linear, z.rules.ZBox(low=-4.0, high=3.0))],
        ),
    ),
    "w_square": (
        {"composite": "epsilon_plus", "input_rule": "w_square"},
        lambda z: z.composites.SpecialFirstLayerMapComposite(
            [*z.composites.layer_map_base(), (z.types.Convolution, z.rules.ZPlus()), (nn.Linear, z.rules.Epsilon())],
            [(z.types.Linear, z.rules.WSquare(zero_params="bias"))],
        ),
    ),
}


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.parametrize("make", [plain_net, signal_net])
def test_lrp_equals_zennit(name, make):
    """Reference: zennit with the same rules on the same layers."""
    zennit = import_zennit()
    model, inputs = make(), pictures(3, 15, 18) if make is plain_net else pictures(2, 20)
    options, build = COMPOSITES[name]
    options = {"composite": name} | options
    expected = relevance_of_zennit(
        zennit, build(zennit), model, inputs, lambda output: output * functional.one_hot(TARGET, CLASSES)
    )
    found = heatproof.explain(model, inputs, "lrp", target=TARGET, **options)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [plain_net, signal_net])
def test_excitation_backprop_equals_zennit(make):
    """Reference: zennit's composite, started from one."""
    zennit = import_zennit()
    model, inputs = make(), pictures(3, 15, 18) if make is plain_net else pictures(2, 20)
    expected = relevance_of_zennit(
        zennit, zennit.composites.ExcitationBackprop(), model, inputs, functional.one_hot(TARGET, CLASSES).double()
    )
    found = heatproof.explain(model, inputs, "excitation_backprop", target=TARGET)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


class Functional(nn.Module):
    """The plain network again, with one reused in-place ReLU module and functions in place of the other modules."""

    def __init__(self, plain: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.third, self.fourth = plain[0], plain[3], plain[9], plain[11]
        self.relu = nn.ReLU(inplace=True)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = functional.max_pool2d(self.relu(self.first(inputs)), 2)
        maps = torch.relu(self.second(maps))
        maps = functional.adaptive_avg_pool2d(functional.avg_pool2d(maps, 2, stride=1), (2, 3))
        hidden = functional.relu_(self.third(maps.reshape(len(maps), -1)))
        return self.fourth(functional.dropout(hidden, training=self.training))


@pytest.mark.parametrize("composite", ["epsilon_plus", "z_plus", "gamma", "focus"])
def test_functions_and_reused_modules_are_as_good_as_modules(composite):
    """Reference: the same network made of modules, which is held against zennit above."""
    plain = plain_net()
    inputs = pictures(3, 15, 18)
    expected = heatproof.explain(plain, inputs, "lrp", target=TARGET, composite=composite)
    found = heatproof.explain(Functional(plain).eval(), inputs, "lrp", target=TARGET, composite=composite)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


class Residual(nn.Module):
    """Batch norm, an addition in place, and concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.norm2 = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.side = nn.Conv2d(3, 2, 1)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = functional.relu(self.norm(self.first(inputs)))
        out = self.norm2(self.second(maps))
        out += maps
        both = torch.cat([functional.relu(out), functional.relu(self.side(inputs))], 1)
        return self.head(both.mean((2, 3)))


class Pairs(nn.Module):
    """All pairs of cells of a picture with a question, as in a Relation Network."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, stride=3), nn.BatchNorm2d(4), nn.ReLU())
        self.words, self.lstm = nn.Embedding(6, 3), nn.LSTM(3, 5, batch_first=True)
        self.g = nn.Sequential(nn.Linear(2 * 6 + 5, 7), nn.ReLU(), nn.Linear(7, 7), nn.ReLU())
        self.f = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, CLASSES))

    def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
        maps = self.features(inputs)
        cases, _, height, width = maps.shape
        place = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).to(maps)
        cells = torch.cat([maps, place.expand(cases, -1, -1, -1)], 1).flatten(2).transpose(1, 2)
        count = cells.shape[1]
        asked = self.lstm(self.words(question))[1][0][0]
        pairs = torch.cat(
            [
                cells[:, None].expand(-1, count, -1, -1),
                cells[:, :, None].expand(-1, -1, count, -1),
                asked[:, None, None].expand(-1, count, count, -1),
            ],
            3,
        )
        return self.f(self.g(pairs).sum((1, 2)))


def test_relevance_is_conserved_through_additions_and_norms():
    """z_plus without biases loses nothing: the relevance of the inputs adds up to what the logit had."""
    model = scrambled(Residual())
    for module in model.modules():  # whatever is not a product of input and weight counts as bias
        if isinstance(module, nn.BatchNorm2d):
            module.bias.data.copy_(module.weight.data * module.running_mean / (module.running_var + module.eps).sqrt())
        elif getattr(module, "bias", None) is not None:
            module.bias.data.zero_()
    inputs = pictures(3, 9, 8)
    found = heatproof.explain(model, inputs, "lrp", target=TARGET, composite="z_plus")
    logits = model(inputs).gather(1, TARGET[:, None])[:, 0].detach()
    torch.testing.assert_close(found.sum((1, 2, 3)), logits, rtol=1e-4, atol=1e-5)


def test_pairs_equal_a_literal_version():
    """Reference: the epsilon rule, pair by pair and layer by layer, in NumPy loops."""
    model = scrambled(Pairs())
    inputs, question = pictures(3, 6, 6), torch.tensor([[1, 2], [3, 0], [5, 5]])
    found = heatproof.explain(
        model, inputs, "lrp", target=TARGET, context=[question], composite="epsilon", epsilon=1e-6
    )
    for case in range(3):
        expected = literal_pairs(model, inputs[case : case + 1], question[case : case + 1], int(TARGET[case]))
        np.testing.assert_allclose(found[case], expected, rtol=1e-8, atol=1e-12)


def share(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, relevance: np.ndarray) -> np.ndarray:
    """Epsilon rule of one dense layer: R_i = sum_j x_i w_ji / (z_j + eps) R_j."""
    z = weight @ x + bias
    z = z + np.where(z < 0, -1e-6, 1e-6)
    return np.array([sum(x[i] * weight[j, i] / z[j] * relevance[j] for j in range(len(z))) for i in range(len(x))])


def literal_pairs(model: Pairs, inputs: Tensor, question: Tensor, target: int) -> np.ndarray:
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    scale = state["features.1.weight"] / np.sqrt(state["features.1.running_var"] + 1e-5)
    kernel = state["features.0.weight"] * scale[:, None, None, None]
    shift = (state["features.0.bias"] - state["features.1.running_mean"]) * scale + state["features.1.bias"]
    picture = inputs[0].numpy()
    patches = [picture[:, 3 * i : 3 * i + 3, 3 * j : 3 * j + 3].ravel() for i in range(2) for j in range(2)]
    before = [kernel.reshape(4, -1) @ patch + shift for patch in patches]
    cells = [np.concatenate([np.maximum(z, 0), [n // 2, n % 2]]) for n, z in enumerate(before)]
    asked = model.lstm(model.words(question))[1][0][0][0].detach().numpy()

    def dense(name: str) -> tuple[np.ndarray, np.ndarray]:
        return state[f"{name}.weight"], state[f"{name}.bias"]

    hidden = {}
    for a in range(4):
        for b in range(4):
            pair = np.concatenate([cells[b], cells[a], asked])
            one = np.maximum(dense("g.0")[0] @ pair + dense("g.0")[1], 0)
            hidden[a, b] = pair, one, np.maximum(dense("g.2")[0] @ one + dense("g.2")[1], 0)
    summed = np.sum([last for _, _, last in hidden.values()], axis=0)
    middle = np.maximum(dense("f.0")[0] @ summed + dense("f.0")[1], 0)
    logits = dense("f.2")[0] @ middle + dense("f.2")[1]
    top = np.where(np.arange(CLASSES) == target, logits, 0)
    at_sum = share(summed, *dense("f.0"), share(middle, *dense("f.2"), top))
    at_cells = np.zeros((4, 4))
    for (a, b), (pair, one, last) in hidden.items():
        at_last = last / (summed + np.where(summed < 0, -1e-6, 1e-6)) * at_sum
        at_pair = share(pair, *dense("g.0"), share(one, *dense("g.2"), at_last))
        at_cells[b] += at_pair[:4]
        at_cells[a] += at_pair[6:10]
    result = np.zeros_like(picture)
    for n, patch in enumerate(patches):
        i, j = divmod(n, 2)
        back = share(patch, kernel.reshape(4, -1), shift, at_cells[n])
        result[:, 3 * i : 3 * i + 3, 3 * j : 3 * j + 3] += back.reshape(3, 3, 3)
    return result


def test_norm_in_front_of_a_convolution_is_merged_into_it():
    """Reference: the network with the batch norm folded into the convolution by hand (no padding, so it is exact)."""
    model = scrambled(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Flatten(),
                      nn.Linear(5 * 16, CLASSES))
    )  # fmt: skip
    folded = copy.deepcopy(model)
    norm, conv = folded[2], folded[3]
    scale = norm.weight.data / (norm.running_var + norm.eps).sqrt()
    shift = norm.bias.data - norm.running_mean * scale
    conv.bias.data += (conv.weight.data * shift[None, :, None, None]).sum((1, 2, 3))
    conv.weight.data *= scale[None, :, None, None]
    folded[2] = nn.Identity()
    inputs = pictures(3, 8, 8)
    for composite in ("epsilon_plus", "z_plus", "gamma"):
        found = heatproof.explain(model, inputs, "lrp", target=TARGET, composite=composite)
        expected = heatproof.explain(folded, inputs, "lrp", target=TARGET, composite=composite)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_norm_behind_a_convolution_is_merged_into_it():
    """Reference: zennit on the network folded by hand."""
    zennit = import_zennit()
    model = scrambled(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, CLASSES))
    )
    folded = copy.deepcopy(model)
    conv, norm = folded[0], folded[1]
    scale = norm.weight.data / (norm.running_var + norm.eps).sqrt()
    conv.bias.data = (conv.bias.data - norm.running_mean) * scale + norm.bias.data
    conv.weight.data *= scale[:, None, None, None]
    folded[1] = nn.Identity()
    inputs = pictures(3, 8, 8)
    expected = relevance_of_zennit(
        zennit,
        zennit.composites.EpsilonPlus(),
        folded,
        inputs,
        lambda output: output * functional.one_hot(TARGET, CLASSES),
    )
    found = heatproof.explain(model, inputs, "lrp", target=TARGET, composite="epsilon_plus")
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "rule", [Epsilon(), RelativeEpsilon(), ZPlus(), ZPlus(biases=False), Gamma(), Flat(), WSquare()]
)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_rows_without_relevance_are_left_out_and_change_nothing(rule, share):
    """Reference: the rule on all rows."""
    torch.manual_seed(0)
    weight, bias = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    x = torch.randn(2, 3, 7, 4, dtype=torch.float64)
    relevance = torch.randn(2, 3, 7, 5, dtype=torch.float64) * (torch.rand(2, 3, 7, 1) < share)
    linear = LinearMap(x, weight, bias, functional.linear, "dense")
    expected = rule.redistribute(linear, relevance)
    torch.testing.assert_close(redistribute_rows(rule, linear, relevance), expected, rtol=1e-12, atol=1e-12)


def test_box_without_bounds_takes_those_of_each_case():
    model, inputs = plain_net(), pictures(3, 15, 18)
    found = heatproof.explain(model, inputs, "lrp", target=TARGET, input_rule="box")
    for case in range(3):
        low, high = float(inputs[case].min()), float(inputs[case].max())
        one = slice(case, case + 1)
        expected = heatproof.explain(
            model, inputs[one], "lrp", target=TARGET[one], input_rule="box", low=low, high=high
        )
        torch.testing.assert_close(found[one], expected, rtol=1e-9, atol=1e-12)


def test_focus_composite_equals_a_literal_version():
    """Reference: NumPy loops of the Focus paper's rules on one convolution, one norm and one dense layer."""
    model = scrambled(
        nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, CLASSES)), seed=4
    )
    inputs = pictures(2, 5)
    found = heatproof.explain(model, inputs, "lrp", target=TARGET, composite="focus")
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    for case in range(3):
        x = inputs[case].numpy()
        kernel, bias = state["0.weight"], state["0.bias"]
        conv = np.array([[np.sum(kernel[o] * x[:, p : p + 2]) + bias[o] for p in range(4)] for o in range(3)])
        scale = state["1.weight"] / np.sqrt(state["1.running_var"] + 1e-5)
        shift = state["1.bias"] - state["1.running_mean"] * scale
        hidden = np.maximum(conv * scale[:, None] + shift[:, None], 0).ravel()
        z = state["4.weight"] @ hidden
        logits = z + state["4.bias"]
        start = np.where(np.arange(CLASSES) == int(TARGET[case]), logits, 0)
        s = start / (z + 0.25 * np.sqrt(np.mean(z**2)))
        at_norm = (hidden * (state["4.weight"].T @ s)).reshape(3, 4)
        scaled = conv * scale[:, None]
        together = scaled + 1e-9 + np.where((scaled + 1e-9) * shift[:, None] > 0, shift[:, None], 0)
        at_conv = scaled / together * at_norm
        expected = np.zeros_like(x)
        low, high = x.min(), x.max()
        for o in range(3):
            for p in range(4):
                window, w = x[:, p : p + 2], kernel[o]
                parts = window * w - low * np.maximum(w, 0) - high * np.minimum(w, 0)
                expected[:, p : p + 2] += parts / (parts.sum() + 1e-6) * at_conv[o, p]
        np.testing.assert_allclose(found[case], expected, rtol=1e-7, atol=1e-12)


def test_probability_scales_the_relevance_of_the_logit():
    model, inputs = plain_net(), pictures(3, 15, 18)
    logit = heatproof.explain(model, inputs, "lrp", target=TARGET)
    probability = heatproof.explain(model, inputs, "lrp", target=TARGET, quantity="probability")
    outputs = model(inputs).detach()
    ratio = outputs.softmax(1).gather(1, TARGET[:, None]) / outputs.gather(1, TARGET[:, None])
    torch.testing.assert_close(probability, logit * ratio[:, :, None, None], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_lrp_equals_zennit_on_the_layers_of_real_networks(name):
    """Reference: zennit on the whole convolution part of AlexNet and VGG16, with a small head."""
    zennit = import_zennit()
    model = small_head(make_features(name), 256 if name == "alexnet" else 512)
    inputs = pictures(3, 67, 65)
    expected = relevance_of_zennit(
        zennit, zennit.composites.EpsilonPlusFlat(), model, inputs, lambda z: z * functional.one_hot(TARGET, CLASSES)
    )
    found = heatproof.explain(model, inputs, "lrp", target=TARGET, composite="epsilon_plus_flat")
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-12)


def make_features(name: str) -> nn.Module:
    """The convolutions of a classifier, without the cost of its large linear layers."""
    with torch.device("meta"):
        features = make_classifier(name).features
    torch.manual_seed(3)
    for module in features.to_empty(device="cpu").modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
            nn.init.normal_(module.bias, std=0.1)
    return features


def small_head(features: nn.Module, channels: int) -> nn.Module:
    return (
        nn.Sequential(features, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, CLASSES)).double().eval()
    )


def test_lrp_on_a_residual_network_equals_zennit_on_one_folded_by_hand():
    """Reference: zennit, whose sums and activations are modules, on ResNet-18 written that way with norms folded."""
    zennit = import_zennit()
    ours = make_classifier("resnet18", CLASSES).double().eval()
    generator = torch.Generator().manual_seed(5)
    for name, values in ours.state_dict().items():
        if "running_" in name:
            noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
            values.copy_(noise.abs() + 0.5 if name.endswith("var") else 0.1 * noise)
    inputs = pictures(3, 40, 36)
    expected = relevance_of_zennit(
        zennit, zennit.composites.EpsilonPlus(), Unrolled(ours, zennit), inputs,
        lambda z: z * functional.one_hot(TARGET, CLASSES),
    )  # fmt: skip
    found = heatproof.explain(ours, inputs, "lrp", target=TARGET, composite="epsilon_plus")
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-11)


class Unrolled(nn.Module):
    """A ResNet with folded norms, a module per ReLU and zennit's Sum in place of additions."""

    def __init__(self, network: nn.Module, zennit: ModuleType) -> None:
        super().__init__()
        network = copy.deepcopy(network)
        self.stem = nn.Sequential(folded(network.conv1, network.bn1), nn.ReLU(), network.maxpool)
        self.blocks = nn.ModuleList()
        for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
            for block in stage:
                side = nn.Identity() if block.downsample is None else folded(*block.downsample)
                main = nn.Sequential(folded(block.conv1, block.bn1), nn.ReLU(), folded(block.conv2, block.bn2))
                self.blocks.append(nn.ModuleList([main, side, zennit.layer.Sum(), nn.ReLU()]))
        self.head = nn.Sequential(network.avgpool, nn.Flatten(), network.fc)

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.stem(inputs)
        for main, side, add, relu in self.blocks:
            maps = relu(add(torch.stack([main(maps), side(maps)], -1)))
        return self.head(maps)


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    """A convolution without bias and the batch norm behind it as one convolution."""
    scale = norm.weight.data / (norm.running_var + norm.eps).sqrt()
    conv.weight.data *= scale[:, None, None, None]
    conv.bias = nn.Parameter(norm.bias.data - norm.running_mean * scale)
    return conv


def test_lrp_on_the_relation_network_is_conserved():
    """z_plus loses to the biases, the coordinates and the question only; the rest is what the picture gets."""
    torch.manual_seed(0)
    network = RelationNetwork().double().eval()
    pictures_, question = (
        torch.rand(2, 3, 128, 128, dtype=torch.float64),
        encode("What color is the large cube?").expand(2, -1),
    )
    found = heatproof.explain(
        network, pictures_, "lrp", context=[question], composite="z_plus", input_rule="box", low=0.0, high=1.0
    )
    logits = network(pictures_, question).amax(1).detach()
    assert (found.sum((1, 2, 3)).abs() < logits.abs()).all()
    assert (found.sum((1, 2, 3)) * logits > 0).all()


class Strange(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.linalg.svdvals(inputs[:, 0])


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda: heatproof.explain(Strange(), pictures(1, 6, 6), "lrp"), "no rule for the torch function .*svdvals"),
        (
            lambda: heatproof.explain(plain_net(), pictures(3, 15, 18), "lrp", composite="epsilon_pluss"),
            "'epsilon_plus'",
        ),
        (lambda: heatproof.explain(plain_net(), pictures(3, 15, 18), "lrp", input_rule="boxes"), "'box'"),
        (
            lambda: heatproof.explain(plain_net(), pictures(3, 15, 18), "lrp", quantity="log_probability"),
            "the logit or the probability",
        ),
    ],
)
def test_what_cannot_be_done_is_said(action, words):
    with pytest.raises(HeatproofError, match=words):
        action()


@pytest.mark.parametrize(("name", "dense"), [("relation_network", "z_plus"), ("relation_network_gamma", "gamma_plus")])
def test_composites_of_the_relation_network_are_what_they_say(nets: dict[str, Net], name: str, dense: str) -> None:
    """Reference: the same rules named one by one, box at the input."""
    net, rng = nets["question"], CaseRandom(0, "lrp")
    named = Lrp(composite=name)(net.model, net.batch, rng)
    spelt = Lrp(composite=dense, input_rule="box")(net.model, net.batch, rng)
    torch.testing.assert_close(named, spelt, rtol=0, atol=0)
    assert not torch.equal(named, Lrp(composite=dense)(net.model, net.batch, rng))


def test_a_composite_of_a_user_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference: gamma_plus with w_square at the input, which has the same rules; the parameters arrive."""
    monkeypatch.setattr(composites, "_entries", dict(composites._entries))

    @register_composite("mine")
    def mine(lrp: Lrp) -> Composite:
        return Composite(dense=Gamma(lrp.biases, lrp.gamma), conv=ZPlus(lrp.biases), first=WSquare())

    model, inputs = plain_net(), pictures(3, 15, 18)
    found = heatproof.explain(model, inputs, "lrp:composite=mine,gamma=0.4", target=TARGET)
    expected = Lrp(composite="gamma_plus", gamma=0.4, input_rule="w_square")
    assert torch.equal(found, heatproof.explain(model, inputs, expected, target=TARGET))
    flat = heatproof.explain(model, inputs, "lrp:composite=mine,gamma=0.4,input_rule=flat", target=TARGET)
    assert not torch.equal(flat, found)
    with pytest.raises(HeatproofError, match=r"unknown lrp composite 'mime'.*'mine'"):
        Lrp(composite="mime")


def test_a_composite_of_a_user_may_leave_norms_where_they_are(
    nets: dict[str, Net], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference: the focus composite, made again out of its rules."""
    monkeypatch.setattr(composites, "_entries", dict(composites._entries))
    register_composite("again")(
        lambda lrp: Composite(
            dense=RelativeEpsilon(biases=False), conv=ZPlus(biases=False), first=Box(), norm=SameSignBias(),
            merge_norms=False,
        )
    )  # fmt: skip
    net, rng = nets["picture"], CaseRandom(0, "lrp")
    again = Lrp(composite="again")(net.model, net.batch, rng)
    assert torch.equal(again, Lrp(composite="focus")(net.model, net.batch, rng))
    assert not torch.equal(again, Lrp(composite="epsilon_plus")(net.model, net.batch, rng))


def test_a_composite_that_is_none_is_refused(picture_net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composites, "_entries", dict(composites._entries))
    register_composite("rule")(lambda lrp: ZPlus())  # type: ignore[arg-type, return-value]
    with pytest.raises(HeatproofError, match="'rule' must be a Composite, got ZPlus"):
        Lrp(composite="rule")(picture_net.model, picture_net.batch, CaseRandom(0, "lrp"))

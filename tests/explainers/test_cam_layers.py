"""Which layer class activation maps read: found by watching functions, named, said, or refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import heatproof
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.cam import masks_of, min_max, resize
from heatproof.explainers.layers import model_size, recorded, spatial_activations
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom
from reference.libraries import import_grad_cam, import_torchvision

METHODS = ["grad_cam", "grad_cam_pp", "xgrad_cam", "layer_cam", "score_cam", "sise:layers=last"]


def batch_of(inputs: Tensor, *context: Tensor) -> Batch:
    return Batch(inputs, torch.ones(len(inputs), dtype=torch.long), tuple(map(str, range(len(inputs)))), context)


def random_inputs(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def drawn(model: nn.Module, seed: int = 0) -> nn.Module:
    """Weights, biases and running statistics drawn anew, so that no path is empty."""
    generator = torch.Generator().manual_seed(seed)
    for name, values in model.state_dict().items():
        if values.is_floating_point():
            noise = torch.randn(values.shape, generator=generator)
            spread = 0.3 if values.ndim < 2 else max(1, values[0].numel()) ** -0.5
            values.copy_(noise.abs() + 0.5 if name.endswith(("running_var", "norm.weight")) else spread * noise)
    return model.eval()


def read(model: nn.Module, inputs: Tensor, *context: Tensor) -> str:
    """The name of the automatic layer."""
    return make_explainer("grad_cam").layer_read(model, batch_of(inputs, *context))


def hooked_grad_cam(
    model: nn.Module, inputs: Tensor, module: nn.Module, last: bool = False, everywhere: bool = False
) -> Tensor:
    """Grad-CAM of class 1 by a literal forward hook: the module's output at the time, and the gradient there.

    `last`: its channels are on the last axis. `everywhere`: LayerCAM, with a positive weight for each position.
    """
    seen: list[Tensor] = []

    def hook(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        seen.append(output.detach().clone().requires_grad_())
        return seen[-1].clone()

    handle = module.register_forward_hook(hook)
    try:
        score = model(inputs.clone().requires_grad_())[:, 1].sum()
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(score, seen[-1])
    maps = seen[-1].detach()
    if last:
        maps, gradient = maps.movedim(-1, 1), gradient.movedim(-1, 1)
    space = tuple(range(2, maps.ndim))
    weights = gradient.clamp(min=0) if everywhere else gradient.mean(space, keepdim=True)
    cam = sum((weights[:, k] * maps[:, k] for k in range(maps.shape[1])), torch.zeros(()))
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(space)]
    return F.interpolate(cam.clamp(min=0)[:, None], size=inputs.shape[2:], mode=mode, align_corners=False)


# What a person would name


@cache
def torchvision_net(name: str) -> nn.Module:
    import_torchvision()
    import torchvision

    few = {
        "googlenet": {"aux_logits": False, "init_weights": False},
        "inception_v3": {"aux_logits": False, "init_weights": False, "transform_input": True},
    }
    if name == "swin":
        with torch.random.fork_rng():
            torch.manual_seed(0)  # torch's own weights, by which maps have both signs
            return torchvision.models.SwinTransformer([4, 4], 8, [1, 1], [2, 2], [3, 3], num_classes=4).eval()
    return drawn(getattr(torchvision.models, name)(weights=None, num_classes=4, **few.get(name, {})))


@pytest.mark.parametrize(
    ("name", "layer", "size"),
    [
        ("googlenet", "inception5b", 64),
        ("inception_v3", "Mixed_7c", 128),
        ("swin", "permute", 32),
        ("resnet18", "layer4", 40),
        ("alexnet", "features", 96),
        ("mobilenet_v3_small", "features", 40),
        ("convnext_tiny", "features", 64),
    ],
)
def test_the_layer_that_a_person_would_name(name: str, layer: str, size: int) -> None:
    """Reference: a literal hook at that module. Concatenations, sums and channels at the end are read."""
    model, inputs = torchvision_net(name), random_inputs(2, 3, size, size + 8)
    assert read(model, inputs) == layer
    for method, everywhere in (("grad_cam", False), ("layer_cam", True)):
        expected = hooked_grad_cam(model, inputs, model.get_submodule(layer), everywhere=everywhere)
        assert expected.any() or not everywhere
        found = heatproof.explain(model, inputs, method, target=1)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5 * float(expected.max()))


@pytest.mark.parametrize(
    ("name", "layer", "size"),
    [("alexnet", "features.11", 96), ("vgg11", "features.19", 64), ("resnet18", "layer4", 40)],
)
def test_what_the_last_max_pooling_was_made_of(name: str, layer: str, size: int) -> None:
    """Reference: a literal hook at the ReLU before it; a network that does not end with one is read as ever."""
    model, inputs = torchvision_net(name), random_inputs(2, 3, size, size + 8)
    method = make_explainer("grad_cam:layer=before_max_pool")
    assert method.layer_read(model, batch_of(inputs)) == layer
    expected = hooked_grad_cam(model, inputs, model.get_submodule(layer))
    for _ in range(2):  # the second time by a plain pass with a hook
        found = method(model, batch_of(inputs), CaseRandom(0, "cam"))
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5 * float(expected.max()))


def test_the_layer_of_a_densenet_is_its_functional_relu() -> None:
    """Reference: the same network with that ReLU as a module, and a literal hook there."""
    import_torchvision()
    from torchvision.models import DenseNet

    class Written(DenseNet):
        def __init__(self) -> None:
            super().__init__(4, (2, 2), 8, num_classes=4)
            self.last = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.classifier(self.last(self.features(x)).mean((2, 3)))

    plain, written, inputs = drawn(DenseNet(4, (2, 2), 8, num_classes=4)), drawn(Written()), random_inputs(2, 3, 32, 40)
    assert read(plain, inputs) == "/relu"
    expected = hooked_grad_cam(written, inputs, written.last)
    torch.testing.assert_close(heatproof.explain(plain, inputs, "grad_cam", target=1), expected, rtol=1e-4, atol=1e-5)
    found = heatproof.explain(plain, inputs, "grad_cam", target=1, layer="/relu")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Shortcut(nn.Module):
    """A residual block in kuangliu's form: an empty Sequential as shortcut, a functional ReLU."""

    def __init__(self, width: int, convolution: type[nn.Module] = nn.Conv2d, last: bool = True) -> None:
        super().__init__()
        self.conv = convolution(width, width, 3, padding=1)
        self.shortcut = nn.Sequential()
        self.last = last

    def forward(self, inputs: Tensor) -> Tensor:
        total = self.conv(inputs)
        total += self.shortcut(inputs)
        return F.relu(total) if self.last else total


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_residual_blocks(method: str, dimensions: int) -> None:
    """Reference: the method at the block by name, which is its output; and a literal hook there."""
    convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    block = Shortcut(6, convolution)
    model = drawn(nn.Sequential(convolution(2, 6, 3), block, nn.Flatten(2), Mean(), nn.Linear(6, 4)))
    inputs = random_inputs(3, 2, *[9, 8, 7][:dimensions])
    found = heatproof.explain(model, inputs, method, target=1)
    assert torch.equal(found, heatproof.explain(model, inputs, method, target=1, layer="1"))
    assert read(model, inputs) == "1"
    if method == "grad_cam":
        torch.testing.assert_close(found, hooked_grad_cam(model, inputs, block), rtol=1e-4, atol=1e-6)


class Mean(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return values.mean(2)


class Branches(nn.Module):
    """Two branches over a common stem, and a head that joins them in one of several ways."""

    def __init__(self, join: Callable[[Tensor, Tensor], Tensor], width: int, activation: bool = False) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 1), nn.Conv2d(4, 5, 3, padding=1)
        self.join, self.activation, self.head = join, activation, nn.Linear(width, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        stem = F.relu(self.stem(inputs))
        joined = self.join(self.left(stem), self.right(stem))
        if joined.ndim == 4:
            joined = joined.mean((2, 3))
        return self.head(joined)


@pytest.mark.parametrize(
    ("name", "join", "width"),
    [
        ("/cat", lambda a, b: torch.cat([a, b], 1), 10),
        ("/add", lambda a, b: a + b, 5),
        ("/add", lambda a, b: a.add_(b), 5),
        ("/mul", lambda a, b: a * b.sigmoid(), 5),
        ("/relu.2", lambda a, b: F.relu_(a + b), 5),
        ("/maximum", torch.maximum, 5),
        ("/relu", lambda a, b: torch.cat([a.mean((2, 3)), b.amax((2, 3))], 1), 10),
    ],
)
def test_what_joins_branches(name: str, join: Callable[[Tensor, Tensor], Tensor], width: int) -> None:
    """Where they join as maps, that is the layer; else the last one before they part.

    Reference: the gradient of the score by the maps, computed from the network cut there by hand.
    """
    model, inputs = drawn(Branches(join, width)), random_inputs(2, 3, 9, 8)
    assert read(model, inputs) == name
    assert isinstance(model, Branches)
    with torch.no_grad():
        stem = F.relu(model.stem(inputs))
        joined = join(model.left(stem), model.right(stem))
    maps = (joined if joined.ndim == 4 else stem).requires_grad_()
    rest = maps.mean((2, 3)) if joined.ndim == 4 else join(model.left(maps), model.right(maps))
    (gradient,) = torch.autograd.grad(model.head(rest)[:, 1].sum(), maps)
    cam = (gradient.mean((2, 3), keepdim=True) * maps.detach()).sum(1, keepdim=True).clamp(min=0)
    for given in ({}, {"layer": name}):
        found = heatproof.explain(model, inputs, "grad_cam", target=1, **given)
        torch.testing.assert_close(found, resize(cam, (9, 8)), rtol=1e-4, atol=1e-6)


def test_branches_that_never_meet_as_maps_are_refused() -> None:
    """Two towers from the input on: no layer has all of the gradient, and the error names some that have a part."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right, self.head = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 5), nn.Linear(8, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            inputs = (inputs - 0.5) / 0.2
            both = [self.left(inputs).relu().mean((2, 3)), self.right(inputs).relu().mean((2, 3))]
            return self.head(torch.cat(both, 1))

    model, inputs = drawn(Towers()), random_inputs(2, 3, 9, 8)
    with pytest.raises(HeatproofError, match=r"branches meet where no places are left.*such as /relu\.2, right"):
        heatproof.explain(model, inputs, "grad_cam", target=1)
    expected = hooked_grad_cam(model, inputs, model.left)
    found = heatproof.explain(model, inputs, "grad_cam", target=1, layer="left")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not any(layer.automatic for layer in heatproof.layers(model, inputs))


def test_values_that_are_changed_in_place_afterwards() -> None:
    """Reference: the same network without functions in place. The maps are those that the layer gave at the time."""

    class Read(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.conv, self.head, self.inplace = nn.Conv2d(3, 4, 3), nn.Linear(8, 4), inplace

        def forward(self, inputs: Tensor) -> Tensor:
            maps = self.conv(inputs)
            means = maps.mean((2, 3))
            flat = F.relu(maps.flatten(2), inplace=self.inplace)
            return self.head(torch.cat([means, flat.amax(2)], 1))

    models, inputs = [drawn(Read(True)), drawn(Read(False))], random_inputs(2, 3, 9, 8)
    for spec in ("grad_cam", "layer_cam", "score_cam", "layer_cam:layer=conv"):
        found, expected = (heatproof.explain(model, inputs, spec, target=1) for model in models)
        assert expected.any()
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    before, changing = inputs.clone(), nn.Sequential(nn.ReLU(inplace=True), models[1]).eval()
    assert make_explainer("layer_cam")(changing, batch_of(inputs), CaseRandom(0, "test")).any()
    assert torch.equal(inputs, before)


def test_functions_that_nobody_can_watch() -> None:
    """A custom autograd function makes the last maps. Reference: torch's own function, and a literal hook."""

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: Tensor) -> Tensor:
            ctx.save_for_backward(given)
            return given * torch.sigmoid(given)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (given,) = ctx.saved_tensors
            share = torch.sigmoid(given)
            return gradient * share * (1 + given * (1 - share))

    class Custom(nn.Module):
        def forward(self, maps: Tensor) -> Tensor:
            return Swish.apply(maps)  # type: ignore[no-any-return]

    def made(activation: nn.Module) -> nn.Module:
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)
        return drawn(nn.Sequential(nn.Conv2d(3, 4, 3), activation, *head))

    inputs = random_inputs(2, 3, 9, 8)
    custom, plain = made(Custom()), made(nn.SiLU())
    assert read(custom, inputs) == read(plain, inputs) == "1"
    found, expected = (heatproof.explain(model, inputs, "grad_cam", target=1) for model in (custom, plain))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, hooked_grad_cam(custom, inputs, custom[1]), rtol=1e-5, atol=1e-6)


# Channels at the end, and tokens


def test_channels_at_the_end_equal_the_grad_cam_library() -> None:
    """Reference: pytorch-grad-cam with reshape_transform at Swin's last norm, and the permuted maps after it."""
    library = import_grad_cam()
    model, inputs = torchvision_net("swin"), random_inputs(2, 3, 32, 40)

    def reshape(values: Tensor) -> Tensor:
        return values.permute(0, 3, 1, 2)

    with library.GradCAM(model=model, target_layers=[model.norm], reshape_transform=reshape) as cam:
        targets = [library.utils.model_targets.ClassifierOutputTarget(1)] * 2
        expected = torch.as_tensor(cam(input_tensor=inputs.clone().requires_grad_(), targets=targets))
    named, after = (heatproof.explain(model, inputs, "grad_cam", target=1, layer=name) for name in ("norm", "permute"))
    assert named.any()
    assert torch.equal(named, after)
    low = named.flatten(1).amin(1).view(-1, 1, 1, 1)
    scaled = (named - low) / (1e-7 + (named - low).flatten(1).amax(1).view(-1, 1, 1, 1))
    torch.testing.assert_close(scaled[:, 0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layer", ["features.1.0.norm1", "features.1.0", "features.2", "features.3.0.mlp.0", "norm"])
def test_every_layer_with_channels_at_the_end(layer: str) -> None:
    """Reference: a literal hook that knows where the channels are, at several depths of a Swin transformer."""
    model, inputs = torchvision_net("swin"), random_inputs(2, 3, 32, 40)
    expected = hooked_grad_cam(model, inputs, model.get_submodule(layer), last=True, everywhere=True)
    assert expected.any()
    found = heatproof.explain(model, inputs, "layer_cam", target=1, layer=layer)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


class Cutting(nn.Module):
    """Convolutions, and a step that cuts something out of their maps, or of the input."""

    def __init__(self, before: Callable[[Tensor], Tensor], behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU())
        self.before, self.behind, self.out = before, behind, nn.Linear(6, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.behind(self.convs(self.before(inputs))).mean((2, 3)))
        return logits


def as_it_is(maps: Tensor) -> Tensor:
    return maps


@pytest.mark.parametrize(
    "cut",
    [
        lambda maps: maps[..., 4:12, 4:12],
        lambda maps: maps.narrow(2, 0, 8).narrow(3, 8, 8) * 2,
        lambda maps: maps.chunk(4, -1)[1].chunk(4, -2)[2],
        lambda maps: F.pad(maps, (-4, -4, -4, -4)),
    ],
)
def test_a_part_of_the_maps_is_no_layer(cut: Callable[[Tensor], Tensor]) -> None:
    """What was cut out was stretched over the whole picture. Reference: a hook on what it was cut out of."""
    model, inputs = drawn(Cutting(as_it_is, cut)), random_inputs(2, 3, 16, 16)
    assert read(model, inputs) == "convs"
    found = heatproof.explain(model, inputs, "grad_cam", target=1)
    torch.testing.assert_close(found, hooked_grad_cam(model, inputs, model.convs))


@pytest.mark.parametrize("cut", [lambda maps: maps[..., 1:-1, 1:-1], lambda maps: maps[..., ::2, ::2]])
def test_an_edge_or_a_grid_is_the_whole(cut: Callable[[Tensor], Tensor]) -> None:
    assert read(drawn(Cutting(as_it_is, cut)), random_inputs(2, 3, 16, 16)) == "/getitem"


@pytest.mark.parametrize(("method", "more"), [("grad_cam", {}), ("score_cam", {}), ("layer_cam", {"layer": "convs"})])
@pytest.mark.parametrize(
    "cut",
    [lambda inputs: inputs[..., :8], lambda inputs: torch.tensor_split(inputs, 2, 2)[1], lambda x: x[..., :8, 4:]],
)
def test_layers_that_see_a_part_of_the_input_are_refused(
    cut: Callable[[Tensor], Tensor], method: str, more: dict[str, str]
) -> None:
    """Their maps were stretched over all of it: those of two halves, compared, over the whole picture."""
    model = drawn(Cutting(cut, as_it_is))
    with pytest.raises(HeatproofError, match="spatial extent"):
        heatproof.explain(model, random_inputs(2, 3, 16, 16), method, target=1, **more)


@pytest.mark.parametrize(
    "move",
    [lambda maps: maps.flip(-1), lambda maps: maps.roll(3, 2), lambda maps: torch.rot90(maps, 1, (2, 3)).relu() * 2],
)
def test_maps_that_were_moved_are_no_layer(move: Callable[[Tensor], Tensor]) -> None:
    """A mirror image was laid over the picture. Reference: a hook on what was moved."""
    model, inputs = drawn(Cutting(as_it_is, lambda maps: F.relu(move(maps)))), random_inputs(2, 3, 16, 16)
    assert read(model, inputs) == "convs"
    found = heatproof.explain(model, inputs, "grad_cam", target=1)
    torch.testing.assert_close(found, hooked_grad_cam(model, inputs, model.convs))


@pytest.mark.parametrize(
    "move",
    [
        lambda maps: maps.flip(-1).mul(2).flip(-1),
        lambda maps: maps.roll((2, 3), (2, 3)).tanh().roll((-2, -3), (2, 3)),
        lambda maps: torch.rot90(torch.rot90(maps, 1, (2, 3)), 3, (2, 3)),
        lambda maps: maps.flip(1),
        lambda maps: maps.unflatten(1, (2, 3)).flip(2).flatten(1, 2),
    ],
)
def test_maps_that_were_moved_and_came_back_are_a_layer(move: Callable[[Tensor], Tensor]) -> None:
    model, inputs = drawn(Cutting(lambda given: given.flip(1), lambda maps: F.relu(move(maps)))), torch.ones(1, 3, 8, 8)
    assert read(model, inputs) == "/relu"


@pytest.mark.parametrize(("places", "width"), [(16, 8), (16, 16)])
def test_features_of_latents_are_no_places(places: int, width: int) -> None:
    """As many as places, or half, by chance: the features were laid over the signal. What they were made of is read."""

    class Latents(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.queries = nn.Linear(3, width), nn.Parameter(torch.randn(1, 5, width))
            self.looks = nn.MultiheadAttention(width, 2, batch_first=True)
            self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            tokens = self.tokens(inputs.mT)
            seen, _ = self.looks(self.queries.expand(len(inputs), -1, -1), tokens, tokens)
            logits: Tensor = self.out(F.gelu(self.norm(seen)).mean(1))
            return logits

    assert read(drawn(Latents()), random_inputs(2, 3, places)).startswith(("tokens", "looks/"))


def test_what_causal_convolutions_are_cut_to_is_the_whole() -> None:
    """Padding on both sides, and what is too much cut off: the usual way, longer than the signal itself."""

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv1d(1 if k == 0 else 4, 4, 3, padding=2 ** (k + 1)) for k in range(4))
            for k, conv in enumerate(self.convs):
                conv.dilation = (2**k,)
            self.out = nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            for k, conv in enumerate(self.convs):
                inputs = F.relu(conv(inputs)[:, :, : -(2 ** (k + 1))])
            logits: Tensor = self.out(inputs.mean(2))
            return logits

    assert read(drawn(Causal()), random_inputs(2, 1, 12)) == "/relu.4"


def test_windows_have_no_places() -> None:
    """Within windowed attention cases and places share an axis, so such a layer is refused."""

    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.within, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            maps = self.conv(inputs)  # 8 x 8, in four windows of 4 x 4
            windows = maps.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).reshape(-1, 4, 4, 4)
            worked = self.within(windows).reshape(len(inputs), 2, 2, 4, 4, 4).permute(0, 5, 1, 3, 2, 4)
            return self.head((maps + worked.reshape(maps.shape)).mean((2, 3)))

    model, inputs = drawn(Windows()), random_inputs(4, 3, 8, 8)
    for layer in ("within", "head"):
        with pytest.raises(HeatproofError, match=rf"needs a layer with spatial extent, and layer '{layer}' has none"):
            heatproof.explain(model, inputs, "grad_cam", target=1, layer=layer)
    assert read(model, inputs) == "/add"


def test_a_group_norm_of_signals_is_not_taken_for_tokens() -> None:
    """As many channels as points: shapes alone do not tell which is which. Reference: a literal hook."""

    class Signals(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.head = nn.Conv1d(2, 16, 3, padding=1), nn.GroupNorm(4, 32), nn.Linear(32, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            maps = self.conv(inputs)
            return self.head(self.norm(torch.cat([maps, maps.relu()], 1)).mean(2))

    for points in (30, 32):
        model, inputs = drawn(Signals()), random_inputs(2, 2, points)
        assert read(model, inputs) == "norm"
        expected = hooked_grad_cam(model, inputs, model.norm)
        found = heatproof.explain(model, inputs, "grad_cam", target=1)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


class Mixed(nn.Module):
    """Patches cut by hand, mixed over tokens and over channels; the answer from the mean of the last sum."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.patches, self.tokens, self.channels = nn.Linear(27, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.norm, self.head = nn.LayerNorm(12) if norm else nn.Identity(), nn.Linear(12, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        cut = inputs.reshape(len(inputs), 3, 3, 3, 4, 3).permute(0, 2, 4, 1, 3, 5).reshape(len(inputs), 12, 27)
        tokens = self.patches(cut)
        tokens = tokens + self.tokens(self.norm(tokens).transpose(1, 2)).transpose(1, 2)
        return self.head((tokens + self.channels(self.norm(tokens))).mean(1))


@pytest.mark.parametrize("norm", [True, False])
def test_tokens_that_everything_passes(norm: bool) -> None:
    """As many tokens as channels, no convolution, norms on side branches only. Reference: the last sum by hand."""
    model, inputs = drawn(Mixed(norm)), random_inputs(2, 3, 9, 12)
    assert read(model, inputs) == "/add.2"
    with torch.no_grad():
        cut = inputs.unfold(2, 3, 3).unfold(3, 3, 3).permute(0, 2, 3, 1, 4, 5).reshape(2, 12, 27)
        tokens = model.patches(cut)
        tokens = tokens + model.tokens(model.norm(tokens).transpose(1, 2)).transpose(1, 2)
        tokens = tokens + model.channels(model.norm(tokens))
    weights = model.head.weight[1].detach() / 12
    cam = (tokens * weights).sum(2).view(2, 1, 3, 4).clamp(min=0)
    found = heatproof.explain(model, inputs, "grad_cam", target=1)
    torch.testing.assert_close(found, resize(cam, (9, 12)), rtol=1e-4, atol=1e-6)


def test_sequences_first() -> None:
    """Torch's default order (tokens, cases, channels). Reference: the same network with the cases first."""

    class Encoder(nn.Module):
        def __init__(self, batch_first: bool) -> None:
            super().__init__()
            self.patches, self.batch_first = nn.Conv2d(3, 8, 4, 4), batch_first
            self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
            self.head = nn.Linear(8, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            tokens = self.patches(inputs).flatten(2)
            tokens = self.block(tokens.permute(0, 2, 1) if self.batch_first else tokens.permute(2, 0, 1))
            return self.head(tokens.mean(1 if self.batch_first else 0))

    inputs = random_inputs(6, 3, 8, 12)  # as many cases as patches
    models = [drawn(Encoder(first)) for first in (True, False)]
    assert [read(model, inputs) for model in models] == ["block", "block"]
    found, expected = (heatproof.explain(model, inputs, "grad_cam", target=1) for model in models)
    assert expected.any()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_attention_rollout_refuses_transformers_that_merge_tokens() -> None:
    """Two stages of blocks with a convolution of stride 2 between, and queries that look at fewer tokens."""

    class Stages(nn.Module):
        def __init__(self, merging: bool) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 2, 2), nn.Conv2d(8, 8, 2, 2)
            self.attention, self.merging, self.head = (
                nn.MultiheadAttention(8, 2, batch_first=True),
                merging,
                nn.Linear(8, 4),
            )

        def forward(self, inputs: Tensor) -> Tensor:
            maps = self.first(inputs)
            tokens = maps.flatten(2).transpose(1, 2)
            fewer = self.second(maps).flatten(2).transpose(1, 2)
            tokens = self.attention(tokens, tokens if self.merging else fewer, tokens if self.merging else fewer)[0]
            merged = self.second(tokens.transpose(1, 2).unflatten(2, maps.shape[2:])).flatten(2).transpose(1, 2)
            return self.head(self.attention(merged, merged, merged)[0].mean(1))

    for merging, seen in ((True, "from 24 to 24, then from 6 to 6"), (False, "from 24 to 6, then from 6 to 6")):
        model = drawn(Stages(merging))
        with pytest.raises(HeatproofError, match=rf"{seen} tokens.*without windows, merging"):
            heatproof.explain(model, random_inputs(2, 3, 8, 12), "attention_rollout", target=1)


# Masks of constant maps


def test_a_constant_map_makes_no_mask() -> None:
    """Analytic: the mask of a constant map is zero, also where up-sampling leaves noise; others stay as they are."""
    maps = torch.full((1, 3, 7, 7), 1.7)
    maps[0, 1] += torch.arange(49.0).view(7, 7)
    maps[0, 2, 0, 0] += 2e-7
    assert min_max(resize(maps, (96, 96)))[0, 0].any()
    masks = masks_of(maps, (96, 96))
    assert not masks[0, 0].any()
    assert not masks[0, 2].any()
    assert torch.equal(masks[0, 1], min_max(resize(maps, (96, 96)))[0, 1])


@pytest.mark.parametrize("spec", ["score_cam", "sise"])
def test_constant_maps_do_not_make_cases_depend_on_each_other(spec: str) -> None:
    """Maps whose every value is the same, as a wide maximum makes them: a case alone is as in a batch."""
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
    model = drawn(nn.Sequential(nn.Conv2d(3, 6, 3), nn.MaxPool2d(11, 1), *head))
    inputs = random_inputs(3, 3, 16, 16)
    inputs[:, :, 7:10, 7:10] += 9
    batch = heatproof.explain(model, inputs, spec, target=1)
    alone = torch.cat([heatproof.explain(model, inputs[i : i + 1], spec, target=1) for i in range(3)])
    torch.testing.assert_close(batch, alone, rtol=1e-4, atol=1e-5)


# Names, and what is said


def test_names_of_layers_and_functions() -> None:
    """A module that runs twice is its last run; each function's output has a name of its own."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Linear(3, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.relu(self.conv(self.relu(self.conv(inputs))) + inputs).mean((2, 3)))

    model, inputs = drawn(Twice()), random_inputs(1, 3, 8, 9)
    names = [layer.name for layer in heatproof.layers(model, inputs)]
    assert names == ["conv/conv2d", "relu/relu", "conv", "/add", "relu"]
    assert [layer.name for layer in heatproof.layers(model, inputs) if layer.automatic] == ["relu"]
    assert [layer.passed_by_all for layer in heatproof.layers(model, inputs)] == [False, False, False, True, True]
    _, found = recorded(model, batch_of(inputs), None)
    assert [activation.function for activation in found] == [
        "conv/conv2d", "relu/relu", "conv/conv2d.2", "/add", "relu/relu.2",
    ]  # fmt: skip
    for name in names:
        assert make_explainer("grad_cam", layer=name).layer_read(model, batch_of(inputs)) == name
    with pytest.raises(HeatproofError, match=r"unknown layer '/ad'.*'/add'"):
        heatproof.explain(model, inputs, "grad_cam", target=1, layer="/ad")


def test_what_explainers_say_that_they_read() -> None:
    model, batch = torchvision_net("resnet18"), batch_of(random_inputs(1, 3, 64, 64))
    five = "relu, layer1, layer2, layer3, layer4"
    expected = {
        "grad_cam": "layer4", "guided_grad_cam": "layer4", "score_cam:layer=layer3.0": "layer3.0", "sise": five,
        "sise:layers=last": "layer4", "randomised:layer_cam": "layer4", "gradient": "", "rise": "",
    }  # fmt: skip
    assert {spec: make_explainer(spec).layer_read(model, batch) for spec in expected} == expected
    assert model_size(model, batch).channels == (64, 64, 128, 256, 512)


def test_a_layer_that_is_known_is_looked_for_again_where_the_network_has_changed() -> None:
    """Reference: a literal hook. A second pass is plain; a network that goes another way is watched anew."""

    class Deeper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.more, self.head = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Linear(4, 4)
            self.deeper = False

        def forward(self, inputs: Tensor) -> Tensor:
            maps = self.conv(inputs)
            return self.head((self.more(maps) if self.deeper else maps).mean((2, 3)))

    model, inputs = drawn(Deeper()), random_inputs(3, 3, 9, 8)
    for deeper, layer in ((False, "conv"), (False, "conv"), (True, "more"), (True, "more"), (False, "conv")):
        model.deeper = deeper
        for cases in (inputs, inputs[:1]):
            expected = hooked_grad_cam(model, cases, model.get_submodule(layer), everywhere=True)
            found = heatproof.explain(model, cases, "layer_cam", target=1)
            assert expected.any()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not model.conv._forward_hooks


def test_questions_do_not_count() -> None:
    """What a question's words go through has the shape of maps, but does not come from the picture."""

    class Asked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.words, self.mix = nn.Conv2d(3, 4, 3), nn.Conv2d(1, 4, 3), nn.Linear(8, 4)

        def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
            read = self.words(question).relu()
            return self.mix(torch.cat([self.conv(inputs).mean((2, 3)), read.mean((2, 3))], 1))

    model, inputs, question = drawn(Asked()), random_inputs(2, 3, 9, 8), random_inputs(2, 1, 9, 8)
    for frozen in (True, False):
        model.requires_grad_(not frozen)
        assert read(model, inputs, question) == "conv"
        assert [a.name for a in spatial_activations(model, batch_of(inputs, question))[1]] == ["conv"]


@pytest.mark.parametrize("spec", ["grad_cam", "score_cam", "grad_cam:layer=2"])
def test_compiled_networks_are_read_as_they_were_written(spec: str) -> None:
    """Reference: the network before torch.compile, whole, in place and within another."""
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)
    model = drawn(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), *head))
    inputs = random_inputs(2, 3, 9, 8)
    expected = heatproof.explain(model, inputs, spec, target=1)
    assert torch.equal(heatproof.explain(torch.compile(model, backend="eager"), inputs, spec, target=1), expected)
    model.compile(backend="eager")
    assert torch.equal(heatproof.explain(model, inputs, spec, target=1), expected)


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda y: y.transpose(2, 3),
    "mirrored by numbers": lambda y: y[..., torch.arange(y.shape[3] - 1, -1, -1)],
    "mirrored by index_select": lambda y: y.index_select(3, torch.arange(y.shape[3] - 1, -1, -1)),
    "mirrored by gather": lambda y: y.gather(3, torch.arange(y.shape[3] - 1, -1, -1).expand(y.shape)),
    "half of the channels mirrored": lambda y: torch.cat([y[:, :2], y[:, 2:].flip(3)], 1),
    "with its mirror image": lambda y: y + y.flip(3),
    "with its transpose": lambda y: torch.cat([y[:, :2], y[:, 2:].transpose(2, 3)], 1),
    "channels for places": lambda y: y.permute(0, 2, 3, 1).reshape(y.shape),
    "in order of size": lambda y: y.sort(3)[0],
    "the largest": lambda y: y.flatten(2).topk(y[0, 0].numel(), 2)[0].view(y.shape),
    "mixed along the width": lambda y: y @ torch.eye(y.shape[3]).flip(0),
    "mixed along the height": lambda y: torch.eye(y.shape[2]).flip(0) @ y,
    "a dense layer along the width": lambda y: F.linear(y, torch.eye(y.shape[3]).flip(0)),
}


@pytest.mark.parametrize("move", MOVED)
def test_maps_whose_values_are_elsewhere_are_not_laid_over_the_input(move: str) -> None:
    """Reference: Grad-CAM by a literal hook at the layer in front, which is still in place."""

    class Moving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
            self.second, self.out = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.out(F.relu(self.second(MOVED[move](self.first(inputs)))).mean((2, 3)))
            return logits

    model, inputs = drawn(Moving()), random_inputs(2, 1, 12, 12)
    found = heatproof.explain(model, inputs, "grad_cam", target=1)
    torch.testing.assert_close(found, hooked_grad_cam(model, inputs, model.first), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "keep",
    [
        lambda y: y.flip(3).flip(3),
        lambda y: y[:, torch.tensor([2, 0, 1, 3])],
        lambda y: y.gather(1, torch.arange(3, -1, -1).view(1, 4, 1, 1).expand(y.shape)),
        lambda y: y.index_select(0, torch.arange(len(y) - 1, -1, -1)).index_select(0, torch.arange(len(y) - 1, -1, -1)),
        lambda y: y.sort(1)[0],
        lambda y: y.permute(0, 2, 3, 1).reshape(len(y), 144, 4).transpose(1, 2).view(len(y), 4, 12, 12),
        lambda y: y + y.transpose(2, 3).transpose(2, 3),
        lambda y: y + y @ torch.eye(12),
    ],
)
def test_what_is_back_in_place_is_read(keep: Callable[[Tensor], Tensor]) -> None:
    """Reference: Grad-CAM by a literal hook at the last layer."""

    class Staying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
            self.last, self.out = nn.ReLU(), nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.out(self.last(self.second(keep(F.relu(self.first(inputs))))).mean((2, 3)))
            return logits

    model, inputs = drawn(Staying()), random_inputs(2, 1, 12, 12)
    found = heatproof.explain(model, inputs, "grad_cam", target=1)
    torch.testing.assert_close(found, hooked_grad_cam(model, inputs, model.last), rtol=1e-4, atol=1e-6)

"""The image classifiers, against torchvision's."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.models.image_classifiers import (
    IMAGE_CLASSIFIERS,
    AlexNet,
    Vgg16,
    load_convolutions,
    make_classifier,
)
from heatproof.models.weights import load_weights
from reference.libraries import import_torchvision


@pytest.fixture(scope="module")
def published() -> ModuleType:
    """torchvision.models."""
    import_torchvision()
    models: ModuleType = importlib.import_module("torchvision.models")
    return models


def make_empty(name: str, num_classes: int = 1000) -> nn.Module:
    """Shapes without numbers: the large networks cost seconds and half a gigabyte to fill."""
    with torch.device("meta"):
        return make_classifier(name, num_classes)


def make_pictures(size: int) -> Tensor:
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(size))


@pytest.mark.parametrize("num_classes", [1000, 2])
@pytest.mark.parametrize("name", IMAGE_CLASSIFIERS)
def test_names_and_shapes_are_those_of_torchvision(published, name, num_classes):
    with torch.device("meta"):
        theirs = getattr(published, name)(num_classes=num_classes)
    ours = make_empty(name, num_classes)
    shapes = [{key: tensor.shape for key, tensor in model.state_dict().items()} for model in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    layers = [
        {key: type(module) for key, module in model.named_modules() if not list(module.children())}
        for model in (ours, theirs)
    ]
    inner = {key: kind for key, kind in layers[0].items() if key.endswith(".relu1")}
    assert layers[0] == {**layers[1], **inner}
    assert len(inner) == (8 if name == "resnet18" else 0)


@pytest.mark.parametrize(
    ("name", "sizes"), [("alexnet", (224, 448)), ("vgg16", (224,)), ("vgg16_bn", (64,)), ("resnet18", (224, 448))]
)
def test_outputs_are_those_of_torchvision(published, name, sizes):
    torch.manual_seed(1)
    theirs = getattr(published, name)(num_classes=10).eval()
    for module in theirs.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.8, 1.2)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(std=0.1)
    ours = make_empty(name, num_classes=10).eval()
    ours.load_state_dict(theirs.state_dict(), assign=True)
    for size in sizes:
        with torch.no_grad():
            found, expected = ours(make_pictures(size)), theirs(make_pictures(size))
        assert found.shape == (1, 10)
        assert expected.std() > 1e-3
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", IMAGE_CLASSIFIERS)
def test_every_layer_is_called_once(name):
    model = make_empty(name, num_classes=3).eval()
    calls: list[str] = []
    leaves = [key for key, module in model.named_modules() if not list(module.children())]
    for key in leaves:
        model.get_submodule(key).register_forward_hook(lambda *_, key=key: calls.append(key))
    for size in (224, 448):
        calls.clear()
        assert model(torch.empty(2, 3, size, size, device="meta")).shape == (2, 3)
        assert sorted(calls) == sorted(leaves)


@pytest.mark.parametrize("name", IMAGE_CLASSIFIERS)
def test_relus_are_in_place_as_in_torchvision(name):
    assert all(module.inplace for module in make_empty(name).modules() if isinstance(module, nn.ReLU))


def test_can_be_trained_on_few_classes():
    torch.manual_seed(2)
    model = make_classifier("resnet18", num_classes=2)
    model(torch.randn(2, 3, 64, 64)).logsumexp(1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_unknown_names_are_named():
    with pytest.raises(HeatproofError, match=r"unknown image classifier 'resnet19'\. Did you mean 'resnet18'"):
        make_classifier("resnet19")


@pytest.mark.parametrize(
    ("kind", "file"), [(AlexNet, "alexnet_features.pt"), (Vgg16, "vgg16_features_fp16.pt")], ids=["alexnet", "vgg16"]
)
def test_published_convolutions_tell_cats_from_dogs(shared_data, kind, file):
    """A linear head on their pooled features, few pictures: 82 % and 88 %; on random convolutions 62 % and 38 %."""
    model = make_empty({AlexNet: "alexnet", Vgg16: "vgg16"}[kind])
    assert isinstance(model, kind)
    model.features.to_empty(device="cpu")
    path = shared_data(f"focus/models/{file}")
    load_convolutions(model, path)
    for name, tensor in torch.load(path, weights_only=True).items():
        assert torch.equal(model.get_parameter(name), tensor.float())
    size, count = (224, 60) if kind is AlexNet else (64, 40)
    features = []
    for animal in ("cat", "dog"):
        pictures = read_pictures(shared_data(f"focus/dogs_vs_cats/{animal}"), size, count)
        with torch.no_grad():
            features.append(model.features.eval()(pictures).mean((2, 3)).double())
    assert separability(*features) >= 0.7


def read_pictures(folder: Path, size: int, count: int) -> Tensor:
    image = pytest.importorskip("PIL.Image", reason="reading pictures needs Pillow")
    pixels = []
    for path in sorted(folder.iterdir())[:count]:
        with image.open(path) as file:
            pixels.append(np.asarray(file.convert("RGB").resize((size, size), image.Resampling.BILINEAR)))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return ((torch.tensor(np.stack(pixels)) / 255 - mean) / std).permute(0, 3, 1, 2)


def separability(first: Tensor, second: Tensor) -> float:
    """Accuracy of a ridge classifier on every second case, fitted to the others."""
    features = torch.cat([first, second])
    features = torch.cat([(features - features.mean(0)) / (features.std(0) + 1e-6), torch.ones(len(features), 1)], 1)
    labels = torch.cat([torch.ones(len(first)), -torch.ones(len(second))]).double()
    train, test = features[::2], features[1::2]
    kernel = train @ train.T + len(train) * torch.eye(len(train), dtype=torch.float64)
    weights = train.T @ torch.linalg.solve(kernel, labels[::2])
    return float(((test @ weights > 0) == (labels[1::2] > 0)).double().mean())


def test_wrong_convolutions_are_named(tmp_path):
    model = make_empty("alexnet")
    torch.save({"features.0.weight": torch.zeros(3)}, tmp_path / "some.pt")
    with pytest.raises(HeatproofError, match=r"some\.pt does not hold weights of Convolutions: it misses features\.0"):
        load_convolutions(model, tmp_path / "some.pt")


def test_of_many_wrong_names_a_few_are_listed(tmp_path):
    """A transformer has hundreds, which nobody reads."""
    model = nn.Sequential(*[nn.Linear(1, 1) for _ in range(50)])
    torch.save({"cls": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(
        HeatproofError, match=r"misses 0\.bias, .* and 94 more and has unknown cls\. Expected"
    ) as caught:
        load_weights(model, tmp_path / "other.pt")
    assert len(str(caught.value)) < 400

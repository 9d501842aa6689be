"""Where classifiers come from: names, libraries, factories, programs; their preprocessing; heads that are trained."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from typer.testing import CliRunner

import heatproof
from heatproof.benchmarks.focus_alone import accuracy_alone
from heatproof.clevr.objects import CLASSES, shipped_pictures
from heatproof.cli.train import app as train_command
from heatproof.errors import HeatproofError
from heatproof.models.classifiers import (
    load_classifier,
    output_numbers,
    with_channels_last,
    with_logits,
    with_options,
)
from heatproof.models.heads import split
from heatproof.models.image_classifiers import make_classifier
from heatproof.models.linear_head import fit_head
from heatproof.models.sizes import Sizes
from heatproof.models.weights import save_weights
from heatproof.mosaics.mosaics import MosaicSettings, draw_mosaics
from heatproof.mosaics.pictures import find_pictures, tile
from reference.libraries import import_torchvision

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


class Small(nn.Module):
    """Two convolutions, batch norm, pooling and a linear layer."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.fc = nn.Linear(8, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(pictures).mean((2, 3)))
        return logits


@pytest.fixture
def small() -> nn.Module:
    torch.manual_seed(0)
    return Small().eval()


@pytest.fixture(scope="module")
def resnet(tmp_path_factory) -> tuple[nn.Module, Path]:
    """A ResNet-18 of seven outputs with weights that are not those of a fresh one, and its file."""
    torch.manual_seed(1)
    model = make_classifier("resnet18", 7).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
    path = tmp_path_factory.mktemp("weights") / "resnet18.pt"
    torch.save(model.state_dict(), path)
    return model, path


def assert_same(ours: nn.Module, theirs: nn.Module, side: int = 64) -> None:
    pictures = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(pictures), theirs(pictures), rtol=1e-4, atol=1e-5)


def test_our_networks_have_the_outputs_that_their_weights_have(resnet):
    model, path = resnet
    found = load_classifier("resnet18", path)
    assert not found.module.training
    assert_same(found.module, model)
    assert (list(found.mean), list(found.std)) == IMAGENET


def test_torchvision_by_name(resnet):
    """Reference: our own ResNet-18, which tests/models hold to torchvision's; preprocessing is torchvision's."""
    import_torchvision()
    model, path = resnet
    found = load_classifier("torchvision:resnet18", path)
    assert "torchvision" in type(found.module).__module__
    assert_same(found.module, model)
    assert (list(found.mean), list(found.std), found.size, found.fit) == (*IMAGENET, 224, "crop")
    with pytest.raises(HeatproofError, match="Did you mean 'resnet18'"):
        load_classifier("torchvision:resnet19", path)
    with pytest.raises(HeatproofError, match=r"torchvision:resnet18 has random weights; .* --weights FILE"):
        load_classifier("torchvision:resnet18")


def test_timm_by_name(resnet):
    """timm's ResNet-18 has torchvision's names, so that the same file fits."""
    import_torchvision()
    pytest.importorskip("timm", reason="needs timm")
    model, path = resnet
    found = load_classifier("timm:resnet18", path)
    assert "timm" in type(found.module).__module__
    assert_same(found.module, model)
    assert (list(found.mean), list(found.std), found.size, found.fit) == (*IMAGENET, 224, "crop")
    with pytest.raises(HeatproofError, match="unknown model of timm 'resnet1800'"):
        load_classifier("timm:resnet1800", path)


def test_libraries_that_are_missing_are_named(monkeypatch, resnet):
    for name in ("timm", "torchvision.models"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("timm", "torchvision"):
        with pytest.raises(HeatproofError, match=f"{name}.* is not installed, or does not fit this torch"):
            load_classifier(f"{name}:resnet18", resnet[1])


FACTORY = """
import torch

def bare():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())

def full():
    return bare(), {"mean": (0.1, 0.2, 0.3), "std": (1, 1, 2), "size": 48, "fit": "squash"}

def typo():
    return bare(), {"men": (0.1, 0.2, 0.3)}

def number():
    return 3

def failing():
    raise FileNotFoundError("no net.pt here")

network = bare()
"""


def test_factories(tmp_path, monkeypatch):
    (tmp_path / "focus_factories.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    for place in ("focus_factories.py", "focus_factories"):
        bare, full, network = (load_classifier(f"{place}:{name}") for name in ("bare", "full", "network"))
        assert (bare.mean, bare.std, bare.size, bare.fit) == ((0.5,) * 3, (0.5,) * 3, None, None)
        assert (full.mean, full.std, full.size, full.fit) == ((0.1, 0.2, 0.3), (1, 1, 2), 48, "squash")
        assert isinstance(network.module, nn.Sequential)
    for name, words in {
        "typo": "unknown setting of model typo 'men'. Did you mean 'mean'",
        "number": r"model number must be a torch.nn.Module, or \(module, settings\); got int",
        "failing": "failing fails to make a network: FileNotFoundError: no net.pt here",
        "fulll": "unknown name in focus_factories.py 'fulll'. Did you mean 'full'",
    }.items():
        with pytest.raises(HeatproofError, match=words):
            load_classifier(f"focus_factories.py:{name}")


class Marker:
    """What a malicious file would do when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_weights_that_do_not_fit_are_named(tmp_path, small, monkeypatch):
    save_weights(small, tmp_path / "small.npz")
    with pytest.raises(HeatproofError, match=r"small.npz does not hold weights of ResNet18: it misses bn1"):
        load_classifier("resnet18", tmp_path / "small.npz")
    (tmp_path / "focus_factories.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeatproofError, match=r"small.npz does not hold weights of Sequential: it misses 0.bias"):
        load_classifier("focus_factories.py:bare", Path("small.npz"))
    with pytest.raises(HeatproofError, match=r"there is no weights file none.npz"):
        load_classifier("resnet18", Path("none.npz"))
    torch.save({}, tmp_path / "empty.pt")
    with pytest.raises(HeatproofError, match=r"empty.pt holds no weights"):
        load_classifier("resnet18", tmp_path / "empty.pt")
    torch.save({"fc.bias": Marker(tmp_path / "done")}, tmp_path / "evil.pt")
    with pytest.raises(HeatproofError, match=r"evil.pt cannot be read as weights"):
        load_classifier("resnet18", tmp_path / "evil.pt")
    assert not (tmp_path / "done").exists()


def test_a_function_is_no_model():
    with pytest.raises(HeatproofError, match=r"model relu must be a torch.nn.Module, or .*; got function"):
        load_classifier(torch.nn.functional.relu)
    with pytest.raises(HeatproofError, match="got the class Small itself, so call it"):
        load_classifier(Small)


class Wordy(Small):
    """Returns as a network of Hugging Face does."""

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        return {"loss": torch.zeros(()), "logits": super().forward(pictures)}


def test_logits_among_other_outputs(small):
    """Reference: the network that returns the logits alone. Layers keep their names."""
    network = Wordy().eval()
    network.load_state_dict(small.state_dict())
    pictures = torch.rand(3, 3, 48, 48, generator=torch.Generator().manual_seed(0))
    found = with_logits(load_classifier(network), pictures)
    labels = list("abcdef")
    assert output_numbers(found, labels, pictures) == {label: place for place, label in enumerate(labels)}
    with pytest.raises(
        HeatproofError, match=r"must return float logits \(cases, classes\), .*; got dict of loss, logits"
    ):
        output_numbers(load_classifier(network), labels, pictures)
    fast = with_channels_last(found, pictures)
    assert fast is not found
    for spec in ("gradient", "grad_cam:layer=features.3", "lrp"):
        expected = heatproof.explain(small, pictures, spec, target=1)
        for module in (found.module, fast.module):
            torch.testing.assert_close(
                heatproof.explain(module, pictures, spec, target=1), expected, rtol=1e-3, atol=1e-5
            )


def as_file(model: nn.Module, kind: str, folder: Path) -> str:
    """The model as a program: traced, scripted, or exported for any number of pictures."""
    sample = torch.zeros(2, 3, 48, 48)
    path = folder / f"net-{kind}.{'pt2' if kind == 'exported' else 'pt'}"
    if kind == "exported":
        torch.export.save(torch.export.export(model, (sample,), dynamic_shapes=({0: torch.export.Dim("b")},)), path)
    else:
        (torch.jit.trace(model, sample) if kind == "traced" else torch.jit.script(model)).save(str(path))
    return str(path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["traced", "scripted", "exported"])
def test_programs(kind, small, tmp_path):
    """Reference: the module that the file was made from. What would be silently wrong is an error instead."""
    program = load_classifier(as_file(small, kind, tmp_path), trust=True).module
    pictures = torch.rand(3, 3, 48, 48, generator=torch.Generator().manual_seed(0))

    def explained(model: nn.Module, spec: str) -> Tensor:
        return heatproof.explain(model, pictures, spec, target=1)

    for spec in ("gradient", "integrated_gradients:steps=3", "rise:masks=5", "lime:samples=9,segmenter=blocks"):
        torch.testing.assert_close(explained(program, spec), explained(small, spec), rtol=1e-4, atol=1e-5)
    blind = ["lrp", "excitation_backprop", "deep_lift"]
    cams = ["grad_cam", "grad_cam:layer=features.4", "score_cam", "sise", "guided_backprop", "deconvnet"]
    if kind == "exported":
        for spec in cams:
            assert explained(small, spec).any()
            torch.testing.assert_close(explained(program, spec), explained(small, spec), rtol=1e-4, atol=1e-6)
        assert explained(program, "randomised:gradient").any()
    else:
        blind += cams
    for spec in blind:
        with pytest.raises(HeatproofError, match=r"has to see the layers of the model, and \S+ hides them"):
            explained(program, spec)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_on_a_program(small, tmp_path):
    """The cost of a run is known too; an explainer that must see layers costs its own scores only."""
    path = as_file(small, "traced", tmp_path)
    options = {
        "images": shipped_pictures(), "model": path, "trust": True, "tile": 24, "fit": "squash",
        "per_class": 1, "explainers": "gradient, grad_cam",
    }  # fmt: skip
    tried = heatproof.dry_run("focus", **options).lines
    assert [line.passes for line in tried] == [12, 12]
    assert ["TorchScript hides them" in line.failure for line in tried] == [False, True]
    run = heatproof.run("focus", out=tmp_path / "run", **options)
    assert set(run.leaderboard()["explainer"]) == {"gradient"}
    assert {failure["explainer"] for failure in run.failures()} == {"grad_cam"}
    assert "TorchScript hides them" in run.failures()[0]["message"]
    weights = tmp_path / "w.npz"
    save_weights(small, weights)
    with pytest.raises(HeatproofError, match="has weights of its own; leave --weights"):
        load_classifier(path, weights, trust=True)


def test_preprocessing_comes_from_the_model_or_the_user_and_is_in_run_json(small, tmp_path):
    settings = {"mean": [0.1, 0.2, 0.3], "std": [1.0, 1.0, 2.0], "size": 32, "fit": "squash"}
    options = {"images": shipped_pictures(), "explainers": "random", "per_class": 1, "limit": 2}

    def written(name: str, model: object, **given: object) -> list[object]:
        run = heatproof.run("focus", model=model, out=tmp_path / name, **options, **given)
        found = json.loads((run.folder / "run.json").read_text())["configuration"]
        return [found[key] for key in ("mean", "std", "tile", "fit")]

    assert written("theirs", (small, settings)) == list(settings.values())
    ours = {"mean": [0.4] * 3, "std": [0.2] * 3, "tile": 40, "fit": "crop"}
    assert written("ours", (small, settings), **ours) == list(ours.values())
    silent = [[0.5] * 3, [0.5] * 3, 224, "crop"]
    assert written("silent", small) == silent


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": "224"}, "size of model Small must be a whole number of at least 16, got '224'"),
        ({"fit": "pad"}, "unknown fit of model Small 'pad'"),
        ({"std": [0.2, 0.0, 0.2]}, "std must be above zero"),
        ({"mean": [0.5]}, "mean must be three numbers"),
    ],
)
def test_settings_that_cannot_be_are_named(settings, words, small):
    with pytest.raises(HeatproofError, match=words):
        with_options(load_classifier((small, settings)), None, None, None)


def test_pixels_become_inputs_literally(small):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3), dtype=np.uint8)
    classifier = load_classifier((small, {"mean": IMAGENET[0], "std": IMAGENET[1]}))
    inputs = classifier.inputs(pixels)
    assert inputs.shape == (2, 3, 4, 5)
    for picture, channel, y, x in np.ndindex(2, 3, 4, 5):
        expected = (int(pixels[picture, y, x, channel]) / 255 - IMAGENET[0][channel]) / IMAGENET[1][channel]
        assert inputs[picture, channel, y, x].item() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(classifier.pictures(inputs), torch.as_tensor(pixels).permute(0, 3, 1, 2) / 255)


def test_weights_are_laid_out_for_speed_where_nothing_else_changes(small):
    """The caller's network stays as it is; one whose `view` needs the plain order is left alone, and so is one that
    says something else in the other layout.
    """

    class Viewing(Small):
        def forward(self, pictures: Tensor) -> Tensor:
            maps = self.features(pictures)
            return self.fc(maps.view(len(maps), -1)[:, :8])

    class Wrong(Small):
        def forward(self, pictures: Tensor) -> Tensor:
            return super().forward(pictures) + float(not self.features[0].weight.is_contiguous())

    sample = torch.rand(2, 3, 40, 40, generator=torch.Generator().manual_seed(0))
    classifier = load_classifier(small)
    fast = with_channels_last(classifier, sample)
    assert small.features[0].weight.is_contiguous()
    assert not fast.module.features[0].weight.is_contiguous()
    assert_same(fast.module, small)
    for network in (Viewing().eval(), Wrong().eval()):
        other = load_classifier(network)
        assert with_channels_last(other, sample) is other


@pytest.mark.parametrize("classes", [2, 4])
def test_the_head_is_a_logistic_regression(classes):
    """Reference: scikit-learn's, of the same loss: C = 1 / (n decay) on features of root mean square one.

    For two classes it has one row of weights, the difference of our two, so that ours cost half as much.
    """
    rng = np.random.default_rng(0)
    labels = np.arange(90) % classes
    features = rng.normal(size=(90, 5)) + 0.8 * rng.normal(size=(classes, 5))[labels]
    decay = 0.03
    weight = fit_head(torch.as_tensor(features).float(), torch.as_tensor(labels), classes, decay)
    scale = np.sqrt(np.mean(features.astype(np.float32) ** 2))
    strength = 90 * decay / (2 if classes == 2 else 1)
    theirs = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-10, max_iter=10000).fit(
        features / scale, labels
    )
    ours = (weight[1:] - weight[:1]) if classes == 2 else weight
    np.testing.assert_allclose(ours.numpy() * scale, theirs.coef_, atol=2e-4)
    expected = theirs.predict_proba(features / scale)
    found = (torch.as_tensor(features).float() @ weight.T).softmax(1).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_splits(tmp_path):
    pictures = find_pictures(shipped_pictures())
    train, rest = split(pictures, 0.25, seed=3)
    for label, files in pictures.by_class.items():
        assert sorted((*train.by_class[label], *rest.by_class[label])) == sorted(files)
        assert len(rest.by_class[label]) == len(files) // 4
    assert split(pictures, 0.25, seed=3) == (train, rest) != split(pictures, 0.25, seed=4)
    for share in (0, 1, -0.1):
        with pytest.raises(HeatproofError, match="must be a share between 0 and 1"):
            split(pictures, share, 0)
    with pytest.raises(HeatproofError, match=r"class 'metal_cube' has 40 picture.* leave a part of the split without"):
        split(pictures, 0.001, 0)


def test_a_head_from_the_command_line(tmp_path):
    """From convolutions in a file to a run on pictures that the head has not seen; its accuracy is counted again."""
    torch.manual_seed(0)
    features = {
        f"features.{name}": value for name, value in make_classifier("alexnet", 2).features.state_dict().items()
    }
    torch.save(features, tmp_path / "features.pt")
    out = tmp_path / "made" / "net.npz"
    words = ["focus-head", "--images", str(shipped_pictures()), "--model", "alexnet", "--tile", "64", "--out", str(out)]
    words += ["--weights", str(tmp_path / "features.pt"), "--held-out", "0.1"]
    result = CliRunner().invoke(train_command, words)
    assert result.exit_code == 0, result.output
    table = out.with_suffix(".csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["subset"] for row in rows) == {"train": 216, "val": 24}
    assert len({(table.parent / row["filename"]).resolve() for row in rows}) == 240

    held_out = find_pictures(table)
    assert {label: len(files) for label, files in held_out.by_class.items()} == dict.fromkeys(sorted(CLASSES), 4)
    classifier = load_classifier("alexnet_linear", out)
    pixels = np.stack([tile(file, 64) for files in held_out.by_class.values() for file in files])
    with torch.no_grad():
        right = classifier.module(classifier.inputs(pixels)).argmax(1) == torch.arange(6).repeat_interleave(4)
    assert f"{right.double().mean():.1%} of 24 held-out pictures right" in result.output
    assert right.double().mean() > 0.4  # one in six by chance, even with random convolutions
    run = heatproof.run(
        "focus", images=table, model="alexnet_linear", weights=out, tile=64, per_class=1,
        explainers="grad_cam", out=tmp_path / "run",
    )  # fmt: skip
    assert not run.failures()

    class_of = {"--model": "lenet", "--weights": str(tmp_path / "none.pt")}
    for option, value in class_of.items():
        place = words.index(option) + 1
        wrong = CliRunner().invoke(train_command, [*words[:place], value, *words[place + 1 :]])
        assert isinstance(wrong.exception, HeatproofError)
        assert value in str(wrong.exception)


def test_accuracy_on_single_pictures(small):
    """Reference: each picture by itself. A model that knows half of the classes; one that cannot take one tile."""
    pictures = find_pictures(shipped_pictures())
    mosaics = draw_mosaics(pictures, MosaicSettings(5))[:18]  # so that some classes have more pictures than others
    used = {file: label for mosaic in mosaics for file, label in zip(mosaic.files, mosaic.labels, strict=True)}
    classifier = load_classifier("object_classifier")
    swapped = {label: (place if place < 3 else 8 - place) for label, place in classifier.labels.items()}
    right: dict[str, list[bool]] = {}
    for file, label in used.items():
        with torch.no_grad():
            named = int(classifier.module(classifier.inputs(tile(file, 64, "squash")[None])).argmax())
        right.setdefault(label, []).append(named == swapped[label])
    found = accuracy_alone(classifier, swapped, mosaics, Sizes(64, 64), "squash")
    assert found is not None
    assert found.accuracy == sum(map(sum, right.values())) / len(used) < 0.8
    assert found.mean_class_accuracy == pytest.approx(np.mean([np.mean(each) for each in right.values()]))
    assert abs(found.accuracy - found.mean_class_accuracy) > 0.01
    large = load_classifier(nn.Sequential(nn.Conv2d(3, 6, 30), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    assert accuracy_alone(large, swapped, mosaics, Sizes(16, 16), "squash") is None

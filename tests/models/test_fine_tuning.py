"""Fine-tuning: what it begins with, what it learns, that it goes on where it was, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import heatproof
from heatproof.cli.train import app as train_command
from heatproof.errors import HeatproofError
from heatproof.models import fine_tuning
from heatproof.models.classifiers import Classifier, load_classifier
from heatproof.models.fine_tuning import Lesson, Tuning, fine_tune, right_by_class
from heatproof.models.heads import parts, split, train_head, write_split
from heatproof.models.image_classifiers import make_classifier
from heatproof.models.linear_head import make_linear
from heatproof.models.transfer import head_of, last_layer, pretrained, transfer, what_reaches
from heatproof.models.weights import fingerprint
from heatproof.mosaics.pictures import Pictures, find_pictures, tile, varied_tile
from reference.libraries import import_torchvision

SIDE = 32


class SmallNet(nn.Module):
    """Small, with what training treats in its own way: a batch norm and a dropout."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 5, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, classes)
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(pictures))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Light and dark pictures with noise: easy to tell apart."""
    rng = np.random.default_rng(0)
    for label, level in (("dark", 60), ("light", 190)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(9):
            pixels = (level + rng.integers(-50, 50, (40, 44, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def small() -> Classifier:
    torch.manual_seed(0)
    return Classifier("small", SmallNet().eval())


def halves(photos: Path) -> tuple[Pictures, Pictures]:
    return split(find_pictures(photos), 1 / 3, 0)


def test_it_learns_and_says_how_well(photos, small):
    """Reference for the accuracy: each held-out picture by itself, counted by class."""
    before = fingerprint(small.module)
    train, rest = halves(photos)
    tuned = fine_tune(small, train, rest, Tuning(epochs=12, rate=0.02, batch=4), SIDE)
    assert fingerprint(small.module) == before != fingerprint(tuned.network)
    assert len(tuned.history) == 13
    shares = []
    for k, files in enumerate(rest.by_class.values()):
        inputs = [small.inputs(tile(file, SIDE)[None]) for file in files]
        with torch.no_grad():
            shares.append(np.mean([int(tuned.network(one).argmax()) == k for one in inputs]))
    assert tuned.accuracy == pytest.approx(np.mean(shares)) == 1
    assert tuned.before < 1


def test_steps_are_amsgrads(photos, small):
    """Reference: AMSGrad written out (Reddi et al. 2018 with Adam's corrections, as in torch), two steps."""
    train, _ = halves(photos)
    tuning = Tuning(rate=0.01, batch=4)
    module = small.module
    module.classifier[1] = nn.Dropout(0)
    lesson = Lesson(small, train, tuning, SIDE, "crop", lambda *_: None)
    expected = [value.detach().double().clone() for value in module.parameters()]
    first, second, most = ([torch.zeros_like(value) for value in expected] for _ in range(3))
    optimiser = torch.optim.Adam(module.parameters(), lr=tuning.rate, amsgrad=True)
    for t in (1, 2):
        chosen = lesson.order(0).tensor_split(lesson.per_epoch)[t - 1]
        twin = SmallNet().train()
        twin.load_state_dict(module.state_dict())
        twin.classifier[1] = nn.Dropout(0)
        loss = nn.functional.cross_entropy(twin(lesson.inputs(0, chosen.tolist())), lesson.labels[chosen])
        loss.backward()
        assert lesson.step(t - 1, optimiser) == pytest.approx(loss.item(), rel=1e-5)
        for k, weight in enumerate(twin.parameters()):
            gradient = weight.grad.double()
            first[k] = 0.9 * first[k] + 0.1 * gradient
            second[k] = 0.999 * second[k] + 0.001 * gradient**2
            most[k] = torch.maximum(most[k], second[k])
            expected[k] -= 0.01 * first[k] / (1 - 0.9**t) / ((most[k] / (1 - 0.999**t)).sqrt() + 1e-8)
        for value, wanted in zip(module.parameters(), expected, strict=True):
            torch.testing.assert_close(value.detach().double(), wanted, rtol=1e-4, atol=2e-5)


class StoppedError(Exception):
    pass


def stop_after(steps: int) -> Callable[..., None]:
    def progress(task: str, done: int, _total: int) -> None:
        if task.startswith("learning") and done >= steps:
            raise StoppedError

    return progress


@pytest.mark.parametrize("learn", ["all", "head"])
@pytest.mark.parametrize("stopped", [2, 3, 7])
def test_an_interrupted_training_goes_on_bit_for_bit(photos, small, tmp_path, monkeypatch, learn, stopped):
    """Reference: the training in one go. StoppedError within an epoch, at its end, and between two checkpoints."""
    monkeypatch.setattr(fine_tuning, "KEEP_EVERY", 2)
    train, rest = halves(photos)
    tuning = Tuning(epochs=3, rate=0.01, batch=4, learn=learn)
    whole = fine_tune(small, train, rest, tuning, SIDE)
    checkpoint = tmp_path / "net.checkpoint"
    with pytest.raises(StoppedError):
        fine_tune(small, train, rest, tuning, SIDE, checkpoint, stop_after(stopped))
    assert checkpoint.is_file() == (stopped > 2)
    resumed = fine_tune(small, train, rest, tuning, SIDE, checkpoint)
    assert fingerprint(resumed.network) == fingerprint(whole.network)
    assert resumed.history == whole.history
    again = fine_tune(small, train, rest, tuning, SIDE, checkpoint, stop_after(0))  # nothing is left to learn
    assert fingerprint(again.network) == fingerprint(whole.network)


def test_a_checkpoint_of_another_training_is_refused(photos, small, tmp_path):
    train, rest = halves(photos)
    checkpoint = tmp_path / "net.checkpoint"
    fine_tune(small, train, rest, Tuning(epochs=1, batch=4), SIDE, checkpoint)
    torch.manual_seed(1)
    another = replace(small, module=SmallNet())
    for classifier, tuning, pictures in (
        (small, Tuning(epochs=2, batch=4), train),
        (another, Tuning(epochs=1, batch=4), train),
        (small, Tuning(epochs=1, batch=4), Pictures({label: files[1:] for label, files in train.by_class.items()})),
    ):
        with pytest.raises(
            HeatproofError, match=r"net.checkpoint is of another training .* move it away to begin anew"
        ):
            fine_tune(classifier, pictures, rest, tuning, SIDE, checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(HeatproofError, match="is no checkpoint of this training"):
        fine_tune(small, train, rest, Tuning(epochs=1, batch=4), SIDE, checkpoint)


def test_the_head_alone(photos, small, monkeypatch, tmp_path):
    """What lies below stays, its batch norm's statistics too; what the head sees is computed once and kept."""
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path / "home"))
    train, rest = halves(photos)
    tuning = Tuning(epochs=6, rate=0.02, batch=4, learn="head")
    tuned = fine_tune(small, train, rest, tuning, SIDE)
    for name, values in small.module.state_dict().items():
        same = torch.equal(values, tuned.network.state_dict()[name])
        assert same == name.startswith("features."), name
    kept = list((tmp_path / "home" / "features").rglob("*.npy"))
    assert sum(len(np.load(path)) for path in kept) == len(train)
    monkeypatch.setattr("heatproof.models.transfer.what_reaches", None)  # nobody may ask the network again
    assert fingerprint(fine_tune(small, train, rest, tuning, SIDE).network) == fingerprint(tuned.network)


def test_a_network_that_does_not_end_with_its_head_learns_as_a_whole_only(photos, small):
    class Doubled(SmallNet):
        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(pictures)

    train, rest = halves(photos)
    with pytest.raises(HeatproofError, match=r"small does not end with its classifier; .*--learn all"):
        fine_tune(replace(small, module=Doubled().eval()), train, rest, Tuning(learn="head"), SIDE)


def test_varied_tiles(tmp_path):
    """Reference: torchvision's own resize, rotation, crop and flip with the same draws."""
    import_torchvision()
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import functional as F

    pixels = np.random.default_rng(1).integers(0, 256, (70, 90, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    mirrored = set()
    for seed in range(12):
        found = varied_tile(tmp_path / "a.png", 56, random.Random(seed))
        rng = random.Random(seed)
        angle, down, right = rng.uniform(-30, 30), rng.randint(0, 8), rng.randint(0, 8)
        expected = F.resize(Image.open(tmp_path / "a.png"), [64, 64], InterpolationMode.BILINEAR)
        expected = F.crop(F.rotate(expected, angle), down, right, 56, 56)
        mirrored.add(rng.random() < 0.5)
        rng = random.Random(seed)
        [rng.uniform(0, 1), rng.randint(0, 8), rng.randint(0, 8)]
        expected = F.hflip(expected) if rng.random() < 0.5 else expected
        np.testing.assert_array_equal(found, np.asarray(expected))
    assert mirrored == {False, True}


# Where it begins


def saved(path: Path, network: nn.Module, change: Callable[[str], str] = str, **more: Any) -> Path:
    state = {change(name): values for name, values in network.state_dict().items()}
    torch.save({"state_dict": state, **more} if more else state, path)
    return path


def test_full_checkpoints_give_all_but_the_last_layer(tmp_path):
    """Of another number of classes; in a training's checkpoint, with the names that several GPUs make, uncounted."""
    torch.manual_seed(0)
    network = make_classifier("resnet18", 5)
    plain = saved(tmp_path / "plain.pth", network)
    wrapped = saved(tmp_path / "places.pth.tar", network, lambda name: f"module.{name}", epoch=3, arch="resnet18")
    state = {n: v for n, v in torch.load(plain).items() if not n.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth")
    for path in (plain, wrapped, tmp_path / "old.pth"):
        found, drawn = pretrained("resnet18", path, 2, seed=3)
        assert drawn == ["fc.bias", "fc.weight"]
        for name, values in found.module.state_dict().items():
            if not name.startswith("fc."):
                assert torch.equal(values, network.state_dict()[name]), name
    same = pretrained("resnet18", plain, 2, seed=3)[0].module.fc.weight
    assert torch.equal(same, found.module.fc.weight)  # drawn from the seed
    assert not torch.equal(same, pretrained("resnet18", plain, 2, seed=4)[0].module.fc.weight)
    kept, drawn = pretrained("resnet18", plain, 5, seed=3)
    assert not drawn
    assert torch.equal(kept.module.fc.weight, network.fc.weight)


def test_convolutions_alone_are_enough(tmp_path):
    network = make_linear("alexnet_linear", 2)
    for values in network.state_dict().values():
        values.normal_(0, 0.05)
    convolutions = {n: v for n, v in network.state_dict().items() if n.startswith("features.")}
    torch.save(convolutions, tmp_path / "features.pt")
    module = SmallAlexNet(network.features)
    assert transfer(module, tmp_path / "features.pt") == ["classifier.bias", "classifier.weight"]
    assert all(torch.equal(values, module.state_dict()[name]) for name, values in convolutions.items())


class SmallAlexNet(nn.Module):
    def __init__(self, features: nn.Module) -> None:
        super().__init__()
        self.features = nn.Sequential(*[type(layer)(**arguments(layer)) for layer in features])
        self.classifier = nn.Linear(256, 2)


def arguments(layer: nn.Module) -> dict[str, Any]:
    if isinstance(layer, nn.Conv2d):
        names = ("in_channels", "out_channels", "kernel_size", "stride", "padding")
        return {name: getattr(layer, name) for name in names}
    return {"kernel_size": 3, "stride": 2} if isinstance(layer, nn.MaxPool2d) else {}


def test_a_file_of_another_network_is_refused(tmp_path):
    other = saved(tmp_path / "resnet.pth", make_classifier("resnet18", 2))
    with pytest.raises(
        HeatproofError, match=r"resnet.pth is of another network than SmallNet: it misses .* has unknown"
    ):
        transfer(SmallNet(), other)
    wider = SmallNet()
    wider.features[0] = nn.Conv2d(3, 7, 5, 2)
    with pytest.raises(HeatproofError, match=r"features.0.bias has shape \(7,\), SmallNet needs \(6,\)"):
        transfer(SmallNet(), saved(tmp_path / "wider.pth", wider))
    (tmp_path / "cut.pth").write_bytes(other.read_bytes()[:5000])
    with pytest.raises(HeatproofError, match=r"cut.pth cannot be read as weights: it is truncated"):
        transfer(SmallNet(), tmp_path / "cut.pth")
    with pytest.raises(HeatproofError, match=r"'net.py:build' cannot be made for other classes"):
        pretrained("net.py:build", None, 2, 0)
    with pytest.raises(HeatproofError, match="alexnet_linear is what heatproof train focus-head makes"):
        pretrained("alexnet_linear", None, 2, 0)
    with pytest.raises(HeatproofError, match="does not end with a linear layer"):
        last_layer(nn.Sequential(nn.Conv2d(3, 2, 1)))


@pytest.mark.parametrize(
    ("name", "last", "head"),
    [
        ("torchvision:resnet18", "fc", "fc"),
        ("torchvision:mobilenet_v3_small", "classifier.3", "classifier"),
        ("torchvision:vit_b_16", "heads.head", "heads"),
        ("timm:resnet10t", "fc", "fc"),
    ],
)
def test_the_last_layer_of_others_networks(name, last, head):
    import_torchvision()
    with torch.random.fork_rng():
        classifier, _ = pretrained(name, None, 3, seed=0)
    assert (last_layer(classifier.module), head_of(classifier.module)) == (last, head)
    if classifier.name != "vit_b_16":
        inputs = torch.randn(2, 3, 64, 64)
        seen = what_reaches(classifier.module, last, inputs)
        with torch.no_grad():
            expected = classifier.module(inputs)
            found = classifier.module.get_submodule(last)(seen)
        torch.testing.assert_close(found, expected)


# Parts of the pictures


def test_a_csv_with_a_split_keeps_it(photos, tmp_path):
    train, rest = halves(photos)
    write_split(tmp_path / "split.csv", train, rest)
    for found, part in zip(parts(tmp_path / "split.csv", None, 0.5, 9), (train, rest), strict=True):
        names = [[file.resolve() for file in files] for files in found.by_class.values()]
        assert names == [[file.resolve() for file in files] for files in part.by_class.values()]
    lines = (tmp_path / "split.csv").read_text().splitlines()
    (tmp_path / "split.csv").write_text("\n".join(line for line in lines if "dark,train" not in line))
    with pytest.raises(HeatproofError, match=r"class 'dark' has no pictures|has only the class"):
        parts(tmp_path / "split.csv", None, 0.5, 9)


def test_bad_pictures_are_named_before_anything_is_learned(photos, small):
    train, rest = halves(photos)
    bad = train.by_class["light"][-1]
    bad.write_bytes(bad.read_bytes()[:1500])
    with pytest.raises(HeatproofError, match=rf"{bad.name} cannot be read as a picture"):
        fine_tune(small, train, rest, Tuning(epochs=1), SIDE, None, stop_after(0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": -1}, "epochs must be a whole number of at least 0"),
        ({"batch": 1}, "batch must be a whole number of at least 2"),
        ({"rate": 0}, "rate must be above zero"),
        ({"learn": "some"}, "unknown part that learns 'some'"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(HeatproofError, match=words):
        Tuning(**options)


# From the command line


def run_command(*words: str) -> Any:
    return CliRunner().invoke(train_command, list(words))


def test_from_a_head_to_a_run(photos, tmp_path):
    """A ResNet-18 gets a head, is fine-tuned from it on the same split, and is explained on what it has not seen."""
    torch.manual_seed(0)
    start = saved(tmp_path / "resnet18.pth", make_classifier("resnet18", 7).eval())
    common = ["--images", str(photos), "--model", "resnet18", "--tile", "64"]
    made = run_command("focus-head", *common, "--weights", str(start), "--out", str(tmp_path / "head.npz"))
    assert made.exit_code == 0, made.output
    assert "--model resnet18 --weights" in made.output
    head = load_classifier("resnet18", tmp_path / "head.npz")
    held_out = find_pictures(tmp_path / "head.csv")
    right = right_by_class(head, held_out, 64, "crop")
    assert f"{np.mean(list(right.values())):.1%} of {len(held_out)} held-out pictures right" in made.output
    assert not head.module.fc.bias.any()

    words = ["--images", str(tmp_path / "head.csv"), "--model", "resnet18", "--tile", "64", "--epochs", "1"]
    tuned = run_command(
        "focus-finetune", *words, "--weights", str(tmp_path / "head.npz"), "--out", str(tmp_path / "net.npz")
    )
    assert tuned.exit_code == 0, tuned.output
    record = json.loads((tmp_path / "net.json").read_text())
    network = load_classifier("resnet18", tmp_path / "net.npz")
    by_class = right_by_class(network, held_out, 64, "crop")
    assert record["by_class"] == by_class
    assert record["accuracy"] == pytest.approx(np.mean(list(by_class.values())))
    assert record["before"] == pytest.approx(np.mean(list(right.values())))
    assert (record["model"], record["weights"], record["optimiser"]) == ("resnet18", "head.npz", "AMSGrad")
    assert f"{record['accuracy']:.1%} of {len(held_out)} held-out pictures right, mean over 2 classes" in tuned.output
    assert find_pictures(tmp_path / "net.csv").classes == ("dark", "light")
    run = heatproof.run(
        "focus", images=tmp_path / "net.csv", model="resnet18", weights=tmp_path / "net.npz", tile=64, per_class=1,
        explainers="grad_cam", out=tmp_path / "run",
    )  # fmt: skip
    assert not run.failures()


def test_a_head_on_a_whole_alexnet_is_that_on_its_convolutions(photos, tmp_path):
    """Reference: the same convolutions in a file of their own."""
    network = make_linear("alexnet_linear", 3)
    generator = torch.Generator().manual_seed(0)
    for values in network.state_dict().values():
        values.normal_(0, 0.05, generator=generator)
    state = network.state_dict()
    torch.save({n: v for n, v in state.items() if n.startswith("features.")}, tmp_path / "alone.pt")
    torch.save({**state, "classifier.1.bias": torch.zeros(9)}, tmp_path / "whole.pt")
    found = [train_head(photos, "alexnet", tmp_path / name, side=64) for name in ("alone.pt", "whole.pt")]
    assert fingerprint(found[0].network) == fingerprint(found[1].network)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--model": "resnet"}, "'resnet' cannot be made for other classes"),
        ({"--tile": "20"}, "tile must be a whole number of at least 64"),
        ({"--held-out": "0.001"}, "class 'dark' has 9 picture"),
        ({"--weights": "nowhere.pth"}, "there is no weights file nowhere.pth"),
        ({"--dataset": "mame"}, "is not mame as it is distributed"),
        ({"--images": "nowhere"}, "there is no folder nowhere"),
        ({"--epochs": "-1"}, "epochs must be"),
    ],
)
def test_wrong_words(photos, tmp_path, change, words):
    options = {"--images": str(photos), "--model": "resnet18", "--out": str(tmp_path / "net.npz"), **change}
    result = run_command("focus-finetune", *[word for pair in options.items() for word in pair])
    assert isinstance(result.exception, HeatproofError)
    assert words in str(result.exception)
    assert not (tmp_path / "net.npz").exists()

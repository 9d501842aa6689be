"""Networks of timm, torchvision and transformers by name; all with random weights, saved to and read from disk."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import heatproof
from heatproof.clevr.objects import CLASSES
from heatproof.errors import HeatproofError
from heatproof.models.classifiers import load_classifier, output_numbers, with_logits
from heatproof.models.hugging_face import preprocessing
from heatproof.models.libraries import from_timm
from heatproof.models.sizes import Sizes, sized
from reference.libraries import import_timm, import_torchvision, import_transformers

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FOCUS = {"explainers": "lrp:composite=attn_lrp, chefer", "per_class": 1, "limit": 3, "target": "logit"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ViT of transformers for the shipped classes, with its processor, as `save_pretrained` writes them."""
    transformers = import_transformers()
    place = tmp_path_factory.mktemp("hf") / "small_vit"
    labels = dict(enumerate(CLASSES))
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=32, patch_size=8,
        num_labels=6, id2label=labels, label2id={label: place for place, label in labels.items()},
    )  # fmt: skip
    torch.manual_seed(3)
    transformers.ViTForImageClassification(config).save_pretrained(place)
    size = {"height": 32, "width": 32}
    transformers.ViTImageProcessor(size=size, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4]).save_pretrained(
        place
    )
    return place


@pytest.fixture(scope="module")
def timm_vit(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    """timm's tiny DeiT for six classes, and a file of its weights."""
    timm = import_timm()
    from safetensors.torch import save_file

    torch.manual_seed(4)
    model = timm.create_model("deit_tiny_patch16_224", num_classes=6).eval()
    path = tmp_path_factory.mktemp("timm") / "vit.safetensors"
    save_file(model.state_dict(), path)
    return model, path


def logits(model: nn.Module, pictures: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found = model(pictures)
    return found if isinstance(found, torch.Tensor) else found.logits


def test_transformers_from_a_folder(folder):
    """Reference: transformers itself, its processor on a picture and its model on what that gives."""
    transformers = import_transformers()
    from PIL import Image

    classifier = load_classifier(f"hf:{folder}")
    assert (classifier.name, classifier.size, classifier.fit) == ("small_vit", 32, "squash")
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    theirs = transformers.AutoImageProcessor.from_pretrained(folder)(Image.fromarray(pixels), return_tensors="pt")
    inputs = classifier.inputs(pixels[None])
    torch.testing.assert_close(inputs, theirs["pixel_values"], rtol=1e-5, atol=1e-5)
    model = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    assert torch.equal(logits(classifier.module, inputs), logits(model, inputs))
    ready = with_logits(classifier, inputs)
    assert output_numbers(ready, list(CLASSES), inputs) == {label: place for place, label in enumerate(CLASSES)}


def test_a_run_on_transformers_interpolates_positions_and_says_so(folder, tmp_path):
    run = heatproof.run("focus", model=f"hf:{folder}", out=tmp_path / "run", **FOCUS)
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["configuration"]
    assert (settings["tile"], settings["interpolated"]) == (32, True)
    assert "positions are interpolated to mosaics of 64 x 64" in (tmp_path / "run" / "leaderboard.md").read_text()
    assert run.leaderboard().filter(metric="focus", pooling="paper")["n"].to_list() == [3, 3]
    assert run.failures() == []


def test_folders_that_are_not_whole_are_named(folder, timm_vit, tmp_path):
    def without(*names: str) -> Path:
        place = tmp_path / "-".join(names)
        shutil.copytree(folder, place)
        for name in names:
            (place / name).unlink()
        return place

    for names, words in {
        ("preprocessor_config.json",): r"holds no preprocessor_config.json, .*save_pretrained",
        ("config.json",): "holds no config.json",
        ("model.safetensors",): r"holds no weights .*--weights FILE",
    }.items():
        with pytest.raises(HeatproofError, match=words):
            load_classifier(f"hf:{without(*names)}")
    refilled = load_classifier(f"hf:{tmp_path / 'model.safetensors'}", folder / "model.safetensors")
    with pytest.raises(HeatproofError, match="does not hold weights of ViTForImageClassification"):
        load_classifier(f"hf:{folder}", timm_vit[1])
    x = torch.randn(1, 3, 32, 32)
    assert torch.equal(logits(refilled.module, x), logits(load_classifier(f"hf:{folder}").module, x))
    (tmp_path / "config.json" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(HeatproofError, match="a bert, which transformers does not know as an image classifier"):
        load_classifier(f"hf:{tmp_path / 'config.json'}")
    with pytest.raises(HeatproofError, match="there is no folder /nowhere/at all"):
        load_classifier("hf:/nowhere/at all")


def test_without_a_network_sentences_say_what_to_do(monkeypatch, tmp_path, folder):
    import_timm()
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", no_network)
    for name in ("timm:test_vit", "torchvision:squeezenet1_1"):
        with pytest.raises(HeatproofError, match=rf"weights of {name} can neither .* nor downloaded .*--weights FILE"):
            load_classifier(name, pretrained=True)
    with pytest.raises(HeatproofError, match=r"hf:google/nothing can neither be found .*give hf:FOLDER"):
        load_classifier("hf:google/nothing", pretrained=True)
    with pytest.raises(
        HeatproofError, match="not in the cache of transformers; let it be downloaded with --pretrained"
    ):
        load_classifier("hf:google/nothing")
    with pytest.raises(HeatproofError, match=r"either --pretrained, .* or --weights"):
        load_classifier("timm:test_vit", folder / "model.safetensors", pretrained=True)
    with pytest.raises(HeatproofError, match="object_classifier has weights of its own"):
        load_classifier("object_classifier", pretrained=True)
    with pytest.raises(HeatproofError, match="--pretrained is for torchvision:NAME"):
        load_classifier("net.py:make", pretrained=True)


def no_network(*_args: object, **_options: object) -> None:
    raise OSError("Name or service not known")


def test_transformers_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(HeatproofError, match="transformers is not installed"):
        load_classifier("hf:google/vit-base-patch16-224")


def test_library_weights_bring_preprocessing_and_names(monkeypatch):
    """The download is replaced by random weights; what torchvision says of them stays."""
    import_torchvision()
    from torchvision import models

    drawn = models.squeezenet1_1(weights=None).state_dict()
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", lambda *_args, **_options: drawn)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *_args, **_options: drawn)
    classifier = load_classifier("torchvision:squeezenet1_1", pretrained=True)
    assert (tuple(classifier.mean), tuple(classifier.std)) == IMAGENET
    assert all(torch.equal(value, drawn[name]) for name, value in classifier.module.state_dict().items())
    numbers = output_numbers(classifier, ["tench", "English_springer", "parachute"], torch.zeros(1, 3, 64, 64))
    assert numbers == {"tench": 0, "English_springer": 217, "parachute": 701}
    with pytest.raises(HeatproofError, match="class 'unicorn' of the pictures is unknown"):
        output_numbers(classifier, ["tench", "unicorn"], torch.zeros(1, 3, 64, 64))


def test_timm_knows_wordnet_and_is_stretched(timm_vit):
    """Reference: timm's own network that is made for the larger pictures, with its weights resampled by timm."""
    timm = import_timm()
    model, path = timm_vit
    classifier = load_classifier("timm:deit_tiny_patch16_224", path)
    assert not classifier.names  # of six classes nothing is known
    names = from_timm("test_vit").settings(timm.create_model("test_vit"))["names"]
    assert (names["n01440764"], names["tench"], names["tinca tinca"], names["n03888257"]) == (0, 0, 0, 701)
    assert "crane" not in names  # a bird and a machine
    stretched, sizes = sized(classifier, 224, 2, given=False)
    assert sizes == Sizes(224, 224, sizes.note)
    assert "interpolated to mosaics of 448 x 448" in sizes.note
    larger = timm.create_model("deit_tiny_patch16_224", num_classes=6, img_size=448).eval()
    from timm.models.vision_transformer import checkpoint_filter_fn

    larger.load_state_dict(checkpoint_filter_fn(dict(model.state_dict()), larger, interpolation="bicubic"))
    x = torch.randn(1, 3, 448, 448)
    torch.testing.assert_close(logits(stretched.module, x), logits(larger, x), rtol=1e-4, atol=1e-5)
    x = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(logits(stretched.module, x), logits(model, x), rtol=1e-4, atol=1e-5)


class OneSize(nn.Module):
    """A network whose last layer sees every place of a picture of one size."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 8, stride=8)
        self.linear = nn.Linear(4 * (side // 8) ** 2, 6)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(self.convolution(pictures).relu().flatten(1))
        return logits


def test_networks_of_one_size_see_mosaics_at_that_size(tmp_path):
    """Today's complaint was a traceback: mosaics of half tiles, single pictures at the full size."""
    torch.manual_seed(0)
    options = {"explainers": "gradient", "per_class": 1, "target": "logit"}
    network = OneSize(64)
    run = heatproof.run("focus", model=(network, {"size": 64}), out=tmp_path / "own", **options)
    settings = json.loads((tmp_path / "own" / "run.json").read_text())["configuration"]
    assert (settings["tile"], settings["alone"]) == (32, 64)
    assert "tiles of 32 x 32, and single pictures are seen at 64 x 64" in (tmp_path / "own/leaderboard.md").read_text()
    assert "accuracy" in run.story.figures
    given = heatproof.run("focus", model=network, tile=32, out=tmp_path / "given", **options)
    assert given.story.figures == run.story.figures
    with pytest.raises(
        HeatproofError, match=r"takes pictures of 64 x 64 only, .* tiles of 48 are 96 x 96; give --tile 32"
    ):
        heatproof.run("focus", model=(network, {"size": 64}), tile=48, out=tmp_path / "wrong", **options)
    with pytest.raises(HeatproofError, match="3 x 3 tiles have no room; choose another --grid"):
        heatproof.run("focus", model=(network, {"size": 64}), grid=3, out=tmp_path / "grid", **options)


SQUARE = {"height": 32, "width": 32}
CROPPED = {"size": {"shortest_edge": 36}, "crop_size": SQUARE, "do_center_crop": True}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"size": SQUARE, "rescale_factor": 1 / 255, "do_normalize": False}, (0.0, 1.0, 32, "squash")),
        ({**CROPPED, "do_normalize": True}, (0.5, 0.25, 32, "crop")),
        ({"size": 48, "rescale_factor": 2 / 255, "do_normalize": True}, (0.25, 0.125, 48, "squash")),
        ({"size": [48, 48], "do_rescale": False, "do_normalize": True}, (0.5 / 255, 0.25 / 255, 48, "squash")),
    ],
)
def test_processors_in_their_many_forms(said, expected):
    found = preprocessing("hf:x", {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, **said})
    mean, std, size, fit = expected
    np.testing.assert_allclose([*found["mean"], *found["std"]], [mean] * 3 + [std] * 3)
    assert (found["size"], found["fit"]) == (size, fit)
    for wrong in ({"size": None}, {"size": 32, "rescale_offset": True}):
        with pytest.raises(HeatproofError, match=r"preprocessor_config.json of hf:x"):
            preprocessing("hf:x", wrong)

"""Networks are trained on a second device as on the processor, to the last bit, and come back to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from elsewhere import Elsewhere, elsewhere
from heatproof import mnist1d
from heatproof.cases import Batch
from heatproof.clevr.files import open_dataset
from heatproof.clevr.shipped import shipped_dataset
from heatproof.devices import device_of, placed
from heatproof.errors import HeatproofError
from heatproof.explainers.spec import make_explainer
from heatproof.models import mnist1d_cnn, object_classifier, vqa_training
from heatproof.models.heads import train_head
from heatproof.models.image_classifiers import AlexNet, Convolutions, make_classifier
from heatproof.models.relation_network import RelationNetwork, encode
from heatproof.models.vqa_data import load_pictures
from heatproof.models.weights import fingerprint, save_weights
from heatproof.seeds import CaseRandom

CPU = torch.device("cpu")


def test_svea_network(mnist1d_signals: tuple[mnist1d.Signals, mnist1d.Signals]) -> None:
    signals = mnist1d_signals[0][:500]
    here = mnist1d_cnn.train(signals, 3, epochs=2)
    with elsewhere():
        there = mnist1d_cnn.train(signals, 3, epochs=2, device="meta")
    assert device_of(there) == CPU
    assert fingerprint(there) == fingerprint(here)


def test_object_classifier() -> None:
    rng = np.random.default_rng(0)
    pictures = {name: rng.integers(0, 256, (20, 16, 16, 3), dtype=np.uint8) for name in ("cube", "ball")}
    here = object_classifier.train(pictures, 3, epochs=2, width=4)
    with elsewhere():
        there = object_classifier.train(pictures, 3, epochs=2, width=4, device="meta")
    assert device_of(there) == CPU
    assert fingerprint(there) == fingerprint(here)


def test_vqa_network() -> None:
    """Up to rounding: gradients of a recurrent layer are added up in another order there."""
    pictures = load_pictures(open_dataset(shipped_dataset()))[:8]
    schedule = vqa_training.Schedule(seed=3, eye_epochs=1, reader_steps=1, answer_steps=1, whole_steps=1)
    here = vqa_training.train(pictures, schedule)
    with elsewhere():
        there = vqa_training.train(pictures, schedule, device="meta")
    assert device_of(there) == CPU
    for name, weights in here.state_dict().items():
        torch.testing.assert_close(there.state_dict()[name], weights, rtol=0, atol=1e-5)


def test_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the convolutions see is computed there; the head, some hundred weights in float64, here."""
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(4):
            pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{number}.png")
    torch.manual_seed(0)
    save_weights(Convolutions(AlexNet(2)), tmp_path / "convolutions.npz")
    arguments = (tmp_path / "pictures", "alexnet", tmp_path / "convolutions.npz")
    here = train_head(*arguments, side=64)
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path / "another"))  # where no features are kept
    with elsewhere():
        there = train_head(*arguments, side=64, device="meta")
    assert device_of(there.network) == CPU
    assert fingerprint(there.network) == fingerprint(here.network)


def test_training_names_a_device_that_is_not_there() -> None:
    with pytest.raises(HeatproofError, match="no device 'cuda:9'"):
        mnist1d_cnn.train(mnist1d.make()[0], 1, device="cuda:9")


@pytest.mark.parametrize("name", ["resnet18", "alexnet"])
def test_picture_classifiers_compute_there(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = make_classifier(name, 3).eval(), torch.rand(2, 3, 64, 64)
    compare(model, Batch(inputs, torch.tensor([0, 1]), ("a", "b")))


@pytest.mark.filterwarnings("ignore:TF32")  # of which torch speaks where it is not
@pytest.mark.parametrize("form", [{}, {"factorised": True}, {"lean": True}])
def test_the_relation_network_computes_there(form: dict[str, bool]) -> None:
    """In all its forms; without the LSTM that torch keeps for this processor."""
    torch.manual_seed(0)
    model = RelationNetwork(**form).eval()
    questions = torch.cat([encode("what color is the large cube?"), encode("is there a sphere?")])
    batch = Batch(torch.rand(2, 3, 128, 128), torch.tensor([3, 5]), ("a", "b"), (questions,))
    with torch.backends.mkldnn.flags(enabled=False):
        compare(model, batch)


def compare(model: nn.Module, batch: Batch) -> None:
    gradient, rng = make_explainer("gradient"), CaseRandom(0, "gradient")
    with elsewhere() as device:
        there = gradient(placed(model, device), batch.to(device), rng)
        assert isinstance(there, Elsewhere)
    assert torch.equal(there.held, gradient(model, batch, rng))

"""The network of SVEA and its weights on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from heatproof import mnist1d
from heatproof.errors import HeatproofError
from heatproof.models.mnist1d_cnn import Mnist1dCnn, accuracy, train, trained_network
from heatproof.models.weights import fingerprint, load_weights, save_weights
from heatproof.progress import silent


def test_parameter_count_is_the_published_one():
    assert sum(parameter.numel() for parameter in Mnist1dCnn().parameters()) == 13_960


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shipped_networks_are_as_accurate_as_the_paper(seed):
    """The paper reports 87.7 %; networks trained alike lie between 85 and 91 %."""
    network = trained_network(seed, retrain=False, progress=silent)
    assert 0.85 <= accuracy(network, mnist1d.make()[1]) <= 0.91


def test_reference_network_is_right_as_often_as_published(shared_data):
    network = Mnist1dCnn()
    load_weights(network, shared_data("svea/reference_cnn.npz"))
    assert accuracy(network, mnist1d.make()[1]) == pytest.approx(0.877)


def test_training_is_repeatable_and_learns():
    signals, _ = mnist1d.make()
    first, again, other = (train(signals, seed, epochs=4) for seed in (5, 5, 6))
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)
    assert accuracy(first, signals) > 0.2  # chance is 0.1


@pytest.mark.slow
def test_the_documented_command_makes_networks_of_the_shipped_accuracy():
    signals, test = mnist1d.make()
    assert 0.85 <= accuracy(train(signals, 1), test) <= 0.91


def test_weights_survive_the_disk(tmp_path):
    network, copy = Mnist1dCnn(), Mnist1dCnn()
    save_weights(network, tmp_path / "net.npz")
    load_weights(copy, tmp_path / "net.npz")
    assert fingerprint(network) == fingerprint(copy)
    torch.save(network.state_dict(), tmp_path / "net.pt")
    load_weights(copy, tmp_path / "net.pt")
    assert fingerprint(network) == fingerprint(copy)


def arrays() -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in Mnist1dCnn().state_dict().items()}


def write_truncated(path: Path) -> None:
    np.savez(path, **arrays())
    path.write_bytes(path.read_bytes()[:2000])


def write_foreign(path: Path) -> None:
    np.savez(path, x=np.zeros(3), y=np.zeros(3))


def write_wrong_shape(path: Path) -> None:
    np.savez(path, **{**arrays(), "conv1.weight": np.zeros((25, 1, 7))})


def write_nan(path: Path) -> None:
    np.savez(path, **{**arrays(), "linear.bias": np.full(10, np.nan)})


def write_words(path: Path) -> None:
    np.savez(path, **{**arrays(), "linear.bias": np.array(["a"] * 10)})


def write_text(path: Path) -> None:
    path.write_text("not an archive")


def write_single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def write_pickle(path: Path) -> None:
    np.savez(path, x=np.array([object()], dtype=object))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (write_truncated, "truncated"),
        (write_foreign, "misses conv1.bias"),
        (write_wrong_shape, r"conv1.weight has shape \(25, 1, 7\), Mnist1dCnn needs \(25, 1, 5\)"),
        (write_nan, "linear.bias holds NaN"),
        (write_words, "linear.bias holds"),
        (write_text, "is damaged"),
        (write_single_array, "single array"),
        (write_pickle, "is damaged.*allow_pickle=False"),
    ],
)
def test_bad_weights_are_named(tmp_path, write, words):
    path = tmp_path / "net.npz"
    write(path)
    with pytest.raises(HeatproofError, match=words) as caught:
        load_weights(Mnist1dCnn(), path)
    assert str(path) in str(caught.value)


def test_missing_weights_file():
    with pytest.raises(HeatproofError, match="no weights file"):
        load_weights(Mnist1dCnn(), Path("nowhere.npz"))

"""A user's network: where it comes from, and that it gives logits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.errors import HeatproofError
from heatproof.models.networks import Logits, check_logits, load_network, logits_of, make_from, returning_logits

FACTORIES = """
import torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)

class Sized(torch.nn.Linear):
    pass

def make():
    return Net()

def number():
    return 3

def failing():
    raise FileNotFoundError("no net.pt here")

def leaving():
    raise SystemExit("no licence")

network = Net()
settings = {"mean": 0}
"""


@pytest.fixture
def factories(tmp_path, monkeypatch) -> None:
    (tmp_path / "network_factories.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("place", ["network_factories.py", "network_factories"])
def test_factories(place, factories):
    """A function, a class and a module; what is none of them is handed on as it is."""
    for name in ("make", "Net", "network"):
        found, module = load_network(f"{place}:{name}")
        assert (found, type(module).__name__) == (name, "Net")
    assert make_from(f"{place}:settings") == ("settings", {"mean": 0})
    for name, words in {
        "number": "model number must be a torch.nn.Module; got int",
        "settings": "model settings must be a torch.nn.Module; got dict",
        "failing": rf"{place}:failing fails to make a network: FileNotFoundError: no net.pt here",
        "leaving": rf"{place}:leaving fails to make a network: SystemExit: no licence",
        "Sized": rf"{place}:Sized fails to make a network: TypeError: .*in_features",
        "mak": rf"unknown name in {place} 'mak'. Did you mean 'make'",
    }.items():
        with pytest.raises(HeatproofError, match=words):
            load_network(f"{place}:{name}")


def test_modules_and_what_is_none():
    module = nn.Linear(4, 3)
    assert load_network(module) == ("Linear", module)
    for wrong, words in {
        torch.relu: "model relu must be a torch.nn.Module; got builtin_function_or_method",
        nn.functional.relu: "model relu must be a torch.nn.Module; got function",
        nn.Linear: "model Linear must be a torch.nn.Module; got the class Linear itself, so call it",
        42: "model int must be a torch.nn.Module; got int",
    }.items():
        with pytest.raises(HeatproofError, match=words):
            load_network(wrong)


LOGITS = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "outputs",
    [
        LOGITS,
        (LOGITS, "more"),
        [LOGITS],
        {"loss": 0, "logits": LOGITS},
        SimpleNamespace(logits=LOGITS, loss=0),
        type("Output", (dict,), {"logits": LOGITS})(),
    ],
)
def test_logits_among_outputs(outputs):
    assert logits_of(outputs, "net") is LOGITS


@pytest.mark.parametrize(
    ("outputs", "got"),
    [
        ({"scores": LOGITS}, "dict of scores"),
        ((), "tuple"),
        (("a", LOGITS), "tuple"),
        (None, "NoneType"),
        ({"logits": [1, 2]}, "dict of logits"),
    ],
)
def test_outputs_without_logits_say_how_to_wrap(outputs, got):
    with pytest.raises(HeatproofError, match=rf"model net must return logits, .* got {got}\. Wrap it") as caught:
        logits_of(outputs, "net")
    assert len(str(caught.value).splitlines()) == 4  # the sentence, and three lines that may be copied


class Net(nn.Module):
    """A small network of pictures that says more than logits, with a weight of its own and a layer used twice."""

    def __init__(self, pack: Any = lambda logits: logits) -> None:
        super().__init__()
        self.pack = pack
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
        self.features.append(self.features[1])
        self.fc = nn.Linear(4, 5)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, pictures: Tensor, *context: Tensor) -> Any:
        return self.pack(self.fc(self.features(pictures).mean((2, 3))) * self.scale + sum(context))


@pytest.fixture
def pictures() -> Tensor:
    return torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def test_networks_that_return_logits_stay_themselves(pictures):
    net = Net()
    assert returning_logits(net, pictures) is net
    assert net.training


def test_wrapped_networks(pictures):
    """Reference: the network that returns logits alone. Modes, weights and layers are reached as in the network."""
    torch.manual_seed(0)
    plain, net = Net(), Net(lambda logits: (logits, "more"))
    net.load_state_dict(plain.state_dict())
    wrapped = returning_logits(net, pictures, torch.ones(1))
    assert isinstance(wrapped, Logits)
    torch.testing.assert_close(wrapped(pictures, torch.ones(1)), plain(pictures, torch.ones(1)))

    theirs, ours = (dict(module.named_modules()) for module in (net, wrapped))
    assert list(ours) == ["", "wrapped_network", *list(theirs)[1:]]
    assert all(ours[name] is theirs[name] for name in theirs if name)
    assert wrapped.get_submodule("features.2") is net.features[2]
    assert {id(p) for p in wrapped.parameters()} == {id(p) for p in net.parameters()}
    for duplicates in (True, False):
        count = len(list(wrapped.named_modules(remove_duplicate=duplicates)))
        assert count == 1 + len(list(net.named_modules(remove_duplicate=duplicates)))
    within = dict(nn.ModuleDict({"a": wrapped}).named_modules())
    assert within["a.features.2"] is net.features[2]
    assert within["a.wrapped_network"] is net

    assert wrapped.training
    assert not wrapped.eval().training
    assert not any(module.training for module in net.modules())
    for spec in ("gradient", "grad_cam:layer=features.2", "score_cam:layer=features.0", "guided_backprop"):
        found, expected = (heatproof.explain(module, pictures, spec, target=1) for module in (wrapped, plain))
        torch.testing.assert_close(found, expected)
    with pytest.raises(HeatproofError, match=r"unknown layer 'features.9'. Did you mean 'features"):
        heatproof.explain(wrapped, pictures, "grad_cam:layer=features.9", target=1)


def test_networks_that_fail_are_named(pictures):
    with pytest.raises(HeatproofError, match=r"model Linear fails on inputs of shape \(2, 3, 12, 12\): RuntimeError"):
        returning_logits(nn.Linear(7, 5), pictures)
    with pytest.raises(HeatproofError, match=r"model mine must return logits, .* got dict of scores\. Wrap it"):
        returning_logits(Net(lambda logits: {"scores": logits}), pictures, name="mine")


def test_good_logits_are_handed_on():
    assert check_logits("net", LOGITS, 2) is LOGITS
    assert check_logits("net", LOGITS.half(), 2, classes=3).dtype == torch.float16


@pytest.mark.parametrize(
    ("logits", "classes", "words"),
    [
        (LOGITS.long(), None, r"float logits \(cases, classes\), one row for each of 2 cases; got int64 \(2, 3\)"),
        (LOGITS, 10, r"float logits \(cases, 10\), one row for each of 2 cases; got float32 \(2, 3\)"),
        (LOGITS[:1], None, r"got float32 \(1, 3\)"),
        (LOGITS[0], None, r"got float32 \(3,\)"),
        (LOGITS[..., None], None, r"got float32 \(2, 3, 1\)"),
        (LOGITS.tolist(), None, "got list"),
        (LOGITS / 0, 3, "model net returns NaN or infinite logits"),
        (-LOGITS.log(), 3, "model net returns NaN or infinite logits"),
    ],
)
def test_bad_logits_are_named(logits, classes, words):
    with pytest.raises(HeatproofError, match=words):
        check_logits("net", logits, 2, classes)

"""Devices by name, models placed on them, and what never happens to a tensor that may be elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import heatproof
from elsewhere import DEVICE, Elsewhere, elsewhere
from heatproof import devices
from heatproof.devices import choose_device, computing_on, current_device, device_for_worker, device_of, placed
from heatproof.errors import HeatproofError
from heatproof.explainers.wrapped import Reached, reached

PACKAGE = Path(heatproof.__file__).parent


def there_are(monkeypatch: pytest.MonkeyPatch, **counts: int) -> None:
    """Pretend that torch sees so many devices of each kind."""
    for kind in ("cuda", "mps"):
        monkeypatch.setitem(devices.DEVICES, kind, lambda kind=kind: counts.get(kind, 0))


@pytest.mark.parametrize(
    ("counts", "name", "chosen"),
    [
        ({}, "auto", "cpu"),
        ({}, "cpu", "cpu"),
        ({"mps": 1}, "auto", "mps:0"),
        ({"cuda": 2, "mps": 1}, "auto", "cuda:0"),
        ({"cuda": 2}, "cpu", "cpu"),
        ({"cuda": 2}, "cuda", "cuda:0"),
        ({"cuda": 2}, "cuda:1", "cuda:1"),
        ({"mps": 1}, "mps", "mps:0"),
    ],
)
def test_devices_by_name(monkeypatch, counts, name, chosen):
    there_are(monkeypatch, **counts)
    assert choose_device(name) == torch.device(chosen)
    assert choose_device(torch.device(name) if name != "auto" else name) == torch.device(chosen)


@pytest.mark.parametrize(
    ("counts", "name", "words"),
    [
        ({}, "cuda", r"no device 'cuda': torch .* sees cpu\. Choose one of these, or auto; or install .* for cuda"),
        ({"cuda": 2}, "cuda:2", r"no device 'cuda:2': torch .* sees cpu, cuda:0, cuda:1\."),
        ({"cuda": 1}, "mps", r"no device 'mps': torch .* sees cpu, cuda:0\."),
        ({"cuda": 1}, "gpu", r"unknown device 'gpu'\. Give auto, cpu, cuda, mps, .* Here there is cpu, cuda:0\."),
        ({"cuda": 1}, "cuda:first", r"unknown device 'cuda:first'"),
        ({"cuda": 1}, "cuda:-1", r"unknown device 'cuda:-1'"),
        ({}, "cpu:1", r"unknown device 'cpu:1'"),
        ({}, "", r"unknown device ''"),
    ],
)
def test_what_is_not_there_is_named(monkeypatch, counts, name, words):
    there_are(monkeypatch, **counts)
    with pytest.raises(HeatproofError, match=words):
        choose_device(name)


def test_workers_take_devices_in_turn(monkeypatch):
    there_are(monkeypatch, cuda=3)
    assert [device_for_worker("cuda", i) for i in range(5)] == ["cuda:0", "cuda:1", "cuda:2", "cuda:0", "cuda:1"]
    assert [device_for_worker("auto", i) for i in range(2)] == ["cuda:0", "cuda:1"]
    assert [device_for_worker("cuda:2", i) for i in range(2)] == ["cuda:2", "cuda:2"]
    assert [device_for_worker("cpu", i) for i in range(2)] == ["cpu", "cpu"]
    there_are(monkeypatch)
    assert [device_for_worker("auto", i) for i in range(2)] == ["cpu", "cpu"]


def test_asking_for_devices_starts_none():
    """A process that has started CUDA can have no children that use it."""
    choose_device("auto")
    assert not torch.cuda.is_initialized()


def test_a_model_is_copied_once_it_has_to_be():
    model = nn.Linear(3, 2)
    assert placed(model, torch.device("cpu")) is model
    with elsewhere() as device:
        moved = placed(model, device)
        assert device_of(moved) == device
        assert placed(moved, device) is moved
        assert device_of(model) == torch.device("cpu")
        assert torch.equal(placed(moved, torch.device("cpu")).weight, model.weight)
    half = placed(model, torch.device("cpu"), torch.float16)
    assert half.weight.dtype == torch.float16
    assert model.weight.dtype == torch.float32
    assert device_of(nn.ReLU()) is None


def test_a_model_that_cannot_be_copied_is_named():
    model = nn.Linear(3, 2)
    model.kept = model(torch.rand(1, 3))  # what a graph hangs on cannot be copied
    with elsewhere() as device, pytest.raises(HeatproofError, match=r"Linear cannot be copied to device meta.*\.to\("):
        placed(model, device)


def test_a_reached_model_answers_where_it_is_asked():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    inputs = torch.rand(4, 3, 4)
    assert reached(model) is model
    with elsewhere() as device, computing_on("meta"):
        assert current_device().type == "meta"
        asked = reached(model)
        assert isinstance(asked, Reached)
        assert device_of(asked) == DEVICE
        assert torch.equal(asked(inputs), model(inputs))
        assert isinstance(asked(inputs.to(device)), Elsewhere)
        assert dict(asked.named_modules())["1"] is asked.wrapped_network[1]
        wanted = inputs.clone().requires_grad_()
        asked(wanted).sum().backward()
        assert wanted.grad is not None
    assert current_device() == torch.device("cpu")


@pytest.mark.parametrize("model_there", [False, True])
@pytest.mark.parametrize("inputs_there", [False, True])
@pytest.mark.parametrize("device", [None, "cpu", "meta"])
@pytest.mark.parametrize("target", [None, 2, [0, 1, 2, 0]])
def test_explain_wherever_model_and_inputs_are(model_there, inputs_there, device, target):
    """Relevance comes back to the inputs; the model stays where it is. Reference: all on the processor."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    inputs, mask = torch.rand(4, 3, 4), torch.zeros(4, 4, dtype=torch.bool)
    mask[:, 1] = True
    expected = heatproof.explain(model, inputs, "integrated_gradients", steps=3, target=target)
    with elsewhere():
        place = DEVICE if model_there else torch.device("cpu")
        moved = placed(model, place)
        given = inputs.to(DEVICE) if inputs_there else inputs
        found = heatproof.explain(moved, given, "integrated_gradients", steps=3, target=target, device=device)
        truth = heatproof.explain(moved, given, "oracle", ground_truth={"box": mask}, target=1, device=device)
        assert isinstance(found, Elsewhere) is isinstance(truth, Elsewhere) is inputs_there
        assert torch.equal(found.cpu(), expected)
        assert device_of(moved) == place


def test_explain_names_a_device_that_is_not_there():
    with pytest.raises(HeatproofError, match="no device 'cuda:7'"):
        heatproof.explain(nn.Linear(3, 2), torch.rand(1, 1, 3), "gradient", device="cuda:7")


# What never happens to a tensor


def brought_to_the_cpu(receiver: ast.expr) -> bool:
    """Whether `.cpu()` is called on the way to what `.numpy()` is called on."""
    while True:
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
            if receiver.func.attr == "cpu":
                return True
            receiver = receiver.func.value
        elif isinstance(receiver, (ast.Attribute, ast.Subscript)):
            receiver = receiver.value
        else:
            return False


def hasty(code: str) -> list[int]:
    """The lines that call `.numpy()` on a tensor that was not brought to the CPU first."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    methods = [call.func for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy"]
    return [method.lineno for method in methods if not brought_to_the_cpu(method.value)]


@pytest.mark.parametrize(
    "code", ["x.numpy()", "x.detach().numpy()", "f(x.cpu()).numpy()", "x.numpy().cpu()", "x[0].numpy()"]
)
def test_a_hasty_line_is_found(code):
    assert hasty(code) == [1]


@pytest.mark.parametrize(
    "code", ["x.cpu().numpy()", "x.detach().cpu()[0].double().numpy()", "frame.to_numpy()", "numpy()"]
)
def test_a_patient_line_is_not(code):
    assert hasty(code) == []


def test_no_line_of_the_package_is_hasty():
    found = {path.name: lines for path in PACKAGE.rglob("*.py") if (lines := hasty(path.read_text(encoding="utf-8")))}
    assert not found
    assert sum(".numpy()" in path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")) > 10

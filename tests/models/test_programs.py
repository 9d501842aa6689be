"""Networks in files: good ones give what they were made from, evil ones are refused before anything of them runs."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.models.programs import load_program
from heatproof.models.weights import load_weights

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

Change = Callable[[dict[str, bytes], Path], None]
GRAPH, SAMPLES, WEIGHTS = "models/model.json", "data/sample_inputs/model.pt", "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


class Marker:
    """What a malicious file would do when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


class Net(nn.Module):
    """Convolutions, batch norm, a buffer, a constant, sizes that are computed, and a part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(4, 6)
        self.register_buffer("scale", torch.full((1,), 2.0))
        self.shift = torch.arange(6.0)

    def forward(self, pictures: Tensor) -> Tensor:
        maps = self.features(pictures)
        n, channels, height, width = maps.shape
        with torch.no_grad():
            light = pictures.mean((1, 2, 3))
        pooled = nn.functional.gelu(maps.view(n, channels, height * width).mean(2), approximate="tanh")
        logits: Tensor = self.fc(pooled) * self.scale + self.shift + light[:, None]
        return logits


class Attending(nn.Module):
    """Patches, attention, and logits among other outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, 8)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.fc = nn.Linear(8, 6)

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        tokens = self.layers(self.patches(pictures).flatten(2).transpose(1, 2))
        return {"logits": self.fc(tokens.mean(1)), "tokens": tokens}


def export(network: nn.Module, **options: Any) -> torch.export.ExportedProgram:
    shapes = ({0: torch.export.Dim("b", min=2, max=64)},)
    return torch.export.export(network, (torch.zeros(2, 3, 32, 32),), dynamic_shapes=shapes, **options)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def exported(net, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "net.pt2"
    torch.export.save(export(net), path)
    return path


@pytest.fixture(scope="module")
def older(net, tmp_path_factory) -> Path:
    """The same in the format of torch before 2.8, which newer ones read too."""
    from torch._export.serde.serialize import SCHEMA_VERSION, serialize

    artifact = serialize(export(net))
    path = tmp_path_factory.mktemp("older") / "net.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", ".".join(map(str, SCHEMA_VERSION)))
        archive.writestr("serialized_exported_program.json", artifact.exported_program)
        archive.writestr("serialized_state_dict.pt", artifact.state_dict)
        archive.writestr("serialized_constants.pt", artifact.constants)
        archive.writestr("serialized_example_inputs.pt", artifact.example_inputs)
    return path


def some_pictures() -> Tensor:
    return torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_exported_programs(net, exported, older):
    """Reference: the module that the file was made from."""
    for path in (exported, older):
        found = load_program(path)
        torch.testing.assert_close(found(some_pictures()), net(some_pictures()))
        assert {"features.0", "features.1", "fc"} <= dict(found.named_modules()).keys()


@pytest.mark.parametrize("strict", [False, True])
def test_exported_transformers(strict, tmp_path):
    torch.manual_seed(0)
    network = Attending().eval()
    torch.export.save(export(network, strict=strict), tmp_path / "net.pt2")
    found = load_program(tmp_path / "net.pt2")
    torch.testing.assert_close(found(some_pictures()), network(some_pictures()))


def pickled(marker: Path) -> bytes:
    """A file of torch.save that creates the marker when it is unpickled."""
    buffer = io.BytesIO()
    torch.save({"x": Marker(marker)}, buffer)
    return buffer.getvalue()


def code(marker: Path) -> str:
    """An expression that creates the marker when it is evaluated."""
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def changed(members: dict[str, bytes], name: str, change: Callable[[Any], object]) -> None:
    content = json.loads(members[name])
    change(content)
    members[name] = json.dumps(content).encode()


def graph_of(content: Any) -> Any:
    return content["graph_module"]["graph"]


def sample_inputs(members: dict[str, bytes], marker: Path) -> None:
    members[SAMPLES] = pickled(marker)


def bare_pickle(members: dict[str, bytes], marker: Path) -> None:
    members[SAMPLES] = pickle.dumps(Marker(marker))


def pickled_weight(members: dict[str, bytes], marker: Path) -> None:
    changed(members, WEIGHTS, lambda found: found["config"]["fc.bias"].update(path_name="weight_99", use_pickle=True))
    members["data/weights/weight_99"] = pickled(marker)


def pickled_constant(members: dict[str, bytes], marker: Path) -> None:
    changed(members, CONSTANTS, lambda found: found["config"]["shift"].update(use_pickle=True))
    members["data/constants/tensor_0"] = pickled(marker)


def older_weights(members: dict[str, bytes], marker: Path) -> None:
    members["data/weights/model.pt"] = pickled(marker)


def older_constants(members: dict[str, bytes], marker: Path) -> None:
    members["data/constants/model.pt"] = pickled(marker)


def opaque_object(members: dict[str, bytes], marker: Path) -> None:
    changed(members, CONSTANTS, lambda found: found["config"]["shift"].update(path_name="opaque_obj_0"))
    members["data/constants/opaque_obj_0"] = pickle.dumps(Marker(marker))


def custom_object(members: dict[str, bytes], marker: Path) -> None:
    members["data/constants/custom_obj_0"] = pickle.dumps(Marker(marker))


def elsewhere(members: dict[str, bytes], marker: Path) -> None:
    place = {"path_name": "../../extra/weight_0", "use_pickle": True}
    changed(members, WEIGHTS, lambda found: found["config"]["fc.bias"].update(place))
    members["extra/weight_0"] = pickled(marker)


def compiled(members: dict[str, bytes], marker: Path) -> None:
    members["data/aotinductor/model/net.so"] = b"\x7fELF"


def second_program(members: dict[str, bytes], marker: Path) -> None:
    members["models/other.json"] = members[GRAPH]
    members["data/sample_inputs/other.pt"] = pickled(marker)


def size(members: dict[str, bytes], marker: Path) -> None:
    def change(content: Any) -> None:
        sizes = next(iter(graph_of(content)["tensor_values"].values()))["sizes"]
        sizes[0] = {"as_expr": {"expr_str": code(marker), "hint": None}}

    changed(members, GRAPH, change)


def size_in_words(members: dict[str, bytes], marker: Path) -> None:
    def change(content: Any) -> None:
        sizes = next(iter(graph_of(content)["tensor_values"].values()))["sizes"]
        sizes[0] = {"as_expr": {"expr_str": f"Max({code(marker)!r}, 1)", "hint": None}}

    changed(members, GRAPH, change)


def function(target: str) -> Change:
    def change(members: dict[str, bytes], marker: Path) -> None:
        words = [{"name": "", "arg": {"as_string": f"touch {marker}"}, "kind": 1}]
        changed(members, GRAPH, lambda content: graph_of(content)["nodes"][0].update(target=target, inputs=words))

    return change


def passed_function(members: dict[str, bytes], marker: Path) -> None:
    given = {"name": "f", "arg": {"as_operator": "torch.os.system"}, "kind": 1}
    changed(members, GRAPH, lambda content: graph_of(content)["nodes"][0]["inputs"].append(given))


def name(members: dict[str, bytes], marker: Path) -> None:
    """torch makes Python source out of names."""
    node = json.loads(members[GRAPH])["graph_module"]["graph"]["nodes"][0]["name"]
    evil = json.dumps(f"a = 1\n{code(marker)}\ndef g():\n    a")
    members[GRAPH] = members[GRAPH].replace(json.dumps(node).encode(), evil.encode())


def layer(members: dict[str, bytes], marker: Path) -> None:
    evil = f'x") or {code(marker)} or ("'
    members[GRAPH] = members[GRAPH].replace(b'"fc.bias"', json.dumps(evil).encode())
    changed(members, WEIGHTS, lambda found: found["config"].update({evil: found["config"].pop("fc.bias")}))


def container(members: dict[str, bytes], marker: Path) -> None:
    """torch imports the module that an enumeration is said to be from."""
    context = json.dumps({"__enum__": True, "fqn": "antigravity:x", "name": "y"})
    spec = json.dumps([1, {"type": "builtins.list", "context": context, "children_spec": []}])
    signature = {"out_spec": spec}
    changed(members, GRAPH, lambda found: found["graph_module"]["module_call_graph"][0]["signature"].update(signature))


def custom_argument(members: dict[str, bytes], marker: Path) -> None:
    given = {"name": "x", "arg": {"as_custom_obj": {"name": "o", "class_fqn": "a.b"}}, "kind": 1}
    changed(members, GRAPH, lambda content: graph_of(content)["nodes"][0]["inputs"].append(given))


def no_json(members: dict[str, bytes], marker: Path) -> None:
    members[GRAPH] = b"{"


EVIL: dict[str, tuple[Change, str]] = {
    "sample inputs": (sample_inputs, f"net/{SAMPLES} holds more than tensors"),
    "a bare pickle": (bare_pickle, f"net/{SAMPLES} holds more than tensors"),
    "a pickled weight": (pickled_weight, "net/data/weights/weight_99 holds more than tensors"),
    "a pickled constant": (pickled_constant, "net/data/constants/tensor_0 holds more than tensors"),
    "weights as before 2.9": (older_weights, "net/data/weights/model.pt holds more than tensors"),
    "constants as before 2.9": (older_constants, "net/data/constants/model.pt holds more than tensors"),
    "an opaque object": (opaque_object, f"net/{CONSTANTS} names 'opaque_obj_0', which is no tensor"),
    "a custom object": (custom_object, "net/data/constants/custom_obj_0 is neither tensors nor a graph"),
    "a weight elsewhere": (elsewhere, f"net/{WEIGHTS} names '../../extra/weight_0', which is no tensor"),
    "compiled code": (compiled, "net/data/aotinductor/model/net.so is neither tensors nor a graph"),
    "a second program": (second_program, "net/models/other.json is neither tensors nor a graph"),
    "a size": (size, f"net/{GRAPH} holds the size \"__import__"),
    "a size in words": (size_in_words, f"net/{GRAPH} holds the size"),
    "a function of Python": (function("torch.os.system"), f"net/{GRAPH} calls 'torch.os.system'"),
    "a function of an operation": (function("torch.ops.aten.add.__class__"), "calls 'torch.ops.aten.add.__class__'"),
    "an operation on files": (function("torch.ops.aten.from_file.default"), "calls 'torch.ops.aten.from_file.default'"),
    "a maker of functions": (function("_operator.methodcaller"), "calls '_operator.methodcaller'"),
    "a function as an argument": (passed_function, f"net/{GRAPH} calls 'torch.os.system'"),
    "a name": (name, f"net/{GRAPH} holds the name"),
    "the name of a layer": (layer, f"net/{GRAPH} holds the name"),
    "a container": (container, f"net/{GRAPH} nests its inputs or outputs"),
    "a custom argument": (custom_argument, f"net/{GRAPH} holds custom objects"),
    "no graph": (no_json, f"net/{GRAPH} is no JSON"),
}  # fmt: skip


def read_members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {found.partition("/")[2]: archive.read(found) for found in archive.namelist()}


def write_members(path: Path, *members: dict[str, bytes]) -> None:
    """An archive of these members in a folder `net`."""
    with zipfile.ZipFile(path, "w") as archive:
        for part in members:
            for found, content in part.items():
                archive.writestr(f"net/{found}", content)


@pytest.mark.parametrize("kind", EVIL)
def test_evil_programs_are_refused(kind, exported, tmp_path):
    change, words = EVIL[kind]
    members, marker, path = read_members(exported), tmp_path / "done", tmp_path / "evil.pt2"
    change(members, marker)
    write_members(path, members)
    with pytest.raises(HeatproofError) as caught:
        load_program(path, trust=True)
    assert not marker.exists()
    assert f"{path} is refused" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_members_of_one_name_torch_sees_the_checked_one(net, exported, tmp_path):
    marker, path = tmp_path / "done", tmp_path / "twice.pt2"
    members = read_members(exported)
    write_members(path, {SAMPLES: pickled(marker), GRAPH: b"{}"}, members)
    torch.testing.assert_close(load_program(path)(some_pictures()), net(some_pictures()))
    write_members(path, members, {SAMPLES: pickled(marker)})
    with pytest.raises(HeatproofError, match="holds more than tensors"):
        load_program(path)
    assert not marker.exists()


def test_guards_and_traces_are_not_evaluated(net, exported, tmp_path):
    marker, members = tmp_path / "done", read_members(exported)
    changed(members, GRAPH, lambda content: content.update(guards_code=[code(marker)]))
    metadata = {"stack_trace": f"\n{code(marker)}", "source_fn_stack": "x,torch.os.system"}
    changed(members, GRAPH, lambda content: graph_of(content)["nodes"][0]["metadata"].update(metadata))
    members["extra/more.py"] = code(marker).encode()
    write_members(tmp_path / "net.pt2", members)
    torch.testing.assert_close(load_program(tmp_path / "net.pt2")(some_pictures()), net(some_pictures()))
    assert not marker.exists()


@pytest.mark.parametrize("part", ["state_dict", "constants", "example_inputs"])
def test_evil_programs_of_older_versions_are_refused(part, older, tmp_path):
    marker, path = tmp_path / "done", tmp_path / "evil.pt2"
    with zipfile.ZipFile(older) as archive, zipfile.ZipFile(path, "w") as written:
        for found in archive.namelist():
            evil = found == f"serialized_{part}.pt"
            written.writestr(found, pickled(marker) if evil else archive.read(found))
    with pytest.raises(HeatproofError, match=rf"evil\.pt2 is refused.*serialized_{part}\.pt holds more than tensors"):
        load_program(path)
    assert not marker.exists()


def test_damaged_programs_are_named(exported, tmp_path):
    path = tmp_path / "cut.pt2"
    path.write_bytes(exported.read_bytes()[:2000])
    with pytest.raises(HeatproofError, match=r"cut\.pt2 is neither TorchScript nor torch.export"):
        load_program(path)
    members = read_members(exported)
    del members[WEIGHTS]
    write_members(path, members)
    with pytest.raises(HeatproofError, match=r"cut\.pt2 cannot be loaded"):
        load_program(path)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ts", ".pt2"])
def test_torchscript_needs_trust(suffix, net, tmp_path):
    path = tmp_path / f"net{suffix}"
    torch.jit.trace(net, some_pictures()).save(str(path))
    with pytest.raises(HeatproofError, match=r"net\.\w+ is TorchScript, .* --trust \(in Python trust=True\)"):
        load_program(path)
    torch.testing.assert_close(load_program(path, trust=True)(some_pictures()), net(some_pictures()))


def test_weights_are_no_program(net, tmp_path):
    marker = tmp_path / "done"
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    torch.save(net.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "evil.pt").write_bytes(pickled(marker))
    for found in ("weights.pt", "old.pt", "evil.pt"):
        with pytest.raises(HeatproofError, match=r"Weights alone go with --weights, beside a --model"):
            load_program(tmp_path / found, trust=True)
    with pytest.raises(HeatproofError, match=r"evil\.pt cannot be read as weights"):
        load_weights(net, tmp_path / "evil.pt")
    with pytest.raises(HeatproofError, match=r"there is no file .*none\.pt"):
        load_program(tmp_path / "none.pt")
    assert not marker.exists()

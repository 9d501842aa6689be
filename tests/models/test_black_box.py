"""Models that are only asked: a function on arrays, a file of ONNX, an address on this machine; and odd modules.

The reference is the same network as a torch module: what a method makes of its scores must be the same.
"""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnx
import polars as pl
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import heatproof
from heatproof import HeatproofError, mnist1d
from heatproof.explainers import explainers
from reference.libraries import import_torchvision

ASKS_FOR_SCORES = ("rise:masks=20", "lime:samples=30", "kernel_shap:samples=20", "occlusion:window=4,stride=3")
ASKS_FOR_MORE = ("gradient", "integrated_gradients", "grad_cam", "score_cam", "sise", "lrp", "deep_lift", "chefer")


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(1, 6, 5), nn.ReLU(), nn.Flatten(), nn.Linear(216, 10)).eval()


def answer(network: nn.Module, signals: np.ndarray, probabilities: bool = False) -> np.ndarray:
    with torch.no_grad():
        logits = network(torch.as_tensor(np.asarray(signals, np.float32)))
    return (logits.softmax(1) if probabilities else logits).numpy()


@pytest.fixture(scope="module")
def signals() -> torch.Tensor:
    return torch.as_tensor(mnist1d.make()[1].x[:4], dtype=torch.float32).unsqueeze(1)


def write_onnx(path, network: nn.Module, rows: int | str) -> None:
    """The network as ONNX has it, written node by node."""
    convolution, linear = network[0], network[3]
    weights = {"w": convolution.weight, "b": convolution.bias, "v": linear.weight, "c": linear.bias}
    nodes = [
        helper.make_node("Conv", ["signal", "w", "b"], ["maps"]),
        helper.make_node("Relu", ["maps"], ["positive"]),
        helper.make_node("Flatten", ["positive"], ["flat"]),
        helper.make_node("Gemm", ["flat", "v", "c"], ["scores"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("signal", TensorProto.FLOAT, [rows, 1, 40])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [rows, 10])],
        [numpy_helper.from_array(tensor.detach().numpy(), name) for name, tensor in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def address(network) -> Iterator[str]:
    """A server on this machine that answers as TensorFlow Serving does; /broken and others answer otherwise."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = {
                "/net": lambda: {"predictions": answer(network, body["instances"], probabilities=True).tolist()},
                "/other": lambda: {"outputs": []},
                "/short": lambda: {"predictions": [[0.5, 0.5]]},
                "/ragged": lambda: {"predictions": [[0.5, 0.5], [1.0]]},
                "/words": lambda: None,
            }.get(self.path)
            content = b"no such model" if said is None else json.dumps(said()).encode()[self.path == "/words" :]
            self.send_response(404 if said is None else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["logits", "probabilities", "onnx", "onnx of two", "address"])
def box(request, network, address, tmp_path) -> nn.Module:
    """The same network in each of the forms that are only asked."""
    if request.param.startswith("onnx"):
        write_onnx(tmp_path / "net.onnx", network, 2 if "two" in request.param else "rows")
        return heatproof.black_box(tmp_path / "net.onnx")
    if request.param == "address":
        return heatproof.black_box(f"{address}/net")
    return heatproof.black_box(lambda inputs: answer(network, inputs, request.param == "probabilities"))


@pytest.mark.parametrize("quantity", ["logit", "probability"])
def test_methods_that_ask_for_scores_see_what_they_see_of_the_network(box, network, signals, quantity):
    for name in ASKS_FOR_SCORES:
        if quantity == "logit" and torch.allclose(box(signals).exp().sum(1), torch.ones(4)):
            continue  # from probabilities, logits are known up to a number
        expected = heatproof.explain(network, signals, name, target=3, quantity=quantity)
        found = heatproof.explain(box, signals, name, target=3, quantity=quantity)
        assert torch.allclose(found, expected, atol=1e-4 * float(expected.abs().max())), name


@pytest.mark.parametrize("name", ASKS_FOR_MORE)
def test_methods_that_ask_for_more_say_so(network, signals, name):
    box = heatproof.black_box(lambda inputs: answer(network, inputs), name="oracle of delphi")
    with pytest.raises(HeatproofError, match=r"oracle of delphi is a black box.*asks for scores only \(rise, lime"):
        heatproof.explain(box, signals, name, target=3)


def test_every_method_works_or_says_that_it_does_not(network, signals):
    box = heatproof.black_box(lambda inputs: answer(network, inputs))
    works, said = [], {}
    for name in explainers.own():
        try:
            heatproof.explain(box, signals[:1], name, target=3, ground_truth={"all": signals[:1, 0] > 0})
            works.append(name)
        except HeatproofError as problem:
            said[name] = str(problem)
    assert {name for name, problem in said.items() if "black box" not in problem} == set()
    assert {"rise", "lime", "kernel_shap", "occlusion", "random", "oracle"} <= set(works)
    assert not {spec.partition(":")[0] for spec in ASKS_FOR_MORE} & set(works)


def test_captums_methods_of_that_kind_work_too(network, signals):
    box = heatproof.black_box(lambda inputs: answer(network, inputs))
    expected = heatproof.explain(network, signals, "captum:FeatureAblation", target=3)
    assert torch.allclose(heatproof.explain(box, signals, "captum:FeatureAblation", target=3), expected, atol=1e-4)


def test_a_file_of_onnx_runs_a_benchmark_in_worker_processes(network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_onnx("net.onnx", network, "rows")
    arguments = {"explainers": ["occlusion", "gradient", "random", "oracle"], "limit": 30, "target": "logit"}
    run = heatproof.run("svea", model="net.onnx", out="asked", jobs=2, engine="processes", **arguments)
    assert {failure["explainer"] for failure in run.failures()} == {"gradient"}
    same = heatproof.run("svea", model=network, out="known", jobs=1, **(arguments | {"explainers": ["occlusion"]}))
    wanted = pl.col("metric") == "drop", pl.col("explainer") == "occlusion"
    means = [board.filter(*wanted)["mean"].item() for board in (run.leaderboard(), same.leaderboard())]
    assert means[0] == pytest.approx(means[1], abs=1e-6)
    assert json.loads((tmp_path / "asked" / "run.json").read_text())["models"].keys() == {"net"}


def test_another_file_of_onnx_is_another_model(network, tmp_path):
    from heatproof.models.weights import fingerprint

    changed = copy.deepcopy(network)
    changed[3].bias.data[0] += 1
    for name, net in (("a", network), ("b", network), ("c", changed)):
        write_onnx(tmp_path / f"{name}.onnx", net, "rows")
    one, same, other = (fingerprint(heatproof.black_box(tmp_path / f"{name}.onnx")) for name in "abc")
    assert one == same != other


def test_a_box_with_a_file_can_be_sent_to_other_processes(network, signals, tmp_path):
    write_onnx(tmp_path / "net.onnx", network, "rows")
    box = heatproof.black_box(tmp_path / "net.onnx")
    assert torch.equal(pickle.loads(pickle.dumps(box))(signals), box(signals))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/gone", "answers 404 Not Found: no such model"),
        ("/other", "got outputs"),
        ("/short", r"one row for each of 64 cases; got float64 \(1, 2\)"),
        ("/ragged", "must return an array"),
        ("/words", "must answer in JSON"),
    ],
)
def test_an_address_that_answers_otherwise_is_told(address, signals, path, words):
    with pytest.raises(HeatproofError, match=words):
        heatproof.explain(heatproof.black_box(address + path), signals, "rise", target=0)


def test_an_address_that_does_not_answer_is_told(signals):
    with pytest.raises(HeatproofError, match=r"http://127.0.0.1:9/net does not answer: .*refused"):
        heatproof.explain(heatproof.black_box("http://127.0.0.1:9/net"), signals, "rise", target=0)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda x: np.zeros(len(x)), r"numbers \(cases, classes\).*float64 \(1,\)"),
        (lambda x: np.full((len(x), 3), np.nan), "NaN or infinite"),
        (lambda x: [["cat"]] * len(x), "must return numbers"),
    ],
)
def test_functions_that_return_no_scores_are_told(signals, made, words):
    with pytest.raises(HeatproofError, match=words):
        heatproof.explain(heatproof.black_box(made), signals, "rise", target=0)


def test_what_is_no_black_box_is_told(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"these are no weights")
    with pytest.raises(HeatproofError, match=r"bad.onnx is no network that ONNX Runtime can run"):
        heatproof.black_box(tmp_path / "bad.onnx")
    with pytest.raises(HeatproofError, match="there is no file"):
        heatproof.black_box("gone.onnx")
    with pytest.raises(HeatproofError, match="a black box is a function on arrays"):
        heatproof.black_box(nn.Linear(2, 2))
    with pytest.raises(HeatproofError, match=r"goes in as heatproof.black_box\(function\)"):
        heatproof.explain(nn.functional.relu, torch.zeros(1, 1, 4), "rise")


def test_lightning_modules_are_explained_as_the_networks_they_are(network, signals):
    import_torchvision()  # which Lightning imports
    import pytorch_lightning as lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = copy.deepcopy(network)
            self.save_hyperparameters()

        def forward(self, inputs):
            return {"logits": self.net(inputs), "loss": None}

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self(batch[0])["logits"], batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    for name in ("gradient", "lrp", "grad_cam:layer=net.0", "rise:masks=20"):
        expected = heatproof.explain(network, signals, name.replace("net.0", "0"), target=2)
        assert torch.allclose(heatproof.explain(Net(), signals, name, target=2), expected, atol=1e-5), name

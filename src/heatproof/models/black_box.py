"""Models that are asked and not looked into: a function on arrays, a file of ONNX, an address that answers.

Methods that ask for scores only explain them (rise, lime, kernel_shap, occlusion, Captum's of that kind, the floors).
Those that need gradients or layers say so in one sentence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heatproof.errors import HeatproofError

ADDRESSES = ("http://", "https://")
ONNX = ".onnx"
SCORES_ONLY = "rise, lime, kernel_shap, occlusion, captum:FeatureAblation ..."
ROWS = 64
"""Cases in one request."""
MOST = 2**26
"""Bytes of an answer."""
PATIENCE = 60.0
"""Seconds until an address must have answered."""
SUMS = 1e-3
"""How far rows may be from adding up to 1 to count as probabilities."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""What a probability of zero counts as, so that it has a logarithm."""
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


class BlackBox(nn.Module):
    """`predict(inputs, *context)` as a model: arrays in, scores (cases, classes) out; logits or probabilities."""

    only_asked = True
    """It has no gradients to count on: see explainers/memory.py."""

    def __init__(self, predict: Callable[..., Any], name: str, stamp: str = "") -> None:
        super().__init__()
        self.predict, self.name = predict, name
        if stamp:  # stands for the weights in fingerprints
            self.register_buffer("stamp", torch.frombuffer(bytearray.fromhex(stamp), dtype=torch.uint8))

    def forward(self, inputs: Tensor, *context: Tensor) -> Tensor:
        if torch.is_grad_enabled() and inputs.requires_grad:
            raise HeatproofError(
                f"model {self.name} is a black box, which has no gradients and no layers to look at; take a method that"
                f" asks for scores only ({SCORES_ONLY}), or give the network as a torch.nn.Module."
            )
        outputs = self.predict(*(tensor.detach().cpu().numpy() for tensor in (inputs, *context)))
        logits = torch.as_tensor(as_logits(checked(outputs, self.name, len(inputs))))
        return logits.to(device=inputs.device, dtype=inputs.dtype)  # as a module's outputs have the type of its inputs


def black_box(model: Callable[..., Any] | Path | str, name: str | None = None) -> BlackBox:
    """A model that is only asked: `black_box(predict)`, `black_box("net.onnx")`, `black_box("http://localhost:8000/x")`.

    `predict` takes an array (cases, channels, *space) and returns one (cases, classes) of logits or of probabilities,
    whose logarithms then count as logits. A file of ONNX takes `pip install heatproof[onnx]`. An address is asked as
    TensorFlow Serving, KServe and MLflow are: {"instances": [...]} goes there, {"predictions": [...]} comes back.
    """
    if callable(model) and not isinstance(model, (type, nn.Module)):
        return BlackBox(model, name or str(getattr(model, "__name__", type(model).__name__)))
    if isinstance(model, str) and model.startswith(ADDRESSES):
        return BlackBox(Address(model), name or "endpoint")
    if isinstance(model, (str, Path)) and Path(model).suffix == ONNX:
        program = OnnxFile(Path(model))
        return BlackBox(program, name or Path(model).stem, program.stamp)
    raise HeatproofError(
        f"a black box is a function on arrays, a file {ONNX}, or an address http://...; got {model!r}."
    )


def is_black_box(model: str) -> bool:
    """Whether this word of a user names a model that is only asked."""
    return model.startswith(ADDRESSES) or Path(model).suffix == ONNX


def checked(outputs: Any, name: str, cases: int) -> NDArray[np.float64]:
    """Numbers (cases, classes), or an error that says what came instead."""
    try:
        found = np.asarray(outputs)
    except ValueError as problem:
        raise HeatproofError(f"model {name} must return an array (cases, classes): {problem}.") from problem
    if found.dtype.kind not in "fiu" or found.ndim != 2 or len(found) != cases:
        raise HeatproofError(
            f"model {name} must return numbers (cases, classes), one row for each of {cases} cases; got"
            f" {found.dtype} {found.shape}."
        )
    if not np.isfinite(found).all():
        raise HeatproofError(f"model {name} returns NaN or infinite scores.")
    return found.astype(np.float64)


def as_logits(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits as they are; of probabilities, rows of several that add up to 1, the logarithm, whose softmax they are."""
    several = scores.shape[1] > 1
    if several and scores.min() >= 0 and np.abs(scores.sum(1, dtype=np.float64) - 1).max() <= SUMS:
        logits: NDArray[np.float64] = np.log(np.maximum(scores, SMALLEST))
        return logits
    return scores


class OnnxFile:
    """A network in a file of ONNX, run by ONNX Runtime on the CPU; opened anew in every process."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise HeatproofError(f"there is no file {path}; give the path of a network in ONNX.")
        self.path = path.resolve()
        self.stamp = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
        self.opened: Any = None
        self.session()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"opened": None}

    def session(self) -> Any:
        if self.opened is None:
            try:
                import onnxruntime
            except ImportError as problem:
                raise HeatproofError(
                    f"{self.path} takes ONNX Runtime, which is not installed: pip install heatproof[onnx]."
                ) from problem
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = 3
            try:
                self.opened = onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
            except Exception as problem:  # its errors have no common class
                raise HeatproofError(f"{self.path} is no network that ONNX Runtime can run: {problem}") from problem
        return self.opened

    def __call__(self, *arrays: NDArray[Any]) -> NDArray[Any]:
        session = self.session()
        takes = session.get_inputs()
        if len(takes) != len(arrays):
            names = ", ".join(one.name for one in takes)
            raise HeatproofError(f"{self.path} takes {len(takes)} input(s) ({names}), and is given {len(arrays)}.")
        fed = [array.astype(TYPES.get(one.type, array.dtype)) for one, array in zip(takes, arrays, strict=True)]
        rows = takes[0].shape[0] if takes[0].shape else None
        size = rows if isinstance(rows, int) else max(1, len(arrays[0]))
        found = [
            self.ask(session, takes, [array[i : i + size] for array in fed], size) for i in range(0, len(fed[0]), size)
        ]
        return np.concatenate(found)

    def ask(self, session: Any, takes: Any, arrays: list[NDArray[Any]], size: int) -> NDArray[Any]:
        """The scores of at most `size` rows; a network that was exported for so many gets so many."""
        rows = len(arrays[0])
        filled = [np.concatenate([array, np.repeat(array[:1], size - rows, 0)]) for array in arrays]
        outputs = [one.name for one in session.get_outputs()]
        wanted = next((name for name in ("logits", "probabilities") if name in outputs), outputs[0])
        try:
            feed = {one.name: array for one, array in zip(takes, filled, strict=True)}
            return np.asarray(session.run([wanted], feed)[0])[:rows]
        except Exception as problem:
            shapes = ", ".join(str(array.shape) for array in filled)
            raise HeatproofError(f"{self.path} fails on inputs of shape {shapes}: {problem}") from problem


class Address:
    """A model behind an address, asked for the predictions of some instances at a time."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, inputs: NDArray[Any], *context: NDArray[Any]) -> NDArray[Any]:
        if context:
            raise HeatproofError(f"{self.url} is asked about inputs alone, and these cases have a question each.")
        answers = [self.ask(inputs[start : start + ROWS]) for start in range(0, len(inputs), ROWS)]
        return np.concatenate(answers)

    def ask(self, inputs: NDArray[Any]) -> NDArray[Any]:
        body = json.dumps({"instances": inputs.tolist()}).encode()
        request = Request(self.url, body, {"Content-Type": "application/json", "Accept": "application/json"})
        try:
            with urlopen(request, timeout=PATIENCE) as response:  # the user names the address  # nosec B310
                content = response.read(MOST + 1)
            if len(content) > MOST:
                raise HeatproofError(
                    f"{self.url} answers more than {MOST:,} bytes, which no scores of {ROWS} cases are."
                )
            answer = json.loads(content)
        except HTTPError as problem:
            said = problem.read(300).decode("utf-8", "replace").strip()
            raise HeatproofError(f"{self.url} answers {problem.code} {problem.reason}: {said}") from problem
        except (URLError, TimeoutError, OSError, HTTPException) as problem:
            raise HeatproofError(f"{self.url} does not answer: {getattr(problem, 'reason', problem)}.") from problem
        except (ValueError, RecursionError) as problem:
            raise HeatproofError(f"{self.url} must answer in JSON: {problem}.") from problem
        if not isinstance(answer, dict) or "predictions" not in answer:
            found = ", ".join(answer) if isinstance(answer, dict) else type(answer).__name__
            raise HeatproofError(f'{self.url} must answer {{"predictions": [[...], ...]}}; got {found}.')
        return checked(answer["predictions"], self.url, len(inputs))

"""Weights on disk: NumPy .npz archives and .safetensors (no pickles), and PyTorch state dicts (loaded weights-only)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from heatproof import arrays as npz
from heatproof.errors import HeatproofError

Array = np.ndarray[Any, Any]


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill the model from a file; a file that does not fit is an error that says what is wrong with it."""
    fill(model, read_arrays(path), path)


def load_shipped(model: nn.Module, name: str) -> None:
    """Fill the model from a file that ships with the package."""
    with resources.as_file(resources.files("heatproof.models").joinpath(f"pretrained/{name}.npz")) as path:
        load_weights(model, path)


def fill(model: nn.Module, arrays: Mapping[str, Array], path: Path) -> None:
    """Fill the model with all that a file holds, which must be all that it needs."""
    expected = model.state_dict()
    owner = type(model).__name__
    if misfit := name_misfit(expected, arrays):
        raise HeatproofError(f"{path} does not hold weights of {owner}: it {misfit}. Expected: {', '.join(expected)}.")
    model.load_state_dict(
        {name: fitted(path, name, arrays[name], like, f"{owner} needs") for name, like in expected.items()}
    )


NAMED = 6
"""Names of weights in a sentence at most; a network has hundreds."""


def name_misfit(expected: Iterable[str], found: Iterable[str]) -> str:
    """What names a file misses and has too many, in words; empty if none."""
    missing, foreign = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    parts = [f"{what} {first_names(names)}" for what, names in (("misses", missing), ("has unknown", foreign)) if names]
    return " and ".join(parts)


def first_names(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" ({rest} more)" if rest > 0 else "")


def fitted(path: Path, name: str, array: Array, like: torch.Tensor, needs: str) -> torch.Tensor:
    """The array as a tensor of the kind of `like`, once it is seen to hold finite numbers of that shape."""
    if not np.issubdtype(array.dtype, np.number):
        raise HeatproofError(f"{path}: {name} holds {array.dtype}, not numbers.")
    if tuple(array.shape) != tuple(like.shape):
        raise HeatproofError(f"{path}: {name} has shape {tuple(array.shape)}, {needs} {tuple(like.shape)}.")
    if not np.isfinite(array).all():
        raise HeatproofError(f"{path}: {name} holds NaN or infinite values.")
    return torch.as_tensor(array.astype(array.dtype.newbyteorder("="), copy=False), dtype=like.dtype)


def read_arrays(path: Path) -> Mapping[str, Array]:
    """The named arrays of a .npz file or of a PyTorch state dict (.pt, .pth), alone or in a checkpoint (.pth.tar).

    Of a .safetensors file too, where that library is installed; timm and transformers bring it.
    """
    if not path.is_file():
        raise HeatproofError(f"there is no weights file {path}.")
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    if path.suffix not in (".pt", ".pth", ".tar"):
        return rescaled(npz.read_arrays(path), path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        state = state.get("state_dict", state)  # what trainings keep beside it is not wanted
        return {str(name): tensor.cpu().numpy() for name, tensor in state.items()}
    except Exception as problem:  # zip, pickle, type and value errors of many kinds, by what the file really is
        raise HeatproofError(
            f"{path} cannot be read as weights: it is truncated, or holds more than a state dict"
            f" ({type(problem).__name__}: {problem})."
        ) from problem


def read_safetensors(path: Path) -> dict[str, Array]:
    try:
        from safetensors.torch import load_file
    except ImportError as problem:
        raise HeatproofError(f"{path} needs the package safetensors: pip install safetensors.") from problem
    try:
        tensors = load_file(path)
    except Exception as problem:  # its own kinds of errors, which are not public
        raise HeatproofError(f"{path} cannot be read as safetensors: {problem}.") from problem
    return {name: halved_as_single(tensor).cpu().numpy() for name, tensor in tensors.items()}


def halved_as_single(tensor: torch.Tensor) -> torch.Tensor:
    """bfloat16, which NumPy does not know, as float32."""
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def plain_names(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Without what training on several GPUs puts into names: module.conv1.weight, features.module.0.bias."""
    return {name.removeprefix("module.").replace(".module.", "."): array for name, array in arrays.items()}


def save_weights(model: nn.Module, path: Path, half: bool = False, small: bool = False) -> None:
    """Write the model's weights as .npz, whole or not at all; `half` halves the file and rounds to three digits.

    `small` takes a quarter: matrices and filters in 8 bits, each row by its own scale, and the rest halved.
    """
    arrays: dict[str, Array] = {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().cpu().numpy()
        if small and tensor.is_floating_point() and tensor.ndim > 1:
            arrays |= scaled_down(name, array)
        else:
            arrays[name] = array.astype(np.float16) if (half or small) and tensor.is_floating_point() else array
    npz.write_arrays(path, arrays)


SCALE = "/scale"
"""Behind the name of an array in 8 bits: the scale of each of its rows."""


def scaled_down(name: str, array: Array) -> dict[str, Array]:
    """An array in 8 bits and the scales of its rows."""
    rows = array.reshape(len(array), -1).astype(np.float64)
    scale = (np.abs(rows).max(1) / np.iinfo(np.int8).max).astype(np.float32)
    steps = np.rint(rows / np.where(scale > 0, scale, 1)[:, None])
    return {name: steps.astype(np.int8).reshape(array.shape), name + SCALE: scale}


def rescaled(arrays: Mapping[str, Array], path: Path) -> dict[str, Array]:
    """Arrays as they were, of which some may have been scaled down."""
    found = {name: array for name, array in arrays.items() if not name.endswith(SCALE)}
    for name in [name.removesuffix(SCALE) for name in arrays if name.endswith(SCALE)]:
        steps, scale = found.get(name), arrays[name + SCALE]
        if steps is None or steps.dtype != np.int8 or scale.shape != steps.shape[:1]:
            raise HeatproofError(f"{path} is damaged: {name}{SCALE} does not fit {name}.")
        found[name] = steps.astype(np.float32) * scale.reshape(-1, *[1] * (steps.ndim - 1))
    return found


def fingerprint(model: nn.Module, leaving_out: str | None = None) -> str:
    """A short hash of all weights, or of those whose names begin otherwise.

    Two models with the same fingerprint decide the same.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if leaving_out is not None and name.startswith(leaving_out):
            continue
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]

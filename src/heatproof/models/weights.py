"""Weights on disk: NumPy .npz archives (no pickles) and PyTorch state dicts (loaded weights-only)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from heatproof.errors import HeatproofError
from heatproof.workspace import write_whole


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill the model from a file; a file that does not fit is an error that says what is wrong with it."""
    arrays = read_arrays(path)
    expected = model.state_dict()
    owner = type(model).__name__
    if misfit := name_misfit(expected, arrays):
        raise HeatproofError(f"{path} does not hold weights of {owner}: it {misfit}. Expected: {', '.join(expected)}.")
    model.load_state_dict(
        {name: fitted(path, name, arrays[name], like, f"{owner} needs") for name, like in expected.items()}
    )


def name_misfit(expected: Iterable[str], found: Iterable[str]) -> str:
    """What names a file misses and has too many, in words; empty if none."""
    missing, foreign = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    parts = [f"misses {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(foreign)}"] * bool(foreign)
    return " and ".join(parts)


def fitted(path: Path, name: str, array: np.ndarray[Any, Any], like: torch.Tensor, needs: str) -> torch.Tensor:
    """The array as a tensor of the kind of `like`, once it is seen to hold finite numbers of that shape."""
    if not np.issubdtype(array.dtype, np.number):
        raise HeatproofError(f"{path}: {name} holds {array.dtype}, not numbers.")
    if tuple(array.shape) != tuple(like.shape):
        raise HeatproofError(f"{path}: {name} has shape {tuple(array.shape)}, {needs} {tuple(like.shape)}.")
    if not np.isfinite(array).all():
        raise HeatproofError(f"{path}: {name} holds NaN or infinite values.")
    return torch.as_tensor(array, dtype=like.dtype)


def read_arrays(path: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    """The named arrays of a .npz file or of a PyTorch state dict (.pt, .pth)."""
    if not path.is_file():
        raise HeatproofError(f"there is no weights file {path}.")
    try:
        if path.suffix in (".pt", ".pth"):
            state = torch.load(path, map_location="cpu", weights_only=True)
            return {name: tensor.numpy() for name, tensor in state.items()}
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise HeatproofError(f"{path} holds a single array; weights are a .npz archive of named arrays.")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except HeatproofError:
        raise
    except Exception as problem:  # zip, pickle, type and value errors of many kinds, by what the file really is
        raise HeatproofError(
            f"{path} cannot be read as weights: it is truncated, or not a .npz, .pt or .pth file"
            f" ({type(problem).__name__}: {problem})."
        ) from problem


def save_weights(model: nn.Module, path: Path, half: bool = False) -> None:
    """Write the model's weights as .npz, whole or not at all; `half` halves the file and rounds to three digits."""
    arrays = {
        name: (tensor.half() if half and tensor.is_floating_point() else tensor).detach().cpu().numpy()
        for name, tensor in model.state_dict().items()
    }

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # a file object, because savez appends .npz to names
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, write)


def fingerprint(model: nn.Module) -> str:
    """A short hash of all weights: two models with the same fingerprint decide the same."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]

"""What a training that was interrupted left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from heatproof.errors import HeatproofError
from heatproof.workspace import sweep


def read_checkpoint(path: Path | None, made_with: dict[str, Any]) -> dict[str, Any] | None:
    """What a training left; None if there is nothing, an error if it is another training's.

    Temporary files that killed ones left beside it are removed.
    """
    if path is None:
        return None
    sweep(path.parent, below=False)
    if not path.exists():
        return None
    try:
        kept: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        there = kept["made_with"]
    except Exception as problem:  # zip, pickle and key errors of many kinds, by what the file really is
        raise HeatproofError(f"{path} is no checkpoint of this training; move it away ({problem}).") from problem
    if there != made_with:
        raise HeatproofError(f"{path} is of another training ({there}, not {made_with}); move it away to begin anew.")
    return kept

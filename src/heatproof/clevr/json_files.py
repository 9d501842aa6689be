"""JSON files of a data set, read with errors that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError


def read_json(path: Path) -> Any:
    """What a JSON file holds; a damaged one is named with the place of the damage."""
    try:
        return json.loads(path.read_bytes())
    except OSError as problem:
        raise HeatproofError(f"cannot read {path}: {problem.strerror or problem}.") from problem
    except ValueError as problem:
        raise HeatproofError(
            f"{path} is not whole JSON: {problem}. It may be cut off; make or copy it again."
        ) from problem


def read_object(path: Path) -> dict[str, Any]:
    """The same for a file that must hold a JSON object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise HeatproofError(f"{path} is damaged: it holds no JSON object.")
    return content

"""Checksums of files, and JSON that holds its own: what is read is compared with what was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError

SEAL = "sha256"
"""Where a JSON file has its checksum, and a line of a list that of its file."""
AGAIN = "run again to make it anew"


class DamagedError(HeatproofError):
    """A file is not what was written."""


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def seal(content: Any) -> str:
    """The checksum of what a JSON file says, however it is laid out."""
    return checksum(json.dumps(content, sort_keys=True).encode())


def sealed(content: Mapping[str, Any]) -> bytes:
    """What a JSON file holds that says so much, with its checksum."""
    plain = json.loads(json.dumps(content, default=str))
    return (json.dumps({**plain, SEAL: seal(plain)}, indent=2) + "\n").encode()


def parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as problem:
        raise DamagedError(f"{path} is missing; {AGAIN}.") from problem
    except (OSError, ValueError, RecursionError) as problem:
        raise DamagedError(f"{path} is damaged ({problem}); {AGAIN}.") from problem


def unsealed(path: Path, content: Any) -> Any:
    """The content of a JSON file without its checksum, which must be right."""
    found = content.pop(SEAL, None) if isinstance(content, dict) else None
    if found != seal(content):
        raise DamagedError(f"{path} is damaged, or was changed by hand (its checksum differs); {AGAIN}.")
    return content

"""A run's folder, opened by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heatproof.run_folder import LEDGER, RunFolder


def part_lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of parts.jsonl that are about parts."""
    lines = [json.loads(line) for line in (folder / LEDGER).read_text().splitlines()]
    return [line for line in lines if "machine" in line]


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """run.json with this content, and the checksum that belongs to it."""
    RunFolder(folder).write_manifest({name: value for name, value in manifest.items() if name != "sha256"})

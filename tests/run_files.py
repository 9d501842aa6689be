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


def forget(folder: Path, start: str) -> None:
    """Remove the parts whose names begin so, with their lines, as if the run had never made them."""
    ledger = folder / LEDGER
    lines = ledger.read_text().splitlines()
    for part in (json.loads(line).get("part", "") for line in lines):
        if part.startswith(start):
            (folder / part).unlink()
    ledger.write_text("".join(f"{line}\n" for line in lines if not json.loads(line).get("part", "").startswith(start)))

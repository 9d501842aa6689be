"""Further sections of the page, from what commands have left in the run's folder: sections/NAME/section.json."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heatproof.run_folder import RunFolder
from heatproof.story import Section

SECTION = "section.json"
KINDS = {".jpg": "jpeg", ".svg": "svg+xml"}
"""Kinds of pictures that are called otherwise than the files end."""


def write_section(folder: RunFolder, name: str, section: Section) -> Path:
    """Store a section; its pictures lie beside it."""
    path = folder.path("sections", name, SECTION)
    folder.write_json(path, section.plain())
    return path


def read_sections(folder: RunFolder) -> list[Mapping[str, Any]]:
    """All sections, with pictures as addresses; one that is missing is left out."""
    found = []
    for path in sorted(folder.path("sections").glob(f"*/{SECTION}")):
        section = folder.read_json(path)
        found.append(section | {"blocks": [with_pictures(block, path.parent) for block in section["blocks"]]})
    return found


def with_pictures(block: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A block with its pictures as addresses."""

    def addresses(names: Sequence[str]) -> list[str]:
        return [address(folder / name) for name in names if (folder / name).is_file()]

    if block["kind"] == "panel":
        return {**block, "figures": [(caption, addresses(names)) for caption, names in block["figures"]]}
    if block["kind"] == "plate":
        return {
            **block,
            "pictures": [(caption, found) for caption, name in block["pictures"] for found in addresses([name])],
        }
    return block


def address(path: Path) -> str:
    """A picture as an address that needs no file."""
    kind = KINDS.get(path.suffix, path.suffix.removeprefix("."))
    return f"data:image/{kind};base64," + base64.b64encode(path.read_bytes()).decode()

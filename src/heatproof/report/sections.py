"""Further sections of the page, from what commands have left in the run's folder: sections/NAME/section.json."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heatproof.run_folder import RunFolder
from heatproof.story import Section

SECTION = "section.json"


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
        for block in section["blocks"]:
            if block["kind"] == "panel":
                block["figures"] = [
                    (caption, [address(path.parent / name) for name in names if (path.parent / name).is_file()])
                    for caption, names in block["figures"]
                ]
        found.append(section)
    return found


def address(path: Path) -> str:
    """A picture as an address that needs no file."""
    kind = path.suffix.removeprefix(".")
    return f"data:image/{kind};base64," + base64.b64encode(path.read_bytes()).decode()

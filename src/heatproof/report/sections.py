"""Further sections of the page, from what commands have left in the run's folder: sections/NAME/section.json."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heatproof.run_folder import SECTION, RunFolder
from heatproof.seals import sealed
from heatproof.story import Section
from heatproof.workspace import write_whole

KINDS = {".jpg": "jpeg", ".svg": "svg+xml"}
"""Kinds of pictures that are called otherwise than the files end."""


def write_section(folder: RunFolder, name: str, section: Section) -> Path:
    """Store a section; its pictures lie beside it already, and are told from others by their checksums."""
    path = folder.path("sections", name, SECTION)
    with folder.held():
        write_whole(path, lambda temporary: temporary.write_bytes(sealed(section.plain())))
        folder.enter_section(name)
    return path


def read_sections(folder: RunFolder) -> list[Mapping[str, Any]]:
    """All sections, with pictures as addresses; what is not as it was written is an error that names it."""

    def picture(path: Path) -> bytes | None:
        return folder.read(path) if folder.has_file(path) else None

    found = []
    for path in folder.sections():
        section = folder.read_json(path)
        found.append(section | {"blocks": [with_pictures(block, path.parent, picture) for block in section["blocks"]]})
    return found


def read_plainly(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def with_pictures(
    block: Mapping[str, Any], folder: Path, read: Callable[[Path], bytes | None] = read_plainly
) -> Mapping[str, Any]:
    """A block with its pictures as addresses; one that could not be made is left out."""

    def addresses(names: Sequence[str]) -> list[str]:
        contents = [(name, read(folder / name)) for name in names]
        return [address(name, content) for name, content in contents if content is not None]

    if block["kind"] == "panel":
        return {**block, "figures": [(caption, addresses(names)) for caption, names in block["figures"]]}
    if block["kind"] == "plate":
        return {
            **block,
            "pictures": [(caption, found) for caption, name in block["pictures"] for found in addresses([name])],
        }
    return block


def address(name: str, content: bytes) -> str:
    """A picture as an address that needs no file."""
    suffix = Path(name).suffix
    kind = KINDS.get(suffix, suffix.removeprefix("."))
    return f"data:image/{kind};base64," + base64.b64encode(content).decode()

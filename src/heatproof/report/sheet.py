"""A section as a page of its own, to be handed to somebody who has no run: one file, its pictures inside."""

from __future__ import annotations

from pathlib import Path

from heatproof.report.page import page_parts, templates
from heatproof.report.sections import with_pictures
from heatproof.story import Section
from heatproof.workspace import write_whole


def write_sheet(path: Path, section: Section, about: str) -> Path:
    """Write the page, and return its path; the section's pictures lie beside it. `about` says where it comes from."""
    content = section.plain()
    content["blocks"] = [with_pictures(block, path.parent) for block in content["blocks"]]
    text = templates().get_template("sheet.html.j2").render(section=content, about=about, **page_parts())
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path

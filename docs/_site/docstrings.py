"""Columns in docstrings (a name, blanks, what it is) stay columns on the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

COLUMN = re.compile(r"^\S+( [^ ]+)*\s{2,}\S")


class Columns(griffe.Extension):
    def on_instance(self, *, obj: Any, **_further: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "\n\n".join(map(kept, obj.docstring.value.split("\n\n")))


def kept(paragraph: str) -> str:
    """The paragraph, as a block of text if any of its lines is one of columns."""
    return f"```text\n{paragraph}\n```" if any(map(COLUMN.match, paragraph.splitlines())) else paragraph

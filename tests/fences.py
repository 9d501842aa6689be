"""The blocks of code in a page."""

from __future__ import annotations

import re

FENCE = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
"""An opening fence with its word, and the closing one, both at the beginning of a line."""


def blocks(text: str) -> list[tuple[str, str]]:
    """All blocks in order, each with the word behind its opening fence; every fence belongs to one block."""
    found = [(match[2], match[3]) for match in FENCE.finditer(text)]
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(found), "a fence is left over"
    return found


def without_blocks(text: str) -> str:
    return FENCE.sub("", text)

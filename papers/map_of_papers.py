"""The map as Markdown, and its page docs/papers.md."""

from __future__ import annotations

import re
from pathlib import Path

from papers.clevr_xai import CLEVR_XAI
from papers.focus import FOCUS
from papers.kinds import Done, Line
from papers.svea import SVEA

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
BEGIN, END = "<!-- papers -->", "<!-- /papers -->"
PAPERS: dict[str, list[Line]] = {
    "SVEA (Sattarzadeh et al. 2021)": SVEA,
    "Focus (Arias-Duart et al. 2021)": FOCUS,
    "CLEVR-XAI (Arras et al. 2022)": CLEVR_XAI,
}
HEAD = ("where", "what the paper shows", "command", "paper", "ours")


def written(done: Done | None) -> str:
    """A table for each paper; without anything done, a question mark stands for each figure."""
    parts = []
    for title, lines in PAPERS.items():
        rows = [HEAD, ("---",) * len(HEAD)]
        rows += [(line.place, line.shows, as_code(line.command), line.paper, ours(line, done)) for line in lines]
        parts.append(f"## {title}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows))
    return "\n\n".join(parts)


def as_code(command: str) -> str:
    return " and ".join(f"`{part.strip()}`" for part in command.split(";")) if command else "–"


def ours(line: Line, done: Done | None) -> str:
    if isinstance(line.ours, str):
        return f"not run: {line.ours}"
    return "?" if done is None else line.ours(done)


def write(text: str, when: str) -> None:
    """Put the tables into the page, with the version and the day that they are of."""
    page = PAGE.read_text(encoding="utf-8")
    kept = f"{BEGIN}\n*{when}*\n\n{text}\n{END}"
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: kept, page, flags=re.DOTALL), encoding="utf-8")

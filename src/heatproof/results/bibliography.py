"""The references of a run as BibTeX: of its benchmark, its metrics and its methods."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from heatproof.harmless import one_line

if TYPE_CHECKING:
    from heatproof.results.run import Results

ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"'}
OF_THE_ENTRY = ("cites", "key", "kind")
"""What is said of a reference and is no field of it."""


@cache
def references() -> tuple[Mapping[str, str | list[str]], ...]:
    """All that are known; `cites` are the words that explainers, metrics and benchmarks have for them."""
    file = resources.files("heatproof.results").joinpath("bibliography.json")
    return tuple(json.loads(file.read_text(encoding="utf-8")))


def reference(paper: str) -> Mapping[str, str | list[str]] | None:
    """What is cited by these words, with the title behind them or without; None where nobody knows."""
    for entry in references():
        if any(paper == words or paper.startswith(f"{words}: ") for words in entry["cites"]):
            return entry
    return None


def bibtex(run: Results) -> str:
    """references.bib: what the run used, each with a comment that says where, and what has no reference."""
    users: dict[str, list[str]] = {}
    without: list[str] = []
    for name, paper in cited(run):
        entry = reference(paper)
        if entry is None:
            without.append(name)
        else:
            users.setdefault(str(entry["key"]), []).append(name)
    parts = [
        comment(users[str(entry["key"])]) + entry_text(entry) for entry in references() if str(entry["key"]) in users
    ]
    version = str(run.manifest["configuration"].get("heatproof", ""))
    heatproof = {
        "key": "heatproof", "kind": "misc", "author": "{The Heatproof developers}",
        "title": "Heatproof: attribution methods, judged where the right answer is known", "note": f"Version {version}",
    }  # fmt: skip
    parts.append(comment(["what ran it"]) + entry_text(heatproof))
    if without:
        parts.append("% No reference is known for\n" + comment(without))
    return "\n".join(parts)


def cited(run: Results) -> Iterator[tuple[str, str]]:
    """Who cites which paper: the benchmark, its metrics, its explainers; floors that cite none are left out."""
    story = run.story
    if story.paper:
        yield "the benchmark", story.paper
    for words in story.metrics:
        if words.paper:
            yield words.title, words.paper
    for entry in run.manifest["explainers"]:
        paper = entry.get("paper", "")
        if paper or entry["family"] not in ("floor", "ceiling"):
            yield entry["short"], paper


def comment(names: list[str]) -> str:
    """Lines that BibTeX passes over: it would read an @ even there."""
    return "".join(f"% {one_line(name).replace('@', '(at)')}\n" for name in dict.fromkeys(names))


def entry_text(entry: Mapping[str, str | list[str]]) -> str:
    """One entry; titles keep their capitals."""
    fields = {name: str(value) for name, value in entry.items() if name not in OF_THE_ENTRY}
    fields["title"] = f"{{{fields['title']}}}"
    if "eprint" in fields:
        fields["archiveprefix"] = "arXiv"
    lines = "".join(f"  {name} = {{{accented(value)}}},\n" for name, value in fields.items())
    return f"@{entry['kind']}{{{entry['key']},\n{lines}}}\n"


def accented(text: str) -> str:
    """Letters with accents as every BibTeX understands them."""
    found = []
    for letter in text:
        base, *marks = list(unicodedata.normalize("NFD", letter))
        found.append(f"{{\\{ACCENTS[marks[0]]}{base}}}" if marks and marks[0] in ACCENTS else letter)
    return "".join(found)

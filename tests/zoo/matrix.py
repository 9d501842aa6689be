"""The matrix of the docs: a row for each network, a column for each family of methods."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from zoo.cells import NOT_RUN, Cell
from zoo.identities import FAMILIES
from zoo.networks import NETWORKS

PAGE = Path(__file__).parents[2] / "docs" / "explainers" / "networks.md"
BEGIN, END = "<!-- zoo -->", "<!-- /zoo -->"
FOUND_WORDS = re.compile(r"^\| (?!network )(?!---)(.+?) \|", re.MULTILINE)


def entry(cells: list[Cell]) -> str:
    """One word for the identities of a family: what they share, or what each of them is."""
    run = [cell for cell in cells if cell.found != NOT_RUN]
    kinds = {cell.found for cell in run}
    if not run:
        return "–"
    if len(kinds) == 1:
        return kinds.pop()
    return ", ".join(f"{cell.identity} {cell.found}" for cell in run if cell.found != "right") + "; else right"


def table(found: Iterable[Cell]) -> str:
    """All networks, family by family, with what was found."""
    by_place: dict[tuple[str, str], list[Cell]] = {}
    for cell in found:
        by_place.setdefault((cell.network, cell.family), []).append(cell)
    lines = []
    for family, networks in groupby(NETWORKS, key=lambda network: network.family):
        lines += ["", f"### {family[0].upper()}{family[1:]}", ""]
        lines += ["| network | " + " | ".join(FAMILIES) + " |", "|---" * (len(FAMILIES) + 1) + "|"]
        for network in networks:
            entries = [entry(by_place.get((network.name, column), [])) for column in FAMILIES]
            lines.append(f"| {network.name} | " + " | ".join(entries) + " |")
    return "\n".join(lines).strip()


def count(found: list[Cell]) -> str:
    """How many cells there are of each kind."""
    kinds = {kind: sum(cell.found == kind for cell in found) for kind in ("right", "refuses", "wrong", "traceback")}
    said = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
    return f"{len({cell.network for cell in found})} networks, {sum(kinds.values())} cells: {said}."


def write(found: list[Cell]) -> None:
    """Put the matrix between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{count(found)}\n\n{table(found)}\n{END}{after}", encoding="utf-8")


def written() -> list[str]:
    """The names of the networks in the page's matrix."""
    return FOUND_WORDS.findall(PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0])

"""Runs as a folder that any web server shows: an index, their pages, and their numbers as plain files.

index.html           the runs, each with the first sentence of its verdict
leaderboard.json     everything that a program needs: all runs with their verdicts, tables and lines
llms.txt             the same for readers of plain text: what there is, and where
runs/NAME/           report.html with its pictures, leaderboard.csv, .md and .json, verdict.json, references.bib
site.json            which files are the site's own: only these are ever overwritten or removed
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.harmless import markdown_text, one_line
from heatproof.lazy import pl
from heatproof.report.page import static, templates
from heatproof.report.shelf import beside
from heatproof.results.bibliography import bibtex
from heatproof.results.compare import names_of
from heatproof.results.export import as_json
from heatproof.results.run import Results
from heatproof.run_folder import LEADERBOARD, REPORT, TABLE, VERDICT
from heatproof.workspace import write_whole

SITE, INDEX, ALL, PLAIN = "site.json", "index.html", "leaderboard.json", "llms.txt"
KIND = "heatproof site"


@dataclass(frozen=True)
class Entry:
    """A run on the site: the name that it has in addresses, and what the index says of it."""

    name: str
    called: str
    run: Results

    @property
    def sentences(self) -> Sequence[str]:
        return self.run.verdict.sentences

    @property
    def first(self) -> str:
        """What people came for."""
        return self.sentences[0] if self.sentences else "No method was judged."

    def content(self) -> dict[str, Any]:
        """Everything about the run, for programs."""
        exported: dict[str, Any] = json.loads(as_json(self.run))
        return {"name": self.name, "page": f"runs/{self.name}/{REPORT}"} | exported | {
            "created": self.run.manifest["created"],
            "seed": self.run.manifest["configuration"]["seed"],
            "checks": self.run.verdict.plain()["checks"],
            "leaderboard": self.run.leaderboard().with_columns(pl.col(pl.Float64).fill_nan(None)).to_dicts(),
        }  # fmt: skip


def publish(runs: Sequence[Results], out: Path | str) -> Path:
    """Write the site, and return the path of its index. An earlier one in the same folder is replaced, nothing else."""
    place = Path(out)
    if not runs:
        raise HeatproofError("name at least one run to publish.")
    own = own_files(place)
    entries = named(runs)
    files = {path: content for entry in entries for path, content in run_files(entry)}
    content = {"kind": KIND, "runs": [entry.content() for entry in entries]}
    files[ALL] = as_bytes(json.dumps(content, allow_nan=False))
    files[PLAIN] = as_bytes(plain_text(entries))
    files[INDEX] = as_bytes(index(entries))
    for path in files:
        if (place / path).exists() and path not in own:
            raise HeatproofError(f"{place / path} is not the site's own, and would be overwritten; move it elsewhere.")
    write(place, SITE, as_bytes(json.dumps({"kind": KIND, "files": sorted({*own, *files})}, indent=1)))
    for path, written in files.items():
        write(place, path, written)
    for path in sorted(own - set(files)):
        (place / path).unlink(missing_ok=True)
        with suppress(OSError):  # a folder with something else in it stays
            (place / path).parent.rmdir()
    write(place, SITE, as_bytes(json.dumps({"kind": KIND, "files": sorted(files)}, indent=1)))
    return place / INDEX


def own_files(place: Path) -> set[str]:
    """The files of an earlier site in a folder; an error where the folder holds something else."""
    if place.exists() and not place.is_dir():
        raise HeatproofError(f"{place} is a file; give the site a folder with --out.")
    if not place.is_dir() or not any(place.iterdir()):
        return set()
    try:
        content = json.loads((place / SITE).read_text(encoding="utf-8"))
        known = {str(path) for path in content["files"]} if content["kind"] == KIND else None
    except (OSError, ValueError, KeyError, TypeError):
        known = None
    if known is None:
        raise HeatproofError(f"{place} is not empty and holds no site of heatproof; choose a new folder with --out.")
    return {path for path in known if is_inside(path)}


def is_inside(path: str) -> bool:
    """Whether a path from a file stays in the folder that it is about."""
    return not Path(path).is_absolute() and ".." not in Path(path).parts


def named(runs: Sequence[Results]) -> list[Entry]:
    """Runs by names that are good in addresses, each its own."""
    entries: list[Entry] = []
    for called, run in zip(names_of(runs), runs, strict=True):
        plain = re.sub("[^a-z0-9]+", "-", called.lower()).strip("-")[:60] or "run"
        taken = [entry.name for entry in entries]
        name = next(
            candidate
            for number in range(1, len(runs) + 1)
            if (candidate := plain if number == 1 else f"{plain}-{number}") not in taken
        )
        entries.append(Entry(name, called, run))
    return entries


def run_files(entry: Entry) -> Iterator[tuple[str, bytes]]:
    """The files of one run, by their paths on the site."""
    folder, run = f"runs/{entry.name}", entry.run
    page = run.folder / REPORT
    if not page.is_file():
        raise HeatproofError(f"{run.folder} has no {REPORT}; make it with: heatproof report {run.folder}")
    yield f"{folder}/{REPORT}", page.read_bytes()
    for picture in sorted(beside(page).rglob("*")):
        if picture.is_file() and not picture.is_symlink():
            yield f"{folder}/{picture.relative_to(run.folder).as_posix()}", picture.read_bytes()
    if (run.folder / TABLE).is_file():
        yield f"{folder}/{TABLE}", (run.folder / TABLE).read_bytes()
    for path in map(run.files.path, (LEADERBOARD, VERDICT)):
        if run.files.has_file(path):
            yield f"{folder}/{path.name}", run.files.read(path)
    yield f"{folder}/{ALL}", as_bytes(json.dumps(entry.content(), allow_nan=False))
    yield f"{folder}/references.bib", as_bytes(bibtex(run))


def plain_text(entries: Sequence[Entry]) -> str:
    """llms.txt: what there is and where, for whoever reads text and follows links."""
    parts = [
        "# Attribution methods, judged by Heatproof\n",
        "> Which explanation of a network can be trusted, how surely, and at what cost: one run of a benchmark each."
        " Scores in files are fractions.\n",
        f"- [All numbers as JSON]({ALL}): verdicts, tables, health checks and every line of the leaderboards\n",
    ]
    for entry in entries:
        parts.append(f"## {markdown_text(entry.run.story.title)}: {markdown_text(entry.called)}\n")
        parts.append("\n".join(markdown_text(sentence) for sentence in entry.sentences) + "\n")
        folder = f"runs/{entry.name}"
        links = (("Table", TABLE), ("Leaderboard as CSV", LEADERBOARD), ("Everything as JSON", ALL), ("Page", REPORT))
        parts.append("\n".join(f"- [{words}]({folder}/{name})" for words, name in links) + "\n")
    return "\n".join(parts)


def index(entries: Sequence[Entry]) -> str:
    """The page over all runs."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        groups.setdefault(entry.run.story.title, []).append(
            {
                "called": one_line(entry.called), "name": entry.name, "first": entry.first,
                "sentences": entry.sentences[1:], "dataset": entry.run.story.dataset,
                "created": entry.run.manifest["created"][:10],
                "models": list(entry.run.manifest["models"]),
            }
        )  # fmt: skip
    return (
        templates()
        .get_template("site.html.j2")
        .render(
            groups=groups, report=REPORT, table=TABLE, csv=LEADERBOARD, all=ALL, plain=PLAIN, style=static("report.css")
        )
    )


def as_bytes(text: str) -> bytes:
    """As the file has it; what is no character at all was made visible before, or is escaped in JSON."""
    return text.encode("utf-8", "backslashreplace")


def write(place: Path, path: str, content: bytes) -> None:
    write_whole(place / path, lambda temporary: temporary.write_bytes(content))

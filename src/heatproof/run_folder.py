"""What lies where in a run's folder, read and written whole.

run.json              everything needed to repeat the run and to read its results
scores/E/C.parquet    the rows of explainer E on chunk C
heatmaps/E/C.npz      those of its heatmaps that are kept: all as `relevance`, or a sample as `heat`, channels added up
failures/E/C.json     why there are none
parts.jsonl           a line for each part: its checksum, and the machine it was made on
heatmaps/examples.npz inputs and masks of the cases that the page shows; examples.parquet their scores
summary.parquet       rows that need the whole data set
verdict.json          what the scores say of the explainers, from tests over all pairs to sentences
leaderboard.csv, statistics.csv, leaderboard.md, report.html, sections/NAME/
"""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from heatproof.arrays import npz, read_arrays, write_arrays
from heatproof.cases import Chunk
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.workspace import writable, write_whole

FORMAT = 4
"""Raised when a folder changes so that older readers would misread it."""
MANIFEST, LEDGER = "run.json", "parts.jsonl"
SUMMARY, LEADERBOARD, STATISTICS = "summary.parquet", "leaderboard.csv", "statistics.csv"
VERDICT, TABLE, REPORT = "verdict.json", "leaderboard.md", "report.html"
HEATMAPS, HEAT = "heatmaps", "heat"
PARTS = ("scores", "failures", HEATMAPS, "sections")
"""Folders with what belongs to explainers."""
RESULTS = (LEDGER, SUMMARY, LEADERBOARD, STATISTICS, VERDICT, TABLE, REPORT)
"""Files that are made from the parts, and their list."""
Arrays = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class ScoreRows:
    """The rows of several Parquet files, in their order. Iterating gives one frame per file, read when it is asked."""

    paths: Sequence[Path]
    read: Callable[[Path], pl.DataFrame]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return (self.read(path) for path in self.paths)

    def where(self, condition: pl.Expr) -> pl.DataFrame:
        """The rows that meet the condition; only these are held at once."""
        found = [rows for part in self if len(rows := part.filter(condition))]
        if found:
            return pl.concat(found, how="diagonal")
        return self.read(self.paths[0]).clear() if self.paths else pl.DataFrame()


class RunFolder:
    """A run's folder. One process at a time writes; any number may read."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def path(self, *parts: str) -> Path:
        return self.folder.joinpath(*parts)

    @property
    def has_run(self) -> bool:
        return self.path(MANIFEST).exists()

    def check_writable(self) -> None:
        """Find out before any long work whether the folder can be made and written to."""
        if self.folder.exists() and not self.folder.is_dir():
            raise HeatproofError(f"{self.folder} is a file; give the run a folder with --out.")
        write_whole(self.path(".writable"), lambda temporary: temporary.touch())
        self.path(".writable").unlink(missing_ok=True)
        if not self.has_run and any(self.folder.iterdir()):
            raise HeatproofError(f"{self.folder} is not empty and holds no run; choose a new folder with --out.")

    # run.json

    def manifest(self) -> dict[str, Any]:
        if not self.path(MANIFEST).is_file():
            raise HeatproofError(f"{self.folder} holds no run: there is no {MANIFEST} in it.")
        manifest: Any = self.read_json(self.path(MANIFEST))
        if not isinstance(manifest, dict) or not {"configuration", "explainers"} <= set(manifest):
            raise HeatproofError(f"{self.path(MANIFEST)} is not that of a run; choose another folder, or delete it.")
        if manifest.get("format") != FORMAT:
            age = "a newer" if isinstance(manifest.get("format"), int) and manifest["format"] > FORMAT else "an older"
            raise HeatproofError(
                f"{self.folder} was made by {age} version of heatproof"
                f" ({manifest['configuration'].get('heatproof', 'unknown')}), whose folders have another format. Its"
                f" {LEADERBOARD} and {REPORT} are still good to read; to go on, give another folder with --out, or redo"
                " it with --no-resume."
            )
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        self.write_json(self.path(MANIFEST), manifest)

    # parts

    def part(self, explainer: str, chunk: Chunk) -> Path:
        return self.path("scores", explainer, f"{chunk.stem}.parquet")

    def kept(self, explainer: str, chunk: Chunk) -> Path:
        return self.path(HEATMAPS, explainer, f"{chunk.stem}.npz")

    def failure(self, explainer: str, chunk: Chunk) -> Path:
        return self.path("failures", explainer, f"{chunk.stem}.json")

    @cached_property
    def ledger(self) -> dict[str, dict[str, Any]]:
        """The lines of parts.jsonl by the part's path in the folder; a line that was cut off does not count."""
        found: dict[str, dict[str, Any]] = {}
        if self.path(LEDGER).is_file():
            for line in self.path(LEDGER).read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    found[entry["part"]] = entry
                except (ValueError, KeyError, TypeError):
                    continue
        return found

    def has(self, explainer: str, chunk: Chunk) -> bool:
        """Whether the rows, and the heatmaps kept with them, are on disk as they were written."""
        paths = [self.part(explainer, chunk)]
        paths += [kept] if self.name(kept := self.kept(explainer, chunk)) in self.ledger else []
        return all(self.is_as_written(path) for path in paths)

    def is_as_written(self, path: Path) -> bool:
        entry = self.ledger.get(self.name(path))
        return entry is not None and path.is_file() and checksum(path.read_bytes()) == entry["sha256"]

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def write_part(self, explainer: str, chunk: Chunk, rows: pl.DataFrame, heatmaps: Arrays, machine: str) -> None:
        """Store a unit's rows, and its heatmaps if there are any; what failed before is forgotten."""
        if len(heatmaps["ids"]):
            self.store(self.kept(explainer, chunk), npz(heatmaps, compressed=True), machine)
        self.store(self.part(explainer, chunk), parquet(rows), machine)
        self.failure(explainer, chunk).unlink(missing_ok=True)

    def store(self, path: Path, content: bytes, machine: str) -> None:
        """Write a part, then its line; a part without a line does not count."""
        write_whole(path, lambda temporary: temporary.write_bytes(content))
        entry = {"part": self.name(path), "sha256": checksum(content), "machine": machine}
        with writable(self.path(LEDGER)), self.path(LEDGER).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.ledger[entry["part"]] = entry

    def write_failure(self, explainer: str, chunk: Chunk, content: Mapping[str, Any]) -> None:
        """Leave word of why a unit has no part."""
        self.write_json(self.failure(explainer, chunk), content)

    def failures(self) -> list[dict[str, Any]]:
        return [self.read_json(path) for path in sorted(self.path("failures").glob("*/*.json"))]

    def scores(self, explainers: Iterable[str]) -> ScoreRows:
        """All rows of the parts of these explainers, in the order of explainer and chunk.

        Of a run that stopped once it was settled, those of the chunks that it counts.
        """
        counted = self.counted()
        return ScoreRows(
            [
                path
                for name in explainers
                for path in sorted(self.path("scores", name).glob("*.parquet"))
                if counted is None or path.stem in counted
            ],
            self.read_part,
        )

    def counted(self) -> dict[str, str] | None:
        """The chunks that a run which stopped early counts, by stem, each with what it was drawn as; None: all."""
        found: dict[str, str] | None = (self.manifest().get("settled") or {}).get("chunks")
        return found

    def read_part(self, path: Path) -> pl.DataFrame:
        """The rows of a Parquet file; one that is not what was written is an error that names it."""
        try:
            content = path.read_bytes()
            entry = self.ledger.get(self.name(path))
            if entry is not None and checksum(content) != entry["sha256"]:
                raise HeatproofError(f"{path} is damaged (its checksum differs); run again to compute it anew.")
            return pl.read_parquet(BytesIO(content))
        except (pl.exceptions.PolarsError, OSError) as problem:
            raise HeatproofError(f"{path} is damaged ({problem}); run again to compute it anew.") from problem

    def forget(self, explainers: Iterable[str], model: str | None = None) -> None:
        """Remove what was computed for these explainers, on one model or on all.

        A section is about an explainer on all models, so it goes with any of them.
        """
        for name in explainers:
            for kind in PARTS:
                if model is None or kind == "sections":
                    shutil.rmtree(self.path(kind, name), ignore_errors=True)
                else:
                    for path in self.path(kind, name).glob(f"{glob.escape(model)}.*"):
                        path.unlink()

    def clear(self) -> None:
        """Remove everything that was computed."""
        for name in PARTS:
            shutil.rmtree(self.path(name), ignore_errors=True)
        for name in RESULTS:
            self.path(name).unlink(missing_ok=True)
        self.__dict__.pop("ledger", None)

    # heatmaps and examples

    def heatmaps(self, explainer: str, model: str) -> dict[str, np.ndarray[Any, Any]]:
        """Stored relevance of one explainer on one model, by case id; of a sample with its channels added up."""
        return dict(self.each_heatmap(explainer, model))

    def each_heatmap(self, explainer: str, model: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """The same, case id and relevance, of which a part at a time is held."""
        for path in sorted(self.path(HEATMAPS, explainer).glob(f"{glob.escape(model)}.*.npz")):
            arrays = read_arrays(path)
            yield from zip(arrays["ids"].tolist(), arrays[HEAT if HEAT in arrays else "relevance"], strict=True)

    def write_examples(self, arrays: Arrays, scores: pl.DataFrame) -> None:
        """Inputs, masks and the first scores of the cases that the page shows."""
        write_arrays(self.path(HEATMAPS, "examples.npz"), arrays, compressed=True)
        write_whole(self.path(HEATMAPS, "examples.parquet"), lambda path: path.write_bytes(parquet(scores)))

    def examples(self) -> dict[str, np.ndarray[Any, Any]]:
        path = self.path(HEATMAPS, "examples.npz")
        return read_arrays(path) if path.is_file() else {}

    def example_scores(self) -> pl.DataFrame | None:
        """The score rows of the examples that are shown first; None in a folder that has none."""
        path = self.path(HEATMAPS, "examples.parquet")
        return self.read_part(path) if path.is_file() else None

    # files of each kind

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=2, default=str) + "\n"
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def read_json(self, path: Path) -> Any:
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise HeatproofError(f"{path} is damaged ({problem}); delete it and run again.") from problem


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def parquet(rows: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    rows.write_parquet(buffer)
    return buffer.getvalue()


def default_folder(benchmark: str, preset: str) -> Path:
    """Where a run goes when nobody says where: the same command finds it again."""
    return Path("runs") / f"{benchmark}-{preset}"

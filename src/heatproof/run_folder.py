"""What lies where in a run's folder, read and written whole.

run.json              everything needed to repeat the run and to read its results
scores/E/C.parquet    the rows of explainer E on chunk C
heatmaps/E/C.npz      those of its heatmaps that are kept: all as `relevance`, or a sample as `heat`, channels added up
failures/E/C.json     why there are none
parts.jsonl           which run this is, then a line for each file: its checksum, and the machine a part was made on
heatmaps/examples.npz inputs and masks of the cases that the page shows; examples.parquet their scores
summary.parquet       rows that need the whole data set
verdict.json          what the scores say of the explainers, from tests over all pairs to sentences
leaderboard.csv, statistics.csv, leaderboard.md, report.html, sections/NAME/
README.md, run.schema.json   what all this is, for people and for machines

What is read is compared with what was written: every file that is read has a line in parts.jsonl, but for run.json, and
JSON holds its own checksum.
"""

from __future__ import annotations

import glob
import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from heatproof.arrays import arrays_of, npz
from heatproof.cases import Chunk
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.locks import LOCK, held
from heatproof.seals import AGAIN, SEAL, DamagedError, checksum, parsed, sealed, unsealed
from heatproof.workspace import sweep, writable, write_whole

FORMAT = 5
"""Raised when a folder changes so that older readers would misread it."""
MANIFEST, LEDGER = "run.json", "parts.jsonl"
SUMMARY, LEADERBOARD, STATISTICS = "summary.parquet", "leaderboard.csv", "statistics.csv"
VERDICT, TABLE, REPORT = "verdict.json", "leaderboard.md", "report.html"
SECTION = "section.json"
README, SCHEMA = "README.md", "run.schema.json"
HEATMAPS, HEAT = "heatmaps", "heat"
PARTS = ("scores", "failures", HEATMAPS, "sections")
"""Folders with what belongs to explainers."""
RESULTS = (LEDGER, SUMMARY, LEADERBOARD, STATISTICS, VERDICT, TABLE, REPORT, README, SCHEMA)
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

    @property
    def holds_run(self) -> bool:
        """Whether there is anything of a run, though run.json be lost."""
        return self.has_run or self.path(LEDGER).exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """In here this process alone writes to the folder; what killed ones left half done in it is removed.

        Whether the folder can be made and written to is found out before any long work.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise HeatproofError(f"{self.folder} is a file; give the run a folder with --out.")
        with held(self.folder):
            sweep(self.folder)
            write_whole(self.path(".writable"), lambda temporary: temporary.touch())
            self.path(".writable").unlink(missing_ok=True)
            if not self.holds_run and any(path.name != LOCK for path in self.folder.iterdir()):
                raise HeatproofError(f"{self.folder} is not empty and holds no run; choose a new folder with --out.")
            yield

    # run.json

    def manifest(self) -> dict[str, Any]:
        if not self.path(MANIFEST).is_file():
            raise HeatproofError(f"{self.folder} holds no run: there is no {MANIFEST} in it.")
        manifest: Any = parsed(self.path(MANIFEST))
        if not isinstance(manifest, dict) or not {"configuration", "explainers"} <= set(manifest):
            raise DamagedError(f"{self.path(MANIFEST)} is not that of a run, or damaged; {AGAIN}.")
        if manifest.get("format") != FORMAT:
            age = "a newer" if isinstance(manifest.get("format"), int) and manifest["format"] > FORMAT else "an older"
            raise HeatproofError(
                f"{self.folder} was made by {age} version of heatproof"
                f" ({dict(manifest['configuration']).get('heatproof', 'unknown')}), whose folders have another format."
                f" Its {LEADERBOARD} and {REPORT} are still good to read; to go on, give another folder with --out, or"
                " redo it with --no-resume."
            )
        found: dict[str, Any] = unsealed(self.path(MANIFEST), manifest)
        return found

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        write_whole(self.path(MANIFEST), lambda temporary: temporary.write_bytes(sealed(manifest)))

    # parts

    def part(self, explainer: str, chunk: Chunk) -> Path:
        return self.path("scores", explainer, f"{chunk.stem}.parquet")

    def kept(self, explainer: str, chunk: Chunk) -> Path:
        return self.path(HEATMAPS, explainer, f"{chunk.stem}.npz")

    def failure(self, explainer: str, chunk: Chunk) -> Path:
        return self.path("failures", explainer, f"{chunk.stem}.json")

    @cached_property
    def ledger(self) -> dict[str, dict[str, Any]]:
        """The lines of parts.jsonl by the file's path in the folder; a line that was cut off does not count.

        The last line of a file holds. One without a checksum says that the file was removed.
        """
        last = {line["part"]: line for line in self.lines() if isinstance(line.get("part"), str)}
        return {name: line for name, line in last.items() if SEAL in line}

    def lines(self) -> Iterator[dict[str, Any]]:
        if self.path(LEDGER).is_file():
            for line in self.path(LEDGER).read_bytes().splitlines():
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(found, dict):
                    yield found

    @property
    def identity(self) -> str | None:
        """Which run the parts belong to, as `begin` was told; None if that cannot be read."""
        return next((str(line["run"]) for line in self.lines() if "run" in line), None)

    def begin(self, run: str, explainers: Iterable[str]) -> None:
        """Write parts.jsonl anew for what is about to be done: without what cannot be read.

        What these explainers have lost is not missed: it will be made anew.
        """
        mine = {(kind, name) for kind in PARTS for name in explainers}
        kept = [
            line
            for name, line in self.ledger.items()
            if tuple(name.split("/")[:2]) not in mine or self.path(name).is_file()
        ]
        text = "".join(json.dumps(line) + "\n" for line in [{"run": run}, *kept])
        write_whole(self.path(LEDGER), lambda temporary: temporary.write_text(text, encoding="utf-8"))
        self.__dict__.pop("ledger", None)

    def has(self, explainer: str, chunk: Chunk, whole_maps: bool = False) -> bool:
        """Whether the rows, and the heatmaps kept with them, are on disk as they were written.

        With `whole_maps` all heatmaps must be kept, with their channels.
        """
        kept = self.kept(explainer, chunk)
        paths = [self.part(explainer, chunk), *([kept] if whole_maps or self.name(kept) in self.ledger else [])]
        return all(self.is_as_written(path) for path in paths) and not (whole_maps and is_sample(kept))

    def is_as_written(self, path: Path) -> bool:
        try:
            self.read(path)
        except DamagedError:
            return False
        return True

    def is_accounted_for(self, explainer: str, chunk: Chunk) -> bool:
        """Whether the unit has left rows, or why there are none."""
        return self.part(explainer, chunk).is_file() or self.failure(explainer, chunk).is_file()

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def write_part(self, explainer: str, chunk: Chunk, rows: pl.DataFrame, heatmaps: Arrays, machine: str) -> None:
        """Store a unit's rows, and its heatmaps if there are any; what failed before is forgotten."""
        if len(heatmaps["ids"]):
            self.store(self.kept(explainer, chunk), npz(heatmaps, compressed=True), machine)
        self.store(self.part(explainer, chunk), parquet(rows), machine)
        failure = self.failure(explainer, chunk)
        failure.unlink(missing_ok=True)
        if self.name(failure) in self.ledger:
            self.note(failure, None)

    def store(self, path: Path, content: bytes, machine: str | None = None) -> None:
        """Write a file, then its line; a part without a line does not count."""
        if not self.has_run:
            raise HeatproofError(
                f"{self.path(MANIFEST)} is gone while the run writes to it: was the folder removed or moved? What is"
                " there is as it was; move it back, or run again."
            )
        write_whole(path, lambda temporary: temporary.write_bytes(content))
        self.note(path, content, machine)

    def note(self, path: Path, content: bytes | None, machine: str | None = None) -> None:
        """Add the line of a file that holds this content, or that is removed."""
        name, seal = self.name(path), None if content is None else checksum(content)
        line = {key: told for key, told in (("part", name), (SEAL, seal), ("machine", machine)) if told is not None}
        with writable(self.path(LEDGER)), self.path(LEDGER).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.ledger.pop(name, None)
        if content is not None:
            self.ledger[name] = line

    def read(self, path: Path) -> bytes:
        """The content of a file as it was written; one that is not is an error that names it."""
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise DamagedError(f"{path} cannot be read ({problem.strerror or problem}); {AGAIN}.") from problem
        if self.known(path) != checksum(content):
            self.__dict__.pop("ledger", None)  # a run that goes on may have written both
            if self.known(path) is None:
                raise DamagedError(f"{path} has no line in {LEDGER} that says how it was written; {AGAIN}.")
            if self.known(path) != checksum(content):
                raise DamagedError(f"{path} is damaged (its checksum differs); {AGAIN}.")
        return content

    def known(self, path: Path) -> str | None:
        return self.ledger.get(self.name(path), {}).get(SEAL)

    def write_failure(self, explainer: str, chunk: Chunk, content: Mapping[str, Any]) -> None:
        """Leave word of why a unit has no part."""
        self.store(self.failure(explainer, chunk), sealed(content))

    def failures(self) -> list[dict[str, Any]]:
        known = [self.path(name) for name in self.ledger if name.startswith("failures/")]
        return [self.read_json(path) for path in sorted({*known, *self.path("failures").glob("*/*.json")})]

    def scores(self, explainers: Iterable[str]) -> ScoreRows:
        """All rows of the parts of these explainers, in the order of explainer and chunk.

        Of a run that stopped once it was settled, those of the chunks that it counts.
        """
        counted = self.counted()
        return ScoreRows(
            [
                path
                for name in explainers
                for path in self.listed("scores", name, ".parquet")
                if counted is None or path.stem in counted
            ],
            self.read_part,
        )

    def listed(self, kind: str, explainer: str, suffix: str) -> list[Path]:
        """The files of an explainer that are there, or should be."""
        start = f"{kind}/{explainer}/"
        named = [name for name in self.ledger if name.startswith(start) and name.endswith(suffix)]
        known = [self.path(name) for name in named if not self.is_removed(name)]
        return sorted({*known, *self.path(kind, explainer).glob(f"*{suffix}")})

    def counted(self) -> dict[str, str] | None:
        """The chunks that a run which stopped early counts, by stem, each with what it was drawn as; None: all."""
        found: dict[str, str] | None = (self.manifest().get("settled") or {}).get("chunks")
        return found

    def read_part(self, path: Path) -> pl.DataFrame:
        """The rows of a Parquet file; one that is not what was written is an error that names it."""
        return pl.read_parquet(BytesIO(self.read(path)))

    def forget(self, explainers: Iterable[str], model: str | None = None) -> None:
        """Remove what was computed for these explainers, on one model or on all.

        A section is about an explainer on all models, so it goes with any of them.
        """
        explainers = list(explainers)
        for name in explainers:
            for kind in PARTS:
                if model is None or kind == "sections":
                    shutil.rmtree(self.path(kind, name), ignore_errors=True)
                else:
                    for path in self.path(kind, name).glob(f"{glob.escape(model)}.*"):
                        path.unlink()
        if explainers:
            self.begin(self.identity or "", explainers)

    def sections(self) -> list[Path]:
        """The section.json of every section that is there, or should be."""
        known = [
            self.path(name) for name in self.ledger if name.startswith("sections/") and name.endswith(f"/{SECTION}")
        ]
        return sorted({*known, *self.path("sections").glob(f"*/{SECTION}")})

    def enter_section(self, name: str) -> None:
        """Lines for all that lies in a section's folder now; what lay there before and is gone is not missed."""
        place = self.path("sections", name)
        there = [path for path in sorted(place.rglob("*")) if path.is_file()]
        for path in self.section_files(name):
            if path not in there:
                self.note(path, None)
        for path in there:
            self.note(path, path.read_bytes())

    def section_files(self, name: str) -> list[Path]:
        """What should lie in a section's folder."""
        return [self.path(line) for line in self.ledger if line.startswith(f"sections/{name}/")]

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
        for path in self.listed(HEATMAPS, explainer, ".npz"):
            if path.stem.rpartition(".")[0] == model:
                arrays = self.read_arrays(path)
                yield from zip(arrays["ids"].tolist(), arrays[HEAT if HEAT in arrays else "relevance"], strict=True)

    def read_arrays(self, path: Path) -> dict[str, np.ndarray[Any, Any]]:
        return arrays_of(self.read(path), path)

    def write_examples(self, arrays: Arrays, scores: pl.DataFrame) -> None:
        """Inputs, masks and the first scores of the cases that the page shows."""
        self.store(self.path(HEATMAPS, "examples.npz"), npz(arrays, compressed=True))
        self.store(self.path(HEATMAPS, "examples.parquet"), parquet(scores))

    def examples(self) -> dict[str, np.ndarray[Any, Any]]:
        path = self.path(HEATMAPS, "examples.npz")
        return self.read_arrays(path) if self.has_file(path) else {}

    def example_scores(self) -> pl.DataFrame | None:
        """The score rows of the examples that are shown first; None in a folder that has none."""
        path = self.path(HEATMAPS, "examples.parquet")
        return self.read_part(path) if self.has_file(path) else None

    def has_file(self, path: Path) -> bool:
        """Whether a file is there, or should be."""
        return path.is_file() or (self.name(path) in self.ledger and not self.is_removed(self.name(path)))

    def is_removed(self, name: str) -> bool:
        """Whether a file is gone because somebody removed all heatmaps, which nothing but pictures hangs on."""
        return name.startswith(f"{HEATMAPS}/") and not self.path(HEATMAPS).exists()

    # files of each kind

    def read_json(self, path: Path) -> Any:
        return unsealed(path, parsed(path))


def is_sample(path: Path) -> bool:
    """Whether kept heatmaps are a sample for the page."""
    with zipfile.ZipFile(path) as archive:
        return f"{HEAT}.npy" in archive.namelist()


def parquet(rows: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    rows.write_parquet(buffer)
    return buffer.getvalue()


def default_folder(benchmark: str, preset: str) -> Path:
    """Where a run goes when nobody says where: the same command finds it again."""
    return Path("runs") / f"{benchmark}-{preset}"

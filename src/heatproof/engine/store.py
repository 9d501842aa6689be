"""Parts on disk: what is computed stays computed, and a part that exists is whole."""

from __future__ import annotations

import glob
import json
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heatproof.engine.parts import ScoreRows
from heatproof.engine.plan import Unit
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.workspace import write_whole

SUMMARY = "summary.parquet"
LEADERBOARD = "leaderboard.csv"
STATISTICS = "statistics.csv"
PARTS = ("scores", "failures", "heatmaps", "bias")
"""Folders with a folder for each explainer."""
RESULTS = (SUMMARY, LEADERBOARD, STATISTICS, "leaderboard.md", "report.html")
"""What is made from the parts when a run ends."""


class Store:
    """The run folder's machine-readable half: run.json, scores/, failures/, heatmaps/."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def manifest_path(self) -> Path:
        return self.folder / "run.json"

    def part_path(self, unit: Unit) -> Path:
        return self.folder / "scores" / unit.folder / f"{unit.chunk.stem}.parquet"

    def failure_path(self, unit: Unit) -> Path:
        return self.folder / "failures" / unit.folder / f"{unit.chunk.stem}.json"

    def heatmap_path(self, unit: Unit) -> Path:
        return self.folder / "heatmaps" / unit.folder / f"{unit.chunk.stem}.npz"

    def check_writable(self) -> None:
        """Find out before any long work whether the folder can be made and written to."""
        if self.folder.exists() and not self.folder.is_dir():
            raise HeatproofError(f"{self.folder} is a file; give the run a folder with --out.")
        write_whole(self.folder / ".writable", lambda temporary: temporary.touch())
        (self.folder / ".writable").unlink(missing_ok=True)

    def open(self, manifest: Mapping[str, Any], resume: bool) -> None:
        """Make the folder ready for a run: a new one, one to go on with, or (without `resume`) one to redo.

        A folder whose run had another configuration is an error that says what differs; nothing in it is touched.
        An explainer whose code has changed since loses its old parts, and only it.
        """
        if self.manifest_path.exists() and not resume:
            for name in PARTS:
                shutil.rmtree(self.folder / name, ignore_errors=True)
            for name in RESULTS:
                (self.folder / name).unlink(missing_ok=True)
        elif self.manifest_path.exists():
            old = self.manifest()
            differing = differences(old["configuration"], manifest["configuration"])
            if differing:
                raise HeatproofError(
                    f"{self.folder} holds a run of another configuration:\n  "
                    + "\n  ".join(differing)
                    + "\nGive this run another folder with --out, or redo that one with --no-resume."
                )
            for folder in changed_explainers(old["explainers"], manifest["explainers"]):
                for name in PARTS:
                    shutil.rmtree(self.folder / name / folder, ignore_errors=True)
            manifest = merged(old, manifest)
        elif self.folder.is_dir() and any(self.folder.iterdir()):
            raise HeatproofError(f"{self.folder} is not empty and holds no run; choose a new folder with --out.")
        self.write_json(self.manifest_path, manifest)

    def manifest(self) -> dict[str, Any]:
        """run.json."""
        if not self.manifest_path.is_file():
            raise HeatproofError(f"{self.folder} holds no run: there is no {self.manifest_path.name} in it.")
        manifest: Any = self.read_json(self.manifest_path)
        if not isinstance(manifest, dict) or not {"configuration", "explainers", "metrics"} <= set(manifest):
            raise HeatproofError(f"{self.manifest_path} is not that of a run; choose another folder, or delete it.")
        return manifest

    def missing(self, units: Iterable[Unit]) -> list[Unit]:
        """The units that have no part yet, or one that is damaged."""
        return [unit for unit in units if not self.has(unit)]

    def has(self, unit: Unit) -> bool:
        """Whether the unit's part, and the heatmaps beside it if there are any, are on disk and whole."""
        heatmaps = self.heatmap_path(unit)
        return ends_with(self.part_path(unit), b"PAR1") and (not heatmaps.exists() or zipfile.is_zipfile(heatmaps))

    def write_part(self, unit: Unit, rows: pl.DataFrame) -> None:
        write_whole(self.part_path(unit), rows.write_parquet)
        self.failure_path(unit).unlink(missing_ok=True)

    def write_failure(self, unit: Unit, message: str, details: str) -> None:
        """Leave word of why a unit has no part."""
        failure = {
            "explainer": unit.explainer.label,
            "target": unit.target,
            "model": unit.chunk.model,
            "chunk": unit.chunk.stem,
            "cases": unit.chunk.cases,
            "message": message,
            "details": details,
        }
        self.write_json(self.failure_path(unit), failure)

    def failures(self) -> list[dict[str, Any]]:
        return [self.read_json(path) for path in sorted((self.folder / "failures").glob("*/*.json"))]

    def scores(self, folders: Iterable[str]) -> ScoreRows:
        """All rows of the parts of these explainers, in the order of explainer and chunk."""
        return ScoreRows(
            [path for folder in folders for path in sorted((self.folder / "scores" / folder).glob("*.parquet"))]
        )

    def write_heatmaps(self, unit: Unit, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.write_arrays(self.heatmap_path(unit), arrays)

    def heatmaps(self, folder: str, model: str) -> dict[str, np.ndarray[Any, Any]]:
        """Stored relevance of one explainer on one model, by case id."""
        found: dict[str, np.ndarray[Any, Any]] = {}
        for path in sorted((self.folder / "heatmaps" / folder).glob(f"{glob.escape(model)}.*.npz")):
            arrays = self.read_arrays(path)
            found |= dict(zip(arrays["ids"].tolist(), arrays["relevance"], strict=True))
        return found

    def write_examples(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Inputs and masks of the cases that the page shows."""
        self.write_arrays(self.folder / "heatmaps" / "examples.npz", arrays)

    def examples(self) -> dict[str, np.ndarray[Any, Any]]:
        path = self.folder / "heatmaps" / "examples.npz"
        if not path.is_file():
            return {}
        return self.read_arrays(path)

    def read_arrays(self, path: Path) -> dict[str, np.ndarray[Any, Any]]:
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
            raise HeatproofError(f"{path} is damaged ({problem}); delete it and run again.") from problem

    def write_arrays(self, path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:  # a file object, because savez appends .npz to names
                np.savez_compressed(file, allow_pickle=False, **arrays)

        write_whole(path, write)

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=2, default=str) + "\n"
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def read_json(self, path: Path) -> Any:
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise HeatproofError(f"{path} is damaged ({problem}); delete it and run again.") from problem


def default_folder(benchmark: str, preset: str) -> Path:
    """Where a run goes when nobody says where: the same command finds it again."""
    return Path("runs") / f"{benchmark}-{preset}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per setting that differs."""
    new = json.loads(json.dumps(new, default=str))
    return [
        f"{name}: {old.get(name)!r} there, {new.get(name)!r} now"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def changed_explainers(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[str]:
    """The folders of explainers whose code is not that of the stored parts, or cannot be told to be."""
    sources = {entry["folder"]: entry.get("source") for entry in old}
    return [
        entry["folder"]
        for entry in new
        if entry["folder"] in sources and (sources[entry["folder"]] != entry["source"] or entry["source"] == "unknown")
    ]


def ends_with(path: Path, mark: bytes) -> bool:
    """Whether the file exists and ends with the mark of its format, which a truncated one does not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - len(mark)))
        return file.read() == mark


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a run that goes on, perhaps with more explainers than before."""
    explainers = {entry["folder"]: entry for entry in [*old["explainers"], *new["explainers"]]}
    return {**new, "created": old["created"], "explainers": list(explainers.values())}

"""Heatmaps that a run has kept, to be scored again: `heatproof evaluate RUN`. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.heatmap_files import Heatmaps, open_heatmaps
from heatproof.lazy import pl
from heatproof.run_folder import HEATMAPS, RunFolder


@dataclass(frozen=True, eq=False)
class KeptRun:
    """Some explainers of a run, by their entries in run.json, and the heatmaps of each, by its folder."""

    files: RunFolder
    manifest: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    heatmaps: Mapping[str, Heatmaps]

    @property
    def benchmark(self) -> str:
        return str(self.manifest["configuration"]["benchmark"])

    @property
    def seed(self) -> int:
        return int(self.manifest["configuration"]["seed"])

    @property
    def is_whole(self) -> bool:
        """Whether it is the run with all its explainers."""
        return len(self.entries) == len(self.manifest["explainers"])

    @property
    def together(self) -> Heatmaps:
        """The heatmaps of all explainers as one: names that any of them has, and a stamp that changes with each."""
        names = dict.fromkeys(name for heatmaps in self.heatmaps.values() for name in heatmaps.names)
        first = next(iter(self.heatmaps.values()))
        stamps = " ".join(heatmaps.stamp for heatmaps in self.heatmaps.values())
        return replace(first, source=self.files.folder, names=tuple(names), stamp=stamps)

    def only(self, entries: Sequence[Mapping[str, Any]]) -> KeptRun:
        """Some of the explainers."""
        return replace(self, entries=entries, heatmaps={e["folder"]: self.heatmaps[e["folder"]] for e in entries})

    def called(self, name: str) -> KeptRun:
        """The same with another name in the tables, which only one explainer can have."""
        if len(self.entries) > 1:
            raise HeatproofError(
                f"{self.files.folder} has heatmaps of {len(self.entries)} explainers, which --name cannot all have;"
                f" give one of them: {self.files.path(HEATMAPS, self.entries[0]['folder'])}."
            )
        return replace(self, entries=[{**self.entries[0], "explainer": name, "name": name, "short": name}])

    def require_as_written(self) -> None:
        """An error that names a file of heatmaps which is not what the run has written."""
        for entry in self.entries:
            for path in self.files.listed(HEATMAPS, entry["folder"], ".npz"):
                self.files.read(path)

    def facts(self, columns: Sequence[str]) -> pl.DataFrame:
        """What the run's score rows say of each case that has a heatmap: `case`, and those of the columns there are.

        An explainer whose heatmaps were not all kept is an error.
        """
        found: list[pl.DataFrame] = []
        for entry in self.entries:
            parts = [
                part.select("case", *(name for name in columns if name in part.columns)).unique(maintain_order=True)
                for part in self.files.scores([entry["folder"]])
            ]
            cases = pl.concat(parts, how="diagonal").drop_nulls().unique("case", maintain_order=True)
            kept = set(self.heatmaps[entry["folder"]].names)
            if missing := len(set(cases["case"]) - kept):
                raise HeatproofError(
                    f"{self.files.folder} has kept {len(kept):,} of the {missing + len(kept):,} heatmaps of"
                    f" {entry['explainer']}: a run stores those of its page only. Make it again with"
                    " --keep-heatmaps --no-resume."
                )
            found.append(cases)
        return pl.concat(found, how="diagonal").unique("case", maintain_order=True)


def find_kept(path: Path) -> KeptRun | None:
    """The run whose heatmaps a path names: RUN, RUN/heatmaps, or RUN/heatmaps/EXPLAINER for one explainer's.

    None if it names no run; then it is heatmaps by themselves.
    """
    place = path.resolve()
    if RunFolder(place).has_run:
        files, wanted = RunFolder(path), None
    elif place.name == HEATMAPS and RunFolder(place.parent).has_run:
        files, wanted = RunFolder(path.parent), None
    elif place.parent.name == HEATMAPS and place.is_dir() and RunFolder(place.parent.parent).has_run:
        files, wanted = RunFolder(place.parent.parent), place.name
    else:
        return None
    manifest = files.manifest()
    entries = [entry for entry in manifest["explainers"] if wanted in (None, entry["folder"])]
    there = [entry for entry in entries if files.path(HEATMAPS, entry["folder"]).is_dir()]
    if not there:
        named = ", ".join(entry["folder"] for entry in manifest["explainers"])
        raise HeatproofError(
            f"{path} holds no heatmaps of a run's explainers. Make the run with --keep-heatmaps; it explained with:"
            f" {named}."
        )
    if len(manifest["models"]) > 1:
        raise HeatproofError(
            f"{files.folder} explains {len(manifest['models'])} models; heatmaps of one at a time can be scored again."
        )
    heatmaps = {entry["folder"]: open_heatmaps(files.path(HEATMAPS, entry["folder"])) for entry in there}
    return KeptRun(files, manifest, there, heatmaps)

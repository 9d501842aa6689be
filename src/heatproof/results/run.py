"""A finished (or interrupted) run, read from its folder; needs no torch, and nothing of what made it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.lazy import pl
from heatproof.results.leaderboard import read_leaderboard
from heatproof.run_folder import LEADERBOARD, SUMMARY, RunFolder, ScoreRows
from heatproof.story import Story, read_story


class Results:
    """The results of one run. Everything is read from the folder, so a run of last year opens like today's."""

    def __init__(self, folder: Path | str, leaderboard: pl.DataFrame | None = None) -> None:
        self.folder = Path(folder)
        self.files = RunFolder(self.folder)
        self.manifest: dict[str, Any] = self.files.manifest()
        if leaderboard is not None:  # just made, so that its file need not be read
            self._leaderboard = leaderboard

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    @cached_property
    def story(self) -> Story:
        """What a reader needs to know beside the numbers."""
        return read_story(self.manifest["story"])

    @cached_property
    def short(self) -> dict[str, str]:
        """A short name of each explainer that is unique within the run, by its full specification."""
        return {entry["explainer"]: entry["short"] for entry in self.manifest["explainers"]}

    @cached_property
    def layers(self) -> dict[str, dict[str, str]]:
        """The layer that each explainer read in each model, by its full specification; of those that read one."""
        return {entry["explainer"]: entry["layers"] for entry in self.manifest["explainers"] if "layers" in entry}

    @cached_property
    def _leaderboard(self) -> pl.DataFrame:
        path = self.folder / LEADERBOARD
        if not path.is_file():
            raise HeatproofError(
                f"{self.folder} has no {LEADERBOARD} yet: the run was interrupted. Run it again to go on."
            )
        return read_leaderboard(path)

    def leaderboard(self) -> pl.DataFrame:
        """One line per model, target, explainer, metric, ground truth and pooling; scores are fractions."""
        return self._leaderboard

    def score_rows(self) -> ScoreRows:
        """The files of all scores, to be read one after the other: for runs that do not fit into memory."""
        parts = self.files.scores(entry["folder"] for entry in self.manifest["explainers"])
        summary = self.folder / SUMMARY
        return ScoreRows([*parts.paths, *([summary] if summary.is_file() else [])], parts.read)

    def scores(self) -> pl.DataFrame:
        """Every score: one row per case, metric and variant, with the facts of the case."""
        return self.score_rows().where(pl.lit(True))

    def failures(self) -> list[dict[str, Any]]:
        """Units that failed, each with its explainer, chunk, message and traceback."""
        return self.files.failures()

"""A finished (or interrupted) run, read from its folder; needs no torch, and nothing of what made it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.harmless import spreadsheet
from heatproof.lazy import pl
from heatproof.results.leaderboard import read_leaderboard, read_statistics
from heatproof.results.verdict import Verdict, read_verdict
from heatproof.run_folder import LEADERBOARD, STATISTICS, SUMMARY, VERDICT, RunFolder, ScoreRows
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
        table = read_leaderboard(self.files.read(path), path)
        names = [*self.short, *self.manifest["models"]]
        changed = {spreadsheet(name): name for name in names if spreadsheet(name) != name}
        return table.with_columns(pl.col("explainer", "model").replace(changed)) if changed else table

    def leaderboard(self) -> pl.DataFrame:
        """One line per model, target, explainer, metric, ground truth and pooling; scores are fractions."""
        return self._leaderboard

    def statistics(self) -> pl.DataFrame:
        """Percentiles and their intervals, a line for each of the leaderboard's; empty in a run that has none."""
        path = self.folder / STATISTICS
        return read_statistics(self.files.read(path)) if self.files.has_file(path) else pl.DataFrame()

    def score_rows(self) -> ScoreRows:
        """The files of all scores, to be read one after the other: for runs that do not fit into memory."""
        parts = self.files.scores(entry["folder"] for entry in self.manifest["explainers"])
        summary = self.folder / SUMMARY
        return ScoreRows([*parts.paths, *([summary] if self.files.has_file(summary) else [])], parts.read)

    def scores(self) -> pl.DataFrame:
        """Every score: one row per case, metric and variant, with the facts of the case."""
        return self.score_rows().where(pl.lit(True))

    def failures(self) -> list[dict[str, Any]]:
        """Units that failed, each with its explainer, chunk, message and traceback."""
        return self.files.failures()

    def require_verdict(self) -> None:
        """An error for a run that has none, where what is said of it would lack it."""
        if not self.files.path(VERDICT).is_file():
            raise HeatproofError(
                f"{self.folder} has no {VERDICT}: it was interrupted, or made by an older version. Run it again; what"
                " it has is not computed anew."
            )

    @cached_property
    def verdict(self) -> Verdict:
        """Who leads, who cannot be told apart, against floors, by cost, and how surely: see docs/verdict.md."""
        self.require_verdict()
        return read_verdict(self.files.read_json(self.files.path(VERDICT)))

"""A finished (or interrupted) run, read from its folder."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from heatproof.engine.parts import ScoreRows
from heatproof.engine.store import LEADERBOARD, SUMMARY, Store
from heatproof.errors import HeatproofError
from heatproof.lazy import pl
from heatproof.results.leaderboard import read_leaderboard


class Run:
    """The results of one run. Everything is read from the folder, so a run of last year opens like today's."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.store = Store(self.folder)
        self.manifest: dict[str, Any] = self.store.manifest()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

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
        parts = self.store.scores(entry["folder"] for entry in self.manifest["explainers"])
        summary = self.folder / SUMMARY
        return ScoreRows([*parts.paths, *([summary] if summary.is_file() else [])])

    def scores(self) -> pl.DataFrame:
        """Every score: one row per case, metric and variant, with the facts of the case."""
        return self.score_rows().where(pl.lit(True))

    def failures(self) -> list[dict[str, Any]]:
        """Units that failed, each with its explainer, chunk, message and traceback."""
        return self.store.failures()

    def report(self) -> Path:
        """Write the page again from the folder's files, and return its path."""
        from heatproof.report.page import write_report

        return write_report(self)

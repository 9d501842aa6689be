"""What several runs say, side by side: one line each, before the sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.results.sentences import duration, listed, percent

if TYPE_CHECKING:
    from heatproof.results.run import Results

HEADS = ("", "trust first", "score", "best floor", "cost, CPU time per case", "failed checks")


@dataclass(frozen=True)
class Glimpse:
    """A run by its name; `cells` stand under HEADS from the second one on."""

    called: str
    cells: tuple[str, ...]


def overview(runs: Mapping[str, Results]) -> Iterator[Glimpse]:
    """A line for each run that has a verdict: trusted first is who leads, or is level with it, and beats the floors."""
    for called, run in runs.items():
        judged = next(iter(run.verdict.contests), None)
        if judged is None:
            continue
        trusted = [entrant for entrant in judged.leading if not entrant.no_better_than]
        first = (trusted or judged.methods)[0]
        floor = next((entrant for entrant in judged.entrants if entrant.family == "floor"), None)
        failed = sum(check.passed is False for check in run.verdict.checks)
        yield Glimpse(
            called,
            (
                listed([entrant.short for entrant in trusted]) if trusted else "none yet",
                f"{run.story.metric[judged.metric].title} {percent(first.mean)} ({first.short})",
                f"{percent(floor.mean)} ({floor.short})" if floor else "not run",
                duration(first.seconds) if first.seconds else "not measured",
                f"{failed} of {len(run.verdict.checks)}",
            ),
        )

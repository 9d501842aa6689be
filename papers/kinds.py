"""What a line of the map is, and the commands that its figures come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from heatproof.benchmarks.references import read_reference

MEASURED = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Done:
    """What commands made: a folder for each by its name, and what it printed."""

    folder: Path
    printed: Mapping[str, str]

    def place(self, name: str) -> Path:
        return self.folder / name

    def board(self, name: str, **chosen: str) -> pl.DataFrame:
        """Lines of a run's leaderboard over all cases, or the subset that is named."""
        table = pl.read_csv(self.place(name) / "leaderboard.csv").with_columns(pl.col(pl.String).fill_null(""))
        return table.filter(**({"subset": "all"} | chosen))

    def mean(self, name: str, explainer: str, metric: str, **chosen: str) -> float:
        """A mean in a run's leaderboard; the explainer is named without its parameters (the paper's first)."""
        lines = self.board(name, metric=metric, **chosen)
        lines = lines.filter(pl.col("explainer").str.split(":").list.first() == explainer)
        published = pl.any_horizontal(pl.col("reference", "reference_elsewhere").is_not_null())
        return float(lines.sort(published, descending=True, maintain_order=True)["mean"][0])


Reading = Callable[[Done], str]


@dataclass(frozen=True)
class Line:
    """A table, figure, section or claim of a paper.

    command  what does it here, as one would type it
    ours     how the figure is read from what `make papers` ran; or why nothing was run, as a sentence
    """

    place: str
    shows: str
    command: str
    paper: str
    ours: Reading | str


@dataclass(frozen=True)
class Step:
    """A command of `make papers`; {name} stands for the folder of the step of that name, {out} for its own."""

    name: str
    words: str

    @property
    def needs(self) -> list[str]:
        return [name for name in MEASURED.findall(self.words) if name != "out"]


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def published(paper: str, explainer: str, metric: str, **chosen: str) -> float:
    """A number of a paper's table as it is stored for the leaderboards."""
    rows = read_reference(paper).filter(explainer=explainer, metric=metric, **chosen)
    return float(rows["reference"].mean())  # type: ignore[arg-type]

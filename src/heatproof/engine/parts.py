"""Score rows on disk, read a part at a time: a run of any size fits into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heatproof.errors import HeatproofError
from heatproof.lazy import pl


@dataclass(frozen=True)
class ScoreRows:
    """The rows of several Parquet files, in their order. Iterating gives one frame per file."""

    paths: Sequence[Path]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return (read_rows(path) for path in self.paths)

    def where(self, condition: pl.Expr) -> pl.DataFrame:
        """The rows that meet the condition; only these are held at once."""
        found = [rows for part in self if len(rows := part.filter(condition))]
        return pl.concat(found, how="diagonal") if found else self.none()

    def none(self) -> pl.DataFrame:
        """No rows, with the columns of the first file."""
        return next(iter(self)).clear() if self.paths else pl.DataFrame()


def read_rows(path: Path) -> pl.DataFrame:
    """The rows of a Parquet file; a damaged one is named."""
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise HeatproofError(f"{path} is damaged ({problem}); delete it and run again.") from problem

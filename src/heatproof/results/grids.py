"""Means of one metric along one more axis: poolings, ground truths, and parts of the cases, kind by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl

if TYPE_CHECKING:
    from heatproof.results.run import Results

FEWEST = 2
"""Values from which an axis, or a kind of parts, has a table."""


@dataclass(frozen=True)
class GridCell:
    """A mean, with the paper's number where there is one, and how many cases it rests on; all may be missing."""

    mean: float | None = None
    reference: float | None = None
    n: int = 0

    @property
    def text(self) -> str:
        if self.mean is None:
            return "–"
        return f"{100 * self.mean:.1f}" + ("" if self.reference is None else f" ({100 * self.reference:.0f})")


@dataclass(frozen=True)
class Grid:
    """A row per explainer, a column per value of the axis; `metric` is what people call it."""

    metric: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[GridCell, ...]], ...]
    higher_is_better: bool = True

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest mean."""
        means = [one.mean for _, cells in self.rows for one in cells if one.mean is not None]
        return min(means, default=0.0), max(means, default=0.0)

    @cached_property
    def counts(self) -> tuple[int | None, ...]:
        """How many cases the means of each column rest on; None where these differ."""
        found = [{cells[place].n for _, cells in self.rows if cells[place].n} for place in range(len(self.heads))]
        return tuple(counts.pop() if len(counts) == 1 else None for counts in found)

    def shade(self, cell: GridCell) -> float:
        """Where between the worst and the best of the grid a mean lies, from 0 to 1."""
        low, high = self.ends
        if cell.mean is None or low == high:
            return 0.0
        place = (cell.mean - low) / (high - low)
        return place if self.higher_is_better else 1 - place


def grids(run: Results) -> list[Grid]:
    """For each column that the boards show, the tables along the axes that have more than one value."""
    axes = {"pooling": "by pooling", "ground_truth": "by ground truth", "subset": "by"}
    found = []
    table = run.leaderboard()
    for column in run.story.columns:
        here = {**vars(column), "subset": "all"}
        words = run.story.metric[column.metric]
        for axis, by in axes.items():
            fixed = [pl.col(name) == value for name, value in here.items() if name != axis]
            lines = table.filter(pl.all_horizontal(fixed))
            values = lines[axis].unique(maintain_order=True).to_list()
            kept = ", ".join(here[name] for name in axes if name != axis and here[name] not in ("", "all"))
            if axis == "subset":
                whole = f"part of the {run.story.words.cases}"
                tables = [(f"{by} {kind or whole}", members) for kind, members in kinds(values).items()]
            else:
                ordered = sorted(values, key=[*run.story.poolings, *values].index)
                tables = [(by, {value: value for value in ordered})]
            for said, members in tables:
                if len(members) >= FEWEST:
                    rows = grid_rows(run, lines, axis, list(members.values()))
                    title = f"{words.title} {said} ({kept})"
                    found.append(Grid(words.title, title, tuple(members), rows, words.higher_is_better))
    return found


def kinds(subsets: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parts by their kind, `objects:3` is one of `objects`; each has all cases first. Heading to part.

    Parts without a kind stand together.
    """
    found: dict[str, dict[str, str]] = {}
    for subset in subsets:
        kind, colon, value = subset.partition(":")
        if subset != "all":
            found.setdefault(kind if colon else "", {"all": "all"})[value if colon else subset] = subset
    return found


def grid_rows(
    run: Results, lines: pl.DataFrame, axis: str, values: Sequence[str]
) -> tuple[tuple[str, tuple[GridCell, ...]], ...]:
    found = []
    for (explainer,), group in lines.group_by("explainer", maintain_order=True):
        cells: Mapping[str, GridCell] = {
            str(row[axis]): read_cell(row) for row in reversed(group.to_dicts()) if row["mean"] is not None
        }
        name = run.short.get(str(explainer), str(explainer))
        found.append((name, tuple(cells.get(value, GridCell()) for value in values)))
    return tuple(found)


def read_cell(row: Mapping[str, Any]) -> GridCell:
    return GridCell(row["mean"], row["reference"], row["n"])

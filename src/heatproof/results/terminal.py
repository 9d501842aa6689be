"""The boards as tables for a terminal of any width: a narrow one has them in blocks, and nothing is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heatproof.results.tables import Board, Line, boards

if TYPE_CHECKING:
    from rich.console import RenderableType

    from heatproof.results.run import Results

    Column = tuple[str, Callable[[Line], str]]

AROUND = 3
"""Blanks around a column."""
SHARE = 0.5
"""Part of the width that names may take before they go over several lines."""


def terminal(run: Results, width: int, elsewhere: bool = False) -> list[RenderableType]:
    """The boards as tables; where it is narrow, one below the other with a few columns each."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    tables: list[RenderableType] = []
    for board in boards(run):
        longest = max([len(line.short) for line in board.lines] + [len("explainer")])
        names = min(longest, max(len("explainer"), int(SHARE * width)))
        for part, columns in enumerate(that_fit(board, width - names - AROUND, elsewhere)):
            title = escape(board.heading) if part == 0 else None
            table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
            table.add_column("explainer", width=names, overflow="fold")
            roomy = (
                sum(AROUND + max(len(head), widest(board, text)) for head, text in columns) <= width - names - AROUND
            )
            for head, text in columns:
                table.add_column(
                    escape(head),
                    justify="right",
                    style="cyan" if head.startswith("paper") else None,
                    overflow="fold",
                    width=None
                    if roomy
                    else wide(board, (head, text)) - AROUND,  # else numbers are squeezed for headings
                )
            for line in board.lines:
                style = "dim" if line.is_baseline else None
                table.add_row(escape(line.short), *(text(line) for _, text in columns), style=style)
            tables.append(table)
    return tables


def that_fit(board: Board, room: int, elsewhere: bool) -> list[list[Column]]:
    """The board's columns in groups that fit beside the names; a paper's number stays with its metric if it can."""
    groups: list[list[Column]] = [[]]
    used = 0
    for bundle in bundles(board.columns(elsewhere)):
        whole = sum(wide(board, column) for column in bundle)
        for together in [bundle] if whole <= room else [[column] for column in bundle]:
            taken = sum(wide(board, column) for column in together)
            if groups[-1] and used + taken > room:
                groups.append([])
                used = 0
            groups[-1] += together
            used += taken
    return groups


def bundles(columns: Sequence[Column]) -> list[list[Column]]:
    """Columns that belong together: a metric and the paper's numbers behind it."""
    found: list[list[Column]] = []
    for head, text in columns:
        if found and head.startswith("paper"):
            found[-1].append((head, text))
        else:
            found.append([(head, text)])
    return found


def wide(board: Board, column: Column) -> int:
    """What a column takes: a heading may go over two lines, a number may not."""
    head, text = column
    return AROUND + max([*map(len, head.split()), widest(board, text)])


def widest(board: Board, text: Callable[[Line], str]) -> int:
    return max((len(text(line)) for line in board.lines), default=0)

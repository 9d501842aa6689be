"""What commands print: nothing from data acts on a terminal, and a table that is too wide folds into blocks."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from heatproof.harmless import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Cell: TypeAlias = "str | Text"
"""Plain text, or text with a style of its own; markup is not read in either."""
WIDE = 150
"""Columns where output goes to a file."""
NARROW = 24
"""Letters of a name in one line, at least."""
EDGES, BETWEEN = 2, 3
"""Blanks at both ends of a line of a table, and between two columns."""


def say(text: str, style: str = "", err: bool = False) -> None:
    """A line for people, in a style such as bold; nothing in it is markup."""
    if style:
        from rich.text import Text

        console(err).print(Text(visible(text), style), soft_wrap=True)
    else:
        typer.echo(visible(text), err=err)


def console(err: bool = False) -> Console:
    """Where styled text goes, as wide as the terminal; wide where there is none, unless COLUMNS says how wide."""
    from rich.console import Console

    class Terminal(Console):
        """Shows what would otherwise be obeyed."""

        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(visible(text), **how)

    told = err or sys.stdout.isatty() or "COLUMNS" in os.environ
    return Terminal(stderr=err, width=None if told else WIDE)


def show_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell] | None],
    *,
    title: str = "",
    right: Collection[int] = (),
    names: int = 1,
    beside: Collection[int] = (),
    on: Console | None = None,
) -> None:
    """Print a table; where it does not fit, as blocks of some columns each, which all begin with the first `names`.

    No word is broken but in long names, and columns of `right` (numbers) are not wrapped either. A column of `beside`
    stays with the one before it. A row may be short; None is a rule.
    """
    from rich.text import Text

    place = on or console()
    lines = [row if row is None else [*map(as_text, row), *[Text()] * (len(heads) - len(row))] for row in rows]
    columns = [[as_text(head), *(row[number] for row in lines if row is not None)] for number, head in enumerate(heads)]
    natural = [max(map(longest_line, column)) for column in columns]
    least = [
        max([longest_word(column[0]), *map(longest_line if number in right else longest_word, column[1:])])
        for number, column in enumerate(columns)
    ]
    room = place.width - EDGES
    least[0] = width_of_names(natural[0], least, room)
    for number, block in enumerate(blocks(least, names, beside, room)):
        shares = shared([least[i] for i in block], [natural[i] for i in block], room - BETWEEN * (len(block) - 1))
        place.print(part(heads, lines, block, shares, right, "" if number else title))


def part(
    heads: Sequence[str],
    lines: Sequence[Sequence[Text] | None],
    block: Sequence[int],
    widths: Sequence[int],
    right: Collection[int],
    title: str,
) -> Any:
    """Some columns of a table, as wide as they are told."""
    from rich import box
    from rich.table import Table

    made = Table(
        title=as_text(title) if title else None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    for number, width in zip(block, widths, strict=True):
        side: Any = "right" if number in right else "left"
        made.add_column(as_text(heads[number]), width=width, overflow="fold", justify=side)
    for row in lines:
        if row is None:
            made.add_section()
        else:
            made.add_row(*(row[number] for number in block))
    return made


def as_text(cell: Cell) -> Text:
    from rich.text import Text

    return Text(visible(cell)) if isinstance(cell, str) else cell


def longest_line(cell: Text) -> int:
    return max((line.cell_len for line in cell.split("\n")), default=0)


def longest_word(cell: Text) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, cell.plain.split()), default=0)


def blocks(least: Sequence[int], names: int, beside: Collection[int], room: int) -> Iterator[list[int]]:
    """Columns by their numbers, in as few blocks as fit; each begins with the first `names`, none with one `beside`."""
    groups: list[list[int]] = []
    for number in range(names, len(least)):
        if number in beside and groups:
            groups[-1].append(number)
        else:
            groups.append([number])
    first = list(range(names))
    taken = sum(least[:names]) + BETWEEN * (names - 1)
    block, used = list(first), taken
    for group in groups:
        width = sum(BETWEEN + least[number] for number in group)
        if len(block) > names and used + width > room:
            yield block
            block, used = list(first), taken
        block += group
        used += width
    yield block


def width_of_names(natural: int, least: Sequence[int], room: int) -> int:
    """How wide the first column is: as it likes, or folded where all others then fit beside it."""
    left = room - sum(BETWEEN + width for width in least[1:])
    return min(natural, left if left >= NARROW else max(room // 2, 1))


def shared(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Widths between least and natural: what room is left goes to all columns alike, until they have what they need."""
    widths = list(least)
    left = max(0, room - sum(widths))
    wanting = sorted(range(len(widths)), key=lambda number: natural[number] - widths[number])
    for place, number in enumerate(wanting):
        given = min(max(0, natural[number] - widths[number]), left // (len(wanting) - place))
        widths[number] += given
        left -= given
    return widths

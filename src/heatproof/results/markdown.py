"""leaderboard.md: the tables for people who read text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatproof.harmless import markdown_code as code
from heatproof.harmless import markdown_text as text_of
from heatproof.results.grids import grids
from heatproof.results.tables import boards, failure_lines, silent_lines
from heatproof.story import Panel, Paragraph, Plate, Table

if TYPE_CHECKING:
    from heatproof.results.run import Results


def markdown(run: Results) -> str:
    """The verdict, the boards, the tables along further axes, sections, and what failed."""
    said = (*run.verdict.sentences, *run.story.notes, *silent_lines(run))
    parts = [f"# {text_of(run.story.title)}\n", *(f"{text_of(sentence)}\n" for sentence in said)]
    for board in boards(run):
        parts.append(f"## {text_of(board.title)}\n")
        model = board.model if board.same_n is None else f"{board.model}, n = {board.same_n}"
        parts.append(
            f"Model: {text_of(model)}. Percent, mean ± half the 95 % interval; “paper” is the published number.\n"
        )
        columns = board.columns()
        rows = [["explainer", *(text_of(head) for head, _ in columns)], ["---", *["---:"] * len(columns)]]
        for line in board.lines:
            name = code(line.short)
            rows.append([f"*{name}*" if line.is_baseline else name, *(text_of(text(line)) for _, text in columns)])
        parts.append(in_pipes(rows))
    for grid in grids(run):
        parts.append(f"## {text_of(grid.title)}\n")
        parts.append("Percent, means; the published number in brackets.\n")
        rows = [["explainer", *map(text_of, grid.heads)], ["---", *["---:"] * len(grid.heads)]]
        parts.append(in_pipes(rows + [[code(name), *(cell.text for cell in cells)] for name, cells in grid.rows]))
    for section in run.story.sections:
        parts += [f"## {text_of(section.title)}\n", *(block_text(block) for block in section.blocks)]
    if longer := {short: label for label, short in run.short.items() if short != label}:
        parts.append("## Explainers in full\n")
        parts.append("\n".join(f"- {code(short)}: {code(label)}" for short, label in longer.items()) + "\n")
    failed = failure_lines(run)
    if failed:
        parts.append("## Not computed\n")
        parts.append("\n".join(f"- {text_of(line)}" for line in failed) + "\n")
    return "\n".join(parts)


def block_text(block: Paragraph | Table | Panel | Plate) -> str:
    """A block of a section, as leaderboard.md has it; of a panel or a plate, what it says."""
    if isinstance(block, Paragraph):
        return f"**{text_of(block.lead)}** {text_of(block.text)}\n" if block.lead else f"{text_of(block.text)}\n"
    if isinstance(block, (Panel, Plate)):
        return f"### {text_of(block.title)}\n\n{text_of(block.text)}\n"
    heads = [[*map(text_of, block.heads)], ["---", *["---:"] * (len(block.heads) - 1)]]
    table = in_pipes(
        [*heads, *([text_of(name), *(text_of(cell.text) for cell in cells)] for name, cells in block.rows)]
    )
    return f"### {text_of(block.title)}\n\n{table}" + (f"\n{text_of(block.note)}\n" if block.note else "")


def in_pipes(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"

"""The map of the papers: every command parses, every line has a figure or a reason, and the page holds them all."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from papers import map_of_papers
from papers.__main__ import run_steps
from papers.kinds import Line
from papers.map_of_papers import BEGIN, END, PAGE, PAPERS
from papers.steps import STEPS

from heatproof.cli.app import app

LINES = [line for lines in PAPERS.values() for line in lines]


def commands() -> Iterator[str]:
    for line in LINES:
        yield from (part.strip() for part in line.command.split(";") if part.strip())
    for step in STEPS:
        yield "heatproof " + step.words.replace("{", "").replace("}", "")


def parse(group: Any, name: str, words: list[str], parent: Any = None) -> None:
    """What the command line does before it calls anything."""
    with group.make_context(name, words, parent=parent) as context:
        called, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        if hasattr(command, "resolve_command"):
            parse(command, str(called), rest, context)
        else:
            command.make_context(called, rest, parent=context)


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_parses(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(command)
    for word in words:
        if word.isupper() or word in {step.name for step in STEPS}:
            Path(word).touch() if "FILE" in word or "CSV" in word else Path(word).mkdir(exist_ok=True)
    assert program == "heatproof"
    parse(typer.main.get_command(app), program, words)


@pytest.mark.slow
def test_every_command_runs_and_its_figures_are_found(tmp_path):
    """What `make papers` does, without writing the page: several minutes."""
    written = map_of_papers.written(run_steps(tmp_path))
    assert not [row for row in written.splitlines() if row.endswith("| ? |")]


def test_commands_that_do_not_exist_are_found():
    for words in (["run", "svea", "--no-such-option"], ["nothing"]):
        with pytest.raises(Exception, match="No such"):
            parse(typer.main.get_command(app), "heatproof", words)


def test_steps_come_after_those_they_need():
    done: set[str] = set()
    for step in STEPS:
        assert {*step.needs} <= done
        done.add(step.name)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.place}: {line.shows}"[:60])
def test_every_line_has_a_figure_or_a_reason(line: Line):
    assert line.paper
    assert line.shows
    assert callable(line.ours) or len(line.ours) > 10


def test_the_page_holds_every_line():
    """Its first four columns; the figures of the last are those of the day that stands above them."""
    page = PAGE.read_text(encoding="utf-8")
    kept = page[page.index(BEGIN) : page.index(END)]
    there = [row.rsplit(" | ", 1)[0] for row in kept.splitlines() if row.startswith("| ")]
    expected = map_of_papers.written(None).splitlines()
    assert there == [row.rsplit(" | ", 1)[0] for row in expected if row.startswith("| ")]
    assert not [row for row in kept.splitlines() if row.endswith("| ? |")]

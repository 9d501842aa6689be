"""Progress for people: bars in a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any

import typer

from heatproof.cli.terminal import console
from heatproof.harmless import visible
from heatproof.progress import Progress, silent

EVERY = 10.0
"""Seconds between two lines."""
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")]


@contextmanager
def bars(quiet: bool = False) -> Iterator[Progress]:
    """A function that shows how far a task is, on standard error."""
    screen = console(err=True)
    if quiet:
        yield silent
    elif screen.is_terminal:
        with moving_bars(screen) as show:
            yield show
    else:
        yield Lines(screen)


@contextmanager
def moving_bars(screen: Any) -> Iterator[Progress]:
    """A bar per task, with the time it took and has left."""
    from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            seconds = seconds_left(task.elapsed or 0.0, task.fields["first"], task.percentage / 100)
            return Text("" if task.finished else f"{clock(seconds)} left", style="progress.remaining")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        Left(),
    )
    tasks: dict[str, TaskID] = {}
    details = TextColumn("{task.fields[detail]}", style="dim", markup=False)
    with RichProgress(*columns, details, console=screen) as display:

        def show(task: str, done: float, total: float) -> None:
            name, _, detail = visible(task).partition(": ")
            if name not in tasks:
                tasks[name] = display.add_task(name, total=total, detail=detail, first=share(done, total))
            display.update(tasks[name], completed=done, total=total, detail=detail)

        yield show


class Lines:
    """A line when a task has gone on for a while, and one at its end if there was one before."""

    def __init__(self, screen: Any) -> None:
        self.screen = screen
        self.began: dict[str, tuple[float, float]] = {}
        self.said: dict[str, float] = {}

    def __call__(self, task: str, done: float, total: float) -> None:
        name, _, detail = task.partition(": ")
        now = time.monotonic()
        reached = share(done, total)
        began, first = self.began.setdefault(name, (now, reached))
        ended = done >= total and name in self.said
        if not ended and now - self.said.get(name, began) < EVERY:
            return
        self.said[name] = now
        left = "" if ended else f", {clock(seconds_left(now - began, first, reached))} left"
        self.screen.print(
            f"{name}: {reached:.0%}, {clock(now - began)}{left}{', ' + detail if detail else ''}",
            highlight=False,
            markup=False,
        )
        if ended:
            del self.began[name], self.said[name]


def share(done: float, total: float) -> float:
    return done / total if total else 0.0


def seconds_left(elapsed: float, first: float, reached: float) -> float | None:
    """What is left takes as long as what was done in this time, since the `first` share that was said: not zero where
    work is resumed. None where nothing was done yet."""
    return elapsed * (1 - reached) / (reached - first) if reached > first else None


def clock(seconds: float | None) -> str:
    return "?" if seconds is None else str(timedelta(seconds=round(seconds)))

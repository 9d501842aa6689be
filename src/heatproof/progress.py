"""Progress: long work calls `progress(task, done, total)`; what becomes of it is the caller's choice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float) -> None: ...


def silent(task: str, done: float, total: float) -> None:
    """Show nothing."""


@contextmanager
def bars() -> Iterator[Progress]:
    """Bars with the time left, one per task, on standard error; where that is not a terminal, only how they end."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with RichProgress(*columns, console=Console(stderr=True), speed_estimate_period=120) as display:

        def show(task: str, done: float, total: float) -> None:
            name, _, detail = task.partition(": ")
            if name not in tasks:
                tasks[name] = display.add_task(name, total=total)
            shown = f"{name} [dim]{detail:<32}" if detail else name
            display.update(tasks[name], completed=done, total=total, description=shown)

        yield show

"""Progress: long work calls `progress(task, done, total)`; what becomes of it is the caller's choice.

Work that is handed no such function, deep inside an explainer, says `reached(fraction)` to whoever is listening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float) -> None: ...


def silent(task: str, done: float, total: float) -> None:
    """Show nothing."""


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(callback: Callable[[float], None]) -> Iterator[None]:
    """`callback(fraction)` whenever more of the work inside is done; what is done again is not told again."""
    furthest = 0.0

    def tell(fraction: float) -> None:
        nonlocal furthest
        if fraction > furthest:
            furthest = fraction
            callback(fraction)

    with told(tell):
        yield


def reached(fraction: float) -> None:
    """This much of the work in hand is done."""
    if (listener := _listener.get()) is not None:
        listener(fraction)


@contextmanager
def part(number: int, of: int) -> Iterator[None]:
    """The work inside is one of so many equal parts of the work in hand, counted from zero."""
    outer = _listener.get()
    if outer is None:
        yield
        return
    with told(lambda fraction: outer((number + fraction) / of)):
        yield
        reached(1)


def part_by_part(items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
    """`work(item)` of each item, an equal part of the work in hand."""
    results = []
    for number, item in enumerate(items):
        with part(number, len(items)):
            results.append(work(item))
    return results


@contextmanager
def told(listener: Callable[[float], None]) -> Iterator[None]:
    """Inside, this listener is told what is reached."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)

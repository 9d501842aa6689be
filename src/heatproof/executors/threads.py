"""Things that are done side by side in threads of one process: for libraries that let go of the interpreter."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_threads: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def side_by_side(threads: int) -> Iterator[None]:
    """In here `each` may use so many threads; elsewhere one."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """What the function gives for every item, in their order."""
    if _threads.get() == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(_threads.get()) as pool:
        return list(pool.map(function, items))


def in_turn(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The same, one after the other: an item is asked for, in this thread, when a thread will soon be free for it."""
    threads = _threads.get()
    if threads == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # who is interrupted does not wait for what is under way
        pool.shutdown(wait=False, cancel_futures=True)

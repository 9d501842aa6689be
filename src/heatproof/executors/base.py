"""What an executor is: it maps tasks to outcomes, somewhere. Nothing else knows where."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from heatproof.errors import HeatproofError, is_out_of_memory, is_panic, words_of


class Work(Protocol):
    """What is done with a task. It is sent to wherever tasks are done, with all that it holds."""

    def compute(self, task: Any, /) -> Any: ...


@dataclass(frozen=True)
class Failure:
    """Why a task gave nothing; with less beside it, one that lacked memory may yet give something."""

    message: str
    details: str = ""
    lacked_memory: bool = False


@dataclass(frozen=True)
class Usage:
    """What the work took: CPU seconds, and the most memory of all processes together in bytes."""

    cpu_seconds: float = 0.0
    memory: int = 0
    processes: int = 1


Deliver: TypeAlias = Callable[[int, Any], None]
"""Takes the place of a task, and what it gave or its Failure; raises Enough if the others need not be done."""
Watch: TypeAlias = Callable[[Mapping[int, float]], None]
"""Takes the places of the tasks that are being done, each with how much of it is done (0 to 1)."""


class Enough(Exception):  # noqa: N818
    """What was delivered is all that is needed."""


class Executor(Protocol):
    """A way to do tasks."""

    def run(self, work: Work, tasks: Sequence[Any], deliver: Deliver, watch: Watch) -> Usage:
        """Do every task, in about this order, and deliver what it gave; one that fails leaves the others alone.

        Where that raises Enough, the rest is left undone.
        """


class CannotSendError(HeatproofError):
    """The work holds something that exists in this process only."""


def cores() -> int:
    """The cores that this process may use: what the system, its control groups and the user's settings leave it."""
    from joblib.externals.loky import cpu_count

    return int(cpu_count())


def attempt(compute: Callable[[Any], Any], task: Any) -> Any:
    """What a task gives, or why it does not. A user's code that wants to end the process ends its task."""
    try:
        return compute(task)
    except BaseException as problem:
        if not isinstance(problem, Exception | SystemExit | GeneratorExit) and not is_panic(problem):
            raise
        message = str(problem) if isinstance(problem, HeatproofError) else words_of(problem)
        return Failure(message, traceback.format_exc(), is_out_of_memory(problem))


def lacks_memory(outcome: Any) -> bool:
    """Whether a task, or a part of it, failed for want of memory."""
    parts = outcome if isinstance(outcome, list) else [outcome]
    return any(isinstance(part, Failure) and part.lacked_memory for part in parts)

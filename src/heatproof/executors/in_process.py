"""Tasks one after the other, in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from heatproof.executors.base import Deliver, Enough, Usage, Watch, Work, attempt
from heatproof.executors.memory import most_memory
from heatproof.executors.set_up import one_thread
from heatproof.progress import listening


@dataclass(frozen=True)
class InProcess:
    """With one thread, so that results are those of workers to the last bit."""

    def run(self, work: Work, tasks: Sequence[Any], deliver: Deliver, watch: Watch) -> Usage:
        start = time.process_time()
        with one_thread(), suppress(Enough):
            for place, task in enumerate(tasks):
                watch({place: 0.0})
                with listening(partial(reached, watch, place)):
                    outcome = attempt(work.compute, task)
                deliver(place, outcome)
        return Usage(time.process_time() - start, most_memory())


def reached(watch: Watch, place: int, fraction: float) -> None:
    watch({place: fraction})

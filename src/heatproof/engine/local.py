"""Units one after the other in this process; torch shares each among the cores."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heatproof.engine.plan import Unit
from heatproof.engine.sources import Result
from heatproof.errors import HeatproofError
from heatproof.progress import Progress


@dataclass(frozen=True)
class Failure:
    """Why a unit gave nothing."""

    message: str
    details: str


def run_units(
    units: Sequence[Unit],
    compute: Callable[[Unit], Result],
    deliver: Callable[[Unit, Result | Failure], None],
    progress: Progress,
) -> None:
    """Do every unit and deliver what it gave; one that fails does not keep the others from going on."""
    done, total = 0, sum(unit.weight for unit in units)
    for unit in units:
        progress(f"explaining: {unit.folder}", done, total)
        deliver(unit, attempt(compute, unit))
        done += unit.weight
    if units:
        progress("explaining: done", total, total)


def attempt(compute: Callable[[Unit], Result], unit: Unit) -> Result | Failure:
    """What a unit gives, or why it does not."""
    try:
        return compute(unit)
    except Exception as problem:
        message = str(problem) if isinstance(problem, HeatproofError) else f"{type(problem).__name__}: {problem}"
        return Failure(message, traceback.format_exc())

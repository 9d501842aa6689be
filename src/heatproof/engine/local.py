"""Units one after the other in this process; torch shares each among the cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heatproof.engine.plan import TYPICAL_SIZE, Unit
from heatproof.progress import Progress


def run_units(units: Sequence[Unit], do: Callable[[Unit], object], progress: Progress) -> None:
    """Do every unit. `do` keeps a unit's failure to itself, so that the others go on."""
    weights = [unit.chunk.cases * (1 + unit.explainer.passes(TYPICAL_SIZE)) for unit in units]
    done, total = 0, sum(weights)
    for unit, weight in zip(units, weights, strict=True):
        progress(f"explaining: {unit.folder}", done, total)
        do(unit)
        done += weight
    if units:
        progress("explaining: done", total, total)

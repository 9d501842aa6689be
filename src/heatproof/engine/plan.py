"""Units of work: one explainer on one chunk of cases, as plain data."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from heatproof.cases import Chunk
from heatproof.explainers.base import Explainer, Quantity, ScoreExplainer


@dataclass(frozen=True)
class Unit:
    """One explainer on one chunk. Its result is one part on disk.

    folder     the explainer's name for files, unique within a run
    explainer  its full specification
    target     the explained quantity; empty for an explainer that does not look at the model's score
    passes     about how often each case goes through the model
    """

    folder: str
    explainer: str
    target: str
    chunk: Chunk
    passes: int = 0

    @property
    def weight(self) -> int:
        """What it costs, in passes; the rest of the work counts as one."""
        return self.chunk.cases * (1 + self.passes)


@dataclass(frozen=True)
class Task:
    """Units that are computed together, because the same passes of the model serve them all."""

    units: tuple[Unit, ...]

    @property
    def explainer(self) -> str:
        return self.units[0].explainer

    @property
    def short(self) -> str:
        """What it works on, for people: the explainer without its parameters."""
        return self.explainer.partition(":")[0]

    @property
    def weight(self) -> int:
        return self.units[0].weight

    @property
    def cases(self) -> int:
        return sum(unit.chunk.cases for unit in self.units)


def make_tasks(units: Iterable[Unit], shared: Callable[[Unit], bool]) -> list[Task]:
    """Units as tasks, in the same order. Those that are `shared`, of one explainer and chunk, are one."""
    together: dict[object, list[Unit]] = {}
    for unit in units:
        key = (unit.explainer, unit.chunk) if shared(unit) else unit
        together.setdefault(key, []).append(unit)
    return [Task(tuple(group)) for group in together.values()]


def explained_quantity(explainer: Explainer) -> str:
    return explainer.quantity if isinstance(explainer, ScoreExplainer) else ""


def folder_name(explainer: Explainer) -> str:
    """A readable folder name that no two different explainers share."""
    quantity = explained_quantity(explainer)
    plain = f"{explainer.label}@{quantity}" if quantity else explainer.label
    safe = re.sub(r"[^A-Za-z0-9_.=@+-]", "-", plain)
    if safe == plain and len(safe) <= 80:
        return safe
    return f"{safe[:80]}-{hashlib.sha256(plain.encode()).hexdigest()[:6]}"


def for_quantities(explainers: Sequence[Explainer], quantities: Sequence[Quantity]) -> list[Explainer]:
    """Each explainer of a score once per quantity; the others once."""
    return [
        replace(explainer, quantity=quantity) if isinstance(explainer, ScoreExplainer) else explainer
        for explainer in explainers
        for quantity in (quantities if isinstance(explainer, ScoreExplainer) else quantities[:1])
    ]


def make_units(
    explainers: Iterable[Explainer],
    chunks: Callable[[int], Sequence[Chunk]],
    passes: Callable[[Explainer], int],
) -> list[Unit]:
    """Every explainer on every chunk; `chunks(passes)` are the pieces for explainers that cost so much.

    Costly explainers come first: where several workers share them, the last tasks are short, and none waits long for
    another. Those of about the same cost take turns on each chunk, so that its cases are loaded once for all of them.
    """
    units = []
    for explainer in explainers:
        count = passes(explainer)
        for place, chunk in enumerate(chunks(count)):
            unit = Unit(folder_name(explainer), explainer.label, explained_quantity(explainer), chunk, count)
            units.append(((-int(math.log10(1 + count)), place), unit))
    return [unit for _, unit in sorted(units, key=lambda pair: pair[0])]

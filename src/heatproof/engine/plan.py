"""Units of work: one explainer on one chunk of cases."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from heatproof.explainers.base import Explainer, Quantity, ScoreExplainer, Size

if TYPE_CHECKING:
    from heatproof.benchmarks.base import Benchmark


@dataclass(frozen=True)
class Chunk:
    """A fixed piece of a benchmark's cases, explained on one model; both names are fit for file names."""

    name: str
    model: str
    cases: int

    @property
    def stem(self) -> str:
        """What its files are called."""
        return f"{self.model}.{self.name}"


TYPICAL_SIZE = Size(space=(40,), channels=(32,))
"""Where no model has been looked at yet: for the order of the work and the time left on the bar."""


@dataclass(frozen=True)
class Unit:
    """One explainer on one chunk. Its result is one part on disk."""

    explainer: Explainer
    chunk: Chunk

    @property
    def target(self) -> str:
        """The explained quantity; empty for an explainer that does not look at the model's score."""
        return explained_quantity(self.explainer)

    @property
    def folder(self) -> str:
        return folder_name(self.explainer)


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


def make_plan(benchmark: Benchmark, explainers: Sequence[Explainer]) -> list[Unit]:
    """Every explainer on every chunk, explainer by explainer, cheap ones first so that a table grows early."""
    order = sorted(explainers, key=lambda explainer: explainer.passes(TYPICAL_SIZE))
    return [Unit(explainer, chunk) for explainer in order for chunk in benchmark.chunks_for(explainer)]

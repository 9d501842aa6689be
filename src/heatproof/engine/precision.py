"""Half precision only where it does not show: first, some cases are explained and scored in both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from heatproof.devices import FULL
from heatproof.engine.plan import explained_quantity, folder_name
from heatproof.engine.sources import AXES, Explaining
from heatproof.explainers.base import Explainer
from heatproof.lazy import pl
from heatproof.progress import Progress

COMPARED = 8
"""Cases that are explained in both."""
SAME_SCORE = 1e-3


def settle_precision(source: Explaining, progress: Progress) -> tuple[Explaining, list[str]]:
    """The source with those explainers in full precision whose scores half of it changes, and what is to be said."""
    if source.precision == FULL:
        return source, []
    full = replace(source, exact=tuple(source.by_folder))
    changes: list[tuple[Explainer, float]] = []
    for explainer in source.explainers:
        progress(f"comparing precisions: {explainer.label}", len(changes), len(source.explainers))
        changes.append((explainer, greatest_change(source, full, explainer)))
    progress("comparing precisions: done", 1, 1)
    exact = tuple(folder_name(explainer) for explainer, change in changes if change > SAME_SCORE)
    return replace(source, exact=exact), sentences(source.precision, changes)


def greatest_change(half: Explaining, full: Explaining, explainer: Explainer) -> float:
    """How much half precision changes a score of the first cases at most; infinite where it fails or undoes one."""
    chunk = half.opened.chunks()[0]
    batch = half.loaded(chunk)[:COMPARED]
    try:
        rows, exact = (source.explained(explainer, chunk.model, batch) for source in (half, full))
    except Exception:  # in half precision much is not implemented; what fails in full precision will say why
        return math.inf
    value, other = pl.col("value"), pl.col("value_right")
    change = (value - other).abs().fill_nan(math.inf).fill_null(math.inf)
    both = pl.when(value.is_nan() & other.is_nan()).then(0.0).otherwise(change)
    return float(rows.join(exact, on=["case", *AXES], how="left").select(both.max()).item())


def sentences(precision: str, changes: Sequence[tuple[Explainer, float]]) -> list[str]:
    """Which explainers take half precision and which do not, and what that is measured by."""
    words: dict[bool, list[str]] = {True: [], False: []}
    for explainer, change in changes:
        quantity = explained_quantity(explainer)
        name = f"{explainer.label} of the {quantity}" if quantity else explainer.label
        words[change <= SAME_SCORE].append(f"{name} {change:.2g}" if change < math.inf else f"{name} fails")
    beginnings = {
        True: f"explained in {precision}, which changes scores of the first {COMPARED} cases by at most",
        False: f"not in {precision}, which changes scores, or what they are made of, by more than {SAME_SCORE:g}",
    }
    return [f"{beginnings[taken]}: {', '.join(listed)}." for taken, listed in words.items() if listed]

"""What a test of pairs could have seen: nothing tested is not nothing found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heatproof.lazy import np, pl
from heatproof.results.bias import LEAST, LEVEL

POWER = 0.8
"""How often a bias of the size that is named would be found: four times of five."""
SOUGHT = 0.1
"""How far below the limit the share lies of a bias that one would not want to miss."""
WIDEST = 0.5
"""The spread of shares that all lie at 0 or 1: where nothing is known of it, the worst."""
MOST = 10**6


@dataclass(frozen=True)
class Reach:
    """How far a test of all pairs reaches.

    pairs, tested   how many there are, and how many have mosaics enough
    usual           mosaics of a pair: the median over those tested, or over all if none was
    seen            the highest mean share that such a pair would be found with four times of five; None: not even 0
    sought          a share that one would not want to miss, and `needed`, the mosaics of a pair that it takes
    grow            how many times as many mosaics as there are would give the usual pair what is needed
    first           how many times as many would give every pair the least that a test takes
    at_worst        whether nothing is known of how shares spread within a pair, so that `needed` is for the widest
    """

    pairs: int
    tested: int
    usual: float
    seen: float | None
    sought: float
    needed: int
    grow: float
    first: float
    at_worst: bool

    @property
    def untested(self) -> int:
        return self.pairs - self.tested


def reach_of(rows: pl.DataFrame, table: pl.DataFrame, below: float, level: float = LEVEL) -> Reach:
    """How far the test of `table` reaches, from the mosaics' shares that it rests on."""
    sizes = table["n"].to_numpy()
    enough = sizes >= LEAST
    usual = float(np.median(sizes[enough] if enough.any() else sizes))
    known = spread_within(rows)
    spread = WIDEST if known is None else known
    sought = max(below - SOUGHT, below / 2)
    needed = mosaics_for(below - sought, spread, level / len(sizes))
    seen = None
    if enough.any():
        lowest = below - visible_gap(max(LEAST, int(usual)), spread, level / int(enough.sum()))
        seen = lowest if lowest > 0 else None
    ratios = (needed / usual, LEAST / float(sizes.min()))
    return Reach(len(sizes), int(enough.sum()), usual, seen, sought, needed, *ratios, known is None)


def pairs_with_reach(table: pl.DataFrame, rows: pl.DataFrame, below: float, level: float = LEVEL) -> pl.DataFrame:
    """Every pair with `visible`: the highest share with which so many mosaics would have shown it, four times of five.

    Null where it was not tested, or where not even a share of 0 would have been found.
    """
    known = spread_within(rows)
    spread, tested = WIDEST if known is None else known, int((table["n"] >= LEAST).sum())
    lowest = [below - visible_gap(n, spread, level / tested) if n >= LEAST else 0.0 for n in table["n"]]
    return table.with_columns(visible=pl.Series([share if share > 0 else None for share in lowest], dtype=pl.Float64))


def means_with_reach(means: pl.DataFrame, mosaics: pl.DataFrame, level: float = LEVEL) -> pl.DataFrame:
    """Mean Focus by class with `visible`: how far from a given Focus it must lie for so many mosaics to show it.

    Four times of five, by a t-test at this level for all lines together. Null for a single mosaic.
    """
    name = means.columns[0]
    spread = spread_within(mosaics, "focus", (name,))
    gaps = [
        None if n < 2 or spread is None else min(1.0, visible_gap(n, spread, level / len(means))) for n in means["n"]
    ]
    return means.with_columns(visible=pl.Series(gaps, dtype=pl.Float64))


def spread_within(
    rows: pl.DataFrame, column: str = "share", by: Sequence[str] = ("target_class", "other_class")
) -> float | None:
    """The standard deviation within a pair (or class), over all that have two mosaics; None where none has."""
    groups = rows.drop_nans(column).group_by(*by).agg(pl.len(), var=pl.col(column).var())
    groups = groups.drop_nulls("var")
    if groups.is_empty():
        return None
    weights = groups["len"].to_numpy() - 1
    return float(np.sqrt((groups["var"].to_numpy() * weights).sum() / weights.sum()))


def visible_gap(n: int, spread: float, level: float) -> float:
    """How far below the limit the true mean of n values must lie for a one-sided t-test to tell, four times of five."""
    from scipy.special import nctdtrinc, stdtrit

    limit = stdtrit(n - 1, 1 - level)
    return float(nctdtrinc(n - 1, 1 - POWER, limit) * spread / n**0.5)


def mosaics_for(gap: float, spread: float, level: float) -> int:
    """The fewest values with which such a gap is told, four times of five."""
    low, high = LEAST - 1, LEAST
    while high < MOST and visible_gap(high, spread, level) > gap:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if visible_gap(middle, spread, level) > gap else (low, middle)
    return high

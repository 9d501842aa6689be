"""Which cases a run keeps for people to look at: some of every kind, drawn by the run's seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heatproof.seeds import derive_seed

MOST_SHOWN = 2000
"""Cases that a page shows of a run that keeps all its heatmaps."""
SIGNALS, PICTURES, FEWEST = 100, 24, 6
"""Cases whose heatmaps a run keeps unless it keeps all; of large pictures fewer."""
POSITIONS, MOST_POSITIONS = 2**19, 2**25
"""Positions in the pictures that are kept, under fifteen explainers about 30 MB of heatmaps; and in those shown."""


def stratified(strata: Mapping[str, Any], count: int, seed: int) -> list[str]:
    """At most `count` of the cases, as many of each stratum as there are of any other, as far as it has them.

    They come in rounds, each with one case of every stratum that has one left, in the order of the strata; which one
    that is, is drawn. So the first few are the most different ones.
    """
    drawn = sorted(strata, key=lambda case: derive_seed(seed, "sample", case))
    taken: dict[Any, int] = {}
    places: dict[str, tuple[int, Any]] = {}
    for case in drawn:
        stratum = strata[case]
        places[case] = taken.get(stratum, 0), stratum
        taken[stratum] = places[case][0] + 1
    return sorted(drawn, key=lambda case: places[case])[:count]


def pictures_kept(height: int, width: int) -> int:
    """How many pictures of this size a run keeps the heatmaps of."""
    return min(PICTURES, max(FEWEST, POSITIONS // (height * width)))


def pictures_shown(height: int, width: int) -> int:
    """How many pictures of this size a page shows of a run that keeps all its heatmaps."""
    return min(MOST_SHOWN, max(PICTURES, MOST_POSITIONS // (height * width)))

"""Which cases to show: named or picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from heatproof.errors import HeatproofError, require_whole, unknown_name

Pick = Literal["right", "wrong", "best", "worst"]
COUNT, CANDIDATES = 4, 50
"""Cases that are picked, and those that are explained to find them, unless others are asked for."""


@dataclass(frozen=True)
class Wanted:
    """Which cases to show: these, or so many that are picked; the best and the worst of so many candidates."""

    cases: Sequence[str] = ()
    pick: Pick | None = None
    count: int | None = None
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        if self.cases and self.pick is not None:
            raise HeatproofError(f"give either the cases or pick, not both: {', '.join(self.cases)} or {self.pick}.")
        if not self.cases and self.pick is None:
            raise HeatproofError(f"say which case to draw, or pick {', '.join(get_args(Pick))}.")
        if self.pick is not None and self.pick not in get_args(Pick):
            raise unknown_name("pick", str(self.pick), get_args(Pick))
        if self.cases and self.count is not None:
            raise HeatproofError("count says how many cases to pick; leave it out where the cases are named.")
        for name in ("count", "candidates"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)

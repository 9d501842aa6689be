"""The error that lists what is wrong with the files of a data set."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from heatproof.errors import HeatproofError

SHOWN = 20
"""How many problems an error message lists."""


class DatasetError(HeatproofError):
    """Files that are missing or damaged; `problems` lists all of them, the message the first."""

    def __init__(self, folder: Path, problems: Iterable[str]) -> None:
        self.problems = tuple(problem.removeprefix(f"{folder}{os.sep}") for problem in problems)
        lines = list(self.problems[:SHOWN])
        if len(self.problems) > SHOWN:
            lines.append(f"... and {len(self.problems) - SHOWN} more")
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"{folder} is damaged or incomplete, {count}:\n  " + "\n  ".join(lines))

"""What an evaluation says of the heatmaps themselves, without the floors and the ceiling that stand beside them."""

from __future__ import annotations

import polars as pl

from heatproof.benchmarks.floors import FAMILIES


def own(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(~pl.col("explainer").is_in(list(FAMILIES)))

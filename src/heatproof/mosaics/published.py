"""How the Focus paper's code makes one value of three channels."""

from __future__ import annotations

from heatproof.lazy import pl

PAPER_POOLING = {"smoothgrad": "max_norm"}
"""By explainer; it adds the channels where nothing else is said."""
USUAL_POOLING = "sum_pos"


def under_paper_pooling(rows: pl.DataFrame) -> pl.DataFrame:
    """The score rows of each explainer's pooling in the original's code."""
    name = pl.col("explainer").str.split(":").list.first()
    wanted = name.replace_strict(PAPER_POOLING, default=USUAL_POOLING, return_dtype=pl.String)
    return rows.filter(pl.col("pooling") == wanted)

"""The papers' tables."""

from __future__ import annotations

from importlib import resources

from heatproof.lazy import pl


def read_reference(name: str) -> pl.DataFrame:
    """A paper's table; an axis that is empty stays empty text."""
    with resources.files("heatproof.benchmarks").joinpath(f"references/{name}.csv").open("rb") as file:
        return pl.read_csv(file).with_columns(pl.col(pl.String).fill_null(""))

"""Runs and comparisons with their ways out: pages, tables for papers, figures, notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.results.compare import Comparison as ComparedResults
from heatproof.results.run import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(Results):
    """The results of a run, and its page."""

    def report(self) -> Path:
        """Write the page again from the folder's files, and return its path."""
        from heatproof.report.page import write_report

        return write_report(self)

    def export(self, to: str) -> str:
        """The table for a paper as csv, latex, markdown or json, or the references as bibtex."""
        from heatproof.results.export import export

        return export(self, to)

    def figure(self, kind: str, **options: Any) -> Figure:
        """A matplotlib figure: "distribution", "ranks", "pareto" or "case"; see docs/ways-out.md for their options."""
        from heatproof.report.matplotlib_plots import figure

        return figure(self, kind, **options)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the verdict and the table; of a run that has come to no end, only where it is."""
        from heatproof.report.notebook import html

        try:
            return html(self)
        except HeatproofError:
            return None

    def _repr_markdown_(self) -> str | None:
        from heatproof.report.notebook import markdown as in_markdown

        try:
            return in_markdown(self)
        except HeatproofError:
            return None


class Comparison(ComparedResults):
    """Runs side by side, and a page about them."""

    def write(self, folder: Path | str) -> Path:
        """Write compare.csv and compare.html into a folder, and return the page's path."""
        from heatproof.report.compare import write_comparison

        return write_comparison(self, folder)

"""Which scores a story shows first."""

from __future__ import annotations

import polars as pl
import pytest

from heatproof.benchmarks.base import metric_words
from heatproof.results.verdict import shown_variants
from heatproof.story import Story

ROWS = [("focus", "", "max_norm"), ("focus", "", "sum_abs"), ("mass_accuracy", "half", "max_norm"), ("drop", "", "")]


@pytest.mark.parametrize(
    ("poolings", "shown"),
    [
        ((), ["max_norm", "max_norm", ""]),  # the first that the scores have
        (("sum_abs", "max_norm"), ["sum_abs", ""]),
        (("l1_norm",), [""]),
    ],
)
def test_without_columns_the_first_pooling_is_shown(poolings, shown):
    story = Story("", "", "", metric_words(["focus", "mass_accuracy", "drop"]), poolings=poolings)
    table = pl.DataFrame(ROWS, schema=["metric", "ground_truth", "pooling"], orient="row")
    assert table.filter(story.shown)["pooling"].to_list() == shown
    assert table.lazy().filter(story.shown).collect()["pooling"].to_list() == shown
    assert [pooling for _, _, pooling in shown_variants(story, ROWS)] == shown


def test_scores_without_any_pooling_are_shown():
    story = Story("", "", "", metric_words(["drop"]))
    table = pl.DataFrame(ROWS[3:], schema=["metric", "ground_truth", "pooling"], orient="row")
    assert len(table.filter(story.shown)) == 1

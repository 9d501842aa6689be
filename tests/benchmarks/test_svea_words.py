"""What a run of SVEA says of its network and of its scores, against other libraries and counts by hand."""

from __future__ import annotations

import json
from math import atanh, sqrt

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm, spearmanr
from sklearn.metrics import confusion_matrix

import heatproof
from heatproof import mnist1d
from heatproof.benchmarks.references import read_reference
from heatproof.benchmarks.svea.words import agreement, confusion, performance, rank_correlation
from heatproof.story import Paragraph, Story, Table, read_story


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_equals_scipys(seed):
    """Reference: scipy.stats.spearmanr, ties included; the interval solved back for its quantile of the normal."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 6, 11).astype(float), rng.normal(size=11)
    found, low, high = rank_correlation(first.tolist(), second.tolist())
    assert found == pytest.approx(spearmanr(first, second).statistic)
    for end in (low, high):
        assert abs(atanh(end) - atanh(found)) / sqrt(1.06 / (11 - 3)) == pytest.approx(norm.ppf(0.975), rel=1e-6)


def test_a_perfect_order_of_few_methods_is_not_certain():
    """Theory: an exchange of two neighbours takes 12 / (n (n^2 - 1)) off; half of that is what n methods can tell."""
    found, low, high = rank_correlation([1, 2, 3, 4, 5], [10, 20, 30, 40, 50])
    assert found == 1.0
    assert (atanh(low) + atanh(high)) / 2 == pytest.approx(atanh(1 - 6 / (5 * 24)))
    assert low < 0.8
    found, low, high = rank_correlation([1, 2, 3, 4], [4, 3, 2, 1])
    assert found == -1.0
    assert low < -0.9 < high


def test_one_score_that_is_always_the_same_has_no_correlation():
    found, low, high = rank_correlation([1.0, 1.0, 1.0, 1.0], [1, 2, 3, 4])
    assert np.isnan(found)
    assert (low, high) == (-1.0, 1.0)


def leaderboard_of_the_paper():
    """The paper's own table as if it were ours."""
    rows = read_reference("svea").filter(pl.col("target") == "probability")
    return rows.with_columns(
        mean=pl.col("reference"),
        reference_elsewhere=pl.lit(None, dtype=pl.Float64),
        model=pl.lit("net"),
        subset=pl.lit("all"),
    )


def test_the_papers_rows_agree_as_section_5_2_has_it():
    """Reference: scipy on Table 1 of the paper; with itself it correlates perfectly."""
    table = leaderboard_of_the_paper()
    first, second = agreement(table)
    rows = {metric: table.filter(metric=metric)["mean"].to_numpy() for metric in ("roe_accuracy", "drop", "increase")}
    for a, b, words in (
        ("roe_accuracy", "drop", "ROE and Drop"),
        ("roe_accuracy", "increase", "ROE and Increase"),
        ("drop", "increase", "Drop and Increase"),
    ):
        expected = f"{words} {spearmanr(rows[a], rows[b]).statistic:.2f} (95 % interval"
        assert expected in first
        assert expected in second
    assert "over 8 methods" in first
    assert second.count(" 1.00 (95 % interval") == 3


def test_too_few_methods_say_nothing():
    assert agreement(leaderboard_of_the_paper().filter(pl.col("explainer").is_in(["rise", "sise", "gradient"]))) == []
    assert agreement(leaderboard_of_the_paper().with_columns(target=pl.lit(""))) == []


def test_the_confusion_matrix_equals_sklearns():
    rng = np.random.default_rng(0)
    labels, seen = rng.integers(0, 9, 300), rng.integers(0, 10, 300)
    expected = confusion_matrix(labels, seen, labels=range(10))
    assert confusion(seen, labels).tolist() == expected.tolist()
    words, table = performance({"net": seen}, labels).blocks
    assert isinstance(words, Paragraph)
    assert f"net names {(labels == seen).mean():.1%} of the 300 test signals right" in words.text
    assert isinstance(table, Table)
    for digit, (name, cells) in enumerate(table.rows):
        assert name == str(digit)
        assert [cell.text for cell in cells[:-1]] == [str(count) for count in expected[digit]]
    assert table.rows[9][1][-1].text == "–", "there is no 9"


def test_it_is_on_the_page_in_the_table_and_in_run_json(tmp_path):
    """Reference: the accuracy counted from the score rows."""
    run = heatproof.run("svea", explainers="gradient", limit=500, model_seeds=2, target="logit", out=tmp_path / "r")
    seen = run.scores().filter((pl.col("metric") == "drop") & (pl.col("model") == "mnist1d_cnn-2"))
    words = f"mnist1d_cnn-2 names {seen['correct'].mean():.1%} of the 100 test signals right"
    for name in ("report.html", "leaderboard.md", "run.json"):
        text = (tmp_path / "r" / name).read_text(encoding="utf-8")
        assert words in text, name
        assert "Confusion matrix of mnist1d_cnn-1" in text, name
    section, *_ = json.loads((tmp_path / "r" / "run.json").read_text())["story"]["sections"]
    stored = section["blocks"][3]
    assert sum(cell["value"] for _, cells in stored["rows"] for cell in cells[:-1]) == 100
    assert run.story.sections[0].blocks[3].rows[4][1][4].framed
    labels = mnist1d.published()[1].y[:100]
    assert sum(cell.value for cell in run.story.sections[0].blocks[3].rows[7][1][:-1]) == (labels == 7).sum()


def test_stories_of_older_runs_have_no_sections():
    story = Story("title", "paper", "data", ()).plain()
    del story["sections"]
    assert read_story(story).sections == ()

"""The bias finder on biases that were planted, which is the only way to know whether it finds what is there."""

from __future__ import annotations

import pytest

from heatproof.errors import HeatproofError
from heatproof.experiments.planted import PLANTED, Planting, judge, rates, validate

SMALL = {"pictures": 110, "judged": 16}


@pytest.mark.parametrize(
    ("feature", "training", "expected"),
    [("colour", "biased", [PLANTED]), ("colour", "fair", []), ("object", "biased", [PLANTED])],
)
def test_the_planted_pair_is_found_and_nothing_else(feature, training, expected, tmp_path):
    """The pair is known because we planted it; that the model has learnt it is seen without any heatmap."""
    row = judge(Planting(feature, training, **SMALL), tmp_path)
    assert row["accuracy"] > 0.85
    assert row["mistaken"] > 0.6 if training == "biased" else row["mistaken"] < 0.1
    assert row["found"] == expected
    assert len(row["by_lowest"]) == 1


@pytest.mark.slow
def test_over_seeds(tmp_path):
    rows = validate(tmp_path, ["object", "colour"], 3)
    for row in rows:
        assert row["found"] == ([PLANTED] if row["training"] == "biased" else []), row
    ours, by_focus, by_comparison, by_lowest = rates(rows)[:4]
    assert "first 3/3, it alone 3/3; control: something named 0/3" in ours
    assert "it alone 0/3" in by_focus
    assert "something named 3/3" in by_comparison
    assert "something named 3/3" in by_lowest  # there always is a lowest pair
    assert (tmp_path / "planted-bias.csv").read_text().count("cube in sphere") >= 6


def test_unknown_features(tmp_path):
    with pytest.raises(HeatproofError, match="feature must be colour or object, got shape"):
        validate(tmp_path, ["colour", "shape"], 1)
    with pytest.raises(HeatproofError, match="seeds must be"):
        validate(tmp_path, ["colour"], 0)

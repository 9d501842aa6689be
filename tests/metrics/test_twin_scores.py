"""Scores of twins against literal float64 versions, and where they are known or undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heatproof.metrics import metrics
from heatproof.metrics.twins import cue_contrast, cue_share, cue_told, false_cue_share

NAMES = ("cue_contrast", "cue_told", "cue_share", "false_cue_share")


def literal(shortcut: float, honest: float) -> dict[str, float]:
    """Written out for one case."""
    if math.isnan(shortcut) or math.isnan(honest):
        return dict.fromkeys(NAMES, math.nan)
    contrast = 0.0 if shortcut + honest == 0 else (shortcut - honest) / (shortcut + honest)
    told = 1.0 if shortcut > honest else 0.0 if shortcut < honest else 0.5
    return {"cue_contrast": contrast, "cue_told": told, "cue_share": shortcut, "false_cue_share": honest}


def test_scores_equal_the_literal_ones():
    rng = np.random.default_rng(0)
    shortcut, honest = rng.random((2, 200))
    shortcut[:3], honest[:3] = [0.0, 0.5, math.nan], [0.0, 0.5, 0.2]
    honest[3] = math.nan
    expected = [literal(s, h) for s, h in zip(shortcut.tolist(), honest.tolist(), strict=True)]
    for name in NAMES:
        found = metrics[name].function(shortcut, honest)
        assert found.dtype == np.float64
        assert found == pytest.approx(np.array([one[name] for one in expected]), abs=1e-15, nan_ok=True)


def test_the_same_map_for_both_twins_tells_nothing():
    share = np.array([0.0, 0.5, 1.0])
    assert cue_contrast(share, share).tolist() == [0.0] * 3
    assert cue_told(share, share).tolist() == [0.5] * 3


def test_all_on_the_cue_for_the_one_and_nothing_for_the_other_is_the_best_there_is():
    ones, zeros = np.ones(2), np.zeros(2)
    assert cue_contrast(ones, zeros).tolist() == cue_told(ones, zeros).tolist() == cue_share(ones, zeros).tolist()
    assert cue_contrast(ones, zeros).tolist() == [1.0, 1.0]
    assert cue_contrast(zeros, ones).tolist() == [-1.0, -1.0]
    assert false_cue_share(ones, zeros).tolist() == [0.0, 0.0]

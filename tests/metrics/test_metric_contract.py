"""What every metric promises, for all that are registered: a new one is tested the day it is added.

References: the metric itself on one case at a time, on exact copies in another precision, on scaled maps; and theory
where the score is known. `tests/test_testing.py` shows for each promise a metric that breaks it and is caught.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.metrics import Metric, metrics, score_with
from heatproof.metrics.mask_scores import SIGNED
from heatproof.metrics.scoring import call_metric, values_problem
from heatproof.testing import check_metric

GENERIC = {name: metric for name, metric in metrics.items() if metric.generic}
MASKED = [name for name, metric in GENERIC.items() if "mask" in metric.needs]
LOCATING = [name for name, metric in GENERIC.items() if metric.uniform in ("mask_share", "half")]
OF_SCENES = {
    "object_top_n", "object_top_n_mean", "off_objects", "mass_selectivity", "rank_selectivity", "object_selectivity",
    "object_selectivity_mean",
}  # fmt: skip
"""They need all objects of a scene, or another truth: tests/metrics/test_objects.py."""
OF_EFFECTS = {name for name, metric in metrics.items() if "effects" in metric.needs}
"""They need what each object does to the answer, and no uniform map is known for it: tests/metrics/test_effects.py."""
OF_TWINS = {name for name, metric in metrics.items() if "twins" in metric.needs}
"""They compare two networks: tests/metrics/test_twin_scores.py."""
REFERENCES = {
    "mass_accuracy": "metrics/test_localisation.py::test_mass_accuracy_equals_the_loop",
    "rank_accuracy": "metrics/test_localisation.py::test_rank_accuracy_is_the_mean_over_all_ways_to_break_ties",
    "pointing_game": "metrics/test_localisation.py::test_pointing_game_shares_the_maxima",
    "focus": "metrics/test_focus_metric.py::test_equals_the_original_formula",
    "focus_best": "metrics/test_focus_metric.py::test_best_pooling_is_the_one_with_the_highest_mean",
    "drop": "metrics/test_fidelity.py::test_drop_equals_the_formula",
    "increase": "metrics/test_fidelity.py::test_increase_equals_the_formula",
    "roe_accuracy": "metrics/test_understandability.py::test_svm_equals_a_second_one",
    "object_top_n": "metrics/test_objects.py::test_objects_found_equal_all_ways_of_breaking_ties",
    "object_top_n_mean": "metrics/test_objects.py::test_objects_found_equal_all_ways_of_breaking_ties",
    "off_objects": "metrics/test_objects.py::test_relevance_on_no_object_is_what_is_left_of_the_mass",
    "mass_selectivity": "metrics/test_objects.py::test_selectivity_of_pixels_equals_the_loop",
    "rank_selectivity": "metrics/test_objects.py::test_selectivity_of_pixels_equals_the_loop",
    "object_selectivity": "metrics/test_objects.py::test_selectivity_of_objects_equals_the_loop",
    "object_selectivity_mean": "metrics/test_objects.py::test_selectivity_of_objects_equals_the_loop",
    "segmentation_ap": "metrics/test_mask_scores.py::test_imagenet_segmentation_as_transformers_are_evaluated",
    "lift": "metrics/test_mask_scores.py::test_every_pooled_score_equals_its_formula",
    "pixel_auc": "metrics/test_mask_scores.py::test_every_pooled_score_equals_its_formula",
    "average_precision": "metrics/test_mask_scores.py::test_every_pooled_score_equals_its_formula",
    "best_iou": "metrics/test_mask_scores.py::test_every_pooled_score_equals_its_formula",
    "adaptive_iou": "metrics/test_mask_scores.py::test_every_pooled_score_equals_its_formula",
    "pixel_accuracy": "metrics/test_mask_scores.py::test_every_pooled_score_equals_its_formula",
    "attribution_precision": "metrics/test_mask_scores.py::test_signed_scores_equal_the_confusion_matrix",
    "attribution_recall": "metrics/test_mask_scores.py::test_signed_scores_equal_the_confusion_matrix",
    "attribution_accuracy": "metrics/test_mask_scores.py::test_signed_scores_equal_the_confusion_matrix",
    "attribution_f1": "metrics/test_mask_scores.py::test_signed_scores_equal_the_confusion_matrix",
    "dual_polarity_precision": "metrics/test_mask_scores.py::test_signed_scores_equal_the_confusion_matrix",
    "effect_kendall_mean": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "effect_kendall_sum": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "effect_mass": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "effect_spearman_mean": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "effect_spearman_sum": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "effect_top1_mean": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "effect_top1_sum": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "idle_share": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "no_object_share": "metrics/test_effects.py::test_scores_equal_the_literal_ones",
    "cue_contrast": "metrics/test_twin_scores.py::test_scores_equal_the_literal_ones",
    "cue_share": "metrics/test_twin_scores.py::test_scores_equal_the_literal_ones",
    "cue_told": "metrics/test_twin_scores.py::test_scores_equal_the_literal_ones",
    "false_cue_share": "metrics/test_twin_scores.py::test_scores_equal_the_literal_ones",
}
"""For each metric the test that holds it against an independent implementation."""
SPACES = [(9,), (2,), (5, 6), (1, 7), (3, 4, 2)]
CASES = 6

every_metric = pytest.mark.parametrize("name", GENERIC)
every_masked_metric = pytest.mark.parametrize("name", MASKED)
every_space = pytest.mark.parametrize("space", SPACES, ids=lambda space: "x".join(map(str, space)))
every_dtype = pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)


class Scores(nn.Module):
    """Two classes for inputs of any shape."""

    def forward(self, inputs: Tensor) -> Tensor:
        total = inputs.flatten(1).sum(1)
        return torch.stack([total, -total], 1)


def make(cases: int, space: tuple[int, ...], tied: bool = False) -> tuple[Tensor, Batch]:
    """Heatmaps in sixty-fourths, which every precision holds, and cases with a mask that is neither empty nor full."""
    generator = torch.Generator().manual_seed(cases + len(space))
    heatmap = (torch.rand(cases, *space, generator=generator, dtype=torch.float64) * (3 if tied else 640)).ceil() / 64
    mask = torch.rand(cases, *space, generator=generator) < 0.4
    mask.flatten(1)[:, 0] = True
    mask.flatten(1)[:, -1] = False
    inputs = torch.randn(cases, 2, *space, generator=generator)
    ids = tuple(f"case-{i}" for i in range(cases))
    return heatmap, Batch(inputs, torch.zeros(cases, dtype=torch.int64), ids, masks={"truth": mask})


def values(metric: Metric, heatmap: Tensor, batch: Batch) -> Tensor:
    """The metric's values, which are seen to be scores."""
    found = call_metric(metric, heatmap, batch.masks["truth"], Scores(), batch)
    assert not values_problem(metric, found, batch.ids)
    return found


def with_mask(batch: Batch, mask: Tensor) -> Batch:
    return Batch(batch.inputs, batch.target, batch.ids, masks={"truth": mask})


def test_all_that_can_be_scored_is_tested() -> None:
    assert {"mass_accuracy", "rank_accuracy", "pointing_game", "focus"} <= set(GENERIC)
    named = {"drop", "increase", "roe_accuracy", "focus_best", *OF_SCENES, *OF_EFFECTS, *OF_TWINS, *SIGNED}
    assert set(metrics) - set(GENERIC) == named


def test_every_metric_has_a_reference_test() -> None:
    """A registered metric that nothing independent vouches for fails here, and so does a test that is gone."""
    assert sorted(REFERENCES) == sorted(metrics.own())
    tests = Path(__file__).parent.parent
    for reference in REFERENCES.values():
        file, test = reference.split("::")
        tree = ast.parse((tests / file).read_text(encoding="utf-8"))
        assert test in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)], reference


@pytest.mark.parametrize("name", metrics)
def test_descriptions_are_whole(name: str) -> None:
    metric = metrics[name]
    assert metric.name == name
    assert metric.title
    assert metric.summary
    assert metric.paper
    assert metric.uniform or name in OF_EFFECTS or name == "cue_contrast"  # 0, which no mask decides
    assert metric.range[0] < metric.range[1]


@every_metric
def test_keeps_what_authors_are_asked_to(name: str) -> None:
    check_metric(name)


@every_metric
@every_space
@pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])
def test_every_case_alone_in_every_space(name: str, space: tuple[int, ...], tied: bool) -> None:
    """Reference: batches of one, and the heatmaps as they were before."""
    heatmap, batch = make(CASES, space, tied)
    before = heatmap.clone()
    found = values(GENERIC[name], heatmap, batch)
    alone = [values(GENERIC[name], heatmap[i : i + 1], batch[i : i + 1]) for i in range(CASES)]
    assert not found.isnan().any()
    torch.testing.assert_close(found, torch.cat(alone), rtol=1e-12, atol=0)
    assert torch.equal(heatmap, before)


@every_metric
@every_dtype
@every_space
def test_every_precision(name: str, dtype: torch.dtype, space: tuple[int, ...]) -> None:
    """Reference: float64. The heatmaps are exact in all three, so the scores are the same bits."""
    heatmap, batch = make(CASES, space)
    assert torch.equal(heatmap.to(dtype).double(), heatmap)
    found, expected = (values(GENERIC[name], maps, batch) for maps in (heatmap.to(dtype), heatmap))
    assert found.dtype == torch.float64
    assert torch.equal(found, expected)


@every_metric
@every_dtype
@every_space
@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_unusable_heatmaps_are_undefined(name: str, dtype: torch.dtype, space: tuple[int, ...], value: float) -> None:
    """All zero, one NaN or one infinite value: NaN, and the other cases keep their scores."""
    heatmap, batch = make(CASES, space)
    expected = values(GENERIC[name], heatmap, batch)
    heatmap[2].view(-1)[slice(None) if value == 0 else -1] = value
    found = values(GENERIC[name], heatmap.to(dtype), batch)
    assert found.isnan().tolist() == [i == 2 for i in range(CASES)]
    assert torch.equal(found[found.isfinite()], expected[found.isfinite()])


@every_masked_metric
@every_space
def test_empty_masks_are_undefined(name: str, space: tuple[int, ...]) -> None:
    heatmap, batch = make(CASES, space)
    expected = values(GENERIC[name], heatmap, batch)
    mask = batch.masks["truth"].clone()
    mask[4] = False
    found = values(GENERIC[name], heatmap, with_mask(batch, mask))
    assert found.isnan().tolist() == [i == 4 for i in range(CASES)]
    assert torch.equal(found[found.isfinite()], expected[found.isfinite()])


@pytest.mark.parametrize("name", LOCATING)
@every_space
def test_full_masks_are_undefined(name: str, space: tuple[int, ...]) -> None:
    """Where everything is right, every heatmap would get the most there is: that says nothing about any."""
    heatmap, batch = make(CASES, space)
    expected = values(GENERIC[name], heatmap, batch)
    mask = batch.masks["truth"].clone()
    mask[4] = True
    found = values(GENERIC[name], heatmap, with_mask(batch, mask))
    assert found.isnan().tolist() == [i == 4 for i in range(CASES)]
    assert torch.equal(found[found.isfinite()], expected[found.isfinite()])


@pytest.mark.parametrize("name", [name for name, metric in GENERIC.items() if metric.uniform == "mask_share"])
@every_space
def test_a_uniform_map_gets_the_share_of_the_mask(name: str, space: tuple[int, ...]) -> None:
    """Theory: what `uniform` says. Of equal values none is preferred."""
    heatmap, batch = make(CASES, space)
    share = batch.masks["truth"].double().flatten(1).mean(1)
    torch.testing.assert_close(values(GENERIC[name], torch.full_like(heatmap, 0.3), batch), share)


@every_metric
@every_space
@pytest.mark.parametrize("factor", [2.0**-40, 0.125, 2.0**40])
def test_scale_does_not_matter(name: str, space: tuple[int, ...], factor: float) -> None:
    """Powers of two, which change no bit but the exponent's: the same scores."""
    for tied in (False, True):
        heatmap, batch = make(CASES, space, tied)
        found, expected = (values(GENERIC[name], maps, batch) for maps in (factor * heatmap, heatmap))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


@every_metric
@every_space
def test_no_cases_give_no_values(name: str, space: tuple[int, ...]) -> None:
    heatmap, batch = make(0, space)
    assert values(GENERIC[name], heatmap, batch).shape == (0,)


@every_metric
@every_space
def test_scored_through_the_registry(name: str, space: tuple[int, ...]) -> None:
    """Reference: the function itself on the heatmap, which is what one positive channel is pooled to."""
    heatmap, batch = make(CASES, space)
    ((key, found),) = score_with(GENERIC[name], batch, heatmap[:, None], Scores(), ["sum_pos"]).items()
    assert key == (name, "truth" if name in MASKED else "", "sum_pos")
    assert torch.equal(found, values(GENERIC[name], heatmap, batch))

"""Metrics through their registry: what they are called with, which values are refused, and how they are named."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.metrics import load_metrics, metrics, missing_for, score_with
from heatproof.metrics.base import Metric, register_metric
from reference import metrics as reference

POOLINGS = ("l1_norm", "l2_norm_sq")
MODEL = nn.Identity()


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(metrics, "_entries", dict(metrics.items()))


def make_batch(cases: int = 4, space: tuple[int, ...] = (5, 6), truths: tuple[str, ...] = ("small", "large")) -> Batch:
    generator = torch.Generator().manual_seed(0)
    masks = {name: torch.rand(cases, *space, generator=generator) < 0.2 * (i + 1) for i, name in enumerate(truths)}
    for mask in masks.values():
        mask.flatten(1)[:, 3] = True
    ids = tuple(f"case-{i}" for i in range(cases))
    return Batch(torch.zeros(cases, 3, *space), torch.zeros(cases, dtype=torch.int64), ids, masks=masks)


def make_relevance(batch: Batch) -> Tensor:
    return torch.randn(batch.inputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def made(function: object, **described: object) -> Metric:
    given = {"name": "mine", "title": "Mine", "higher_is_better": True, "needs": (), "paper": ""} | described
    return Metric(function=function, **given)


def literal(name: str, heatmap: np.ndarray, mask: np.ndarray) -> float:
    """The reference of each localisation metric, for maps without ties."""
    if name == "rank_accuracy":
        return reference.rank_accuracy_sorted(heatmap, mask)
    if name == "pointing_game":
        return float(reference.pointing_game_enumerated(heatmap.ravel().tolist(), mask.ravel().tolist()))
    return reference.mass_accuracy(heatmap, mask)


@pytest.mark.parametrize("name", ["mass_accuracy", "rank_accuracy", "pointing_game", "focus"])
def test_localisation_metrics_on_every_truth_and_pooling(name: str) -> None:
    """Reference: the literal poolings, then the literal metric, case by case."""
    batch = make_batch()
    relevance = make_relevance(batch)
    found = score_with(metrics[name], batch, relevance, MODEL, POOLINGS)
    assert set(found) == {(name, truth, p) for truth in ("small", "large") for p in POOLINGS}
    for (_, truth, pooling), values in found.items():
        heatmaps = reference.pool(relevance.numpy(), pooling)
        expected = [literal(name, h, m) for h, m in zip(heatmaps, batch.masks[truth].numpy(), strict=True)]
        np.testing.assert_allclose(values.numpy(), expected, rtol=1e-12)


def test_what_a_function_is_called_with() -> None:
    """The heatmap, then the mask, then model and batch by name: what `needs` says and nothing else."""
    batch, calls = make_batch(truths=("truth",)), []

    def seen(*given: object, **named: object) -> Tensor:
        calls.append((given, named))
        return torch.zeros(4, dtype=torch.float64)

    for needs in ((), ("mask",), ("model",), ("mask", "model")):
        (key,) = score_with(made(seen, needs=needs), batch, make_relevance(batch), MODEL, ["sum_abs"])
        assert key == ("mine", "truth" if "mask" in needs else "", "sum_abs")
        given, named = calls.pop()
        assert len(given) == 1 + ("mask" in needs)
        assert given[0].shape == (4, 5, 6)
        assert given[0].dtype == torch.float64
        assert given[1:] == ((batch.masks["truth"],) if "mask" in needs else ())
        assert named == ({"model": MODEL, "batch": batch} if "model" in needs else {})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (torch.full((4,), 3.33, dtype=torch.float64), r"mine gave 3.33 for case case-0, outside its range \[0, 1\]"),
        (torch.tensor([0, 1, -0.5, 0], dtype=torch.float64), "mine gave -0.5 for case case-2"),
        (torch.full((4,), math.inf, dtype=torch.float64), "mine gave inf"),
        (torch.zeros(4), "one float64 value per case"),
        (torch.zeros(4, 5, dtype=torch.float64), r"one float64 value per case, of shape \(4,\), got .*\(4, 5\)"),
        (torch.zeros((), dtype=torch.float64), "one float64 value per case"),
        ([0.0] * 4, "must return a tensor, got list"),
    ],
    ids=["too large", "too small", "infinite", "float32", "per position", "one for all", "list"],
)
def test_values_that_are_no_scores_are_refused(values: object, words: str) -> None:
    batch = make_batch()
    with pytest.raises(HeatproofError, match=words):
        score_with(made(lambda heatmap: values), batch, make_relevance(batch), MODEL, ["sum_abs"])


def test_nan_rounding_and_any_range_are_allowed() -> None:
    batch, given = make_batch(), torch.tensor([math.nan, 0, 1, 1 + 1e-12], dtype=torch.float64)
    found = score_with(made(lambda heatmap: given), batch, make_relevance(batch), MODEL, ["sum_abs"])
    torch.testing.assert_close(found["mine", "", "sum_abs"], given, equal_nan=True)
    wide = made(lambda heatmap: 100 * given, range=(-math.inf, math.inf))
    assert score_with(wide, batch, make_relevance(batch), MODEL, ["sum_abs"])


def test_infinite_is_refused_in_any_range() -> None:
    batch, given = make_batch(), torch.full((4,), math.inf, dtype=torch.float64)
    wide = made(lambda heatmap: given, range=(-math.inf, math.inf))
    with pytest.raises(HeatproofError, match="gave inf"):
        score_with(wide, batch, make_relevance(batch), MODEL, ["sum_abs"])


def test_what_is_missing_is_said_before_and_at_the_call() -> None:
    batch = make_batch(truths=())
    for name in ("mass_accuracy", "focus"):
        assert missing_for(metrics[name], ["truth"]) == ""
        assert "needs a ground-truth mask, and these cases have none" in missing_for(metrics[name], [])
        with pytest.raises(HeatproofError, match=f"{name} needs a ground-truth mask"):
            score_with(metrics[name], batch, make_relevance(batch), MODEL, POOLINGS)
    for name in ("drop", "increase", "roe_accuracy", "focus_best"):
        assert not metrics[name].generic
        assert "only the benchmark that it is made for" in missing_for(metrics[name], ["truth"])
    assert missing_for(made(len, needs=()), []) == ""


def test_relevance_of_another_shape_is_refused() -> None:
    batch = make_batch()
    for relevance in (torch.zeros(3, 1, 5, 6), torch.zeros(4, 1, 6, 5), torch.zeros(4, 5, 6)):
        with pytest.raises(HeatproofError, match=r"4 cases and space \(5, 6\), got shape"):
            score_with(metrics["mass_accuracy"], batch, relevance, MODEL, POOLINGS)


def test_every_metric_of_ours_says_what_a_uniform_map_gets() -> None:
    """Reference: the section "Undefined scores" of the design."""
    ours = {name: metric for name, metric in metrics.items() if metric.function.__module__.startswith("heatproof.")}
    said = {name: metric.uniform for name, metric in ours.items()}
    assert said == {
        **dict.fromkeys(("mass_accuracy", "rank_accuracy", "pointing_game", "attribution_precision"), "mask_share"),
        **dict.fromkeys(("focus", "focus_best", "pixel_auc"), "half"),
        **dict.fromkeys(("drop", "increase", "roe_accuracy"), "window"),
        **dict.fromkeys(("average_precision", "best_iou", "adaptive_iou", "pixel_accuracy"), "everything"),
        **dict.fromkeys(("attribution_recall", "attribution_accuracy", "dual_polarity_precision"), "balanced"),
        **{"segmentation_ap": "balanced", "attribution_f1": "balanced_f1", "lift": "one"},
        **dict.fromkeys(("object_top_n", "object_top_n_mean", "off_objects"), "scene"),
        **dict.fromkeys(("mass_selectivity", "rank_selectivity"), "scene"),
        **dict.fromkeys(("object_selectivity", "object_selectivity_mean"), "scene"),
        **{"cue_share": "mask_share", "false_cue_share": "mask_share", "cue_told": "half"},
        "cue_contrast": None,  # two equal maps have none
        **{name: None for name, metric in ours.items() if metric.needs == ("effects",)},  # said row by row
    }


def test_names_from_the_registry() -> None:
    assert load_metrics("mass_accuracy, focus") == [metrics["mass_accuracy"], metrics["focus"]]
    assert load_metrics(["drop", metrics["focus"]]) == [metrics["drop"], metrics["focus"]]
    assert load_metrics([metrics["focus"].function]) == [metrics["focus"]]


FILE = '''
import torch
from heatproof import register_metric

@register_metric("halves", title="Halves", needs=("mask",), paper="none")
def decorated(heatmap, mask):
    """One half for everybody."""
    return torch.full((len(heatmap),), 0.5, dtype=torch.float64)

def plain(heatmap):
    """The largest value.

    And more."""
    return heatmap.flatten(1).amax(1).double()
'''


def test_functions_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    halves, plain = load_metrics(f"{file}:decorated,{file}:plain")
    assert halves is metrics["halves"]
    assert (plain.name, plain.title, plain.needs, plain.summary) == ("plain", "Plain", (), "The largest value.")
    batch = make_batch()
    relevance = make_relevance(batch)
    found = score_with(plain, batch, relevance, MODEL, ["max_norm"])["plain", "", "max_norm"]
    torch.testing.assert_close(found, relevance.abs().flatten(1).amax(1))
    assert load_metrics("halves") == [halves]


def test_what_a_plain_function_needs_is_read_from_its_parameters() -> None:
    def covered(heatmap: Tensor, mask: Tensor, threshold: float = 0.5) -> Tensor: ...

    def faithful(heatmap: Tensor, *, model: nn.Module, batch: Batch) -> Tensor: ...

    assert [metric.needs for metric in load_metrics([covered, faithful])] == [("mask",), ("model",)]


def test_a_registered_function_keeps_its_name() -> None:
    @register_metric("mine", title="Mine", needs=(), paper="none", range=(0.0, 5.0))
    def function(heatmap: Tensor) -> Tensor: ...

    assert load_metrics([function])[0].range == (0.0, 5.0)


def odd_arguments(heatmap: Tensor, truth: Tensor) -> Tensor: ...


def mass_accuracy(heatmap: Tensor) -> Tensor: ...


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mass_acuracy", "unknown metric 'mass_acuracy'. Did you mean 'mass_accuracy'"),
        ("heatproof.metrics.localisation:mass_acuracy", "Did you mean 'mass_accuracy'"),
        ("nothing.py:metric", "there is no file nothing.py"),
        ("", "no metric is named"),
        ("focus,focus", "'focus' is listed twice"),
        ([odd_arguments], r"takes \(heatmap, truth\); a metric takes one of \(heatmap\), \(heatmap, mask\)"),
        ([mass_accuracy], "'mass_accuracy' is registered already"),
        ([lambda heatmap: heatmap], "a metric needs a name"),
        ([3], "a metric is a name or a function"),
        ([Metric], "a metric is a name or a function"),
    ],
    ids=["name", "object", "file", "none", "twice", "signature", "taken", "lambda", "number", "class"],
)
def test_errors_say_what_to_do(text: object, words: str) -> None:
    with pytest.raises(HeatproofError, match=words):
        load_metrics(text)

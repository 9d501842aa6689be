"""The check for authors: it passes every explainer of ours, and names what is wrong with a bad one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers import Explainer, explainers
from heatproof.metrics import Metric, metrics
from heatproof.seeds import CaseRandom
from heatproof.testing import check_explainer, check_metric, small_transformer


@pytest.mark.parametrize("name", explainers)
def test_our_own_pass(name):
    check_explainer(name)


@pytest.mark.parametrize("composite", ["attn_lrp", "attn_lrp_gamma", "cp_lrp"])
def test_relevance_through_attention_passes_on_a_transformer(composite):
    inputs = torch.randn(4, 3, 12, 10, generator=torch.Generator().manual_seed(1))
    check_explainer(f"lrp:composite={composite}", small_transformer(), inputs)


def test_what_is_wrong_on_a_transformer_alone_is_named():
    """This one is right where there are no tokens."""

    def bad(model, inputs, target):
        tokens = hasattr(model, "class_token")
        return inputs - inputs.mean(0) if tokens else inputs

    with pytest.raises(HeatproofError, match="on a transformer: a case's relevance depends on the other cases"):
        check_explainer(bad)


def test_functions_pass_too_and_so_do_other_models():
    check_explainer(lambda model, inputs, target: inputs * torch.rand(inputs.shape))
    check_explainer("gradient", torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(20, 3)), torch.randn(4, 2, 10))


def test_functions_are_tried_on_a_model_with_a_question():
    """A plain one passes, whatever rows it asks about; one that takes the question and does not use it fails."""
    check_explainer(
        lambda model, inputs, target: inputs * model(inputs.repeat(3, 1, 1, 1))[: len(inputs), :1, None, None]
    )
    with pytest.raises(HeatproofError, match="takes a question beside the inputs"):
        check_explainer(lambda model, inputs, target, *context: inputs * model(inputs)[:, :1, None, None])


@dataclass(frozen=True, kw_only=True)
class Bad(Explainer):
    how: str

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        if self.how == "in place":
            batch.inputs.abs_()
        if self.how == "weights":
            next(model.parameters()).mul_(1.5)
        if self.how == "random":
            return torch.rand(batch.inputs.shape)
        if self.how == "batch":
            return batch.inputs - batch.inputs.mean(0)
        if self.how == "nan":
            return batch.inputs / 0
        if self.how == "question":
            model(batch.inputs)
        if self.how == "shape":
            return batch.inputs[0]
        return batch.inputs


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("in place", "inputs are changed in place"),
        ("weights", "changes the model's weights"),
        ("random", "same seed gives another result"),
        ("batch", "depends on the other cases"),
        ("nan", "NaN or infinite"),
        ("shape", "returned relevance of shape"),
        ("question", r"takes a question beside the inputs: .*'question'; call model\(inputs, \*batch.context\)"),
    ],
)
def test_bad_ones_are_named(how, words):
    with pytest.raises(HeatproofError, match=words):
        check_explainer(Bad(how=how))


def test_a_model_needs_inputs():
    with pytest.raises(HeatproofError, match="together with inputs"):
        check_explainer("gradient", torch.nn.Identity())


def good(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mass accuracy in one line; the bad ones below differ from it in one thing each."""
    heatmap = heatmap.double()
    usable = heatmap.isfinite().flatten(1).all(1)
    return torch.where(usable, (heatmap * mask).flatten(1).sum(1) / heatmap.flatten(1).sum(1), torch.nan).where(
        mask.flatten(1).any(1), torch.nan
    )


def in_place(heatmap, mask):
    heatmap /= heatmap.flatten(1).sum(1)[:, None, None]
    return good(heatmap, mask)


def mask_in_place(heatmap, mask):
    found = good(heatmap, mask)
    mask.logical_not_()
    return found


def single_precision(heatmap, mask):
    return good(heatmap, mask).float()


def one_for_all(heatmap, mask):
    return good(heatmap, mask).mean()


def always_undefined(heatmap, mask):
    return good(heatmap, mask) * torch.nan


def percent(heatmap, mask):
    return 100 * good(heatmap, mask)


def random_value(heatmap, mask):
    return good(heatmap, mask) * torch.rand(())


def zero_for_zero(heatmap, mask):
    return torch.where((heatmap == 0).flatten(1).all(1), 0.0, good(heatmap, mask))


def zero_for_nan(heatmap, mask):
    return torch.where(heatmap.isnan().flatten(1).any(1), 0.0, good(heatmap, mask))


def zero_for_infinite(heatmap, mask):
    return torch.where(heatmap.isinf().flatten(1).any(1), 0.0, good(heatmap, mask))


def zero_for_empty(heatmap, mask):
    return torch.where(mask.flatten(1).any(1), good(heatmap, mask), 0.0)


def nan_for_all(heatmap, mask):
    return good(heatmap, mask) + 0 * heatmap.sum()


def over_the_batch(heatmap, mask):
    return good(heatmap, mask) / good(heatmap, mask).nansum()


def by_place(heatmap, mask):
    return good(heatmap, mask) / torch.arange(1, len(heatmap) + 1)


def coarse_in_single(heatmap, mask):
    return good(heatmap, mask).round(decimals=15 if heatmap.dtype == torch.float64 else 2)


def with_scale(heatmap, mask):
    return good(heatmap.clamp(max=0.5), mask)


def raises(heatmap, mask):
    raise ValueError("not today")


BAD_METRICS = [
    (in_place, "arguments are changed in place"),
    (mask_in_place, "arguments are changed in place"),
    (single_precision, "no scores .*one float64 value per case"),
    (one_for_all, "no scores .*one float64 value per case"),
    (percent, r"no scores .*outside its range \[0, 1\]"),
    (always_undefined, "ordinary cases are undefined"),
    (random_value, "the same call gives another result"),
    (zero_for_zero, "zero everywhere must score NaN"),
    (zero_for_nan, "a heatmap with NaN must score NaN"),
    (zero_for_infinite, "an infinite value must score NaN"),
    (zero_for_empty, "an empty mask must score NaN"),
    (nan_for_all, "a heatmap with NaN must score NaN"),
    (over_the_batch, "depends on the other cases"),
    (by_place, "depends on the order of the cases"),
    (coarse_in_single, "float32 and float64 heatmaps score differently"),
    (with_scale, "a positive factor of the heatmap changes the score"),
    (raises, "ValueError: not today"),
]


@pytest.mark.parametrize("name", [name for name, metric in metrics.items() if metric.generic])
def test_our_own_metrics_pass(name):
    check_metric(name)


def test_metrics_of_functions_pass_too_whatever_they_need():
    def peakedness(heatmap: torch.Tensor) -> torch.Tensor:
        flat = heatmap.double().flatten(1)
        return torch.where(flat.isfinite().all(1), flat.amax(1) / flat.sum(1), torch.nan)

    def sure_peakedness(heatmap: torch.Tensor, *, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        with torch.no_grad():
            return model(batch.inputs).double().softmax(1).amax(1) * peakedness(heatmap)

    for metric in (good, peakedness, sure_peakedness):
        check_metric(metric)


@pytest.mark.parametrize(("function", "words"), BAD_METRICS, ids=[function.__name__ for function, _ in BAD_METRICS])
def test_bad_metrics_are_named(function, words):
    metric = Metric(function.__name__, "Bad", function, higher_is_better=True, needs=("mask",), paper="")
    with pytest.raises(HeatproofError, match=f"{function.__name__} breaks the contract of metrics: .*{words}"):
        check_metric(metric)


def test_every_broken_promise_of_a_metric_is_listed():
    """A share of the mask that is touched, without a word about what is undefined."""

    def coverage(heatmap: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return ((heatmap > 0) & mask).flatten(1).sum(1) / mask.flatten(1).sum(1)

    with pytest.raises(HeatproofError) as raised:
        check_metric(coverage)
    for words in ("no scores", "zero everywhere", "with NaN", "with an infinite value"):
        assert words in str(raised.value)
    assert "an empty mask" not in str(raised.value)


def test_metrics_of_one_benchmark_cannot_be_checked():
    with pytest.raises(HeatproofError, match="drop needs confidences"):
        check_metric("drop")

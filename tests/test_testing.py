"""The check for authors: it passes every explainer of ours, and names what is wrong with a bad one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers import Explainer, explainers
from heatproof.seeds import CaseRandom
from heatproof.testing import check_explainer


@pytest.mark.parametrize("name", [name for name in explainers if name != "attention_rollout"])
def test_our_own_pass(name):
    check_explainer(name)


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

"""The numbers of the fact sheets: axioms on networks whose answers are known by theory, and the stored ones again."""

from __future__ import annotations

import pytest
import torch
from facts import axioms
from facts.__main__ import opened
from facts.needs import needs
from torch import nn
from typer.testing import CliRunner

from heatproof.cases import Batch
from heatproof.cli.app import app
from heatproof.explainers import explainers
from heatproof.explainers.facts import AXIOMS, NEEDS, markdown, sheet, stored
from heatproof.seeds import CaseRandom


def explaining(name: str, **parameters):
    explainer = explainers[name](**parameters)
    return lambda model, batch: explainer(model, batch, CaseRandom(0, name))


PARAMETERS = {"occlusion": {"window": 1, "stride": 1}}
"""Position by position, which for a sum over positions is exact."""


@pytest.fixture(scope="module")
def linear() -> tuple[nn.Module, Batch]:
    """S = w x + b: gradient times input adds up to S(x) - S(0) exactly, and to S(x) only without b."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(24, 4)).double()
    return model, Batch(torch.rand(5, 2, 12).double() + 0.1, torch.arange(5) % 4, tuple("abcde"))


@pytest.mark.parametrize(
    ("axiom", "kept", "broken"),
    [
        ("completeness", "gradient_x_input", "gradient"),
        ("completeness", "occlusion", "random"),
        ("dummy", "gradient", "input_magnitude"),
        ("invariance", "gradient", "guided_backprop"),
    ],
)
def test_axioms_tell_methods_apart(linear, axiom, kept, broken):
    measure = getattr(axioms, axiom)
    assert measure(explaining(kept, **PARAMETERS.get(kept, {})), *linear).max() < 1e-6
    assert measure(explaining(broken), *linear).median() > 1e-3


def test_sensitivity_on_the_example_of_its_paper():
    """S(x) = 1 - ReLU(1 - x): at x = 2 the gradient is zero, and yet S(2) - S(0) = 1 (Sundararajan et al. 2017)."""

    class Flat(nn.Module):
        def forward(self, inputs):
            return (1 - (1 - inputs.flatten(1)).relu()).cumsum(1)

    batch = Batch(torch.full((3, 1, 1), 2.0), torch.zeros(3).long(), tuple("abc"))
    assert axioms.sensitivity(explaining("gradient"), Flat(), batch).tolist() == [1, 1, 1]
    assert axioms.sensitivity(explaining("integrated_gradients"), Flat(), batch).tolist() == [0, 0, 0]


def test_completeness_and_conservation_differ_by_the_bias(linear):
    model, batch = linear
    empty = axioms.scores(model, batch, torch.zeros_like(batch.inputs))
    scores = axioms.scores(model, batch, batch.inputs)
    expected = (empty / scores).abs()
    assert torch.allclose(axioms.conservation(explaining("gradient_x_input"), model, batch), expected)


def test_the_rewritten_network_is_the_same_function(linear):
    model, batch = linear
    assert torch.allclose(axioms.rewritten(model)(batch.inputs), model(batch.inputs))


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("oracle", "truth"),
        ("random", "nothing"),
        ("occlusion", "scores"),
        ("gradient", "gradients"),
        ("grad_cam", "layers"),
        ("lrp", "layers"),
    ],
)
def test_needs_are_found_by_taking_things_away(picture_net, name, need):
    batch = picture_net.batch[:2]
    mask = torch.zeros(2, *batch.inputs.shape[2:], dtype=torch.bool)
    mask[:, 1:3] = True
    cases = Batch(batch.inputs, batch.target, batch.ids, masks={"truth": mask})
    assert needs(explainers[name](), picture_net.model, cases) == need


def test_stored_numbers_come_out_again():
    """For a few methods that cost little, on SVEA's network."""
    _, model, batch = opened("svea")
    for name in ("gradient_x_input", "lrp", "grad_cam"):
        for axiom, value in stored()["explainers"][name]["axioms"]["svea"].items():
            found = getattr(axioms, axiom)(explaining(name), model, batch)
            middle = found.mean() if axiom == "sensitivity" else found.median()
            assert float(middle) == pytest.approx(value, rel=0.02, abs=1e-4), (name, axiom)


def test_every_explainer_has_a_sheet():
    for name in explainers.own():
        page = markdown(sheet(name))
        assert page.startswith(f"# {name}\n")
        assert sheet(name).summary in page
    known = stored()["explainers"]
    assert set(known) <= set(explainers.own()), "facts of explainers that are gone; make facts"
    assert {entry["needs"] for entry in known.values() if "needs" in entry} <= set(NEEDS)
    assert all(set(found) == set(AXIOMS) for entry in known.values() for found in entry["axioms"].values())


def test_a_sheet_is_printed_and_a_wrong_name_told():
    shown = CliRunner().invoke(app, ["list", "explainers", "integrated_gradients"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for words in ("Sundararajan et al. 2017", "scores and gradients", "kept (0)", "steps=50"):
        assert words in shown.stdout
    wrong = CliRunner().invoke(app, ["list", "explainers", "integrated_gradient"])
    assert "Did you mean 'integrated_gradients'" in str(wrong.exception)

"""The numbers of the fact sheets: axioms on networks whose answers are known by theory, and the stored ones again."""

from __future__ import annotations

import pytest
import torch
from facts import axioms
from facts.__main__ import opened
from facts.needs import needs
from torch import nn
from typer.testing import CliRunner

from heatproof.benchmarks.references import read_reference
from heatproof.cases import Batch
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.explainers.facts import AXIOMS, NEEDS, markdown, sheet, stored
from heatproof.explainers.spec import BROUGHT, make_explainer
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
    assert torch.allclose(axioms.rewritten(model, batch)(batch.inputs), model(batch.inputs))


def test_rewriting_holds_for_inputs_of_both_signs():
    """As behind the layer norm of a transformer, where a ReLU of the inputs alone would lose their negative half."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.LayerNorm(24), nn.Linear(24, 4)).double()
    batch = Batch(torch.randn(5, 2, 12).double(), torch.arange(5) % 4, tuple("abcde"))
    assert torch.allclose(axioms.rewritten(model, batch)(batch.inputs), model(batch.inputs))
    assert axioms.invariance(explaining("gradient"), model, batch).max() < 1e-6


@pytest.mark.parametrize("place", ["svea", "focus", "clevr-xai", "focus-vit"])
def test_shipped_networks_are_rewritten_as_the_same_function(place):
    _, model, batch = opened(place)
    with torch.no_grad():
        logits = model(batch.inputs, *batch.context)
        again = axioms.rewritten(model, batch)(batch.inputs, *batch.context)
    assert torch.allclose(again, logits, atol=1e-4 * float(logits.abs().max()))


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


def test_every_explainer_has_a_whole_sheet():
    """What it needs and the axioms it keeps were measured, and every parameter is explained."""
    for name in (*explainers.own(), *BROUGHT):
        found = sheet(name)
        page = markdown(found)
        assert page.startswith(f"# {name}\n")
        assert found.summary in page
        assert found.needs in NEEDS.values(), f"{name}: python -m facts --only {name}"
        assert found.axioms or name in BROUGHT, f"{name}: python -m facts --only {name}"
        assert [parameter for parameter, (_, words) in found.parameters.items() if not words] == [], name
    known = stored()["explainers"]
    assert set(known) == {*explainers.own(), *BROUGHT}, "make facts"
    assert all(set(found) == set(AXIOMS) for entry in known.values() for found in entry.get("axioms", {}).values())


def test_what_a_benchmark_brings_along_is_made_by_its_name():
    made = make_explainer("true_effects:over=sum")
    assert made.label == "true_effects:over=sum"
    with pytest.raises(HeatproofError, match="only clevr-removal"):
        made(nn.Identity(), Batch(torch.rand(1, 1, 4), torch.tensor([0]), ("a",)), CaseRandom(0, "a"))


def test_the_papers_numbers_are_those_of_their_tables():
    """Every method of SVEA's and CLEVR-XAI's tables stands on its sheet with the number that the table has."""
    for benchmark, table, metric in (("svea", "svea", "roe_accuracy"), ("clevr-xai", "clevr_xai", "mass_accuracy")):
        rows = read_reference(table).filter(metric=metric)
        rows = rows.filter(subset="all") if "subset" in rows.columns else rows
        for name, number in rows.select("explainer", "reference").iter_rows():
            if name == "raw_input":  # whole signals, and no explainer
                continue
            shown = [one for one in sheet(name.partition(":")[0]).papers if one.benchmark == benchmark]
            assert number in [one.paper for one in shown if one.metric == metric], name


def test_a_sheet_is_printed_and_a_wrong_name_told():
    shown = CliRunner().invoke(app, ["list", "explainers", "integrated_gradients"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for words in ("Sundararajan et al. 2017", "scores and gradients", "kept (0)", "steps=50"):
        assert words in shown.stdout
    wrong = CliRunner().invoke(app, ["list", "explainers", "integrated_gradient"])
    assert "Did you mean 'integrated_gradients'" in str(wrong.exception)

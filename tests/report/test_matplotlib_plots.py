"""Figures with matplotlib: what they show is what the run says."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import heatproof
from heatproof.errors import HeatproofError
from heatproof.report.matplotlib_plots import CEILING, FLOOR, LEADER, METHOD, centred


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    chosen = ["gradient", "gradient_x_input", "grad_cam", "integrated_gradients:steps=5", "random", "oracle"]
    out = tmp_path_factory.mktemp("run") / "r"
    return heatproof.run("svea", explainers=chosen, limit=150, out=out, jobs=1)


@pytest.mark.parametrize("kind", ["distribution", "ranks", "pareto", "case"])
def test_each_is_a_figure_that_can_be_written(run, kind, tmp_path):
    made = run.figure(kind)
    assert isinstance(made, Figure)
    for ending in ("png", "pdf", "svg"):
        made.savefig(tmp_path / f"figure.{ending}")
    picture = np.asarray(Image.open(io.BytesIO(made._repr_png_())).convert("L"))
    assert picture.std() > 5, "something is drawn"


def test_boxes_are_the_quartiles_of_the_scores(run):
    """Reference: NumPy's quantiles of the run's own rows."""
    made = run.figure("distribution", metric="mass_accuracy", target="logit")
    (axes,) = made.axes
    judged = next(j for j in run.verdict.contests if (j.metric, j.target) == ("mass_accuracy", "logit"))
    assert [label.get_text() for label in axes.get_yticklabels()] == [entrant.short for entrant in judged.entrants]
    rows = run.scores().filter(metric="mass_accuracy", pooling=judged.pooling, ground_truth=judged.ground_truth)
    for place, entrant in enumerate(judged.entrants):
        values = rows.filter(explainer=entrant.explainer, target=entrant.target)["value"].drop_nans().to_numpy()
        box = axes.patches[place].get_path().get_extents()
        assert (box.x0, box.x1) == pytest.approx(tuple(100 * np.quantile(values, [0.25, 0.75])), abs=1e-6)


def test_scores_of_zero_or_one_have_no_boxes(run):
    (axes,) = run.figure("distribution", metric="roe_accuracy").axes
    assert not axes.patches
    assert "means with 95 % intervals" in axes.get_xlabel()


def test_ranks_are_those_of_the_verdict(run):
    (axes,) = run.figure("ranks", target="logit").axes
    judged = next(judged for judged in run.verdict.contests if judged.target == "logit")
    dots = [line for line in axes.lines if line.get_marker() in ("o", "s")]
    assert [float(line.get_xdata()[0]) for line in dots] == [entrant.rank for entrant in judged.methods]
    bars = [line for line in axes.lines if line.get_linewidth() == 3]
    assert len(bars) == len({letter for entrant in judged.methods for letter in entrant.groups})


def test_the_line_joins_the_pareto_set(run):
    made = run.figure("pareto")
    (axes,) = made.axes
    judged = run.verdict.contests[0]
    best = {(entrant.seconds, 100 * entrant.mean) for entrant in judged.methods if entrant.is_pareto}
    assert set(zip(*map(list, axes.lines[0].get_data()), strict=True)) == best
    said = {text.get_text() for text in axes.texts}
    assert {entrant.short for entrant in judged.methods} <= said
    assert {"best floor: random", "ceiling: oracle"} <= said


def test_cases_are_drawn_with_zero_in_the_middle(run):
    kept = run.files.examples()["ids"].tolist()
    made = run.figure("case", case=kept[1], target="logit", explainers=["gradient", "grad_cam"])
    drawn = [axes for axes in made.axes if axes.get_title()]
    assert [axes.get_title() for axes in drawn] == ["input, and the truth", "gradient", "grad_cam"]
    for axes in drawn[1:]:
        low, high = axes.images[0].get_clim()
        assert low == -high
    assert centred(np.zeros(4)) == {"vmin": -1.0, "vmax": 1.0}
    assert centred(np.full(4, np.nan)) == {"vmin": -1.0, "vmax": 1.0}


def test_pictures_too(tmp_path):
    run = heatproof.run("clevr-xai", explainers="gradient,edges", limit=6, out=tmp_path / "r", jobs=1)
    made = run.figure("case")
    assert len([axes for axes in made.axes if axes.images]) == 3
    made.savefig(tmp_path / "case.png")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("rank", {}, "unknown figure 'rank'. Did you mean 'ranks'"),
        ("ranks", {"metric": "dropp"}, "unknown metric of the verdict 'dropp'. Did you mean 'drop'"),
        ("ranks", {"colour": "red"}, "figure 'ranks' has no such option"),
        ("case", {"case": "test-9999"}, "unknown stored case 'test-9999'"),
        ("case", {"explainers": ["rise"]}, "has no stored heatmap"),
        ("ranks", {"metric": "drop", "pooling": "sum_pos"}, "has no contest of"),
    ],
)
def test_what_there_is_not_is_said(run, kind, options, message):
    with pytest.raises(HeatproofError, match=message):
        run.figure(kind, **options)


def test_without_matplotlib_a_sentence_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HeatproofError, match=r"figures need matplotlib: pip install 'heatproof\[plot\]'"):
        run.figure("ranks")


def test_colours_are_apart_for_people_who_see_few():
    """Reference: the matrices of Viénot, Brettel and Mollon (1999) for protanopia and deuteranopia, on linear RGB."""
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    kinds = {
        "protanopia": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
        "deuteranopia": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    }
    colours = {
        name: np.array([int(code[place : place + 2], 16) / 255 for place in (1, 3, 5)]) ** 2.2
        for name, code in {"method": METHOD, "leader": LEADER, "floor": FLOOR, "ceiling": CEILING}.items()
    }
    for matrix in kinds.values():
        seen = {name: np.linalg.solve(to_lms, matrix @ to_lms @ rgb) for name, rgb in colours.items()}
        for pair in (("method", "leader"), ("method", "floor"), ("leader", "ceiling"), ("leader", "floor")):
            assert np.abs(seen[pair[0]] - seen[pair[1]]).max() > 0.1, pair

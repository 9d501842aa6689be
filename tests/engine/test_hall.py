"""What every run walks through, whatever the benchmark: names, papers' numbers, metrics, refusals, seeds, networks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
import torch

import heatproof
from heatproof.clevr.objects import shipped_pictures
from heatproof.cli.run import show_board
from heatproof.engine.manifest import describe_all, short_names
from heatproof.engine.sources import Explaining
from heatproof.errors import HeatproofError
from heatproof.experiments.bias import write_bias
from heatproof.explainers.spec import make_explainers
from heatproof.results.tables import boards, shown_lines, target_title

SMALL = {"limit": 60, "target": "logit"}


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "heatproof", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


# Names


def test_short_names_tell_explainers_apart_and_say_no_more():
    smooth = "smoothgrad:samples=10,sigma=0.2,smoothgrad:samples=20,sigma=0.2"
    entries = describe_all(make_explainers(f"lrp:composite=focus,{smooth},grad_cam,randomised:grad_cam"))
    assert [entry["short"] for entry in entries] == [
        "lrp",
        "smoothgrad:samples=10",
        "smoothgrad:samples=20",
        "grad_cam",
        "randomised:grad_cam",
    ]
    alike = describe_all(make_explainers("rise,rise:masks=5"))
    assert set(short_names(alike).values()) == {"rise", "rise:masks=5"}


@pytest.mark.parametrize("width", [80, 112, 150])
def test_tables_fit_the_terminal(width, tmp_path):
    from rich.console import Console

    explainers = "grad_cam_pp:alpha=normalised,grad_cam_pp,integrated_gradients:steps=3,input_magnitude,oracle"
    run = heatproof.run("svea", explainers=explainers, limit=60, target="both", out=tmp_path / "r")
    console = Console(width=width, record=True, file=StringIO())
    for board in boards(run):
        show_board(board, on=console)
    text = console.export_text()
    for line in text.splitlines():
        assert len(line.rstrip()) <= width
    names = re.findall(r"^ (\S+) ", text, re.MULTILINE)
    assert {"grad_cam_pp:alpha=normalised", "integrated_gradients", "oracle"} <= set(names)
    defined = shown_lines(run).filter(pl.col("mean").is_not_null() & run.story.shown).filter(explainer="oracle")
    shown = len(re.findall(r"^ oracle .*$", text, re.MULTILINE))
    assert shown == len(re.findall(r"^ explainer ", text, re.MULTILINE))  # in each table, and on one line
    assert len(re.findall(r"\d ±\d", text)) > 5 * len(defined)  # no number goes over two lines
    assert not re.search(r"^\s+±", text, re.MULTILINE)
    cells = [text_of(line) for board in boards(run) for line in board.lines for _, text_of in board.columns()]
    assert [cell for cell in cells if cell not in text] == []  # nor does an interval or a share


def test_as_published_stands_where_the_paper_does():
    assert target_title("probability", "probability") == "Explaining the probability (as published)"
    assert target_title("probability", "logit") == "Explaining the probability"
    assert target_title("logit", "") == "Explaining the logit"


# The papers' numbers


def test_a_number_stands_only_beside_its_own_parameters_and_network(tmp_path):
    explainers = "integrated_gradients,integrated_gradients:steps=10,gradient"
    ours = heatproof.run("svea", explainers=explainers, limit=60, out=tmp_path / "ours")
    known = ours.leaderboard().filter(pl.col("reference").is_not_null())
    assert set(known["explainer"]) == {"integrated_gradients", "gradient", "raw_input"}
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 10))
    theirs = heatproof.run("svea", model=model, explainers="gradient", limit=60, out=tmp_path / "theirs")
    table = theirs.leaderboard().filter(explainer="gradient", target="probability", metric="roe_accuracy")
    assert table["reference"].item() is None
    assert table["reference_elsewhere"].item() == 0.327
    page = (tmp_path / "theirs" / "report.html").read_text()
    assert 'class="elsewhere"' in page
    assert 'class="paper">paper' not in page


# Refusals before any work


def test_what_cannot_be_explained_is_refused_at_once(tmp_path):
    done = call("run", "clevr-xai", "--limit", "4", "--explainers", "gradient,oracle", "--out", "r", cwd=tmp_path)
    assert done.returncode == 2
    assert "oracle needs one ground-truth mask, given by mask=NAME" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("r/scores/*"))


# Metrics and poolings


def test_a_registered_metric_is_scored_on_every_benchmark(tmp_path):
    """Reference: the pointing game by hand, from the stored heatmaps."""
    explainers = ["gradient"]
    run = heatproof.run(
        "focus", explainers=explainers, metrics="pointing_game", per_class=1, keep_heatmaps=True, out=tmp_path / "f"
    )
    stored = run.files.heatmaps("gradient@logit", "object_classifier")
    rows = run.scores().filter(metric="pointing_game", pooling="sum_abs")
    labels = run.scores().filter(metric="focus", pooling="sum_abs").select("case", "target_class", r"^label_\d$")
    assert len(rows) == len(stored) == 6
    for row in rows.join(labels, on="case", suffix="_f").iter_rows(named=True):
        heat = abs(stored[row["case"]].sum(0).astype(float))
        y, x = divmod(int(heat.argmax()), heat.shape[1])
        tile = 2 * (y >= heat.shape[0] // 2) + (x >= heat.shape[1] // 2)
        assert row["value"] == float(row[f"label_{tile}"] == row["target_class"])
    assert "Pointing game" in (tmp_path / "f" / "report.html").read_text()
    clevr = heatproof.run("clevr-xai", explainers=["random"], metrics=["pointing_game"], limit=4, out=tmp_path / "c")
    assert clevr.leaderboard().filter(metric="pointing_game", subset="all")["n"].min() > 0


# Seeds


def test_a_seed_means_the_same_in_python_and_on_the_command_line(tmp_path):
    words = ("--seed", "3", "--per-class", "1", "--explainers", "random", "--out", "r")
    assert call("run", "focus", *words, cwd=tmp_path).returncode == 0
    shown = heatproof.load_run(tmp_path / "r")
    made = heatproof.run("focus", seed=3, per_class=1, explainers="random", out=tmp_path / "p")
    other = heatproof.run("focus", seed=4, per_class=1, explainers="random", out=tmp_path / "o")
    assert shown.manifest["cases"] == made.manifest["cases"] != other.manifest["cases"]
    assert shown.leaderboard()["mean"].to_list() == made.leaderboard()["mean"].to_list()


# Cost


def test_what_a_method_costs_is_seen_on_the_model_at_hand():
    """Occlusion of 128x128 pictures asks the model far more often than that of 40 points."""
    from heatproof.benchmarks.focus import Focus
    from heatproof.benchmarks.svea import Svea

    passes = {}
    for name, recipe in (("svea", Svea(limit=10)), ("focus", Focus(per_class=1))):
        source = Explaining(recipe.open(0), make_explainers("occlusion"))
        batch = source.probe_batch[:1]
        seen: list[int] = []
        model = source.opened.model(next(iter(source.opened.models)))
        hook = model.register_forward_hook(lambda _m, _a, output, seen=seen: seen.append(len(output)))
        source.relevance(source.explainers[0], model, batch)
        hook.remove()
        passes[name] = source.units()[0].passes
        assert passes[name] == sum(seen)
    assert passes["focus"] > 10 * passes["svea"]


# Networks


class Among(torch.nn.Module):
    """Returns its logits among other things."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.how = torch.nn.Linear(40, 10), how

    def forward(self, signals: torch.Tensor) -> object:
        logits = self.layer(signals.flatten(1))
        return {"tuple": (logits, 1), "dict": {"loss": 0, "logits": logits}, "plain": logits}[self.how]


@pytest.mark.parametrize("how", ["tuple", "dict"])
def test_logits_among_other_things(how, tmp_path):
    """Reference: the same network that returns them alone."""
    runs = [
        heatproof.run("svea", model=Among(kind), explainers="gradient_x_input", out=tmp_path / kind, **SMALL)
        for kind in ("plain", how)
    ]
    plain, among = (run.leaderboard()["mean"].to_list() for run in runs)
    assert plain == among
    inputs = torch.randn(2, 1, 40)
    found = [heatproof.explain(Among(kind), inputs, "gradient") for kind in ("plain", how)]
    assert torch.equal(*found)


def test_no_logits_at_all_are_told_how_to_be_wrapped(tmp_path):
    class Nothing(torch.nn.Module):
        def forward(self, signals: torch.Tensor) -> dict[str, int]:
            return {"answer": 42}

    with pytest.raises(HeatproofError, match=r"Wrap it in a module that returns the logits alone"):
        heatproof.run("svea", model=Nothing(), explainers="gradient", out=tmp_path / "r", **SMALL)


# Focus's classifiers with a size of their own


def test_biases_of_a_classifier_that_says_its_own_size(tmp_path):
    """Pictures of the worst mosaics are made: their size is that of the run."""
    (tmp_path / "net.py").write_text(
        "import torch\n\n\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    layers = torch.nn.Conv2d(3, 6, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()\n"
        "    return torch.nn.Sequential(*layers), {'size': 24, 'fit': 'squash'}\n"
    )
    options = {"images": shipped_pictures(), "model": f"{tmp_path / 'net.py'}:build", "per_class": 12}
    run = heatproof.run("focus", explainers="gradient", out=tmp_path / "r", **options)
    assert run.manifest["configuration"]["tile"] == 24
    found = write_bias(run.folder, "gradient", below=0.9)
    assert found.pairs["found"].any()
    assert found.without_pictures is None
    assert list(found.folder.glob("*.webp"))


# The command line


def test_all_benchmarks_take_explainers_and_one_case_takes_a_network(tmp_path):
    shown = call("run", "all", "--dry-run", "--explainers", "gradient", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("gradient ") == 6  # SVEA explains two quantities, CLEVR-XAI has two sets of questions
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 10))\n"
    )
    words = ("--case", "test-0003", "--explainers", "gradient", "--model", "net.py:build", "--out", "c.svg")
    drawn = call("show", "svea", *words, cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    assert "test-0003" in (tmp_path / "c.svg").read_text()


def test_run_json_tells_all_that_is_needed_to_repeat_a_run(tmp_path):
    heatproof.run("svea", explainers="rise:masks=7", window="literal", out=tmp_path / "r", **SMALL)
    manifest = json.loads((tmp_path / "r" / "run.json").read_text())
    assert manifest["options"]["window"] == "literal"
    assert manifest["options"]["limit"] == 60
    (entry,) = manifest["explainers"]
    assert (entry["explainer"], entry["short"], entry["parameters"]["masks"]) == ("rise:masks=7", "rise", 7)
    assert set(manifest["story"]) >= {"title", "metrics", "columns", "words", "examples", "notes", "marks"}

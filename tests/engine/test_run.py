"""Running: same scores however the work is cut, interrupted or resumed, and nothing computed is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

import heatproof
from heatproof.benchmarks.svea import OpenedSvea, Svea
from heatproof.cases import Batch
from heatproof.cli.run import show_board
from heatproof.engine.plan import folder_name, for_quantities
from heatproof.engine.sources import Explaining
from heatproof.errors import HeatproofError
from heatproof.explainers import Explainer
from heatproof.explainers.spec import make_explainer, make_explainers
from heatproof.results.tables import boards
from heatproof.run_folder import RunFolder

EVERY = "gradient,smoothgrad:samples=3,integrated_gradients:steps=5,grad_cam,score_cam,rise:masks=20,sise,random,oracle"
COST = ["seconds_per_case", "passes_per_case", "peak_memory"]


class Double(torch.nn.Module):
    """The shipped network in float64, where no rounding hides behind the order of additions."""

    def __init__(self) -> None:
        super().__init__()
        from heatproof.models.mnist1d_cnn import trained_network

        self.network = trained_network(1).double()

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        return self.network(signals.double())


def scores(run: heatproof.Run) -> pl.DataFrame:
    rows = run.scores().filter(~pl.col("metric").is_in(["seconds", "passes", "memory"]))
    return rows.sort("model", "target", "explainer", "metric", "pooling", "case").select(sorted(rows.columns))


@pytest.mark.parametrize("model", [None, Double()], ids=["float32", "float64"])
def test_scores_do_not_depend_on_the_batch_size(model, tmp_path):
    """Sizes 1, 7 and 256. In float32 the order of additions may differ by a rounding, and no more."""
    runs = [
        heatproof.run("svea", explainers=EVERY, limit=300, model=model, batch_size=size, out=tmp_path / str(size))
        for size in (1, 7, 256)
    ]
    tolerance = 1e-9 if model else 1e-3
    for other in runs[1:]:
        assert_frame_equal(scores(runs[0]), scores(other), check_exact=False, rel_tol=tolerance, abs_tol=tolerance)
        assert_frame_equal(
            runs[0].leaderboard().drop(COST), other.leaderboard().drop(COST), rel_tol=tolerance, abs_tol=tolerance
        )


def test_another_seed_gives_other_random_scores(tmp_path):
    first, again, other = (
        heatproof.run("svea", explainers="random,gradient", limit=50, seed=seed, target="logit", out=tmp_path / name)
        for seed, name in ((1, "a"), (1, "b"), (2, "c"))
    )
    assert_frame_equal(scores(first), scores(again))
    mass = [
        scores(run).filter((pl.col("metric") == "mass_accuracy") & (pl.col("explainer") == "random"))["value"]
        for run in (first, other)
    ]
    assert not mass[0].equals(mass[1])


def command(folder: Path) -> list[str]:
    explainers = "gradient,smoothgrad:samples=10,rise:masks=60,random"
    script = "from heatproof.cli import main; main()"
    return [sys.executable, "-c", script, *f"run svea --explainers {explainers} --limit 2500 --out {folder}".split()]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_a_stopped_run_is_resumed_with_the_same_scores(how, tmp_path):
    """A real process, really stopped in the middle, then the same command again."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command(whole), check=True, capture_output=True, env=environment)
    total = len(list(whole.glob("scores/*/*.parquet")))
    process = subprocess.Popen(
        command(broken), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 120
    while len(list(broken.glob("scores/*/*.parquet"))) < total // 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    # A kill may fall between a part and its line in the list of parts: without that nobody knows that it is whole.
    listed = RunFolder(broken).ledger
    there = list(broken.glob("scores/*/*.parquet"))
    parts = {path: path.stat().st_mtime_ns for path in there if path.relative_to(broken).as_posix() in listed}
    assert 0 < len(parts) < total
    assert len(there) - len(parts) <= (how == signal.SIGKILL)
    assert not (broken / "leaderboard.csv").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "go on with:\n  heatproof run svea" in errors
        assert "Traceback" not in errors
    subprocess.run(command(broken), check=True, capture_output=True, env=environment)
    for path, written in parts.items():
        assert path.stat().st_mtime_ns == written, "a finished part was computed again"
    first, second = heatproof.load_run(whole), heatproof.load_run(broken)
    assert_frame_equal(scores(first), scores(second))
    assert_frame_equal(first.leaderboard().drop(COST), second.leaderboard().drop(COST))


@dataclass(frozen=True, kw_only=True)
class Broken(Explainer):
    """Explains like |x|, but fails on one case in the way that `how` says."""

    name = "broken"

    how: str = "raises"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: heatproof.CaseRandom) -> torch.Tensor:
        relevance = batch.inputs.abs()
        if "train-0500" in batch.ids:
            if self.how == "raises":
                raise ZeroDivisionError("the fifth hundred is cursed")
            if self.how == "nan":
                relevance[batch.ids.index("train-0500")] = torch.nan
            if self.how == "shape":
                return relevance[..., :-1]
        return relevance


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", "ZeroDivisionError: the fifth hundred is cursed"),
        ("nan", "NaN or infinite relevance for 1 case(s), the first is 'train-0500'"),
        ("shape", "returned relevance of shape (100, 1, 39); it must be (100, 1, 40)"),
    ],
)
def test_a_failing_explainer_costs_its_own_scores_only(how, words, tmp_path):
    explainers = ["gradient", Broken(how=how)]
    run = heatproof.run("svea", explainers=explainers, limit=1000, target="logit", batch_size=100, out=tmp_path / "r")
    (failure,) = run.failures()
    assert failure["chunk"] == "mnist1d_cnn-1.train-000500"
    assert words in failure["message"]
    table = run.leaderboard()
    assert set(table.filter(pl.col("metric") == "roe_accuracy")["explainer"]) == {"gradient", "raw_input"}
    broken = table.filter((pl.col("explainer") == Broken(how=how).label) & (pl.col("metric") == "drop"))
    assert broken["n"][0] == 200  # the test signals were fine
    assert words in (tmp_path / "r" / "leaderboard.md").read_text()
    assert "cursed" in (tmp_path / "r" / "report.html").read_text() or how != "raises"


def test_a_failed_unit_is_tried_again(tmp_path):
    mended = {"yes": False}

    def moody(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if not mended["yes"] and len(inputs) == 40:
            raise RuntimeError("not today")
        return inputs.abs()

    out = tmp_path / "r"
    assert heatproof.run("svea", explainers=[moody, "gradient"], limit=50, target="logit", out=out).failures()
    mended["yes"] = True
    run = heatproof.run("svea", explainers=[moody, "gradient"], limit=50, target="logit", out=out)
    assert not run.failures()
    assert "moody" in run.leaderboard().filter(pl.col("metric") == "roe_accuracy")["explainer"]


def test_when_everything_fails_the_reason_is_said(tmp_path):
    def hopeless(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no idea")

    with pytest.raises(HeatproofError, match="hopeless: RuntimeError: no idea"):
        heatproof.run("svea", explainers=[hopeless], limit=20, out=tmp_path / "r")


def test_a_function_sees_the_explained_quantity_and_repeats_its_draws(tmp_path):
    """Reference: the same draws in one batch and in many, and probabilities that add up to one."""

    def noisy(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        total = model(inputs).sum(1)
        assert (total.allclose(torch.ones(len(inputs)))) == (model.quantity == "probability")
        return torch.rand(inputs.shape)

    runs = [
        heatproof.run("svea", explainers=[noisy], limit=60, batch_size=size, out=tmp_path / str(size))
        for size in (3, 60)
    ]
    assert not runs[0].failures()
    assert_frame_equal(scores(runs[0]), scores(runs[1]))


def test_more_explainers_join_a_run(tmp_path):
    out = tmp_path / "r"
    heatproof.run("svea", explainers="gradient", limit=50, target="logit", out=out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
    run = heatproof.run("svea", explainers="random", limit=50, target="logit", out=out)
    assert {"gradient", "random"} <= set(run.leaderboard()["explainer"])
    assert all(path.stat().st_mtime_ns == written for path, written in before.items())


def test_no_resume_computes_again(tmp_path):
    out = tmp_path / "r"
    heatproof.run("svea", explainers="gradient", limit=50, target="logit", out=out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
    heatproof.run("svea", explainers="gradient", limit=60, target="logit", out=out, resume=False)
    assert all(path.stat().st_mtime_ns > written for path, written in before.items())


def test_a_folder_of_another_configuration_is_left_alone(tmp_path):
    out = tmp_path / "r"
    heatproof.run("svea", explainers="gradient", limit=50, target="logit", out=out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(HeatproofError, match=r"limit: 50 there, 60 now[\s\S]*--no-resume"):
        heatproof.run("svea", explainers="gradient", limit=60, target="logit", out=out)
    with pytest.raises(HeatproofError, match="seed: 0 there, 1 now"):
        heatproof.run("svea", explainers="gradient", limit=50, seed=1, target="logit", out=out)
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_changed_code_does_not_pass_for_its_old_results(tmp_path):
    out = tmp_path / "r"

    def make(version: int) -> str:
        path = tmp_path / "mine.py"
        path.write_text(f"def explain(model, inputs, target):\n    return inputs.abs() ** {version}\n")
        return f"{path}:explain"

    def run(*explainers: object) -> tuple[dict[str, int], float]:
        found = heatproof.run("svea", explainers=explainers, limit=100, target="logit", out=out)
        written = {str(path): path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
        table = found.leaderboard().filter((pl.col("explainer") == "explain") & (pl.col("metric") == "mass_accuracy"))
        return written, float(table["mean"][0])

    first, mean = run(make(1), "gradient")
    again, _ = run(make(1), "gradient")
    assert first == again
    changed, other = run(make(2), "gradient")
    assert other != mean
    assert {path for path in first if first[path] != changed[path]} == {path for path in first if "explain@" in path}


def test_partials_and_objects_are_told_apart(tmp_path):
    """Their settings belong to their code: another setting is another explainer's result."""

    class Power:
        __name__ = "power"

        def __init__(self, power: int) -> None:
            self.power = power

        def __call__(self, model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return inputs.abs() ** self.power

    means = []
    for power in (1, 3):
        run = heatproof.run("svea", explainers=[Power(power)], limit=50, target="logit", out=tmp_path / "r")
        table = run.leaderboard()
        means.append(table.filter((pl.col("explainer") == "power") & (pl.col("metric") == "mass_accuracy"))["mean"][0])
    assert means[0] != means[1]


def test_user_code_can_neither_change_the_cases_nor_leave_traces(tmp_path):
    def vandal(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        model.relu3.register_forward_hook(lambda module, args, output: output * 0)
        return inputs.zero_()

    @dataclass(frozen=True, kw_only=True)
    class Eraser(Explainer):
        def explain(self, model: torch.nn.Module, batch: Batch, rng: heatproof.CaseRandom) -> torch.Tensor:
            return batch.inputs.zero_()

    decent = "integrated_gradients:steps=3"
    alone = heatproof.run("svea", explainers=decent, limit=50, target="logit", out=tmp_path / "a")
    both = heatproof.run("svea", explainers=[vandal, Eraser, decent], limit=50, target="logit", out=tmp_path / "b")
    drops = both.leaderboard().filter(pl.col("metric") == "drop")
    fate = dict(zip(drops["explainer"], drops["mean"], strict=True))
    assert fate["vandal"] == fate["Eraser"] < 0.95  # the first twelve points of signals that are still there
    assert_frame_equal(
        scores(alone),
        scores(both).filter(~pl.col("explainer").is_in(["vandal", "Eraser"])).select(scores(alone).columns),
    )


def test_a_function_can_use_hooks_and_the_layers_of_the_model(tmp_path):
    """Reference: our own Grad-CAM; the function is the textbook one with a hook and autograd."""

    def textbook(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        kept = []
        handle = model.relu3.register_forward_hook(lambda module, args, output: kept.append(output))
        score = model(inputs).gather(1, target[:, None]).sum()
        handle.remove()
        (gradient,) = torch.autograd.grad(score, kept[0])
        return (gradient.mean(2, keepdim=True) * kept[0]).sum(1, keepdim=True).clamp(min=0)

    run = heatproof.run("svea", explainers=[textbook, "grad_cam"], limit=60, out=tmp_path / "r")
    assert not run.failures()
    rows = scores(run).filter(pl.col("explainer") != "raw_input")
    mine, ours = (rows.filter(pl.col("explainer") == name)["value"] for name in ("textbook", "grad_cam"))
    assert len(mine) == len(ours) > 0
    assert mine.to_list() == pytest.approx(ours.to_list(), rel=1e-4, abs=1e-5, nan_ok=True)


def test_an_explainer_without_a_score_is_shown_once(tmp_path):
    run = heatproof.run("svea", explainers=[Broken(how="never"), "gradient"], limit=60, out=tmp_path / "r")
    text = (tmp_path / "r" / "report.html").read_text().replace("<wbr>", "")
    assert text.count('title="broken:how=never">broken</th>') == 2  # table and examples
    assert run.leaderboard().filter(pl.col("explainer") == "broken:how=never")["target"].unique().to_list() == [""]


def test_the_papers_numbers_are_not_given_to_namesakes(tmp_path):
    def gradient(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return inputs.abs()

    run = heatproof.run("svea", explainers=[gradient, "grad_cam"], limit=60, target="probability", out=tmp_path / "r")
    known = run.leaderboard().filter(pl.col("reference").is_not_null())
    assert set(known["explainer"]) == {"grad_cam", "raw_input"}


def test_odd_names_survive_everywhere(tmp_path, capsys):
    def odd(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return inputs.abs()

    odd.__name__ = "[red]a|b[/b] <script>alert(1)</script> " + "x" * 300
    run = heatproof.run("svea", explainers=[odd], limit=60, target="logit", out=tmp_path / "r")
    assert not run.failures()
    assert "<script>alert" not in (tmp_path / "r" / "report.html").read_text()
    for board in boards(run):
        show_board(board)
    assert "[red]a|b[/b]" in capsys.readouterr().out
    assert r"a\|b" in (tmp_path / "r" / "leaderboard.md").read_text()


def test_models_that_lack_an_explainer_do_not_hide_it(tmp_path):
    """An explainer that fails on one of two models stays in the table; n says on how many it rests."""
    count = {"calls": 0}

    def second_fails(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        count["calls"] += 1
        if count["calls"] > 2:
            raise RuntimeError("enough")
        return inputs.abs()

    run = heatproof.run(
        "svea", explainers=[second_fails, "gradient"], limit=50, model_seeds=2, target="logit", out=tmp_path / "r"
    )
    table = run.leaderboard().filter((pl.col("model") == "mean of 2 models") & (pl.col("metric") == "drop"))
    assert dict(zip(table["explainer"], table["n"], strict=True)) == {"second_fails": 1, "gradient": 2}
    assert dict(zip(table["explainer"], table["ci_low"].is_null(), strict=True)) == {
        "second_fails": True,
        "gradient": False,
    }
    assert table["ci_low"].min() >= 0  # two networks tell little, but not that a score is none
    assert not table["ci_low"].is_nan().any()


def read_everything(out: Path) -> None:
    run = heatproof.load_run(out)
    run.scores()
    run.report()


@pytest.mark.parametrize("name", ["summary.parquet", "leaderboard.csv", "heatmaps/examples.npz", "run.json"])
def test_damaged_results_are_named(name, tmp_path):
    out = tmp_path / "r"
    heatproof.run("svea", explainers="gradient", limit=60, target="logit", out=out)
    (out / name).write_bytes((out / name).read_bytes()[:30])
    with pytest.raises(HeatproofError, match=Path(name).name):
        read_everything(out)


@pytest.mark.parametrize("kind", ["scores", "heatmaps"])
def test_damaged_parts_are_computed_again(kind, tmp_path):
    out = tmp_path / "r"
    before = scores(heatproof.run("svea", explainers="gradient", limit=60, target="logit", out=out))
    damaged = next((out / kind).glob("*/*"))
    damaged.write_bytes(damaged.read_bytes()[:30])
    assert_frame_equal(scores(heatproof.run("svea", explainers="gradient", limit=60, target="logit", out=out)), before)


def test_a_preset_of_several_networks_gives_way_to_a_given_one(tmp_path):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 10), torch.nn.Dropout()).train()
    run = heatproof.run("svea", preset="paper", model=model, limit=20, explainers="gradient", out=tmp_path / "r")
    assert set(run.leaderboard()["model"]) == {"Sequential"}
    assert model.training


def test_rehearsing_trains_nothing(tmp_path, monkeypatch):
    found = heatproof.dry_run("svea", explainers="gradient", model_seeds=5, limit=50, target="logit")
    assert found.lines[0].units == 10
    assert not (Path(os.environ["HEATPROOF_HOME"]) / "models").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(HeatproofError, match="not empty and holds no run"):
        heatproof.run("svea", explainers="gradient", limit=20, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_part_is_named(tmp_path):
    out = tmp_path / "r"
    heatproof.run("svea", explainers="gradient", limit=20, target="logit", out=out)
    part = next(out.glob("scores/*/*.parquet"))
    part.write_bytes(part.read_bytes()[:40])
    with pytest.raises(HeatproofError, match=f"{part.name} is damaged"):
        heatproof.load_run(out).scores()


def test_all_heatmaps_are_kept_on_demand(tmp_path):
    run = heatproof.run("svea", explainers="gradient", limit=30, target="logit", keep_heatmaps=True, out=tmp_path / "r")
    stored = run.files.heatmaps("gradient@logit", "mnist1d_cnn-1")
    assert len(stored) == 30
    assert stored["test-0000"].shape == (1, 40)


def test_plan_multiplies_only_explainers_of_a_score():
    made = for_quantities(make_explainers("gradient,random"), ("probability", "logit"))
    assert [(e.label, getattr(e, "quantity", "")) for e in made] == [
        ("gradient", "probability"),
        ("gradient", "logit"),
        ("random", ""),
    ]


def test_folders_are_fit_for_any_disk_and_never_shared():
    specs = ["rise", "rise:masks=5", "rise:masks=50", "grad_cam:layer=conv1", "grad_cam:layer=conv2"]
    names = [folder_name(explainer) for explainer in make_explainers(specs)]
    assert len(set(names)) == len(names)
    assert all(
        set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.=@+-") for name in names
    )


def test_units_say_what_they_explain_and_costly_ones_come_first():
    opened = Svea(limit=30).open(0)
    chosen = [
        make_explainer("rise:masks=100"),
        make_explainer("gradient", quantity="probability"),
        make_explainer("random"),
    ]
    units = Explaining(opened, chosen).units()
    assert {(unit.explainer, unit.target) for unit in units} == {
        ("rise:masks=100", "logit"),
        ("gradient", "probability"),
        ("random", ""),
    }
    assert [unit.passes for unit in units] == [100, 100, 2, 0, 2, 0]  # about the same cost: chunk by chunk


def test_explainers_of_about_the_same_cost_take_turns_on_a_chunk(monkeypatch, tmp_path):
    """The cases of a chunk are loaded once for all of them, beside the few for the probe and the plan."""
    loaded = []
    load = OpenedSvea.load
    monkeypatch.setattr(OpenedSvea, "load", lambda self, chunk: loaded.append(chunk) or load(self, chunk))
    heatproof.run(
        "svea", explainers="gradient,gradient_x_input,random,oracle", limit=50, target="logit", out=tmp_path / "r"
    )
    whole = [chunk.name for chunk in loaded if chunk.cases in (10, 40)]
    assert whole.count("train-000000") == 1

"""The command line as people meet it: a real process, its exit code, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from heatproof.benchmarks import benchmarks
from heatproof.cli import run as run_command
from heatproof.explainers import explainers
from heatproof.metrics import metrics
from heatproof.pooling import poolings


def heatproof(*words: str, cwd: Path | None = None, columns: int = 200) -> subprocess.CompletedProcess[str]:
    script = "from heatproof.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": str(columns), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
    )


def assert_clear_error(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("words", [["--help"], ["list", "explainers"], ["list", "metrics"], ["run", "svea", "--help"]])
def test_help_and_lists_import_nothing_heavy(words):
    """That is what keeps them fast: no torch, NumPy, Polars, scikit-learn or SciPy is loaded."""
    script = (
        "import sys\nfrom heatproof.cli import main\nsys.argv[0] = 'heatproof'\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'torch', 'numpy', 'polars', 'sklearn', 'scipy'} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    result = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("kind", "names"),
    [("explainers", explainers), ("metrics", metrics), ("poolings", poolings)],
    ids=lambda v: str(v)[:9],
)
def test_lists_are_complete(kind, names):
    shown = heatproof("list", kind).stdout
    assert all(name in shown for name in names)


def test_all_benchmarks_can_be_estimated_in_one_go():
    shown = heatproof("run", "all", "--dry-run", "--explainers", "random")
    assert shown.returncode == 0, shown.stderr
    assert [line for line in shown.stdout.splitlines() if line in benchmarks] == sorted(run_with_all())


def run_with_all() -> list[str]:
    """All benchmarks but those that have to be named."""
    return [name for name, recipe in benchmarks.items() if recipe.with_all]


def test_the_seed_of_all_benchmarks_draws_other_mosaics(monkeypatch, tmp_path):
    """As `run focus --seed` does; what each benchmark is asked for is looked at, not run."""
    asked = {}
    monkeypatch.setattr(
        run_command, "run_or_estimate", lambda name, _folder, what, how, *_: asked.update({name: what | how})
    )
    assert CliRunner().invoke(run_command.app, ["all", "--seed", "3", "--out", str(tmp_path)]).exit_code == 0
    assert set(asked) == set(run_with_all())
    assert all(given["seed"] == 3 for given in asked.values())


def test_benchmarks_and_models_are_listed():
    assert "svea" in heatproof("list", "benchmarks").stdout
    listed = heatproof("list", "models").stdout
    assert "mnist1d_cnn-1" in listed
    assert "film_vqa" in listed


def test_a_run_from_nothing_to_a_page(tmp_path):
    result = heatproof("run", "svea", "--explainers", "gradient,random", "--limit", "100", "--out", "r", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Explaining the logit" in result.stdout
    assert "paper" in result.stdout
    folder = tmp_path / "r"
    assert {"run.json", "leaderboard.csv", "leaderboard.md", "report.html"} <= {path.name for path in folder.iterdir()}
    header = (folder / "leaderboard.csv").read_text().splitlines()[0]
    assert header == (
        "benchmark,dataset,model,target,explainer,metric,ground_truth,pooling,subset,n,mean,std,median,"
        "ci_low,ci_high,reference,seconds_per_case,passes_per_case,reference_elsewhere,"
        "undefined,mean_all,ci_low_all,ci_high_all,skill,skill_low,skill_high,peak_memory"
    )
    manifest = json.loads((folder / "run.json").read_text())
    assert manifest["configuration"]["seed"] == 0
    assert manifest["explainers"][0]["parameters"]["quantity"] == "probability"
    (folder / "report.html").unlink()
    again = heatproof("report", "r", cwd=tmp_path)
    assert again.returncode == 0
    assert (folder / "report.html").is_file()


def test_who_stops_an_estimate_is_not_told_to_go_on(monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("heatproof.api.dry_run", stopped)
    with pytest.raises(typer.Exit) as end:
        run_command.show_forecast("svea", {}, quiet=True)
    assert end.value.exit_code == 130
    said = capsys.readouterr().err
    assert "Nothing of an estimate is kept" in said
    assert "go on" not in said


def test_dry_run_runs_nothing(tmp_path):
    (tmp_path / "mine.py").write_text("def explain(model, inputs, target):\n    raise ValueError('no idea')\n")
    words = ("--explainers", "gradient,rise:masks=10,integrated_gradients:steps=10,rule=gauss_legendre,mine.py:explain")
    options = ("--dry-run", "--limit", "50", "--target", "both", *words)
    result = heatproof("run", "svea", *options, cwd=tmp_path, columns=80)
    (tmp_path / "mine.py").unlink()
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout.count("fails") == 2
    assert "explain would fail: ValueError: no idea" in result.stdout
    assert "Nothing was kept" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_own_explainer_and_own_model_from_files(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def explain(model, inputs, target):\n    return inputs.abs()\n"
        "def build():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(40, 10))\n"
    )
    words = [
        "run",
        "svea",
        "--explainers",
        "mine.py:explain",
        "--model",
        "mine.py:build",
        "--limit",
        "50",
        "--out",
        "r",
    ]
    result = heatproof(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "build" in (tmp_path / "r" / "leaderboard.csv").read_text()


def test_unknown_explainer_names_the_nearest():
    assert_clear_error(
        heatproof("run", "svea", "--explainers", "integrated_gradient"),
        "unknown explainer 'integrated_gradient'",
        "Did you mean 'integrated_gradients'",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "0"], "limit must be a whole number of at least 1"),
        (["--explainers", "rise:mask=3"], "Did you mean 'masks'"),
        (["--explainers", "rise:masks=many"], "masks must be a whole number, got 'many'"),
        (["--explainers", "rise:masks=0"], "masks must be above zero"),
        (["--explainers", "gradient,gradient"], "listed twice"),
        (["--explainers", ""], "no explainer is named"),
        (["--explainers", "nowhere.py:explain"], "no file nowhere.py"),
        (["--weights", "nowhere.npz"], "no weights file nowhere.npz"),
        (["--model", "nowhere.py:build"], "no file nowhere.py"),
        (["--batch-size", "0"], "batch_size must be a whole number of at least 1"),
        (["--preset", "huge"], "huge"),
        (["--seed", "-1"], "seed must be a whole number of at least 0"),
        (["--model", "foo"], "names no Python object"),
        (["--model", ""], "names no Python object"),
        (["--explainers", "smoothgrad:samples"], "smoothgrad:samples=VALUE"),
        (["--weights", "a.npz", "--retrain"], "leave them out"),
        (["--target", "softmax"], "softmax"),
    ],
)
def test_bad_arguments_are_named(words, said, tmp_path):
    assert_clear_error(heatproof("run", "svea", "--limit", "20", *words, cwd=tmp_path), said)


def test_truncated_weights(tmp_path):
    np.savez(tmp_path / "net.npz", x=np.zeros(1000))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "net.npz").read_bytes()[:500])
    assert_clear_error(heatproof("run", "svea", "--weights", "cut.npz", cwd=tmp_path), "cut.npz", "truncated")
    assert_clear_error(heatproof("run", "svea", "--weights", "net.npz", cwd=tmp_path), "net.npz", "misses conv1.bias")


@pytest.mark.skipif(os.name != "posix", reason="needs a device that refuses folders")
def test_unwritable_output_folder():
    assert_clear_error(
        heatproof("run", "svea", "--limit", "20", "--out", "/dev/null/run"), "cannot write /dev/null/run"
    )


def test_output_folder_is_a_file(tmp_path):
    (tmp_path / "r").write_text("")
    assert_clear_error(heatproof("run", "svea", "--limit", "20", "--out", "r", cwd=tmp_path), "r is a file")


def test_folder_of_another_run(tmp_path):
    words = ["run", "svea", "--explainers", "gradient", "--out", "r"]
    assert heatproof(*words, "--limit", "20", cwd=tmp_path).returncode == 0
    assert_clear_error(heatproof(*words, "--limit", "30", cwd=tmp_path), "limit: 20 there, 30 now", "--no-resume")
    assert heatproof(*words, "--limit", "30", "--no-resume", cwd=tmp_path).returncode == 0


def test_a_failing_explainer_ends_with_code_2_and_keeps_the_rest(tmp_path):
    (tmp_path / "mine.py").write_text("def explain(model, inputs, target):\n    raise ValueError('lost')\n")
    words = ["run", "svea", "--explainers", "gradient,mine.py:explain", "--limit", "50", "--out", "r"]
    result = heatproof(*words, cwd=tmp_path)
    assert_clear_error(result, "ValueError: lost", "everything else is kept")
    assert "gradient" in result.stdout
    assert "gradient" in (tmp_path / "r" / "leaderboard.csv").read_text()


def test_report_of_a_folder_without_a_run(tmp_path):
    assert_clear_error(heatproof("report", str(tmp_path)), "holds no run")


def test_report_of_a_damaged_run(tmp_path):
    (tmp_path / "run.json").write_text("{")
    assert_clear_error(heatproof("report", str(tmp_path)), "run.json is damaged")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_after_the_last_word_is_no_traceback(number):
    """Libraries tidy up at the end, which takes a moment."""
    script = (
        "import atexit, os, signal, sys\n"
        "from heatproof import cli\n"
        f"atexit.register(lambda: os.kill(os.getpid(), signal.{number}))\n"
        "sys.argv = ['heatproof', '--version']\n"
        "cli.command()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

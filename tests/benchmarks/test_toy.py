"""A benchmark in one file gets everything: command line, run, resume, table, page with examples, compare."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch

import heatproof
from heatproof.benchmarks import benchmarks
from heatproof.benchmarks.base import Benchmark, Opened
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.benchmarks.focus import Focus
from heatproof.benchmarks.svea import Svea
from heatproof.errors import HeatproofError
from heatproof.metrics import metrics
from heatproof.testing import check_benchmark

FILE = Path(__file__).parents[1] / "toy_benchmark.py"


def call(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "heatproof", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module", autouse=True)
def _registered_here_only() -> Iterator[None]:
    """What the toy registers is gone for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        for registry in (benchmarks, metrics):
            patch.setattr(registry, "_entries", dict(registry.items()))
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    done = call("run", f"{FILE}:Toy", "--signals", "12", "--out", "r", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Lateness ↑" in done.stdout
    return folder


def test_it_is_small():
    assert len(FILE.read_text().splitlines()) <= 40


def test_its_command_has_help(tmp_path):
    shown = call("run", f"{FILE}:Toy", "--help", cwd=tmp_path).stdout
    assert "Toy: random signals and a network that compares their halves." in shown
    assert "--signals" in shown
    assert "How many signals. Default: 20." in shown


def test_the_table_is_right(place):
    """Reference: by hand. The first output is the mean of tanh(x) over the first half."""
    signals = torch.rand(12, 30, generator=torch.Generator().manual_seed(0)).double()
    slopes = 1 - torch.tanh(signals[:, :15]) ** 2
    expected = ((slopes * torch.arange(15) / 29).sum(1) / slopes.sum(1)).mean()
    table = heatproof.load_run(place / "r").leaderboard().filter(explainer="gradient", target="logit")
    assert table["mean"].item() == pytest.approx(expected.item(), abs=1e-6)
    assert table["n"].item() == 12


def test_the_page_has_examples_without_masks(place):
    page = (place / "r" / "report.html").read_text()
    assert page.count('<svg class="signal"') == 2 * (1 + 2)  # the signal, gradient of the first quantity, random
    assert "<th>three</th><th>four</th>" in page
    assert 'class="key truth"' not in page
    assert 'class="key mark"' not in page


def test_it_is_resumed(place):
    before = {path: path.stat().st_mtime_ns for path in place.glob("r/scores/*/*.parquet")}
    lost = sorted(before)[0]
    lost.unlink()
    done = call("run", f"{FILE}:Toy", "--signals", "12", "--out", "r", cwd=place)
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in place.glob("r/scores/*/*.parquet")}
    assert {path for path in after if after[path] != before[path]} == {lost}
    refused = call("run", f"{FILE}:Toy", "--signals", "13", "--out", "r", cwd=place)
    assert refused.returncode == 2
    assert "signals: 12 there, 13 now" in refused.stderr


def test_runs_are_compared_by_their_cases(place):
    for seed, out in ((0, "same"), (1, "other")):
        words = ("--signals", "12", "--explainers", "random", "--seed", str(seed), "--out", out)
        assert call("run", f"{FILE}:Toy", *words, cwd=place).returncode == 0
    same = heatproof.compare([place / "r", place / "same"])
    line = same.table.filter((pl.col("run") == "same") & (pl.col("explainer") == "random")).row(0, named=True)
    assert (line["cases"], line["difference"]) == (12, 0)
    other = heatproof.compare([place / "r", place / "other"])
    assert other.table["difference"].null_count() == len(other.table)
    assert "has other cases than r" in other.notes[0]


def test_a_finished_run_is_read_where_there_is_no_torch(place):
    """Tables, page and comparison in a process in which importing torch, numba or scikit-learn fails."""
    script = (
        "import sys\n"
        "for name in ('torch', 'numba', 'sklearn', 'skimage'): sys.modules[name] = None\n"
        "import heatproof\n"
        f"run = heatproof.load_run({str(place / 'r')!r})\n"
        "run.leaderboard(), run.scores(), run.report()\n"
        f"heatproof.compare([run, {str(place / 'r2')!r}]).write({str(place / 'c')!r})\n"
        "from heatproof.cli.run import show_run\n"
        "show_run(run)\n"
    )
    call("run", f"{FILE}:Toy", "--signals", "12", "--out", "r2", cwd=place)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Lateness" in done.stdout


def test_a_metric_from_a_file_is_scored_beside_its_own(place, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def peak(heatmap):\n"
        "    '''The largest value.'''\n"
        "    return heatmap.double().amax(1)\n\n\n"
        "def inside(heatmap, mask):\n"
        "    return heatmap.double().amax(1)\n"
    )
    words = ("run", f"{FILE}:Toy", "--signals", "6", "--explainers", "random")
    done = call(*words, "--metrics", "mine.py:peak", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Peak ↑" in done.stdout
    refused = call(*words, "--metrics", "mine.py:inside", "--out", "s", cwd=tmp_path)
    assert refused.returncode == 2
    assert "metric inside needs a ground-truth mask, and these cases have none" in refused.stderr


def test_every_benchmark_keeps_the_contract():
    from toy_benchmark import Toy

    for benchmark in (Toy(signals=9), Svea(limit=30), Focus(per_class=1), ClevrXai(limit=4)):
        check_benchmark(benchmark)


def test_a_benchmark_that_breaks_its_promises_is_told():
    from toy_benchmark import OpenedToy, Toy

    class Moody(OpenedToy):
        def load(self, chunk):
            batch = super().load(chunk)
            return replace(batch, ids=("same",) * len(batch))

    numbers = itertools.count()

    class Changed(Toy):
        def open(self, seed, progress=None):
            opened = super().open(seed)
            fields = {name: getattr(opened, name) for name in opened.__dataclass_fields__}
            return Moody(**fields | {"settings": {"seed": 0, "a": object()}, "fingerprint": str(next(numbers))})

    with pytest.raises(HeatproofError) as problem:
        check_benchmark(Changed(signals=4))
    for words in ("settings are no plain data", "it has other cases", "two cases have one name", "that are no cases"):
        assert words in str(problem.value)


def test_what_is_no_benchmark_is_named(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine: ...\n")
    done = call("run", "mine.py:Mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "mine.py:Mine is no benchmark; subclass heatproof.Benchmark" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_stay_what_the_user_gave(place):
    """run.json tells them, so that `dataclasses.replace` and a second run tell the truth."""
    manifest = json.loads((place / "r" / "run.json").read_text())
    assert manifest["options"] == {"signals": 12}
    made = ClevrXai(dataset="somewhere")
    assert replace(made, limit=3).dataset == "somewhere"
    assert issubclass(Opened, object)
    assert issubclass(Svea, Benchmark)

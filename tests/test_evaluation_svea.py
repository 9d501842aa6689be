"""Heatmaps of SVEA's signals made elsewhere: the same scores as a run, every way to be bad, and no torch."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import heatproof
from heatproof import mnist1d
from heatproof.api import evaluate
from heatproof.benchmarks.svea import masked_inputs
from heatproof.cli.app import app
from heatproof.errors import HeatproofError
from heatproof.models.mnist1d_cnn import trained_network
from no_torch import call_without_torch
from own_lines import own

AXES = ["metric", "ground_truth", "pooling", "case"]


def magnitudes():
    """|x| of every signal: 4,000 to train with, 1,000 to test."""
    train, test = mnist1d.published()
    return np.abs(train.x), np.abs(test.x)


def probabilities(signals):
    """What the first of our networks makes of signals, in batches as a run asks it."""
    network = trained_network(1)
    rows = torch.as_tensor(signals, dtype=torch.float32).unsqueeze(1).split(500)
    with torch.no_grad():
        return torch.cat([network(part) for part in rows]).softmax(1).numpy()


def means(run, explainer):
    table = run.leaderboard().filter(pl.col("explainer") == explainer)
    return {(row["metric"], row["pooling"]): row["mean"] for row in table.iter_rows(named=True)}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run whose heatmaps are all kept."""
    out = tmp_path_factory.mktemp("kept") / "run"
    return heatproof.run(
        "svea", explainers="gradient,grad_cam", limit=400, target="probability", keep_heatmaps=True, out=out
    )


@pytest.mark.parametrize("window", ["clipped", "literal"])
def test_round_trip(tmp_path, window):
    """Reference: the run that made the heatmaps; every score of every signal is the same."""
    run = heatproof.run(
        "svea", explainers="gradient", limit=400, target="logit", window=window, keep_heatmaps=True, out=tmp_path / "r"
    )
    (entry,) = run.manifest["explainers"]
    maps = run.folder / "heatmaps" / entry["folder"]
    assert masked_inputs(maps, tmp_path / "masked.npz", window) == (80, [])
    test = mnist1d.published()[1]
    np.save(tmp_path / "whole.npy", probabilities(test.x[:80]))
    np.save(tmp_path / "kept.npy", probabilities(np.load(tmp_path / "masked.npz")["test"]))
    again = evaluate(
        maps,
        benchmark="svea",
        predictions=tmp_path / "whole.npy",
        masked_outputs=tmp_path / "kept.npy",
        window=window,
        out=tmp_path / "e",
    )
    wanted = pl.col("metric").is_in(["seconds", "passes", "memory"]).not_() & (pl.col("explainer") != "raw_input")
    columns = [*AXES, "value", "label", "split", "mask_size"]
    ours, theirs = (own(found.scores()).filter(wanted).select(columns).sort(AXES) for found in (run, again))
    assert len(ours) == 400 + 80 * (3 + 6)
    assert_frame_equal(ours, theirs, abs_tol=1e-6)
    assert means(again, "raw_input") == means(run, "raw_input")
    assert again.manifest["cases"] == run.manifest["cases"], "so that the two can be compared"
    seen = again.scores().filter(pl.col("metric") == "drop").select("case", "predicted", "correct")
    assert_frame_equal(seen, run.scores().filter(pl.col("metric") == "drop").select("case", "predicted", "correct"))


@pytest.mark.parametrize("container", ["npy", "npz", "apart", "folder", "named", "channel"])
def test_every_container_scores_alike(tmp_path, container):
    """Reference: the known 61.4 % of regions around the largest |x|, on all 5,000 signals."""
    train, test = magnitudes()
    path = tmp_path / "maps.npz"
    if container in ("npy", "channel"):
        path = tmp_path / "maps.npy"
        whole = np.concatenate([train, test])
        np.save(path, whole[:, None] if container == "channel" else whole)
    elif container == "npz":
        labels = np.concatenate([part.y for part in mnist1d.published()])
        np.savez(path, heatmaps=np.concatenate([train, test]), labels=labels)
    elif container == "apart":
        np.savez(path, train=train, test=test)
    elif container == "folder":
        path = tmp_path / "maps"
        path.mkdir()
        np.save(path / "train.npy", train)
        np.save(path / "test.npy", test)
    else:
        rows = [
            (f"{split}-{i:04d}", row)
            for split, part in (("test", test), ("train", train))
            for i, row in enumerate(part)
        ]
        np.savez(path, **dict(rows))
    run = evaluate(path, benchmark="svea", out=tmp_path / "r", name="input_magnitude")
    found = means(run, "input_magnitude")
    assert round(100 * found["roe_accuracy", ""], 1) == 61.4
    assert round(100 * means(run, "raw_input")["roe_accuracy", ""], 1) == 29.7
    assert ("drop", "") not in found
    assert found["mass_accuracy", "sum_pos"] == found["mass_accuracy", "sum_abs"]


def test_a_method_by_its_name_stands_beside_the_papers_number(tmp_path):
    np.save(tmp_path / "rise.npy", np.concatenate(magnitudes()))
    run = evaluate(tmp_path / "rise.npy", benchmark="svea", out=tmp_path / "r")
    line = run.leaderboard().filter(explainer="rise", metric="roe_accuracy")
    assert line["reference_elsewhere"].to_list() == [0.664]
    assert line["reference"].to_list() == [None], "its network is not ours to know"


def test_bad_heatmaps_cost_their_own_scores(tmp_path):
    """Reference: the ROE test on the signals that are left, trained on regions that are there."""
    train, test = magnitudes()
    train[:3], test[0, 5], test[1] = np.nan, np.inf, 0
    np.savez(tmp_path / "maps.npz", train=train, test=test)
    np.save(tmp_path / "p.npy", probabilities(mnist1d.published()[1].x))
    count, problems = masked_inputs(tmp_path / "maps.npz", tmp_path / "masked.npz")
    assert (count, problems) == (1000, ["test-0000: the heatmap has NaN or infinite values"])
    masked = np.load(tmp_path / "masked.npz")
    assert not masked["test"][0].any()
    assert masked["starts"][1] == 0, "of equals the first, as in a run"
    np.save(tmp_path / "m.npy", probabilities(masked["test"]))
    run = evaluate(
        tmp_path / "maps.npz",
        benchmark="svea",
        predictions=tmp_path / "p.npy",
        masked_outputs=tmp_path / "m.npy",
        out=tmp_path / "r",
    )
    scores = run.scores().filter((pl.col("explainer") == "maps") & (pl.col("split") == "test"))
    first = scores.filter(pl.col("case") == "test-0000")
    assert first["value"].is_nan().all()
    assert set(first["metric"]) >= {"roe_accuracy", "drop", "increase", "mass_accuracy", "pointing_game", "roe_start"}
    zero = scores.filter(pl.col("case") == "test-0001")
    assert zero.filter(pl.col("metric") == "mass_accuracy")["undefined"].unique().to_list() == [
        "the heatmap is zero everywhere"
    ]
    assert zero.filter(pl.col("metric").is_in(["roe_accuracy", "drop"]))["value"].is_not_nan().all()
    assert run.leaderboard().filter(explainer="maps", metric="roe_accuracy")["n"].to_list() == [999]
    notes = " ".join(run.story.notes)
    assert (
        "Signals whose heatmap cannot be used: 4 (test-0000: the heatmap has NaN or infinite values; train-0000"
        in notes
    )

    from sklearn.svm import LinearSVC

    parts = mnist1d.published()
    cut = [
        np.stack([x[(s := min(max(int(h.argmax()) - 6, 0), 28)) : s + 12] for x, h in zip(part.x, heat, strict=True)])
        for part, heat in zip(parts, (np.nan_to_num(train), np.nan_to_num(test, posinf=0)), strict=True)
    ]
    svm = LinearSVC(dual=False, max_iter=10_000).fit(cut[0][3:], parts[0].y[3:])
    expected = (svm.predict(cut[1][1:]) == parts[1].y[1:]).mean()
    assert means(run, "maps")["roe_accuracy", ""] == pytest.approx(expected, abs=1e-12)


def test_signals_without_a_heatmap_and_heatmaps_for_no_signal_are_named(tmp_path):
    train, test = magnitudes()
    rows = {f"train-{i:04d}": train[i] for i in range(100)} | {f"test-{i:04d}": test[i] for i in range(30)}
    np.savez(tmp_path / "maps.npz", **rows, cat=test[0])
    run = evaluate(tmp_path / "maps.npz", benchmark="svea", out=tmp_path / "r")
    notes = " ".join(run.story.notes)
    assert "Signals without a heatmap, left out: 4,870 (train-0100, train-0101," in notes
    assert "Heatmaps for no signal, left out: 1 (cat)." in notes
    assert run.leaderboard().filter(explainer="maps", metric="roe_accuracy")["n"].to_list() == [30]


def swapped():
    train, test = magnitudes()
    return {"train": test, "test": train}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (lambda: {"heatmaps": np.ones((4999, 40))}, r"heatmaps has shape \(4999, 40\).*of 5,000 cases"),
        (swapped, r"train has shape \(1000, 40\); it must hold the heatmaps of 4,000 cases \(train-0000 to"),
        (lambda: {"train": np.ones((4000, 40))}, "heatmaps for train and none for test"),
        (lambda: {"heatmaps": np.ones((5000, 40)), "labels": np.zeros(5000)}, "labels are not the digits of the data"),
        (
            lambda: ({"train": np.ones((4000, 40)), "test": np.ones((1000, 40)), "test_labels": np.ones(1000)}),
            "test_labels are not the digits",
        ),
        (lambda: {"a": np.ones(40)}, r"no heatmap for any test signal, .* Its heatmaps: a"),
        (lambda: {"heatmaps": np.ones(5000)}, r"heatmaps has shape \(5000,\)"),
        (lambda: {"heatmaps": np.ones((5000, 39))}, r"heatmaps has shape \(5000, 39\)"),
        (lambda: {"heatmaps": np.full((5000, 40), "a")}, "holds <U1, not numbers"),
    ],
)
def test_maps_that_do_not_fit_are_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "maps.npz", **arrays())
    with pytest.raises(HeatproofError, match=words):
        evaluate(tmp_path / "maps.npz", benchmark="svea", out=tmp_path / "r")


def logits(rows=1000):
    return np.random.default_rng(0).normal(size=(rows, 10))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (
            np.full((999, 10), 0.1),
            r"shape \(999, 10\); the predictions are for the 1,000 test signals, or for all 5,000",
        ),
        (np.full((1000, 9), 1 / 9), r"shape \(1000, 9\)"),
        (logits(), "add up to 1; take the softmax"),
        (np.full((1000, 10), np.nan), "none of them NaN"),
        (np.full(1000, 10), "classes must be whole numbers from 0 to 9"),
        (np.full(1000, 0.5), "classes must be whole numbers"),
        ({"train": np.full((4000, 10), 0.1)}, "no array `test`"),
        ({"test": np.full((10, 10), 0.1)}, r"test has shape \(10, 10\)"),
        (None, "does not exist; give the predictions as an array"),
    ],
)
def test_bad_predictions_are_named(tmp_path, array, words):
    np.save(tmp_path / "maps.npy", np.concatenate(magnitudes()))
    path = tmp_path / ("p.npz" if isinstance(array, dict) else "p.npy")
    if isinstance(array, dict):
        np.savez(path, **array)
    elif array is not None:
        np.save(path, array)
    with pytest.raises(HeatproofError, match=words):
        evaluate(tmp_path / "maps.npy", benchmark="svea", predictions=path, out=tmp_path / "r")


def test_masked_outputs_need_predictions_and_probabilities(tmp_path):
    np.save(tmp_path / "maps.npy", np.concatenate(magnitudes()))
    np.save(tmp_path / "masked.npy", np.full((1000, 10), 0.1))
    np.save(tmp_path / "classes.npy", np.zeros(1000, dtype=int))
    given = {"benchmark": "svea", "masked_outputs": tmp_path / "masked.npy", "out": tmp_path / "r"}
    with pytest.raises(HeatproofError, match="give the network's probabilities for these with --predictions"):
        evaluate(tmp_path / "maps.npy", **given)
    with pytest.raises(HeatproofError, match=r"classes\.npy holds classes; Drop and Increase need the probabilities"):
        evaluate(tmp_path / "maps.npy", predictions=tmp_path / "classes.npy", **given)


def test_predictions_in_another_order_are_noticed(tmp_path):
    """Reference: about one in ten digits is named by chance."""
    np.save(tmp_path / "maps.npy", np.concatenate(magnitudes()))
    np.save(tmp_path / "p.npy", np.roll(mnist1d.published()[1].y, 1))
    run = evaluate(tmp_path / "maps.npy", benchmark="svea", predictions=tmp_path / "p.npy", out=tmp_path / "r")
    assert "are they, and the heatmaps, in the order of the data set?" in run.story.notes[-1]


def test_options_of_another_benchmark_are_refused(tmp_path):
    np.save(tmp_path / "maps.npy", np.concatenate(magnitudes()))
    for given, words in (
        ({"benchmark": "svea", "dataset": tmp_path}, "--dataset is not for --benchmark svea, which takes --poolings"),
        ({"benchmark": "clevr-xai"}, "give its folder with --dataset"),
        ({"benchmark": "focus"}, "give their CSV with --mosaics"),
        ({"benchmark": "sveaa"}, "unknown benchmark for heatmaps made elsewhere 'sveaa'. Did you mean 'svea'"),
        ({"benchmark": "svea", "window": "middle"}, "unknown window rule 'middle'"),
        ({"benchmark": "svea", "poolings": ["sum_absolute"]}, "Did you mean 'sum_abs'"),
    ):
        with pytest.raises(HeatproofError, match=words):
            evaluate(tmp_path / "maps.npy", out=tmp_path / "r", **given)


def test_heatmaps_of_two_networks_are_not_mixed(tmp_path):
    run = heatproof.run(
        "svea", explainers="gradient", limit=10, model_seeds=2, target="logit", keep_heatmaps=True, out=tmp_path / "r"
    )
    folder = run.folder / "heatmaps" / run.manifest["explainers"][0]["folder"]
    with pytest.raises(HeatproofError, match=r"heatmaps of 2 models \(mnist1d_cnn-1, mnist1d_cnn-2\)"):
        evaluate(folder, benchmark="svea", out=tmp_path / "e")


def test_from_the_command_line_without_torch(kept, tmp_path):
    """In a process where importing torch fails; reference: the run that made the heatmaps."""
    maps = kept.folder / "heatmaps" / kept.manifest["explainers"][1]["folder"]
    done = call_without_torch("svea", "masked-inputs", maps, "--out", tmp_path / "masked.npz")
    assert done.returncode == 0, done.stderr
    assert "80 signals" in done.stdout
    np.save(tmp_path / "p.npy", probabilities(mnist1d.published()[1].x[:80]))
    np.save(tmp_path / "m.npy", probabilities(np.load(tmp_path / "masked.npz")["test"]))
    outputs = ("--predictions", tmp_path / "p.npy", "--masked-outputs", tmp_path / "m.npy")
    done = call_without_torch(
        "evaluate", maps, "--benchmark", "svea", *outputs, "--name", "grad_cam", "--out", tmp_path / "r"
    )
    assert done.returncode == 0, done.stderr
    assert "ROE test" in done.stdout
    ours, theirs = means(kept, "grad_cam"), means(heatproof.load_run(tmp_path / "r"), "grad_cam")
    assert set(ours) == set(theirs)
    assert all(theirs[key] == pytest.approx(value, abs=1e-9) for key, value in ours.items())
    assert call_without_torch("evaluate", tmp_path / "absent.npy", "--benchmark", "svea").returncode == 2
    assert "torch" not in heatproof.load_run(tmp_path / "r").manifest["versions"]


def test_runs_are_read_without_torch_and_networks_are_refused(kept, tmp_path):
    """A TensorFlow user's machine: everything about finished runs works, the rest says what is missing."""
    again = shutil.copytree(kept.folder, tmp_path / "again")
    for words in (
        ("report", kept.folder, "--out", tmp_path / "page.html"),
        ("compare", kept.folder, again, "--out", tmp_path / "both"),
        ("export", kept.folder, "--to", "latex"),
        ("export", kept.folder, "--to", "bibtex"),
        ("export", kept.folder, "--to", "roe", "--out", tmp_path / "roe"),
    ):
        done = call_without_torch(*words)
        assert done.returncode == 0, done.stderr
    for words in (("run", "svea", "--limit", 10, "--out", tmp_path / "r"), ("show", "svea", "--layers")):
        refused = call_without_torch(*words)
        assert refused.returncode == 2
        assert "needs PyTorch, which is not installed: pip install torch" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_masked_inputs_from_the_command_line_name_what_has_no_region(tmp_path):
    train, test = magnitudes()
    test[7] = np.nan
    np.savez(tmp_path / "maps.npz", train=train, test=test)
    words = ["svea", "masked-inputs", str(tmp_path / "maps.npz"), "--out", str(tmp_path / "m.npz")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "without a region, all zero: 1 (test-0007: the heatmap has NaN" in result.output

"""Nobody gains by staying silent: unusable maps count as uniform ones. Reference: means written out by hand."""

from __future__ import annotations

import math
import shutil

import numpy as np
import polars as pl
import pytest

from heatproof.api import compare, evaluate
from heatproof.benchmarks.base import metric_words
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.results.columns import gather
from heatproof.results.leaderboard import leaderboard
from heatproof.results.markdown import markdown
from heatproof.results.tables import boards, silent_lines
from own_lines import own
from tiny_datasets import write_world

NAN = math.nan


def table(rows: list[tuple[str, str, float, float | None]]) -> dict[str, dict[str, float | None]]:
    """Leaderboard lines by explainer, of rows (explainer, case, value, what a uniform map gets)."""
    names = {"model": "m", "target": "", "metric": "mass_accuracy", "ground_truth": "g", "pooling": "p"}
    frame = pl.DataFrame(rows, schema=["explainer", "case", "value", "uniform"], orient="row", strict=False)
    part = frame.with_columns(
        pl.col("uniform").cast(pl.Float64), **{name: pl.lit(word) for name, word in names.items()}
    )
    made = leaderboard(
        gather([part], ["mass_accuracy"], {"odd": pl.col("case").is_in(["1", "3"])}),
        benchmark="b", dataset="d", metrics=metric_words(["mass_accuracy"]), families={}, reference=None, seed=0,
    )  # fmt: skip
    return {row["explainer"]: row for row in made.filter(subset="all").iter_rows(named=True)}


def test_both_readings_by_hand():
    """Case 4 has no truth; `quiet` has two unusable maps, and failed on case 3, of which it has no row at all."""
    found = table(
        [("loud", "1", 0.6, 0.1), ("loud", "2", 0.4, 0.2), ("loud", "3", 0.2, 0.3), ("loud", "4", NAN, None),
         ("loud", "5", 0.8, 0.1),
         ("quiet", "1", 0.9, 0.1), ("quiet", "2", NAN, 0.2), ("quiet", "4", NAN, None), ("quiet", "5", NAN, 0.1)]
    )  # fmt: skip
    loud, quiet = found["loud"], found["quiet"]
    assert (loud["n"], loud["undefined"]) == (4, 0)
    assert loud["mean"] == loud["mean_all"] == pytest.approx(0.5)
    assert (loud["ci_low"], loud["ci_high"]) == (loud["ci_low_all"], loud["ci_high_all"])
    assert (quiet["n"], quiet["undefined"]) == (1, 0.75)
    assert quiet["mean"] == pytest.approx(0.9)
    assert quiet["ci_low"] is None
    assert quiet["mean_all"] == pytest.approx((0.9 + 0.2 + 0.3 + 0.1) / 4)
    assert quiet["ci_low_all"] < quiet["mean_all"] < quiet["ci_high_all"]


def test_no_interval_of_a_single_case():
    found = table([("one", "1", 0.4, 0.1)])["one"]
    assert (found["n"], found["mean"], found["ci_low"], found["ci_high_all"]) == (1, 0.4, None, None)


def test_a_metric_that_names_no_uniform_value_still_counts_its_gaps():
    found = table([("loud", "1", 0.6, None), ("loud", "2", 0.4, None), ("quiet", "1", 0.9, None)])
    assert (found["quiet"]["undefined"], found["quiet"]["mean_all"]) == (0.5, 0.9)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=6, per_image=6)
    make_masks(open_dataset(folder), (24, 24))
    return folder


@pytest.fixture(scope="module")
def honest(world, tmp_path_factory):
    """Heatmaps of very different quality, scored."""
    data = open_dataset(world)
    index = [question.index for question in data.questions("simple")]
    masks = data.masks("simple", "single_object").batch(index)
    rng = np.random.default_rng(0)
    maps = tmp_path_factory.mktemp("maps") / "maps"
    maps.mkdir()
    for place, k in enumerate(index):
        np.save(maps / f"{k}.npy", rng.random(masks[place].shape) + 3 * rng.random() * masks[place])
    return maps, evaluate(maps, dataset=world, out=maps.parent / "honest", poolings=["sum_pos"], name="honest")


@pytest.mark.parametrize("how", ["nan", "zero", "shape"])
def test_a_vendor_who_keeps_his_best_maps_only(how, world, honest, tmp_path):
    """His mean rises, and so does what is said of it; what ranks him and the difference to others falls."""
    maps, whole = honest
    chosen = {"metric": "mass_accuracy", "ground_truth": "single_object"}
    rows = own(whole.scores()).filter(**chosen).sort("value", descending=True)
    best = set(rows["question_index"].head(8).to_list())
    kept = tmp_path / "maps"
    shutil.copytree(maps, kept)
    for path in kept.iterdir():
        if int(path.stem) not in best:
            np.save(path, {"nan": np.full((24, 24), np.nan), "zero": np.zeros((24, 24)), "shape": np.ones(3)}[how])
    sly = evaluate(kept, dataset=world, out=tmp_path / "sly", poolings=["sum_pos"], name="sly")
    line = own(sly.leaderboard()).filter(subset="all", **chosen).row(0, named=True)
    uniform = dict(zip(rows["case"], rows["mask_size"] / 24**2, strict=True))
    values = [v if i < 8 else uniform[c] for i, (c, v) in enumerate(zip(rows["case"], rows["value"], strict=True))]
    assert line["n"] == 8
    assert line["mean"] == pytest.approx(rows["value"].head(8).mean())
    assert line["undefined"] == pytest.approx(1 - 8 / len(rows))
    assert line["mean_all"] == pytest.approx(np.mean(values))
    assert line["mean_all"] < rows["value"].mean() < line["mean"]
    change = own(compare([whole, sly]).table).filter(run="sly", **chosen).row(0, named=True)
    assert (change["cases"], change["difference"]) == (len(rows), pytest.approx(np.mean(values) - rows["value"].mean()))
    assert "78 % undefined" in boards(sly)[0].lines[0].cells["mass_accuracy"].text
    said = silent_lines(sly)
    assert any(
        "78 % of its maps are undefined" in sentence and "this is what ranks it" in sentence for sentence in said
    )
    assert said[0] in markdown(sly)
    assert said[0] in (sly.report().read_text())
